"""The windows of a row as Spark columns: one place for each kind."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.operators.window.calendar_columns import calendar_window
from rs_assets.operators.window.cumulate_columns import cumulate_windows
from rs_assets.operators.window.event_time import WATERMARK_DELAY
from rs_assets.operators.window.global_window import FOREVER, GlobalWindow
from rs_assets.operators.window.over import OverWindow
from rs_assets.operators.window.spec import (
    CalendarWindow,
    CountWindow,
    CumulateWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
    Window,
)
from rs_assets.records.columns import EVENT_TIME

WINDOW = "_rs_window"
# The fields that name a window, with their part of WINDOW.
EDGES: Final = {"start_time": "start", "end_time": "end"}


def copied(frame: DataFrame, window: Window, lag: timedelta) -> DataFrame:
    """The rows of `frame`, with a copy for each of their windows in WINDOW where the windows cumulate."""
    if not isinstance(window, CumulateWindow):
        return frame
    return frame.withColumn(WINDOW, F.explode(cumulate_windows(earlier(F.col(EVENT_TIME), lag), window)))


def assigned(window: Window, lag: timedelta) -> Column:
    """The window, or windows, of a row by EVENT_TIME, which lags the time that windows are over by `lag`.

    Spark uses the column to expire its state.
    """
    match window:
        case SessionWindow():
            return F.session_window(EVENT_TIME, duration_text(window.gap))
        case CountWindow() | SlidingWindow() | OverWindow():
            # The row's own time, which is late when its event time is.
            at = F.col(EVENT_TIME)
            return F.struct(at.alias("start"), at.alias("end")).alias(WINDOW, metadata={WATERMARK_DELAY: 0})
        case GlobalWindow():
            end = _end_of_life(F.col(EVENT_TIME), window)
            place = F.struct(F.col(EVENT_TIME).alias("start"), end.alias("end"))
            return place.alias(WINDOW, metadata={WATERMARK_DELAY: 0})
        case CalendarWindow() | CumulateWindow():
            at = earlier(F.col(EVENT_TIME), lag)
            place = calendar_window(at, window) if isinstance(window, CalendarWindow) else F.col(WINDOW)
            waiting = F.struct(*(later(place[edge], lag).alias(edge) for edge in ("start", "end")))
            # Spark closes a group when the watermark has passed the second field of the column with event-time
            # metadata. The delay in the metadata is not used here.
            return waiting.alias(WINDOW, metadata={WATERMARK_DELAY: 0})
        case TumblingWindow() | HoppingWindow():
            begin = (lag + window.offset) % window.slide
            offset = (duration_text(begin),) if begin else ()
            return F.window(EVENT_TIME, duration_text(window.size), duration_text(window.slide), *offset)


def _end_of_life(at: Column, window: GlobalWindow) -> Column:
    """The end of a row's time to live in a global window."""
    return F.lit(FOREVER) if window.time_to_live is None else at + interval(window.time_to_live)


def last_end(window: Window) -> Column:
    """The end of the last window of a row: the row is late when the watermark has passed it."""
    at = F.col(EVENT_TIME)
    match window:
        case SessionWindow():
            return at + interval(window.gap)
        case CountWindow() | SlidingWindow() | OverWindow():
            return at
        case GlobalWindow():
            return _end_of_life(at, window)
        case CalendarWindow():
            return calendar_window(at, window)["end"]
        case TumblingWindow() | HoppingWindow() | CumulateWindow():
            since = F.unix_micros(at) - F.lit(_micros(window.offset))
            return F.timestamp_micros(
                F.unix_micros(at) - F.pmod(since, F.lit(_micros(window.slide))) + F.lit(_micros(window.size))
            )


def earlier(at: Column, lag: timedelta) -> Column:
    """A time `lag` before `at`."""
    return at - interval(lag) if lag else at


def later(at: Column, lag: timedelta) -> Column:
    """A time `lag` after `at`."""
    return at + interval(lag) if lag else at


def duration_text(duration: timedelta) -> str:
    """A duration as Spark's window functions take it.

    >>> duration_text(timedelta(seconds=10))
    '10000 milliseconds'
    """
    return f"{duration // timedelta(milliseconds=1)} milliseconds"


def interval(duration: timedelta) -> Column:
    """A duration as a column."""
    return F.make_dt_interval(secs=F.lit(duration.total_seconds()))


def _micros(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)
