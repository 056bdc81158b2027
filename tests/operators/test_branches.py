"""Streams that part and meet again give what plain Python gives."""

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from rs_assets import MemoryChannel, StreamBuilder, Time, TumblingWindow, column
from rs_assets.errors import TopologyError
from rs_assets.testing import PipelineDriver
from tests.operators.model import at, counted, emitted_slices

SCHEMA = "key string, n bigint, ts timestamp"
AB = (("a", 0), ("b", 5))


def shapes(stream):
    """Sinks behind branches of several shapes, and what plain Python makes of a row for each."""
    split = stream.split(lambda row: "plus" if row["n"] > 0 else "minus")
    sign = split.select("plus").union(split.select("minus").with_fields(n="-n"))
    sign.select_fields("n").to_print(name="absolute")
    stream.union(stream, stream.filter("n > 3")).select_fields("n").to_print(name="copies")
    inner = stream.map(lambda row: {"n": row["n"] + 1}, schema="n bigint")
    inner = inner.filter("n > 1").union(inner.filter(lambda row: row["n"] <= 1))
    inner.union(stream.select_fields("n")).to_print(name="nested")
    return {
        "absolute": lambda n: [abs(n)],
        "copies": lambda n: [n, n] + [n] * (n > 3),
        "nested": lambda n: [n + 1, n],
    }


ROW = st.tuples(st.sampled_from("ab"), st.integers(-5, 5), st.integers(0, 60))


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(st.lists(ROW, min_size=1, max_size=6), min_size=2, max_size=3))
def test_branches_meet_with_all_their_rows(driver, batches):
    batches = [[{"key": k, "n": n, "ts": at(s)} for k, n, s in rows] for rows in batches]
    stream = StreamBuilder.data_stream("test", "branches").from_file("in.jsonl", schema=SCHEMA)
    model = shapes(stream)
    windows = stream.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key").count("n").to_data_stream()
    twice = windows.filter("n > 1").union(windows, windows.filter("n > 1").with_fields(n="-n"))
    with PipelineDriver(twice.to_print(name="windows").build(), spark=driver) as running:
        for rows in batches:
            running.push(rows)
            running.step()
        running.finish()
        report = running.report()
        every = [row for rows in batches for row in rows]
        for name, made in model.items():
            assert sorted(row["n"] for row in running.take(name)) == sorted(n for r in every for n in made(r["n"]))
        groups, _, late = emitted_slices(batches, size=10, slide=10, delay=0)
        counts = [n for *_, n in counted(groups)]
        expected = counts + [n for n in counts if n > 1] + [-n for n in counts if n > 1]
        assert sorted(row["n"] for row in running.take("windows")) == sorted(expected)
        assert (report.rows_in, report.rows_late) == (len(every), late)
        assert {query.rows_in for query in report.queries} == {len(every)}


def test_branches_meet_above_windows_and_beside_another_source(driver):
    job = StreamBuilder.data_stream("test", "above")
    stream, other = (job.from_file(f"{name}.jsonl", schema=SCHEMA, name=name) for name in ("main", "other"))
    sign = stream.split("case when n > 0 then 'plus' when n < 0 then 'minus' end")
    # A filter keeps the zeros from the division behind it.
    inverse = stream.filter("n <> 0").with_fields(n="cast(10 / n as bigint)")
    parted = sign.select("plus").union(sign.select("minus").map("key", "-n AS n", "ts"), inverse, stream)
    again = parted.filter("n > 2").union(parted.filter("n <= 2").select_fields("ts", "n", "key"), other)
    windows = again.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key").count("rows").sum("n")
    rows = [{"key": "ab"[n % 2], "n": n % 7 - 3, "ts": at(n)} for n in range(60)]
    beside = [{"key": "a", "n": 100, "ts": at(n)} for n in range(0, 60, 5)]
    with PipelineDriver(windows.to_data_stream().to_print().build(), spark=driver) as running:
        for first in range(0, 60, 20):
            running.push(rows[first : first + 20], "main")
            running.push(beside[first // 5 : first // 5 + 4], "other")
            running.step()
            running.restart()
        running.finish()
        found = sorted((row["key"], row["start_time"], row["rows"], row["n"]) for row in running.take())
        assert len(running.report().queries) == 1
    every = list(beside)
    for row in rows:
        n = row["n"]
        every += [row | {"n": made} for made in [abs(n)] * (n != 0) + [int(10 / n)] * (n != 0) + [n]] if n else [row]
    groups, _, _ = emitted_slices([every], size=10, slide=10, delay=0)
    assert found == sorted((key, start, len(of), sum(r["n"] for r in of)) for (key, start, _), of in groups.items())


def test_branches_that_part_after_a_python_step_meet_above_a_window(options):
    source = MemoryChannel(schema=SCHEMA)
    source.put(*({"key": "a", "n": n, "ts": at(n)} for n in range(8)))
    stream = StreamBuilder.data_stream("test", "parted").from_memory(source)
    made = stream.map(lambda row: row | {"n": row["n"] + 1}, schema=SCHEMA, trace=False)
    both = made.filter("n > 3").union(made.filter("n < 6"))
    windows = both.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key").count("rows").sum("n")
    windows.to_data_stream().to_delta("windows").build().run(options, finish=True)
    (row,) = DeltaTable(options.home.table("test", "windows")).to_pyarrow_table().to_pylist()
    assert (row["rows"], row["n"]) == (10, 30 + 15)


def test_branches_meet_that_were_united_with_another_source_before(driver):
    job = StreamBuilder.data_stream("test", "through")
    a, b = (job.from_file(f"{name}.jsonl", schema=SCHEMA, name=name) for name in "ab")
    both = a.union(b.with_fields(n="n + 1")).filter("n > 2")
    every = both.select_fields("n", "key", "ts").union(a.with_fields(n="-n"), both.filter("n = 4"), b)
    every.select_fields("n").to_print(name="plain")
    windows = every.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("key").sum("n").to_data_stream()
    rows = {name: [{"key": "ab"[n % 2], "n": n % 9, "ts": at(n)} for n in range(start, 60)] for name, start in AB}
    plain = []
    with PipelineDriver(windows.to_print(name="windows").build(), spark=driver) as running:
        for cut in range(0, 60, 20):
            for name in "ab":
                running.push([row for row in rows[name] if at(cut) <= row["ts"] < at(cut + 20)], name)
            running.step()
            plain += running.take("plain")
            running.restart()
        running.finish()
        found = {(row["key"], row["start_time"]): row["n"] for row in running.take("windows")}
    united = [row for row in [*rows["a"], *(row | {"n": row["n"] + 1} for row in rows["b"])] if row["n"] > 2]
    fours = [row for row in united if row["n"] == 4]
    expected = [*united, *(row | {"n": -row["n"]} for row in rows["a"]), *fours, *rows["b"]]
    assert sorted(row["n"] for row in plain) == sorted(row["n"] for row in expected)
    groups, _, _ = emitted_slices([expected], size=10, slide=10, delay=0)
    assert found == {(key, start): sum(row["n"] for row in of) for (key, start, _), of in groups.items()}


@pytest.mark.parametrize("policy", ["quarantine"])
def test_a_record_that_one_branch_cannot_compute_is_one_letter(driver, tmp_path, policy):
    stream = StreamBuilder.data_stream("test", "branches").from_file("in.jsonl", schema=SCHEMA, bad_records=policy)
    inverse = stream.map(lambda row: {"n": 10 // row["n"]}, schema="n bigint", name="inverse")
    pipeline = inverse.union(stream.select_fields("n")).to_print().build()
    with PipelineDriver(pipeline, spark=driver, home=tmp_path) as running:
        running.push([{"key": "a", "n": n, "ts": at(1)} for n in (1, 0, 5)])
        running.step()
        assert sorted(row["n"] for row in running.take()) == [1, 2, 5, 10]
        report = running.report()
        assert (report.rows_in, report.rows_dead, report.rows_out) == (3, 1, 4)
    (letter,) = DeltaTable(str(tmp_path / "catalog" / "dead_letters")).to_pyarrow_table().to_pylist()
    assert (letter["step"], letter["line"]) == ("inverse", 2)


def test_a_star_in_branches_that_meet_above_a_window_stands_for_the_fields_of_the_record(driver):
    stream = StreamBuilder.data_stream("test", "stars").from_file(
        "in.jsonl", schema="key string, n bigint, ts timestamp"
    )
    one = stream.filter("n = 1 and hash(*) = hash(key, n, ts)").map("key", "ts", "to_json(struct(*)) AS j")
    label = stream.split("json_object_keys(to_json(struct(*)))[1]")
    two = label.select("n").filter("n = 2").select_fields("ts", "key").with_fields(j="to_json(struct(*))")
    windows = one.union(two.select_fields("key", "ts", "j")).window(TumblingWindow.of(Time.seconds(10), "ts"))
    made = (
        windows.group_by("key").aggregate(texts="sort_array(collect_list(j))").water_mark(Time.seconds(0), per="split")
    )
    with PipelineDriver(made.to_data_stream().to_print().build(), spark=driver) as running:
        running.push([{"key": "a", "n": n, "ts": at(n)} for n in (1, 2, 3)])
        running.step()
        running.finish()
        (row,) = running.take()
    second = '"2024-01-01T00:00:0{}.000Z"'
    one, two = (second.format(n) for n in (1, 2))
    assert row["texts"] == [f'{{"key":"a","n":1,"ts":{one}}}', f'{{"ts":{two},"key":"a"}}']


REFUSED = {
    "struct(*)": (lambda s: s.with_fields(key=column(lambda: F.to_json(F.struct("*")))), "uses '\\*'"),
    "star": (lambda s: s.map("*"), "several fields by one expression"),
    "udf": (
        lambda s: s.with_fields(n=column(lambda: F.udf(lambda v: 10 // v, "bigint")("n"))),
        "calls a Python function",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_would_see_more_than_its_record_is_refused_above_state(options, kind):
    make, why = REFUSED[kind]
    stream = StreamBuilder.data_stream("test", "refused").from_memory(MemoryChannel(schema=SCHEMA))
    both = make(stream.filter("n <> 0")).union(stream)
    windows = both.window(TumblingWindow.of(Time.seconds(10), "ts")).count("rows").to_data_stream()
    with pytest.raises(TopologyError, match=why):
        windows.to_print().build().run(options)
