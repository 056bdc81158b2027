"""What became of a record: each step's outcome, and that the outcomes of all records account for the results."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest

from rs_assets import (
    CumulateWindow,
    Dimension,
    HoppingWindow,
    MemoryChannel,
    SessionWindow,
    StreamBuilder,
    Time,
    TumblingWindow,
)
from rs_assets.cli.rows.state_view import StateQuestion, answer
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.errors import CheckpointError, ConfigurationError, DataError, DataLossError, TopologyError
from rs_assets.runtime.options import RunOptions
from rs_assets.sinks import BatchSink, PartMark, RowsRefused
from rs_assets.spark.driver import SparkDriver
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.pipeline import Pipeline

# Their canary is the example of docs/why.md.
pytestmark = pytest.mark.long

SCHEMA = "id bigint, page string, ms bigint, ts timestamp"
MINUTE = TumblingWindow.of(Time.minutes(1), "ts")
Row = dict[str, object] | str


def row(number: int, *, page: str | None = "/", ms: int = 5, at: str = "10:00:01") -> Row:
    return {"id": number, "page": page, "ms": ms, "ts": f"2026-01-05 {at}"}


def put(folder: Path, *files: list[Row]) -> Path:
    """A file for each list, which a batch of its own reads."""
    folder.mkdir(exist_ok=True)
    begun = len(list(folder.iterdir()))
    for number, rows in enumerate(files, begun):
        file = folder / f"f{number}.jsonl"
        texts = (each if isinstance(each, str) else orjson.dumps(each).decode() for each in rows)
        file.write_text("".join(f"{text}\n" for text in texts))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def read(folder: Path, **settings: Any) -> DataStream:
    begin = StreamBuilder.data_stream("why", "hits")
    given = settings or {"max_files_per_batch": 1}
    return begin.from_file(folder, schema=SCHEMA, bad_records="dead_letter", name="file", **given)


def minutes(stream: DataStream) -> DataStream:
    return stream.window(MINUTE, name="minutes").group_by("page").count("n").to_data_stream()


def steps(pipeline: Pipeline, options: RunOptions, **sought: object) -> list[tuple[str, str]]:
    """The steps that the only record reached, with their outcomes."""
    (found,) = pipeline.why(options, **sought)  # type: ignore[arg-type]
    return [(each.step, each.outcome) for each in found.steps]


def test_each_step_says_what_it_did_with_a_record(tmp_path: Path, options: RunOptions) -> None:
    folder = put(
        tmp_path / "in",
        [row(1), row(2, ms=-5), '{"id":3,"ms":"x"', row(4, page=None), row(5, at="10:03:02")],
        [row(6), row(7, at="10:03:30"), '{"id":8,"page":"/","ms":1,"ts":"1850-01-05 10:00:01"}'],
    )
    hits = read(folder).filter("ms >= 0", name="positive").expect("page is not null", on_fail="skip", name="paged")
    pipeline = minutes(hits).to_delta("minutes").build()
    pipeline.run(options)
    before = files_below(options)

    passed = [("file", "read"), ("positive", "passed"), ("paged", "passed")]
    assert steps(pipeline, options, where="id = 1") == [*passed, ("minutes", "kept")]
    assert steps(pipeline, options, where="id = 2") == [("file", "read"), ("positive", "dropped")]
    assert steps(pipeline, options, text='"id":3') == [("file", "refused")]
    assert steps(pipeline, options, where="id = 4") == [*passed[:2], ("paged", "refused")]
    assert steps(pipeline, options, where="id = 6") == [*passed, ("minutes", "late")]
    assert steps(pipeline, options, where="id = 8", limit=9) == [*passed, ("minutes", "refused")]
    assert steps(pipeline, options, split="f0.jsonl", line=2) == [("file", "read"), ("positive", "dropped")]
    assert pipeline.why(options, where="id = 9") == ()

    (closed,) = pipeline.why(options, where="id = 1")
    (opened,) = pipeline.why(options, where="id = 5")
    (late,) = pipeline.why(options, where="id = 6")
    assert (closed.batch_id, late.batch_id) == (0, 1)
    now = "the watermark is 2026-01-05 10:03:30"
    assert closed.steps[-1].because == f"in a last window that ends at 2026-01-05 10:01:00, closed: {now}"
    assert opened.steps[-1].because == f"in a last window that ends at 2026-01-05 10:04:00, open: {now}"
    was = "the watermark was 2026-01-05 10:03:02"
    assert late.steps[-1].because == f"a last window that ends at 2026-01-05 10:01:00; {was}"
    assert "its condition is not true: ms >= 0" in str(pipeline.why(options, where="id = 2")[0])
    assert files_below(options) == before


def test_a_row_of_distinct_is_kept_or_equals_an_earlier_one(tmp_path: Path, options: RunOptions) -> None:
    hits = read(put(tmp_path / "in", [row(1), row(1)])).distinct(
        "id", within=Time.minutes(5), time_field="ts", name="once"
    )
    pipeline = hits.to_delta("hits").build()
    pipeline.run(options)
    said = "in its state, and dropped if an earlier row has equal id within 0:05:00"
    found = pipeline.why(options, where="id = 1", limit=2)
    assert [each.steps[-1].because for each in found] == [said, said]


def files_below(options: RunOptions) -> dict[str, tuple[int, int]]:
    """The files of a home with their sizes and times: whoever only reads changes none."""
    root = options.home.root
    found = {path: path.stat() for path in root.rglob("*") if path.is_file()}
    return {str(path): (facts.st_size, facts.st_mtime_ns) for path, facts in found.items()}


@pytest.mark.parametrize("lateness", ["batch", "record"])
def test_the_outcomes_of_all_records_account_for_the_results(
    tmp_path: Path, options: RunOptions, lateness: Literal["batch", "record"]
) -> None:
    chance = random.Random(7)
    begun = datetime(2026, 1, 5, 10, tzinfo=UTC)
    files: list[list[Row]] = [[] for _ in range(4)]
    for number in range(24):
        at = begun + timedelta(seconds=chance.randrange(400))
        made = row(number, page=chance.choice("ab"), ms=chance.randrange(-3, 9), at=f"{at:%H:%M:%S}")
        files[number % 4].append(made if chance.random() < 0.9 else f'{{"id": {number}, "ms": "bad"}}')
    folder = put(tmp_path / "in", *files)
    fields = "id, page, ms, ts"
    followed: dict[str, Any] = (
        {"tail": True, "max_rows_per_batch": 7} if lateness == "record" else {"max_files_per_batch": 1}
    )
    positive = read(folder, **followed).filter("ms >= 0", name="positive")
    twice = positive.flat_map(f"stack(2, {fields}, {fields}) AS ({fields})", name="twice")
    windows = twice.window(MINUTE, name="minutes").group_by("page").count("n")
    windows = windows.water_mark(Time.seconds(20), per="split" if lateness == "record" else "input", lateness=lateness)
    pipeline = windows.to_data_stream().to_delta("minutes").build()
    report = pipeline.run(options, finish=True)

    found = pipeline.why(options, where="true", limit=99)
    assert sorted(each.line for each in found) == sorted(line for rows in files for line in range(1, len(rows) + 1))
    ends = Counter[str]()
    for each in found:
        ends.update(step.outcome for step in each.steps if step.outcome not in ("read", "passed"))
    assert ends["refused"] == report.rows_dead
    assert ends["late"] == report.rows_late
    counted = sum(made["n"] for made in rows_of(options, "minutes"))
    assert ends["kept"] == counted > 0
    assert ends["dropped"] == len(found) - ends["refused"] - (ends["late"] + ends["kept"]) // 2


def rows_of(options: RunOptions, table: str) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    made: list[dict[str, Any]] = DeltaTable(options.home.table("why", table)).to_pyarrow_table().to_pylist()
    return made


def test_every_way_out_of_a_stateless_pipeline_is_shown(tmp_path: Path, options: RunOptions) -> None:
    called: list[int] = []
    tiers = tmp_path / "tiers.csv"
    tiers.write_text("page,tier\n/,free\n")
    folder = put(tmp_path / "in", [row(1), row(2, ms=500), row(3, page="/unknown")])
    hits = read(folder).for_each(lambda hit: called.append(hit["id"]), name="noted")
    dimension = Dimension.from_file(tiers, format="csv", schema="page string, tier string")
    known = hits.dim_join(dimension, on="page", how="inner", name="tier")
    by_speed = known.split("CASE WHEN ms > 100 THEN 'slow' ELSE 'fast' END", name="speed")
    by_speed.select("slow", name="slow").to_delta("slow")
    pipeline = by_speed.select("fast", name="fast").to_delta("fast").build()
    pipeline.run(options)

    reached = [("file", "read"), ("noted", "passed"), ("tier", "passed"), ("speed", "passed")]
    ways = dict(steps(pipeline, options, where="id = 2"))
    assert ways == dict(reached) | {"slow": "passed", "fast": "dropped", "slow_table": "written"}
    assert steps(pipeline, options, where="id = 3") == [*reached[:2], ("tier", "dropped")]


def test_a_lookup_that_was_renamed_is_refused_for_earlier_batches_only(tmp_path: Path, options: RunOptions) -> None:
    tiers = tmp_path / "tiers.csv"
    tiers.write_text("page,tier\n/,free\n")

    def pipeline(name: str) -> Pipeline:
        dimension = Dimension.from_file(tiers, format="csv", schema="page string, tier string")
        return read(tmp_path / "in").dim_join(dimension, on="page", name=name).to_delta("all", name="all").build()

    put(tmp_path / "in", [row(1), row(2)])
    pipeline("tier").run(options)
    put(tmp_path / "in", [row(3)])
    pipeline("level").run(options)
    with pytest.raises(DataLossError, match="'level' was added or renamed after a batch") as refused:
        pipeline("level").why(options, where="id = 1")
    remedy = "read that batch again by the code that ran then, or look at later batches only"
    assert refused.value.remedy == remedy
    passed = [("all", "written")]
    assert steps(pipeline("tier"), options, where="id = 1") == [("file", "read"), ("tier", "passed"), *passed]
    assert steps(pipeline("level"), options, where="id = 3") == [("file", "read"), ("level", "passed"), *passed]
    found = pipeline("level").records_of({"id": 3}, options)
    assert (found.rows, found.since) == (1, 1)


def test_a_dead_letter_is_explained_by_its_place(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [row(1), "nothing", row(2)])
    pipeline = read(folder).to_delta("all").build()
    pipeline.run(options)
    (letter,) = dead_letters_of(options.home.dead_letters, "why", "hits").to_pylist()
    (found,) = pipeline.why(options, split=letter["split"], line=letter["line"])
    assert found.text == letter["record"]
    assert found.steps[-1].because.startswith(letter["reason"])


class Picky(BatchSink):
    """Refuses rows as slow as 500 ms."""

    refused = "dead_letter"

    def write(self, rows: list[dict[str, Any]], mark: PartMark) -> None:
        found = {at: f"too slow: {each['ms']}" for at, each in enumerate(rows) if each["ms"] >= 500}
        if found:
            raise RowsRefused(found)


def test_why_of_a_row_that_a_sink_refused_says_so_with_its_reason(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [row(1), row(2, ms=500), row(3)], [row(2, ms=5)])
    hits = read(folder).filter("id > 0", name="known")
    hits.to_delta("all")
    pipeline = hits.to(Picky(), name="picky").build()
    pipeline.run(options)
    (found,) = pipeline.why(options, where="ms = 500")
    assert [(each.step, each.outcome) for each in found.steps if each.step in ("picky", "all_table")] == [
        ("all_table", "written"),
        ("picky", "refused"),
    ]
    assert "picky" in str(found)
    assert "too slow: 500; it is a dead letter" in str(found)
    for number in (1, 2, 3):
        ends = dict(steps(pipeline, options, where=f"id = {number} AND ms = 5"))
        assert ends["picky"] == ends["all_table"] == "written"


def test_what_cannot_be_sought_is_refused_with_a_remedy(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [row(1)], [row(2)])
    pipeline = read(folder).to_delta("all").build()
    with pytest.raises(CheckpointError, match="has not read anything yet"):
        pipeline.why(options, where="id = 1")
    pipeline.run(options)
    with pytest.raises(ConfigurationError, match="nothing says which record"):
        pipeline.why(options)
    with pytest.raises(ConfigurationError, match="limit=0 must be at least 1"):
        pipeline.why(options, where="id = 1", limit=0)
    with pytest.raises(ConfigurationError, match="fields of 'file' are: id, page, ms, ts"):
        pipeline.why(options, where="name = 'x'")
    with pytest.raises(ConfigurationError, match="write a whole condition, .* the fields of 'file' are: id"):
        pipeline.why(options, where="id = 1 OR")
    with pytest.raises(ConfigurationError, match=r"fails for a row: \[CAST_INVALID_INPUT\]"):
        pipeline.why(options, where="page = 1")
    with pytest.raises(ConfigurationError, match="no source 'files'"):
        pipeline.why(options, where="id = 1", source="files")
    (folder / "f0.jsonl").unlink()
    # The newest batches can still be searched.
    assert steps(pipeline, options, where="id = 2") == [("file", "read"), ("all_table", "written")]
    with pytest.raises(DataError):
        pipeline.why(options, where="id = 1")


def test_a_record_is_followed_into_a_durable_shuffle_and_not_out_of_it(options: RunOptions) -> None:
    source = MemoryChannel(schema=SCHEMA)
    begin = StreamBuilder.data_stream("why", "shuffled").from_memory(source, name="channel")
    spread = begin.shuffle(2, keys=["page"], strategy="delta", name="parted")
    pipeline = minutes(spread).to_delta("minutes").build()
    at = datetime(2026, 1, 5, 10, tzinfo=UTC)
    source.put({"id": 1, "page": "/", "ms": 1, "ts": at}, {"id": 2, "page": "/a", "ms": 1, "ts": at})
    pipeline.run(options, finish=True)
    with pytest.raises(TopologyError, match="follow a record of the source into the shuffle"):
        pipeline.records_of({"page": "/", "start_time": at}, options)
    (found,) = pipeline.why(options, where="id = 1")
    assert [each.outcome for each in found.steps] == ["read", "written"]
    assert found.steps[-1].because == "to the shuffle"


WINDOWS: dict[str, Any] = {
    "tumbling": MINUTE,
    "hopping": HoppingWindow.of(Time.minutes(2), Time.minutes(1), "ts"),
    "cumulate": CumulateWindow.of(Time.minutes(3), Time.minutes(1), "ts"),
    "session": SessionWindow.of(Time.seconds(30), "ts"),
}


@pytest.mark.parametrize("kind", [*WINDOWS])
def test_a_row_of_each_window_is_made_of_as_many_records_as_it_counts(
    tmp_path: Path, options: RunOptions, kind: str
) -> None:
    chance = random.Random(11)
    begun = datetime(2026, 1, 5, 10, tzinfo=UTC)
    times = [begun + timedelta(seconds=chance.randrange(600)) for _ in range(40)]
    rows = [row(n, page=chance.choice("ab"), at=f"{at:%H:%M:%S}") for n, at in enumerate(times)]
    folder = put(tmp_path / "in", rows[:15], rows[15:25], rows[25:])
    windows = read(folder).filter("id % 5 <> 0").window(WINDOWS[kind], name="windows").group_by("page").count("n")
    windows = windows.collect("id", "ids").water_mark(Time.minutes(2))
    pipeline = windows.to_data_stream().to_delta("windows").build()
    report = pipeline.run(options, finish=True)
    assert report.rows_late > 0
    made = rows_of(options, "windows")
    assert len(made) > 5
    for each in chance.sample(made, 6):
        found = pipeline.records_of({name: each[name] for name in ("page", "start_time", "end_time")}, options)
        assert found.rows == each["n"]
        assert sorted(orjson.loads(record.text or "")["id"] for record in found.records) == sorted(each["ids"])
        assert found.since == 0


def test_rows_without_state_are_followed_back_by_any_of_their_fields(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [row(1, ms=5), row(2, ms=7)], [row(3, ms=5), row(4, ms=9)])
    pipeline = read(folder).filter("id < 4").with_fields(twice="ms * 2").to_delta("all").build()
    pipeline.run(options)
    found = pipeline.records_of({"twice": 10}, options)
    assert [(record.split, record.line, record.batch_id) for record in found.records] == [
        ("f1.jsonl", 1, 1),
        ("f0.jsonl", 1, 0),
    ]
    assert pipeline.records_of({"twice": 10}, options, limit=1).rows == 2
    assert pipeline.records_of({"twice": 18}, options).rows == 0
    with pytest.raises(ConfigurationError, match="use some of: id, page, ms, ts, twice"):
        pipeline.records_of({"thrice": 1}, options)
    with pytest.raises(ConfigurationError, match="there is no sink 'some'"):
        pipeline.records_of({"id": 1}, options, sink="some")
    with pytest.raises(ConfigurationError, match="'many' cannot be compared with 'id', which is bigint"):
        pipeline.records_of({"id": "many"}, options)
    assert pipeline.records_of({"id": "1"}, options).rows == 1
    (folder / "f0.jsonl").unlink()
    left = pipeline.records_of({"twice": 10}, options)
    assert (left.rows, left.since) == (1, 1)


def test_a_row_of_late_rows_is_made_of_the_late_record(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [row(1), row(2, at="10:03:02")], [row(3), row(4, at="10:03:30")])
    windows = read(folder).window(MINUTE, name="minutes").group_by("page").count("n").late_to("late", name="behind")
    pipeline = windows.to_data_stream().to_delta("minutes", name="counts").build()
    pipeline.run(options)
    (late,) = rows_of(options, "late")
    for given in (late, {"page": "/"}):
        found = pipeline.records_of(given, options, sink="behind")
        assert [(each.line, each.batch_id) for each in found.records] == [(1, 1)]
    assert pipeline.records_of({"id": 4}, options, sink="behind").rows == 0
    assert pipeline.records_of({"page": "/"}, options, sink="counts").rows == 3


def test_a_window_that_is_joined_at_once_is_read_again(tmp_path: Path, options: RunOptions) -> None:
    put(tmp_path / "in", [row(1), '{"id":2,"ms":"x"', row(3, at="10:03:02")])
    put(tmp_path / "others", [{"other": "/", "at": "2026-01-05 10:01:00"}])
    begin = StreamBuilder.data_stream("why", "hits")
    hits = begin.from_file(tmp_path / "in", schema=SCHEMA, bad_records="dead_letter", name="file")
    others = begin.from_file(tmp_path / "others", schema="other string, at timestamp", name="others")
    both = minutes(hits).join(
        others, on={"page": "other"}, within=Time.minutes(5), time_field=("end_time", "at"), name="both"
    )
    pipeline = both.to_delta("both").build()
    report = pipeline.run(options, finish=True)
    assert (report.rows_dead, len(rows_of(options, "both"))) == (1, 2)
    assert steps(pipeline, options, where="id = 1", source="file") == [("file", "read"), ("minutes", "kept")]
    assert steps(pipeline, options, where="true", source="others") == [("others", "read"), ("both", "kept")]


def test_times_without_a_zone_are_in_utc(tmp_path: Path, options: RunOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = minutes(read(put(tmp_path / "in", [row(1)]))).to_delta("minutes").build()
    pipeline.run(options)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert pipeline.records_of({"start_time": datetime(2026, 1, 5, 10)}, options).rows == 1  # noqa: DTZ001
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_late_row_with_a_field_that_is_not_a_number_is_late_alone(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [row(1, at="10:03:02")], [row(2), row(3, at="10:03:03")])
    hits = read(folder).with_fields(x="CAST('NaN' AS double)", name="none")
    windows = hits.window(MINUTE, name="minutes").group_by("page").sum("x", "sum")
    pipeline = windows.to_data_stream().to_delta("minutes").build()
    pipeline.run(options)
    assert steps(pipeline, options, where="id = 2") == [("file", "read"), ("none", "passed"), ("minutes", "late")]
    assert steps(pipeline, options, where="id = 3")[-1] == ("minutes", "kept")


def test_a_record_is_not_taken_for_that_of_a_file_of_the_same_name(tmp_path: Path, options: RunOptions) -> None:
    for number in (1, 2):
        put(tmp_path / f"day={number}", [row(number)])
    begin = StreamBuilder.data_stream("why", "latest").from_file(tmp_path / "day=*" / "*.jsonl", schema=SCHEMA)
    pages = begin.to_table("page", order_by="id", name="pages").to_delta("pages").build()
    pages.run(options)
    (found,) = pages.why(options, where="id = 1")
    assert found.steps[-1].outcome == "kept"
    assert [[made["id"] for made in each.rows] for each in found.steps] == [[1]] * len(found.steps)


def test_an_explanation_says_if_other_code_has_computed_the_batch(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [row(1)])

    def above(ms: int, **source: Any) -> Pipeline:
        return read(folder, **source).filter(f"ms > {ms}", name="slow").to_delta("all").build()

    def changed(pipeline: Pipeline, number: int) -> bool:
        (found,) = pipeline.why(options, where=f"id = {number}")
        return found.code_changed

    with above(3).start(options) as running:
        (query,) = running.session.queries.values()
        running.session.options.driver.call(lambda _: query.process_all())
        # The end of its first run has not been recorded.
        assert not changed(above(3), 1)
    assert (changed(above(3), 1), changed(above(9), 1)) == (False, True)
    assert changed(above(3, time_format="yyyy-MM-dd HH:mm:ss"), 1)
    assert not changed(above(3, max_files_per_batch=2), 1)
    put(folder, [row(2)])
    above(9).run(options)
    assert (changed(above(9), 2), changed(above(9), 1), changed(above(3), 1)) == (False, True, False)


def test_a_record_on_which_a_step_failed_is_explained_and_in_no_row(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [row(1), row(2, ms=0)], [row(3)])
    begin = StreamBuilder.data_stream("why", "hits")
    hits = begin.from_file(
        folder, schema=SCHEMA, bad_records="quarantine", name="file", max_files_per_batch=1
    ).with_fields(x="10 div ms", name="inverse")
    pipeline = hits.to_delta("all").build()
    pipeline.run(options)
    assert steps(pipeline, options, where="id = 2") == [("file", "refused")]
    (found,) = pipeline.why(options, where="id = 2")
    (letter,) = dead_letters_of(options.home.dead_letters, "why", "hits").to_pylist()
    assert found.steps[0].because == f"{letter['reason']}; it is a dead letter"
    assert pipeline.records_of({"x": 2}, options).rows == 2


def test_a_time_of_a_window_that_is_none_is_refused(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [row(1)])
    counted = read(folder).window(WINDOWS["tumbling"], name="counted").group_by("page").count("n")
    pipeline = counted.to_data_stream().to_delta("counted").build()
    pipeline.run(options)
    with pytest.raises(ConfigurationError, match="'ten past' cannot be compared with 'start_time'"):
        pipeline.records_of({"page": "/", "start_time": "ten past"}, options)


def test_rows_that_cannot_be_followed_back_are_refused(
    tmp_path: Path, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path / "in", [row(1)])
    session = read(folder).window(WINDOWS["session"], name="sessions").group_by("page").count("n")
    pipeline = session.to_data_stream().to_delta("sessions").build()
    pipeline.run(options)
    with pytest.raises(ConfigurationError, match="add the other one of start_time and end_time"):
        pipeline.records_of({"page": "/", "start_time": "2026-01-05 10:00:01"}, options)
    with pytest.raises(ConfigurationError, match="use some of: page, start_time, end_time"):
        pipeline.records_of({"n": 1}, options)
    begin = StreamBuilder.data_stream("why", "latest").from_file(folder, schema=SCHEMA)
    pages = begin.to_table("page", order_by="id", name="pages").to_delta("pages").build()
    pages.run(options)
    with pytest.raises(TopologyError, match="rs-assets state latest pages --refresh"):
        pages.records_of({"page": "/"}, options)
    monkeypatch.setenv("RS_HOME", str(options.home.root))
    monkeypatch.setattr(SparkDriver, "shared", lambda *_: options.driver)
    assert len(answer(pages.topology, StateQuestion(step="pages", refresh=True))[1]) == 1
