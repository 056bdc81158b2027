"""The pipelines that are measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.by_hand import WATER_MARK_S
from benchmarks.data import RARE_PAGE, SCHEMA, WINDOW_S
from rs_assets import MemoryChannel, Pipeline, StreamBuilder, Time, TumblingWindow

Condition = str | Callable[[dict[str, Any]], bool]

SQL: Condition = f"page = '{RARE_PAGE}'"
# Its value is a constant of the function, as users write it.
LAMBDA: Condition = lambda r: r["page"] == "/checkout"  # noqa: E731
# Calls a method, so that nothing can be known about it but by calling it.
OPAQUE: Condition = lambda r: r["page"].startswith("/check")  # noqa: E731


def filter_pipeline(source: Path, condition: Condition = SQL) -> Pipeline:
    """The rows of the rare page."""
    views = StreamBuilder.data_stream("bench", "rare").from_file(str(source), schema=SCHEMA)
    return views.filter(condition).to_delta("rare").build()


def window_pipeline(source: Path) -> Pipeline:
    """Views and milliseconds of each user in each window."""
    return _windowed(StreamBuilder.data_stream("bench", "per_user").from_file(str(source), schema=SCHEMA))


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
