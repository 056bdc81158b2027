"""Under QUARANTINE a record on which a Python step raises goes to the dead letters, and the stream goes on."""

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.errors import StepError


def lines(folder, numbers):
    path = folder / "in.jsonl"
    path.write_text("".join(f'{{"n":{n},"ts":"2024-01-01T00:00:{n % 60:02d}Z"}}\n' for n in numbers) + "broken\n")
    return path


def inverse(row):
    return {"x": 10 // row["n"], "ts": row["ts"]}


def not_three(row):
    if row["n"] == 3:
        raise ValueError("three")
    return True


def stream(path, policy, **source):
    schema = "n bigint, ts timestamp"
    return StreamBuilder.data_stream("shop", "poison").from_file(path, schema=schema, bad_records=policy, **source)


def letters(options):
    rows = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    return sorted((row["step"], row["line"], row["reason"].split(":")[0]) for row in rows)


@pytest.mark.parametrize("tail", [True, False], ids=["growing", "whole"])
def test_poison_records_go_to_the_dead_letters_with_step_place_and_error(options, tmp_path, tail):
    path = lines(tmp_path, [1, 0, 2, 3, 5])
    job = (
        stream(path, "quarantine", tail=tail)
        .filter(not_three, name="odd")
        .map(inverse, schema="x bigint, ts timestamp", name="inverse")
    )
    report = job.to_delta("kept").build().run(options)
    assert (report.rows_in, report.rows_dead, report.rows_out) == (6, 3, 3)
    kept = DeltaTable(options.home.table("shop", "kept")).to_pyarrow_table()["x"].to_pylist()
    assert sorted(kept) == [2, 5, 10]
    found = letters(options)
    assert [step for step, _, _ in found] == ["file", "inverse", "odd"]
    assert [(line, reason) for step, line, reason in found if step != "file"] == [
        (2, "step 'inverse' raised ZeroDivisionError"),
        (4, "step 'odd' raised ValueError"),
    ]


def test_filters_alone_are_quarantined_too_and_windows_count_on(options, tmp_path):
    path = lines(tmp_path, range(6))
    job = stream(path, "quarantine", tail=True).filter(not_three).window(TumblingWindow.of(Time.seconds(10), "ts"))
    job = job.group_by().count("rows").to_data_stream().to_delta("windows").build()
    report = job.run(options, finish=True)
    assert (report.rows_in, report.rows_dead) == (7, 2)
    assert DeltaTable(options.home.table("shop", "windows")).to_pyarrow_table()["rows"].to_pylist() == [5]


@pytest.mark.parametrize("counted", [False, True], ids=["rows", "windows"])
def test_branches_of_a_step_that_meet_again_quarantine_its_records_once(options, tmp_path, counted):
    path = lines(tmp_path, [1, 0, 2, 3, 5])
    made = stream(path, "quarantine").map(inverse, schema="x bigint, ts timestamp", name="inverse")
    both = made.filter("x < 10", name="low").union(made.filter("x > 2", name="high"), name="both")
    if counted:
        both = both.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("x").count("rows").to_data_stream()
    report = both.to_delta("kept").build().run(options, finish=True)
    assert (report.rows_in, report.rows_dead) == (6, 2)
    kept = DeltaTable(options.home.table("shop", "kept")).to_pyarrow_table()["x"].to_pylist()
    assert sorted(kept) == ([2, 3, 5, 10] if counted else [2, 3, 3, 5, 5, 10])
    assert [step for step, _, _ in letters(options)] == ["file", "inverse"]


@pytest.mark.parametrize("policy", ["fail", "dead_letter", "skip"])
def test_without_quarantine_a_step_that_raises_ends_the_run(options, tmp_path, policy):
    path = tmp_path / "in.jsonl"
    path.write_text('{"n":0,"ts":"2024-01-01T00:00:00Z"}\n')
    job = stream(path, policy).map(inverse, schema="x bigint, ts timestamp").to_delta("kept").build()
    with pytest.raises(StepError, match="ZeroDivisionError"):
        job.run(options)
