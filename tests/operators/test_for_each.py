"""for_each: a side effect, and the record goes on unchanged."""

from datetime import UTC, datetime, timedelta

import pytest

from rs_assets import Time, TumblingWindow
from rs_assets.errors import StepError, TopologyError
from rs_assets.testing import PipelineDriver

ROWS = [{"n": 1}, {"n": 2}]


def test_should_call_the_function_for_every_record(source, drive, tmp_path):
    def note(row, folder=str(tmp_path)):
        from pathlib import Path

        Path(folder, str(row["n"])).touch()

    assert drive(source("n bigint").for_each(note), ROWS) == ROWS
    assert sorted(file.name for file in tmp_path.iterdir()) == ["1", "2"]


def test_should_end_the_batch_if_the_function_raises(source, drive):
    def refuse(row):
        raise ValueError(row["n"])

    with pytest.raises(StepError, match="ValueError: 1"):
        drive(source("n bigint").for_each(refuse), ROWS)


def test_should_refuse_what_is_no_function(source):
    with pytest.raises(TopologyError, match="takes a function"):
        source("n bigint").for_each("n")


@pytest.fixture
def calls(tmp_path):
    """A function for for_each, and the values of `n` that it was called with."""
    file = tmp_path / "calls"
    file.touch()

    def note(row, path=str(file)):
        with open(path, "a") as calls:  # noqa: PTH123  as short as it is sent to the workers
            calls.write(f"{row['n']}\n")

    return note, lambda: sorted(int(line) for line in file.read_text().split())


TIMED = "n bigint, ts timestamp"
START = datetime(2026, 11, 24, 12, tzinfo=UTC)


def at(*seconds):
    return [{"n": n, "ts": START + timedelta(seconds=second)} for n, second in enumerate(seconds)]


def windows(stream):
    return stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").count("rows").to_data_stream()


def a_branch(stream, note):
    """Of a batch that has other branches, too."""
    stream.to_print(name="all")
    called = stream.filter("n >= 0").for_each(note)
    called.filter("n < 2").to_print(name="low")
    return called.map("n + 1 AS n").to_print(name="high")


def an_expectation(stream, note):
    stream.to_print(name="all")
    return stream.for_each(note).map("n").expect("n > 0", on_fail="skip").to_print(name="some")


def a_union(stream, note):
    stream.to_print(name="all")
    called = stream.for_each(note)
    return called.filter("n = 0").union(called.filter("n > 0")).to_print(name="both")


def two_queries(stream, note):
    called = stream.for_each(note)
    called.to_print(name="rows")
    return windows(called).to_print(name="windows")


def two_windows(stream, note):
    called = stream.for_each(note)
    windows(called).to_print(name="windows")
    return called.distinct("n", within=Time.seconds(5), time_field="ts").to_print(name="once")


@pytest.mark.parametrize("branches", [a_branch, an_expectation, a_union, two_queries, two_windows])
def test_for_each_before_branches_is_called_once_for_each_row(source, driver, calls, branches):
    note, called = calls
    with PipelineDriver(branches(source(TIMED), note).build(), spark=driver) as running:
        running.push(at(0, 1, 2))
        running.step()
        assert called() == [0, 1, 2]
        running.push(at(3, 4))
        running.finish()
    assert called() == [0, 0, 1, 1, 2]


def test_for_each_before_a_window_is_not_called_again_to_count_late_rows(source, driver, calls):
    note, called = calls
    with PipelineDriver(windows(source(TIMED).for_each(note)).to_print().build(), spark=driver) as running:
        for rows in (at(0), at(100), at(0, 101)):
            running.push(rows)
            running.step()
        assert running.report().rows_late == 1
    assert called() == [0, 0, 0, 1]


def test_for_each_in_quarantine_keeps_a_record_on_which_it_fails_from_each_query(source, driver, tmp_path):
    def refuse(row):
        if row["n"] == 1:
            raise ValueError(row["n"])

    stream = two_queries(source(TIMED, bad_records="quarantine"), refuse)
    with PipelineDriver(stream.build(), spark=driver, home=tmp_path) as running:
        running.push(at(0, 1, 2))
        running.step()
        running.finish()
        assert [row["n"] for row in running.take("rows")] == [0, 2]
        assert [row["rows"] for row in running.take("windows")] == [2]
