"""Trigger settings: when windows fire more than once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from rs_assets.operators.window.output import EmitStrategy

NEVER = timedelta(0)
# How long windows are held open for firings after their watermark.
HOLD = timedelta(hours=1)
# What a late firing emits: the late rows themselves, or the window including them.
LateFirings = Literal["deltas", "totals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """The firings of a window besides the final one: when the watermark has passed its end.

    `before`: the interval of firings from its start. `after`: their interval after that, while it is held open for
    `hold`. `limit`: the delay after the first row that is not yet emitted. `late`: at its end, and again for later
    rows. A window without changes since its last firing does not fire, except for the final time. Zero means never.
    """

    before: timedelta = NEVER
    after: timedelta = NEVER
    hold: timedelta = NEVER
    limit: timedelta = NEVER
    late: LateFirings | None = None

    @property
    def deltas(self) -> bool:
        """Whether each firing emits the changes since the previous one, and not the entire window."""
        return self.late == "deltas"

    def __str__(self) -> str:
        """In a few words, for display and for the identity of state; empty for once."""
        times = (("before", self.before), ("after", self.after), ("for", self.hold), ("within", self.limit))
        parts = [f"{word} {time}" for word, time in times if time]
        return ", ".join([*parts, *([f"late {self.late}"] if self.late else [])])


ONCE = Firing()


def tells_final(firing: Firing, emit: EmitStrategy) -> bool:
    """Whether a row says if it is the last of its window: not for parts, nor if none is the last."""
    return not firing.deltas and tells_end(emit)


def tells_end(emit: EmitStrategy) -> bool:
    """Whether a window is emitted when it closes."""
    return emit not in ("on_record", "on_window_update")
