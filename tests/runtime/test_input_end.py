"""A run that ends fires its last windows in the start that reads its last records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rs_assets import Interval, Pipeline, RunOptions, StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.files.whole.reader import FilesReader
from rs_assets.runtime.batch.input_end import InputEnd
from rs_assets.runtime.batch.query import QueryRun

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
