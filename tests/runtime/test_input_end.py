"""A run that ends fires its last windows in the start that reads its last records."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rs_assets import Interval, MemoryChannel, Pipeline, RunOptions, StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.files.whole.reader import FilesReader
from rs_assets.errors import RsError, SealedError
from rs_assets.operators.window.durations import LONGEST
from rs_assets.operators.window.event_time import has_ended, send_control
from rs_assets.runtime.batch.input_end import InputEnd
from rs_assets.runtime.batch.query import QueryRun
from rs_assets.runtime.batch.work import BatchWork

SCHEMA = "k string, ts timestamp"


def written(folder: Path, name: str, *seconds: int) -> None:
    """A file of records with these times."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"k": f"k{at % 3}", "ts": f"2026-01-01T00:00:{at:02}"}) for at in seconds]
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def windows(folder: Path) -> Pipeline:
    """Records by key in windows of 10 s, a file a batch."""
    read = StreamBuilder.data_stream("ends", "windows").from_file(folder, schema=SCHEMA, max_files_per_batch=1)
    counted = read.window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").group_by("k").count("n")
    return counted.to_data_stream().to_delta("counted").build()


def join(folder: Path) -> Pipeline:
    """Records that have none of another folder near them."""
    begin = StreamBuilder.data_stream("ends", "join")
    left = begin.from_file(folder / "left", schema=SCHEMA, max_files_per_batch=1, name="left")
    right = begin.from_file(folder / "right", schema=SCHEMA, max_files_per_batch=1, name="right")
    alone = left.join(
        right, on="k", within=Interval.of(after=Time.seconds(5)), time_field="ts", how="anti", name="alone"
    )
    return alone.to_delta("alone").build()


def windows_of_windows(folder: Path) -> Pipeline:
    """Windows of 20 s over windows of 10 s, in a query of their own."""
    read = StreamBuilder.data_stream("ends", "longer").from_file(folder, schema=SCHEMA, max_files_per_batch=1)
    counted = read.window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").group_by("k").count("n")
    passed = counted.to_data_stream().shuffle(1, strategy="delta", name="passed")
    longer = passed.window(TumblingWindow.of(Time.seconds(20), "start_time"), name="longer").group_by("k")
    return longer.sum("n", "total").to_data_stream().to_delta("totals").build()


def rows(options: RunOptions, namespace: str, table: str) -> list[dict[str, object]]:
    """The rows of a table, in order."""
    found = open_table(options.home.table(namespace, table))
    assert found is not None
    return sorted(found.to_pyarrow_table().to_pylist(), key=str)


@pytest.fixture
def starts(monkeypatch) -> list[str]:
    """The names of the queries that were started, in order."""
    found: list[str] = []
    start = QueryRun.start

    def noting(query: QueryRun, trigger) -> None:
        found.append(query.plan.name)
        start(query, trigger)

    monkeypatch.setattr(QueryRun, "start", noting)
    return found


def test_windows_fire_in_the_start_that_reads_the_last_file(options, tmp_path, starts):
    for number, at in enumerate((1, 12, 23)):
        written(tmp_path / "in", f"{number}.json", at, at + 1)
    report = windows(tmp_path / "in").run(options, finish=True)
    assert starts == ["w"]
    assert sum(int(str(row["n"])) for row in rows(options, "ends", "counted")) == report.rows_in == 6
    assert report.rows_late == 0
    assert windows(tmp_path / "in").run(options, finish=True).rows_in == 0


def test_sides_of_different_length_end_with_the_last_file_of_either(options, tmp_path, starts):
    for number, at in enumerate((1, 12, 23, 34)):
        written(tmp_path / "left", f"{number}.json", at)
    written(tmp_path / "right", "0.json", 12)
    join(tmp_path).run(options, finish=True)
    assert starts == ["alone"]
    assert sorted(str(row["ts"])[17:19] for row in rows(options, "ends", "alone")) == ["01", "23", "34"]


def test_a_file_that_comes_meanwhile_is_read_before_the_windows_fire(options, tmp_path, starts):
    """Spark has listed the folder when the query started."""
    written(tmp_path / "in", "0.json", 1)
    once: list[int] = []

    def coming(progress) -> None:
        if not once:
            once.append(progress.batch_id)
            written(tmp_path / "in", "1.json", 2)

    report = windows(tmp_path / "in").run(replace(options, on_progress=coming), finish=True)
    assert starts == ["w", "w"]
    assert (report.rows_in, report.rows_late) == (2, 0)
    assert {str(row["k"]): row["n"] for row in rows(options, "ends", "counted")} == {"k1": 1, "k2": 1}


def test_a_source_that_does_not_see_its_end_is_started_again(options, tmp_path, starts, monkeypatch):
    def unseen(reader, log) -> bool:
        raise OSError("the folder cannot be listed")

    written(tmp_path / "in", "0.json", 1)
    monkeypatch.setattr(FilesReader, "has_more", unseen)
    windows(tmp_path / "in").run(options, finish=True)
    assert starts == ["w", "w"]
    assert [row["n"] for row in rows(options, "ends", "counted")] == [1]


def test_control_rows_that_spark_does_not_look_for_are_sent_with_a_second_start(options, tmp_path, starts, monkeypatch):
    """A query says that it has ended only when the watermark has."""
    written(tmp_path / "in", "0.json", 1)
    monkeypatch.setattr(InputEnd, "opened", lambda *_: True)
    windows(tmp_path / "in").run(options, finish=True)
    assert starts == ["w", "w"]
    assert [row["n"] for row in rows(options, "ends", "counted")] == [1]


def test_without_a_finish_windows_stay_open(options, tmp_path, starts):
    written(tmp_path / "in", "0.json", 1)
    report = windows(tmp_path / "in").run(options, finish=False)
    assert starts == ["w"]
    assert report.rows_open == 1


def counts(options: RunOptions) -> dict[tuple[str, int], object]:
    """The number of records by key and by the second in which the window begins."""
    return {(str(row["k"]), row["start_time"].second): row["n"] for row in rows(options, "ends", "counted")}


def test_files_that_come_meanwhile_and_need_several_batches_are_read_before_the_windows_fire(options, tmp_path):
    """The second one came after the control rows."""
    written(tmp_path / "in", "0.json", 1)
    once: list[int] = []

    def coming(progress) -> None:
        if not once:
            once.append(progress.batch_id)
            for at in (2, 3, 14):
                written(tmp_path / "in", f"{at:02}.json", at)

    report = windows(tmp_path / "in").run(replace(options, on_progress=coming), finish=True)
    assert (report.rows_in, report.rows_late, report.sealed) == (4, 0, True)
    assert counts(options) == {("k1", 0): 1, ("k2", 0): 1, ("k0", 0): 1, ("k2", 10): 1}


def test_a_file_that_comes_once_the_windows_fire_is_not_read_by_the_queries_that_are_started_again(
    options, tmp_path, monkeypatch
):
    """It needs a new generation, as any that comes later."""
    written(tmp_path / "in", "0.json", 1)
    started: list[str] = []
    start = QueryRun.start

    def coming(query: QueryRun, trigger) -> None:
        started.append(query.plan.name)
        if query.read_all:
            for at in (2, 3):
                written(tmp_path / "in", f"{at}.json", at)
        start(query, trigger)

    monkeypatch.setattr(QueryRun, "start", coming)
    monkeypatch.setattr(InputEnd, "opened", lambda *_: False)
    report = windows(tmp_path / "in").run(options, finish=True)
    assert started == ["w", "w"]
    assert (report.rows_in, report.rows_late, report.sealed) == (1, 0, True)
    with pytest.raises(SealedError):
        windows(tmp_path / "in").run(options, finish=True)
    report = windows(tmp_path / "in").run(replace(options, new_generation=True), finish=True)
    assert (report.rows_in, report.rows_late) == (3, 0)


def test_all_queries_read_a_file_that_comes_meanwhile(options, tmp_path):
    written(tmp_path / "in", "0.json", 1)
    read = StreamBuilder.data_stream("ends", "both").from_file(tmp_path / "in", schema=SCHEMA, name="in")
    counted = read.window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").group_by("k").count("n")
    read.to_delta("copied")
    pipeline = counted.to_data_stream().to_delta("counted").build()
    once: list[int] = []

    def coming(progress) -> None:
        if not once:
            once.append(progress.batch_id)
            written(tmp_path / "in", "1.json", 2)

    pipeline.run(replace(options, on_progress=coming), finish=True)
    assert len(rows(options, "ends", "copied")) == sum(int(str(n)) for n in counts(options).values()) == 2


@pytest.fixture
def failing_at_the_end(monkeypatch):
    """The batch that fires all windows fails; `undo` of the fixture repairs it."""
    check = BatchWork._check

    def full(work: BatchWork, batch_id: int) -> None:
        planned = work.log.offsets(batch_id)
        if planned is not None and has_ended(planned.watermark):
            raise OSError("the disk is full")
        check(work, batch_id)

    with monkeypatch.context() as within:
        within.setattr(BatchWork, "_check", full)
        yield within


def test_an_end_that_failed_refuses_more_input_and_is_completed_by_any_run(options, tmp_path, failing_at_the_end):
    written(tmp_path / "in", "0.json", 1, 12)
    with pytest.raises(RsError, match="disk is full"):
        windows(tmp_path / "in").run(options, finish=True)
    failing_at_the_end.undo()
    written(tmp_path / "in", "1.json", 13, 24)
    with pytest.raises(SealedError, match="more of it"):
        windows(tmp_path / "in").run(options)
    (tmp_path / "in" / "1.json").unlink()
    with pytest.raises(SealedError, match="stream"):
        windows(tmp_path / "in").start(options)
    report = windows(tmp_path / "in").run(options)
    assert (report.sealed, report.rows_open) == (True, 0)
    assert counts(options) == {("k1", 0): 1, ("k0", 10): 1}


@pytest.mark.parametrize("delay", [Time.days(400), LONGEST])
def test_an_end_that_failed_is_known_whatever_the_delay_of_its_watermark(options, tmp_path, failing_at_the_end, delay):
    written(tmp_path / "in", "0.json", 1)
    read = StreamBuilder.data_stream("ends", "delayed").from_file(tmp_path / "in", schema=SCHEMA)
    window = read.window(TumblingWindow.of(LONGEST, "ts"), name="w").count("n").water_mark(delay)
    pipeline = window.to_data_stream().to_delta("delayed").build()
    with pytest.raises(RsError, match="disk is full"):
        pipeline.run(options, finish=True)
    failing_at_the_end.undo()
    written(tmp_path / "in", "1.json", 13)
    with pytest.raises(SealedError, match="more of it"):
        pipeline.run(options)
    (tmp_path / "in" / "1.json").unlink()
    assert pipeline.run(options).rows_open == 0
    assert [row["n"] for row in rows(options, "ends", "delayed")] == [1]


def test_an_end_that_was_killed_before_its_batch_is_forgotten(options, tmp_path, monkeypatch):
    """The control rows are there, and no batch has them."""
    written(tmp_path / "in", "0.json", 1, 12)
    finish = QueryRun.finish_windows

    def killed(query: QueryRun) -> None:
        finish(query)
        raise OSError("killed")

    with monkeypatch.context() as within:
        within.setattr(QueryRun, "finish_windows", killed)
        with pytest.raises(RsError, match="killed"):
            windows(tmp_path / "in").run(options, finish=True)
    for at in (13, 24, 5):
        written(tmp_path / "in", f"{at}.json", at)
    report = windows(tmp_path / "in").run(options, finish=False)
    assert (report.sealed, report.rows_late) == (False, 1)
    windows(tmp_path / "in").run(options, finish=True)
    assert counts(options) == {("k1", 0): 1, ("k0", 10): 1, ("k1", 10): 1, ("k0", 20): 1}


def test_a_stream_over_input_that_has_ended_is_refused(options, tmp_path):
    written(tmp_path / "in", "0.json", 1)
    windows(tmp_path / "in").run(options, finish=True)
    with pytest.raises(SealedError, match="stream"):
        windows(tmp_path / "in").start(options)
    with windows(tmp_path / "in").start(replace(options, new_generation=True)):
        pass


def test_a_step_that_is_reset_or_added_after_the_end_reads_all_and_ends_again(options, tmp_path):
    written(tmp_path / "in", "0.json", 1, 12)
    windows(tmp_path / "in").run(options, finish=True)
    again = windows(tmp_path / "in").run(replace(options, reset_steps=("w",)), finish=True)
    assert (again.rows_in, again.sealed) == (2, True)
    assert counts(options) == {("k1", 0): 1, ("k0", 10): 1}
    read = StreamBuilder.data_stream("ends", "windows").from_file(tmp_path / "in", schema=SCHEMA, max_files_per_batch=1)
    counted = read.window(TumblingWindow.of(Time.seconds(10), "ts"), name="w").group_by("k").count("n")
    counted.to_data_stream().to_delta("counted")
    more = read.window(TumblingWindow.of(Time.minutes(1), "ts"), name="minutes").group_by("k").count("n")
    pipeline = more.to_data_stream().to_delta("by_minute").build()
    report = pipeline.run(options)
    assert (report.rows_late, report.sealed, report.rows_open) == (0, True, 0)
    assert sorted(str(row["k"]) for row in rows(options, "ends", "by_minute")) == ["k0", "k1"]
    assert counts(options) == {("k1", 0): 1, ("k0", 10): 1}
    written(tmp_path / "in", "1.json", 13)
    with pytest.raises(SealedError, match="more of it"):
        pipeline.run(options)


def test_a_rewind_forgets_times_that_no_batch_has_read_yet(options, tmp_path):
    """As of an idle side, or a clock, when a stream is stopped."""
    for at in (1, 12, 23):
        written(tmp_path / "in", f"{at}.json", at)
    pipeline = windows(tmp_path / "in")
    pipeline.run(options)
    folder = options.home.job("ends", "windows") / "g0001" / "w" / "control"
    send_control(folder, datetime(2026, 1, 1, 0, 1, tzinfo=UTC))
    pipeline.rewind(0, options)
    for at in (24, 36):
        written(tmp_path / "in", f"{at}.json", at)
    assert pipeline.run(options, finish=True).rows_late == 0
    assert counts(options) == {("k1", 0): 1, ("k0", 10): 1, ("k2", 20): 1, ("k0", 20): 1, ("k0", 30): 1}


def test_rows_that_a_polled_table_has_after_the_end_are_refused(options, tmp_path):
    database, out = tmp_path / "a.db", MemoryChannel()
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, k TEXT)")
        connection.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    begin = StreamBuilder.data_stream("ends", "polled")
    pipeline = begin.from_database(f"sqlite:///{database}", "orders", column="id").to_memory(out).build()
    assert pipeline.run(options, finish=True).sealed
    assert pipeline.run(options, finish=True).rows_in == 0
    with sqlite3.connect(database) as connection:
        connection.execute("INSERT INTO orders VALUES (3, 'a')")
    with pytest.raises(SealedError, match="more of it"):
        pipeline.run(options, finish=True)
    assert [row["id"] for row in out.rows()] == [1, 2]


def test_windows_behind_a_durable_shuffle_fire_in_the_start_that_reads_its_last_rows(options, tmp_path, starts):
    """The rows that were purged meanwhile are not taken for more of them."""
    pipeline = windows_of_windows(tmp_path / "in")
    written(tmp_path / "in", "0.json", 1, 2, 12, 23)
    assert pipeline.run(options, finish=False).rows_open == 4
    assert starts == ["w", "longer"]
    written(tmp_path / "in", "1.json", 24, 45)
    report = pipeline.run(options, finish=True)
    assert starts == ["w", "longer"] * 2
    assert (report.rows_late, report.rows_open) == (0, 0)
    assert sum(int(str(row["total"])) for row in rows(options, "ends", "totals")) == 6


def test_a_run_without_new_files_starts_no_query_behind_a_durable_shuffle(options, tmp_path, starts):
    pipeline = windows_of_windows(tmp_path / "in")
    written(tmp_path / "in", "0.json", 1, 12, 23)
    pipeline.run(options, finish=False)
    starts.clear()
    assert pipeline.run(options, finish=False).rows_in == 0
    assert starts == []
    written(tmp_path / "in", "1.json", 45)
    assert pipeline.run(options, finish=False).rows_in == 1
    assert starts == ["w", "longer"]


def test_a_row_of_the_last_thousand_years_does_not_end_the_input(options, tmp_path):
    """Its time would be taken for the end of time: the next run sealed the generation, and a stream was refused."""
    (tmp_path / "in").mkdir()
    read = StreamBuilder.data_stream("ends", "far").from_file(tmp_path / "in", schema=SCHEMA)
    window = read.window(TumblingWindow.of(Time.days(1), "ts"), name="w")
    counted = window.event_time(max_ahead=Time.days(3_650_000), bad_records="dead_letter").count("n")
    pipeline = counted.to_data_stream().to_delta("far").build()

    def at(*times: str) -> str:
        return "".join(json.dumps({"k": "a", "ts": f"{time}T00:00:00"}) + "\n" for time in times)

    (tmp_path / "in" / "0.json").write_text(at("2026-01-01", "9000-08-29", "9000-09-01"))
    report = pipeline.run(options, finish=False)
    assert (report.rows_in, report.rows_dead) == (3, 1)
    (tmp_path / "in" / "1.json").write_text(at("9000-08-29"))
    assert pipeline.run(options, finish=False).rows_open == 1
    with pipeline.start(options) as running:
        running.stop()
    assert pipeline.run(options, finish=True).rows_late == 0
    assert [row["n"] for row in rows(options, "ends", "far")] == [1, 2]
