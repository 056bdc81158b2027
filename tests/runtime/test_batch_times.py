"""The event times of batches in the catalog, and the searches that leave out batches by them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rs_assets import SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.batch_times import BatchTimes, EventTimes
from rs_assets.catalog.catalog import Catalog
from rs_assets.runtime.options import RunOptions
from rs_assets.stream.pipeline import Pipeline

BEGUN = datetime(2026, 1, 5, 10, tzinfo=UTC)
SCHEMA = "id bigint, ts timestamp"
MINUTE = TumblingWindow.of(Time.minutes(1), "ts")


def put(folder: Path, *files: list[float]) -> Path:
    """A file for each list of seconds, which a batch of its own reads."""
    folder.mkdir(exist_ok=True)
    begun = len(list(folder.iterdir()))
    for number, seconds in enumerate(files, begun):
        rows = [{"id": number, "ts": f"{BEGUN + timedelta(seconds=each):%Y-%m-%d %H:%M:%S.%f}"} for each in seconds]
        (folder / f"f{number}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        os.utime(folder / f"f{number}.jsonl", (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def counted(folder: Path, window: Any = MINUTE, *, delay: float = 0) -> Pipeline:
    begin = StreamBuilder.data_stream("times", "hits")
    hits = begin.from_file(folder, schema=SCHEMA, max_files_per_batch=1, name="file")
    counts = hits.window(window, name="windows").count("n").water_mark(Time.seconds(delay))
    return counts.to_data_stream().to_delta("windows").build()


def noted(options: RunOptions, gate: str) -> list[tuple[int, float | None, float | None]]:
    """The rows of each batch at a gate, with the first and the last second."""
    rows = Catalog(options.home.catalog).rows("batch_times", gate=gate)
    rows.sort(key=lambda row: row["batch_id"])
    return [(row["rows"], *map(_second, (row["least"], row["greatest"]))) for row in rows]


def _second(at: datetime | None) -> float | None:
    return None if at is None else (at - BEGUN).total_seconds()


def test_the_catalog_has_the_event_times_of_each_batch(tmp_path: Path, options: RunOptions) -> None:
    # The last batch fires windows, and reads no row.
    folder = put(tmp_path / "in", [5, 1, 9], [70.0004, 66], [130])
    counted(folder).run(options)
    assert noted(options, "windows") == [(3, 1, 9), (2, 66, 70), (1, 130, 130), (0, None, None)]


@pytest.mark.canary
def test_the_end_of_input_is_no_event_time(tmp_path: Path, options: RunOptions) -> None:
    counted(put(tmp_path / "in", [5, 1])).run(options, finish=True)
    first, *later = noted(options, "windows")
    assert (first, {*later}) == ((2, 1, 5), {(0, None, None)})


def test_each_side_of_a_join_has_event_times_of_its_own(tmp_path: Path, options: RunOptions) -> None:
    begin = StreamBuilder.data_stream("times", "pairs")
    left, right = (
        begin.from_file(put(tmp_path / name, seconds), schema=SCHEMA, name=name).with_fields(key="1")
        for name, seconds in (("left", [4.0, 8.0]), ("right", [6.0]))
    )
    other = right.map("key AS other", "ts AS at")
    pairs = left.join(other, on={"key": "other"}, within=Time.seconds(5), time_field=("ts", "at"), name="pairs")
    pairs.to_delta("pairs").build().run(options)
    assert (noted(options, "pairs.left")[0], noted(options, "pairs.right")[0]) == ((2, 4, 8), (1, 6, 6))


def test_batches_without_rows_of_a_window_are_not_read_again(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [1, 2], [61, 62], [121, 30], [185])
    pipeline = counted(folder, delay=300)
    pipeline.run(options, finish=True)
    # The input of batches whose rows lie in other windows may be gone.
    (folder / "f1.jsonl").unlink()
    (folder / "f3.jsonl").unlink()
    for name, at in (("start_time", BEGUN), ("end_time", BEGUN + timedelta(minutes=1))):
        for value in (at, f"{at:%Y-%m-%d %H:%M:%S}"):
            found = pipeline.records_of({name: value}, options)
            assert (found.rows, found.since) == (3, 0)
    # A window whose batch is gone: the search ends behind it.
    found = pipeline.records_of({"start_time": BEGUN + timedelta(minutes=3)}, options)
    assert (found.rows, found.since) == (0, 4)


def test_the_batches_of_a_session_are_found_by_its_times(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [0, 20], [500], [40])
    pipeline = counted(folder, SessionWindow.of(Time.seconds(30), "ts"), delay=900)
    pipeline.run(options, finish=True)
    (folder / "f1.jsonl").unlink()
    found = pipeline.records_of({"start_time": BEGUN, "end_time": BEGUN + timedelta(seconds=70)}, options)
    assert (found.rows, found.since) == (3, 0)


def test_event_times_of_other_code_are_not_used(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [1], [61])
    counted(folder, delay=300).run(options, finish=True)
    catalog, pipeline = Catalog(options.home.catalog), counted(folder, delay=300).topology

    def may_hold(code: str) -> list[bool]:
        known = BatchTimes.of(catalog, pipeline="times.hits", query="windows", gate="windows", code=code)
        planned = {row["batch_id"]: row["planned"] for row in catalog.rows("batch_times")}
        return [known.may_hold(batch, planned[batch], BEGUN, BEGUN + timedelta(minutes=1)) for batch in (0, 1)]

    assert may_hold(pipeline.code) == [True, False]
    assert may_hold("another") == [True, True]
    known = BatchTimes.of(catalog, pipeline="times.hits", query="windows", gate="windows", code=pipeline.code)
    # A batch of the same number that was planned at another time, after a rewind.
    assert known.may_hold(1, BEGUN, BEGUN, BEGUN + timedelta(minutes=1))


MOMENTS = st.integers(0, 40).map(lambda tenths: BEGUN + timedelta(microseconds=100 * tenths))


@given(st.lists(MOMENTS, min_size=1), MOMENTS, MOMENTS)
def test_times_to_the_millisecond_leave_out_no_row(times: list[datetime], start: datetime, end: datetime) -> None:
    floor = [at.replace(microsecond=at.microsecond // 1000 * 1000) for at in times]
    seen = EventTimes(len(times), min(floor), max(floor))
    if any(start <= at < end for at in times):
        assert seen.meets(start, end)
        assert seen.meets(start, None)
        assert seen.meets(None, end)
