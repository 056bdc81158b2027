"""The pipelines that are measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.by_hand import MINUTE_S, WATER_MARK_S
from benchmarks.data import RARE_PAGE, SCHEMA, WINDOW_S
from rs_assets import MemoryChannel, Pipeline, SessionWindow, StreamBuilder, Time, TumblingWindow

Condition = str | Callable[[dict[str, Any]], bool]

SQL: Condition = f"page = '{RARE_PAGE}'"
# Its value is a constant of the function, as users write it.
LAMBDA: Condition = lambda r: r["page"] == "/checkout"  # noqa: E731
# Calls a method, which raises on null: such rows go to Python.
METHOD: Condition = lambda r: r["page"].startswith("/check")  # noqa: E731
# Of its second half nothing can be known but by calling it.
HALF: Condition = lambda r: r["page"] == "/checkout" and hash(r["user"]) != 0  # noqa: E731
MAPPED = "user string, page string, ms bigint"


def filter_pipeline(source: Path, condition: Condition = SQL, *, trace: bool = True) -> Pipeline:
    """The rows of the rare page."""
    views = StreamBuilder.data_stream("bench", "rare").from_file(str(source), schema=SCHEMA)
    return views.filter(condition, trace=trace).to_delta("rare").build()


def map_pipeline(source: Path, how: Literal["sql", "records", "batches"]) -> Pipeline:
    """Three fields of each row, one of them another: by SQL, or in Python by records or by Arrow batches."""
    views = StreamBuilder.data_stream("bench", "mapped").from_file(str(source), schema=SCHEMA)
    match how:
        case "sql":
            made = views.map("user", "page", "ms + 1 AS ms")
        case "records":
            made = views.map(_mapped, schema=MAPPED, trace=False)
        case "batches":
            made = views.map_batches(_mapped_in_batches, schema=MAPPED, fields=("user", "page", "ms"))
    return made.to_delta("mapped").build()


def _mapped(row: dict[str, Any]) -> dict[str, Any]:
    return {"user": row["user"], "page": row["page"], "ms": row["ms"] + 1}


def _mapped_in_batches(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {"user": batch["user"], "page": batch["page"], "ms": pc.add(batch["ms"], 1)}


def window_pipeline(source: Path, *, files: int | None = None) -> Pipeline:
    """Views and milliseconds of each user in each window; of `files` in a batch, by default of all there are."""
    views = StreamBuilder.data_stream("bench", "per_user")
    return _windowed(views.from_file(str(source), schema=SCHEMA, max_files_per_batch=files))


def fired_pipeline(
    source: Path, *, emit: str, how: Callable[[Any], Any], session: bool = False, files: int | None = None
) -> Pipeline:
    """The same windows, or sessions with a gap of as long, that fire more than once: `how` is told of them."""
    start = StreamBuilder.data_stream("bench", "fired")
    return fired_windows(
        start.from_file(str(source), schema=SCHEMA, max_files_per_batch=files), emit=emit, how=how, session=session
    )


def fired_windows(views: Any, *, emit: str, how: Callable[[Any], Any], session: bool = False) -> Pipeline:
    """The same, of rows that come from anywhere."""
    size = Time.seconds(WINDOW_S)
    window = SessionWindow.of(size, "ts") if session else TumblingWindow.of(size, "ts")
    windows = views.window(window, emit=emit).group_by("user")
    sums = how(windows.count("views").sum("ms", "total_ms").water_mark(Time.seconds(WATER_MARK_S)))
    made: Pipeline = sums.to_data_stream().to_delta("fired").build()
    return made


def _added(before: dict[str, int] | None, row: dict[str, int]) -> dict[str, int]:
    if before is None:
        return {"views": 1, "total_ms": row["ms"]}
    return {"views": before["views"] + 1, "total_ms": before["total_ms"] + row["ms"]}


def _both(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one[name] + other[name] for name in one}


def reduced_pipeline(source: Path, *, files: int | None = None) -> Pipeline:
    """The windows of `window_pipeline`, by a function in Python."""
    start = StreamBuilder.data_stream("bench", "reduced")
    return reduced_windows(start.from_file(str(source), schema=SCHEMA, max_files_per_batch=files))


def reduced_windows(views: Any) -> Pipeline:
    """The same, of rows that come from anywhere."""
    windows = views.window(TumblingWindow.of(Time.seconds(WINDOW_S), "ts")).group_by("user")
    sums = windows.reduce(_added, schema="views bigint, total_ms bigint", fields="ms")
    made: Pipeline = sums.water_mark(Time.seconds(WATER_MARK_S)).to_data_stream().to_delta("per_user").build()
    return made


def merged_pipeline(source: Path) -> Pipeline:
    """The windows of `window_pipeline`, by accumulators in Python."""
    views = StreamBuilder.data_stream("bench", "merged").from_file(str(source), schema=SCHEMA)
    windows = views.window(TumblingWindow.of(Time.seconds(WINDOW_S), "ts")).group_by("user")
    sums = windows.reduce(_added, merge=_both, schema="views bigint, total_ms bigint", fields="ms")
    made: Pipeline = sums.water_mark(Time.seconds(WATER_MARK_S)).to_data_stream().to_delta("per_user").build()
    return made


def chained_pipeline(source: Path) -> Pipeline:
    """Users and views of each minute, from the windows of ten seconds."""
    views = StreamBuilder.data_stream("bench", "chained").from_file(str(source), schema=SCHEMA)
    tens = views.window(TumblingWindow.of(Time.seconds(WINDOW_S), "ts"), name="tens").group_by("user").count("views")
    counts = tens.water_mark(Time.seconds(WATER_MARK_S)).to_data_stream()
    minutes = counts.window(TumblingWindow.of(Time.seconds(MINUTE_S), "start_time"), name="minutes")
    return minutes.count("users").sum("views").to_data_stream().to_delta("minutes").build()


def live_filter(channel: MemoryChannel, *, job: str = "live") -> Pipeline:
    """A pipeline without state on a channel."""
    return StreamBuilder.data_stream("bench", job).from_memory(channel).filter("ms >= 0").to_delta(job).build()


def live_window(channel: MemoryChannel) -> Pipeline:
    """A pipeline with windows on a channel."""
    return _windowed(StreamBuilder.data_stream("bench", "live_per_user").from_memory(channel))


def _windowed(views: Any) -> Pipeline:
    windows = views.window(TumblingWindow.of(Time.seconds(WINDOW_S), "ts")).group_by("user")
    sums = windows.count("views").sum("ms", "total_ms").water_mark(Time.seconds(WATER_MARK_S))
    made: Pipeline = sums.to_data_stream().to_delta("per_user").build()
    return made
