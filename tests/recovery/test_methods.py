"""What goes beyond running, as methods of a pipeline."""

from dataclasses import replace

from deltalake import DeltaTable

from rs_assets import SavepointPolicy, StreamBuilder, Time, TumblingWindow


def test_a_pipeline_is_saved_taken_back_spread_and_looked_at(tmp_path, options):
    log = tmp_path / "in.jsonl"

    def grow(first, last):
        with log.open("a") as out:
            out.writelines(f'{{"id":{n},"ts":"2026-01-05T10:00:{n:02d}Z"}}\n' for n in range(first, last))

    def built(job):
        stream = StreamBuilder.data_stream("shop", job).from_file(log, schema="id long, ts timestamp", tail=True)
        return (
            stream.window(TumblingWindow.of(Time.seconds(10), "ts")).count("n").to_data_stream().to_delta(job).build()
        )

    def fired(job):
        path = options.home.table("shop", job)
        table = DeltaTable(path).to_pyarrow_table() if DeltaTable.is_deltatable(path) else None
        return [] if table is None else sorted(row["n"] for row in table.to_pylist())

    options = replace(options, savepoints=SavepointPolicy(every=None, at_end=False))
    clicks, copy = built("clicks"), built("copy")
    grow(0, 15)
    clicks.run(options)
    assert clicks.state("window", options)["n"].to_pylist() == [5]
    saved = clicks.savepoint(options, note="before the rush")
    grow(15, 35)
    clicks.run(options)
    assert fired("clicks") == [10, 10, 10]
    assert clicks.rescale(3, options).after == 3
    assert [query.found for query in clicks.verify(options)] == [()]
    clicks.restore(options, savepoint_id=saved.id)
    assert fired("clicks") == [10]
    clicks.run(options)
    assert fired("clicks") == [10, 10, 10]
    copy.fork(clicks, options, savepoint_id=saved.id)
    copy.run(options)
    assert fired("copy") == [10, 10]
    assert "to batch 0" in copy.rewind(0, options)
