"""When windows fire more than once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from rs_assets.operators.window.result import EmitStrategy

NEVER = timedelta(0)
# How long windows are held open for firings behind their water mark.
HOLD = timedelta(hours=1)
# What a firing tells of rows that come behind the end of a window: themselves, or the window with them.
LateFirings = Literal["deltas", "totals"]
# The state of the processors: one row a window, or one a group with its sessions, its rows in order, or its one window.
STATE, SESSIONS, COUNTED, SLIDING, OVER, GLOBAL = "window", "sessions", "counted", "sliding", "over", "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """When a window fires besides once for good: when the greatest event time has passed its end and its water mark.

    `before`: every so often from its start. `after`: every so often behind that, while it is held open for `hold`.
    `limit`: so long behind the first row that it has not told of. `late`: at its end, and again for rows that come
    later. Only windows that changed since they fired last do, but for the last time. Zero stands for never.
    """

    before: timedelta = NEVER
    after: timedelta = NEVER
    hold: timedelta = NEVER
    limit: timedelta = NEVER
    late: LateFirings | None = None

    @property
    def deltas(self) -> bool:
        """Whether each firing tells what came since the one before, and not all of the window."""
        return self.late == "deltas"

    def __str__(self) -> str:
        """In a few words, for people and for the identity of state; empty for once."""
        times = (("before", self.before), ("after", self.after), ("for", self.hold), ("within", self.limit))
        parts = [f"{word} {time}" for word, time in times if time]
        return ", ".join([*parts, *([f"late {self.late}"] if self.late else [])])


ONCE = Firing()


def tells_final(firing: Firing, emit: EmitStrategy) -> bool:
    """Whether a row says if it is the last of its window: not where each tells a part, nor where none is the last."""
    return not firing.deltas and tells_end(emit)


def tells_end(emit: EmitStrategy) -> bool:
    """Whether a window is told when it closes."""
    return emit not in ("on_record", "on_window_update")
