"""Windows that fire more than once, by a processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.operators.window.global_window import GlobalWindow
from rs_assets.operators.window.output import EmitStrategy
from rs_assets.operators.window.over import OverWindow
from rs_assets.operators.window.spec import CountWindow, Window
from rs_assets.operators.window.trigger import NEVER, Firing, tells_end, tells_final
from rs_assets.records.columns import RETRACTED
from rs_assets.spark.processor.session import check_types, processors_of

MICROSECOND = timedelta(microseconds=1)
FIRE_TIME, FINAL = "_rs_fire_time", "_rs_final"
# The processor's emissions before a window closes: 1 in each batch, 2 at each record.
_UPDATES: Mapping[EmitStrategy, int] = MappingProxyType(
    {"on_window_update": 1, "on_update_and_close": 1, "on_record": 2}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FiredWindows:
    """Windows that the processor fires instead of Spark's own operator."""

    window: Window
    firing: Firing
    emit: EmitStrategy
    water_mark: timedelta
    ranked: bool = False

    def rows(self, windows: DataFrame) -> DataFrame:
        """The rows of the aggregation `windows`, whose first key is the window, with FIRE_TIME and FINAL.

        FIRE_TIME is null for an update, which no time has caused. Rows that may be retracted also have RETRACTED.
        In the last column, the `ranked` rows of a global window, unchanged rows are null.
        ConfigurationError if the session was made without the jar of the processors.
        """
        processors = processors_of(windows)
        check_types(windows.schema)
        if self.window.in_order:
            return DataFrame(self._in_order(processors, windows._jdf), windows.sparkSession)  # noqa: SLF001
        if isinstance(self.window, GlobalWindow):
            lives = _millis(self.window.time_to_live or NEVER)
            rows = processors.GlobalWindows.apply(windows._jdf, self.ranked, lives, _millis(self.water_mark))  # noqa: SLF001
            return DataFrame(rows, windows.sparkSession)
        firing, open_for = self.firing, self.water_mark + self.firing.hold
        times = (self.window.late_interval, self.water_mark, open_for, firing.before, firing.after, firing.limit)
        updates, finals = _UPDATES.get(self.emit, 0), tells_end(self.emit)
        policy = processors.Firing(*map(_millis, times), firing.late is not None, firing.deltas, updates, finals)
        processor = processors.FiringSessions if self.window.merges else processors.FiringWindows
        return DataFrame(processor.apply(windows._jdf, policy), windows.sparkSession)  # noqa: SLF001

    def _in_order(self, processors: Any, windows: Any) -> Any:
        window, waits = self.window, _millis(self.water_mark)
        if isinstance(window, CountWindow):
            return processors.CountWindows.apply(windows, window.size, waits)
        if isinstance(window, OverWindow):
            count = -1 if window.before is None else window.before
            within = -1 if window.within is None else window.within // MICROSECOND
            return processors.OverRows.apply(windows, count, within, window.peers, waits)
        return processors.SlidingWindows.apply(windows, window.longest // MICROSECOND, waits)

    def columns(self, at: Column) -> dict[str, Column]:
        """The columns that identify the rows of one window; `at` is the time of an update."""
        columns = {"fire_time": F.coalesce(F.col(FIRE_TIME), at)}
        final = tells_final(self.firing, self.emit) and not (self.window.in_order or self.window.endless)
        columns |= {"final": F.col(FINAL)} if final else {}
        return columns | ({"retracted": F.col(RETRACTED)} if self.window.retracts else {})


def once(windows: DataFrame, water_mark: timedelta) -> DataFrame:
    """The rows of the aggregation `windows`, each once: after the first batch in which its last column is true.

    The first key is the window. ConfigurationError if the session was made without the jar of the processors.
    """
    processors = processors_of(windows)
    check_types(windows.schema)
    times = (NEVER, water_mark, water_mark, NEVER, NEVER, NEVER)
    policy = processors.Firing(*map(_millis, times), False, False, 3, False)  # noqa: FBT003
    return DataFrame(processors.FiringWindows.apply(windows._jdf, policy), windows.sparkSession)  # noqa: SLF001


def _millis(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
