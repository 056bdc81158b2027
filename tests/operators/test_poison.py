"""Under QUARANTINE a record on which any step fails is found by bisecting, kept out and written to the dead letters."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, replace

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home
from rs_assets.errors import EngineError
from rs_assets.testing import PipelineDriver

SCHEMA = "n bigint, s string, ts timestamp"


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows(numbers):
    return [{"n": n, "s": f"{n}", "ts": f"2024-01-01T00:00:{i % 60:02d}Z"} for i, n in enumerate(numbers)]


def stream(path, **source):
    source = {"schema": SCHEMA, "bad_records": "quarantine", **source}
    return StreamBuilder.data_stream("shop", "poison").from_file(path, **source)


def letters(options):
    if not DeltaTable.is_deltatable(options.home.dead_letters):
        return []
    found = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    return sorted((row["step"], row["line"], row["reason"].split("raised ")[-1].split("]")[0]) for row in found)


def kept(options, column="n", table="kept"):
    return sorted(DeltaTable(options.home.table("shop", table)).to_pyarrow_table()[column].to_pylist())


@pytest.mark.parametrize("tail", [True, False], ids=["growing", "whole"])
def test_a_record_that_sql_cannot_compute_goes_to_the_dead_letters_with_step_place_and_error(options, tmp_path, tail):
    path = write(tmp_path / "in.jsonl", rows([1, 2, 0, 4]))
    job = stream(path, tail=tail).with_fields(x="10 div n", name="inverse").to_delta("kept").build()
    report = job.run(options)
    assert (report.rows_in, report.rows_dead, report.rows_out) == (4, 1, 3)
    assert kept(options) == [1, 2, 4]
    assert letters(options) == [("inverse", 3, "[DIVIDE_BY_ZERO")]
    again = job.run(options)
    assert (again.rows_in, again.rows_out) == (0, 0)
    assert kept(options) == [1, 2, 4]
    assert len(letters(options)) == 1


@dataclass(frozen=True, slots=True)
class Inverse:
    """A function with a setting, which is in a slot."""

    more: int

    def __call__(self, row):
        return {"n": row["n"], "x": 10 // (row["n"] + self.more)}


CORRECTIONS = {
    "SQL": lambda rows, more: rows.with_fields(x=("10 div n", "10 div (n + 1)")[more], name="x"),
    "Python": lambda rows, more: rows.map(Inverse(more), schema="n bigint, x bigint", name="x"),
}


@pytest.mark.canary
@pytest.mark.parametrize("case", CORRECTIONS)
def test_what_other_code_failed_on_is_computed_beside_a_new_poison(options, tmp_path, case):
    folder = tmp_path / "in"
    folder.mkdir()
    zero, one = rows([0, 1])

    def job(more):
        return CORRECTIONS[case](stream(folder), more).to_delta("kept").build()

    write(folder / "a.jsonl", [zero, one])
    job(0).run(options)
    assert kept(options) == [1]
    write(folder / "b.jsonl", [zero, {**one, "n": -1}])
    report = job(1).run(options)
    assert (report.rows_dead, kept(options), len(letters(options))) == (1, [0, 1], 2)


@pytest.mark.canary
def test_a_record_that_fails_before_branches_part_is_one_dead_letter(options, tmp_path):
    path = write(tmp_path / "in.jsonl", rows([1, 0, 4]))
    shares = stream(path).map(lambda row: {"n": 10 // row["n"]}, schema="n bigint", name="share", trace=False)
    twice = shares.map(lambda row: {"n": 2 * row["n"]}, schema="n bigint", name="twice", trace=False)
    twice.to_delta("twice")
    report = shares.filter(lambda row: row["n"] > 0, name="some", trace=False).to_delta("kept").build().run(options)
    assert (report.rows_dead, kept(options), kept(options, table="twice")) == (1, [2, 10], [4, 20])
    assert [(step, line) for step, line, _ in letters(options)] == [("share", 2)]


def test_two_poisons_in_one_batch_and_one_in_its_last_row(options, tmp_path):
    path = write(tmp_path / "in.jsonl", rows([1, 0, 2, 3, 4, 5, -7]))
    job = stream(path).with_fields(x="10 div n", y="array(1, 2, 3)[n % 4 + 0]", name="both").to_delta("kept").build()
    report = job.run(options)
    found = letters(options)
    kinds = ["[DIVIDE_BY_ZERO", "[INVALID_ARRAY_INDEX", "[INVALID_ARRAY_INDEX"]
    assert found == [("both", line, kind) for line, kind in zip([2, 4, 7], kinds, strict=True)]
    assert (report.rows_in, report.rows_dead, report.rows_out) == (7, 3, 4)
    assert kept(options) == [1, 2, 4, 5]


def test_a_filter_and_a_cast_are_blamed_each_by_its_own_name(options, tmp_path):
    path = tmp_path / "in.jsonl"
    texts = ["1", "x", "2", "0", "5"]
    write(path, [{"n": int(t) if t.isdigit() else 1, "s": t, "ts": None} for t in texts])
    job = stream(path).filter("10 / n > 0", name="share").map("cast(s as int) as n", name="number").to_delta("kept")
    report = job.build().run(options)
    assert letters(options) == [("number", 2, "[CAST_INVALID_INPUT"), ("share", 4, "[DIVIDE_BY_ZERO")]
    assert (report.rows_in, report.rows_dead, report.rows_out) == (5, 2, 3)


@pytest.mark.long
@pytest.mark.parametrize("often", [False, True])
def test_before_a_window_the_other_records_are_counted(options, tmp_path, often):
    path = write(tmp_path / "in.jsonl", rows([3, 0, 5, 6]))
    job = stream(path, tail=True).with_fields(x="30 div n", name="x").window(TumblingWindow.of(Time.seconds(10), "ts"))
    job = job.count("rows").sum("x", "sum")
    job = job.late_firings("deltas") if often else job
    report = job.to_data_stream().to_delta("kept").build().run(options, finish=True)
    assert (report.rows_in, report.rows_dead) == (4, 1)
    assert (kept(options, "rows"), kept(options, "sum")) == ([3], [21])
    assert letters(options) == [("x", 2, "[DIVIDE_BY_ZERO")]


def test_what_is_made_a_number_for_an_aggregate_and_is_none_is_found(options, tmp_path):
    path = write(tmp_path / "in.jsonl", [{**row, "s": s} for row, s in zip(rows([1, 2, 3]), "1x3", strict=True)])
    numbers = stream(path).with_fields(s="cast(s as double)", name="number")
    job = numbers.window(TumblingWindow.of(Time.seconds(10), "ts")).sum("s", "sum")
    report = job.to_data_stream().to_delta("kept").build().run(options, finish=True)
    assert (report.rows_in, report.rows_dead) == (3, 1)
    assert kept(options, "sum") == [4.0]
    assert letters(options) == [("number", 2, "[CAST_INVALID_INPUT")]


def test_more_poisons_than_allowed_end_the_run_with_the_first_address(options, tmp_path):
    path = write(tmp_path / "in.jsonl", rows([0] * 3 + [4]) + [{"n": 0, "s": str(i), "ts": None} for i in range(4)])
    job = stream(path).with_fields(x="10 div n", name="inverse").to_delta("kept").build()
    with pytest.raises(EngineError, match="DIVIDE_BY_ZERO") as failed:
        job.run(replace(options, max_poisons=3))
    assert (failed.value.facts["step"], failed.value.facts["line"]) == ("inverse", 1)
    assert "more than 3 records" in failed.value.remedy
    assert letters(options) == []
    report = job.run(options)
    assert (report.rows_in, report.rows_dead, report.rows_out) == (8, 7, 1)


def test_equal_records_are_one_poison_and_each_gets_a_letter(options, tmp_path):
    bad = {"n": 0, "s": "same", "ts": None}
    path = write(tmp_path / "in.jsonl", [bad, *rows([1, 2]), bad, bad])
    job = stream(path).with_fields(x="10 div n", name="inverse").to_delta("kept").build()
    report = job.run(replace(options, max_poisons=1))
    assert (report.rows_in, report.rows_dead, report.rows_out) == (5, 3, 2)
    assert [line for _, line, _ in letters(options)] == [1, 4, 5]


def test_windows_and_python_behind_them(options, tmp_path):
    path = write(tmp_path / "in.jsonl", rows(range(40)))

    def share(row):
        return {"rows": row["rows"], "x": 100 // (row["first"] - 10)}

    job = stream(path).window(TumblingWindow.of(Time.seconds(10), "ts")).count("rows").min("n", "first")
    behind = job.to_data_stream().map(share, schema="rows bigint, x bigint", name="share")
    report = behind.to_delta("kept").build().run(options, finish=True)
    assert (report.rows_in, report.rows_dead, report.rows_out) == (40, 0, 3)
    assert kept(options, "x") == [-10, 5, 10]
    (letter,) = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    assert (letter["step"], letter["split"], letter["line"], letter["offset"]) == ("share", "", None, None)
    assert json.loads(letter["record"])["first"] == 10
    assert "ZeroDivisionError" in letter["reason"]


def test_python_behind_a_trunk_is_traced_to_its_record(options, tmp_path):
    path = write(tmp_path / "in.jsonl", rows([1, 2, 0, 4]))
    base = stream(path).filter("n < 100", name="trunk")

    def inverse(row):
        return {"x": 10 // row["n"]}

    base.map(inverse, schema="x bigint", name="inverse").to_delta("inverse")
    report = base.to_delta("kept").build().run(options)
    assert letters(options) == [("inverse", 3, "ZeroDivisionError: integer division or modulo by zero")]
    assert (report.rows_in, report.rows_dead) == (4, 1)
    assert kept(options) == [1, 2, 4]
    assert kept(options, "x", "inverse") == [2, 5, 10]


def test_fields_of_every_kind_are_told_apart(options, tmp_path):
    nested = (
        "d double, f float, m decimal(12,3), b binary, t timestamp, st struct<a:array<string>,c:map<string,bigint>>"
    )
    base = {
        "n": 0,
        "d": "NaN",
        "f": -0.0,
        "m": 1.250,
        "b": "AAE=",
        "t": "2024-01-01T00:00:00.000001Z",
        "st": {"a": ["x", None], "c": {"k": 1}},
    }
    near = [
        {"d": "Infinity"}, {"d": None}, {"f": 0.0}, {"m": 1.251}, {"m": None}, {"b": "AAI="}, {"b": None},
        {"t": "2024-01-01T00:00:00.000002Z"}, {"t": None}, {"st": {"a": ["x"], "c": {"k": 1}}},
        {"st": {"a": ["x", None], "c": {"k": 2}}}, {"st": None}, {"st": {"a": None, "c": {"k": 1}}},
    ]  # fmt: skip
    records = [base, *({**base, **change} for change in near), base]
    path = write(tmp_path / "in.jsonl", records)
    # Poison is what equals the base; nothing but the digest may tell the others from it.
    condition = (
        "d <=> double('NaN') AND cast(f as string) <=> '-0.0' AND m <=> 1.250 AND b <=> unbase64('AAE=')"
        ' AND unix_micros(t) <=> 1704067200000001 AND to_json(st) <=> \'{"a":["x",null],"c":{"k":1}}\''
    )
    job = stream(path, schema=f"n bigint, {nested}").with_fields(x=f"if({condition}, 1 div n, 7)", name="x")
    report = job.to_delta("kept").build().run(options)
    assert [line for _, line, _ in letters(options)] == [1, len(records)]
    assert (report.rows_in, report.rows_dead, report.rows_out) == (len(records), 2, len(near))


def test_the_same_line_of_files_of_one_name_is_told_apart(options, tmp_path):
    for folder, numbers in (("a", [1, 0]), ("b", [3, 4]), ("c", [0, 5])):
        (tmp_path / "in" / folder).mkdir(parents=True)
        write(tmp_path / "in" / folder / "in.jsonl", [{**row, "s": folder} for row in rows(numbers)])
    job = stream(tmp_path / "in").with_fields(x="10 div n", name="inverse").to_delta("kept").build()
    report = job.run(options, finish=False)
    assert (report.rows_in, report.rows_dead) == (6, 2)
    assert kept(options) == [1, 3, 4, 5]
    assert [line for _, line, _ in letters(options)] == [1, 2]


def test_it_is_written_down_in_the_operations(options, tmp_path):
    path = write(tmp_path / "in.jsonl", rows([1, 0, 3]))
    stream(path).with_fields(x="1 div n", name="inverse").to_delta("kept").build().run(options)
    rows_ = DeltaTable(str(options.home.catalog / "operations")).to_pyarrow_table().to_pylist()
    (row,) = [each for each in rows_ if each["kind"] == "quarantine"]
    assert "1 by step 'inverse'" in row["summary"]
    (record,) = json.loads(row["details"])["records"]
    assert (record["split"], record["line"]) == ("in.jsonl", 2)


@pytest.mark.parametrize("emit", ["on_window_close", "on_update_and_close"])
def test_what_no_record_explains_ends_the_run_as_before(options, tmp_path, emit):
    path = write(tmp_path / "in.jsonl", rows([2**62, 2**62, 3]))
    job = stream(path).window(TumblingWindow.of(Time.seconds(10), "ts"), emit=emit).sum("n", "sum").to_data_stream()
    with pytest.raises(EngineError, match="ARITHMETIC_OVERFLOW"):
        job.to_delta("kept").build().run(options, finish=True)
    assert letters(options) == []


def test_steps_behind_a_window_in_sql_end_the_run_with_a_clear_error(options, tmp_path):
    path = write(tmp_path / "in.jsonl", rows([0, 1]))
    job = stream(path).window(TumblingWindow.of(Time.seconds(10), "ts")).min("n", "first").to_data_stream()
    with pytest.raises(EngineError, match="DIVIDE_BY_ZERO"):
        job.with_fields(x="1 div first").to_delta("kept").build().run(options, finish=True)


def wait_for(condition, patience_s=60):
    tick = threading.Event()
    until = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < until, "it took too long"
        tick.wait(0.1)


def test_a_started_pipeline_goes_on_behind_poison(options, tmp_path):
    path = write(tmp_path / "in.jsonl", rows([1, 0, 3]))
    job = stream(path, tail=True).with_fields(x="10 div n", name="inverse").to_delta("kept").build()
    with job.start(options) as running:
        wait_for(lambda: running.status()["rows_out"] == 2)
        with path.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows([5, 0, 0, 6])))
        wait_for(lambda: running.status()["rows_out"] == 4)
        assert running.active
        report = running.stop()
    assert (report.rows_in, report.rows_dead, report.rows_out) == (7, 3, 4)
    assert kept(options) == [1, 3, 5, 6]
    assert [line for _, line, _ in letters(options)] == [2, 5, 6]
    # What served is not in the way of the next run, and nothing comes twice.
    again = job.run(options)
    assert (again.rows_in, again.rows_out, len(letters(options))) == (0, 0, 3)


def test_a_started_pipeline_ends_with_the_error_if_no_record_is_to_blame(options, tmp_path):
    path = write(tmp_path / "in.jsonl", rows([0] * 5))
    path.write_text("".join(json.dumps({"n": 0, "s": str(i), "ts": None}) + "\n" for i in range(5)))
    job = stream(path, tail=True).with_fields(x="10 div n", name="inverse").to_delta("kept").build()
    with job.start(replace(options, max_poisons=2)) as running:
        with pytest.raises(EngineError, match="DIVIDE_BY_ZERO"):
            running.await_termination(60)
        assert not running.active
    assert letters(options) == []


def test_the_driver_of_tests_puts_poison_into_quarantine(driver, tmp_path):
    job = stream(tmp_path / "none.jsonl").with_fields(x="10 div n", name="inverse").to_print().build()
    with PipelineDriver(job, spark=driver, home=tmp_path / "rs") as pipeline:
        pipeline.push([{"n": n, "s": "", "ts": None} for n in (1, 0, 2)])
        pipeline.step()
        assert sorted(row["x"] for row in pipeline.take()) == [5, 10]
        pipeline.push([{"n": n, "s": "", "ts": None} for n in (0, 5)])
        pipeline.step()
        assert [row["x"] for row in pipeline.take()] == [2]
        assert (pipeline.report().rows_in, pipeline.report().rows_dead) == (5, 2)


def test_rows_of_an_array_have_the_number_of_their_row(options):
    source = StreamBuilder.data_stream("shop", "poison").from_array(
        [{"n": n} for n in (4, 2, 0)], schema="n bigint", bad_records="quarantine"
    )
    report = source.with_fields(x="10 div n", name="inverse").to_delta("kept").build().run(options)
    assert (report.rows_in, report.rows_dead, report.rows_out) == (3, 1, 2)
    assert letters(options) == [("inverse", 3, "[DIVIDE_BY_ZERO")]
    assert kept(options, "x") == [2, 5]


def test_in_a_union_only_the_source_with_the_poison_loses_it(options, tmp_path):
    begin = StreamBuilder.data_stream("shop", "poison")
    kind = {"schema": SCHEMA, "bad_records": "quarantine"}
    left = begin.from_file(write(tmp_path / "l.jsonl", rows([1, 0])), name="left", **kind).with_fields(x="10 div n")
    right = begin.from_file(write(tmp_path / "r.jsonl", rows([1, 0])), name="right", **kind).with_fields(x="n")
    report = left.union(right).to_delta("kept").build().run(options)
    assert (report.rows_in, report.rows_dead) == (4, 1)
    assert kept(options) == [0, 1, 1]


@pytest.mark.parametrize("tail", [True, False], ids=["growing", "whole"])
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    good=st.lists(st.sampled_from([-2, -1, 1, 2, 4, 5]), min_size=50, max_size=120),
    poison=st.lists(st.tuples(st.integers(0, 120), st.sampled_from([0, 3])), max_size=4),
    rows_a_batch=st.sampled_from([None, 40]),
)
def test_what_is_left_is_what_a_loop_over_the_rows_leaves(options, tmp_path_factory, tail, good, poison, rows_a_batch):
    numbers = list(good)
    for place, number in poison:
        numbers.insert(place, number)
    folder = tmp_path_factory.mktemp("poison")
    path = write(folder / "in.jsonl", rows(numbers))
    own = replace(options, home=Home(folder / "rs"))
    more = {"max_rows_per_batch": rows_a_batch} if tail else {}
    job = (
        stream(path, tail=tail, **more).with_fields(x="12 div n", name="x").filter("12 div (n - 3) < 100", name="near")
    )
    report = job.to_delta("kept").build().run(own)
    bad = [line for line, n in enumerate(numbers, 1) if n in (0, 3)]
    assert sorted(line for _, line, _ in letters(own)) == bad
    assert (report.rows_in, report.rows_dead, report.rows_out) == (len(numbers), len(bad), len(good))
    assert kept(own) == sorted(good)


def test_what_was_found_is_durable_before_the_batch_is_tried_again(options, tmp_path, monkeypatch):
    path = write(tmp_path / "in.jsonl", rows([1, 0, 3]))
    job = stream(path).with_fields(x="10 div n", name="inverse").to_delta("kept").build()

    def crash(*_args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("rs_assets.runtime.run.quarantine.restart", crash)
        with pytest.raises(KeyboardInterrupt):
            job.run(options)
    with monkeypatch.context() as patched:
        # Nobody has to look again.
        patched.setattr("rs_assets.runtime.run.quarantine.go_on", crash)
        patched.setattr("rs_assets.runtime.run.run.go_on", crash)
        report = job.run(options)
    assert (report.rows_in, report.rows_dead, report.rows_out) == (3, 1, 2)
    assert letters(options) == [("inverse", 2, "[DIVIDE_BY_ZERO")]


def test_a_failure_of_the_machine_during_the_search_blames_nobody(options, tmp_path, monkeypatch):
    path = write(tmp_path / "in.jsonl", rows([1, 0, 3]))
    job = stream(path).with_fields(x="10 div n", name="inverse").to_delta("kept").build()

    def full(*_args):
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("rs_assets.runtime.replay.examine.Examination._targets", full)
        with pytest.raises(EngineError, match="DIVIDE_BY_ZERO"):
            job.run(options)
    report = job.run(options)
    assert (report.rows_in, report.rows_dead, report.rows_out) == (3, 1, 2)


def test_a_row_that_two_branches_behind_a_window_share_gets_one_letter(options, tmp_path):
    path = write(tmp_path / "in.jsonl", rows([5] * 40))
    windows = stream(path).window(TumblingWindow.of(Time.seconds(10), "ts")).count("rows").to_data_stream()

    def second_half(row):
        if row["start_time"].second >= 20:
            raise ValueError("too late")
        return {"rows": row["rows"]}

    same = windows.map(second_half, schema="rows bigint", name="half")
    same.filter(lambda row: row["rows"] > 0, name="left").to_delta("left")
    pipeline = same.filter(lambda row: row["rows"] > 1, name="right").to_delta("kept").build()
    report = pipeline.run(options, finish=True)
    assert (report.rows_in, report.rows_dead) == (40, 0)
    assert kept(options, "rows") == kept(options, "rows", "left") == [10, 10]
    assert letters(options) == [("half", None, "ValueError: too late")] * 2
    assert pipeline.run(options).rows_out == 0
