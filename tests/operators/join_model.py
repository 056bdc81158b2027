"""Joins as plain Python: which rows are late, and nested loops over the others."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rs_assets import HoppingWindow, Interval, TumblingWindow
from tests.operators.model import sliced

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def places(bound, row):
    """Where a row may meet others, as pairs of a place and the time until which it is open there."""
    if isinstance(bound, TumblingWindow | HoppingWindow):
        size, slide = int(bound.size.total_seconds()), int(bound.slide.total_seconds())
        return [(start, end) for _, start, end in sliced([{"key": 0, **row}], size=size, slide=slide)]
    return [(None, row["ts"])]


def near(bound, left, right):
    """Whether two rows that may meet at one place lie near enough."""
    if isinstance(bound, timedelta):
        bound = Interval(bound, bound)
    return not isinstance(bound, Interval) or -bound.before <= right["ts"] - left["ts"] <= bound.after


@dataclass
class Watermark:
    """Spark's: of the sides that the query has seen since it was started the one that is behind; it never goes back."""

    delays: tuple[int, int]
    value: datetime = EPOCH
    seen: dict[int, datetime] = field(default_factory=dict)

    def after(self, batch):
        for side, rows in enumerate(batch):
            times = [row["ts"] - timedelta(seconds=self.delays[side]) for row in rows if row["ts"] is not None]
            self.seen[side] = max([*times, self.seen.get(side, EPOCH)])
        self.value = max(self.value, min(self.seen.values()))

    def restarted(self):
        self.seen = {}


@dataclass(frozen=True)
class Joined:
    """What a join does: rows as (left, right, place), with None for a partner that is lacking."""

    bound: Any
    how: str
    keys: tuple[str, ...] = ("k",)
    condition: Any = None

    def accepted(self, batches, delays, restarts=()):
        """The rows of each side at the places where they came in time, and how many were late at all, and dead."""
        watermark, kept, late, dead = Watermark(delays), ([], []), 0, 0
        for number, batch in enumerate(batches):
            for side, rows in enumerate(batch):
                good = [row for row in rows if row["ts"] is not None]
                dead += len(rows) - len(good)
                for row in good:
                    open_at = [place for place, end in places(self.bound, row) if end > watermark.value]
                    late += not open_at
                    kept[side].extend((row, place) for place in open_at)
            watermark.after(batch)
            if number in restarts:
                watermark.restarted()
        return kept, late, dead

    def rows(self, kept):
        """The rows of the join of all that came in time."""
        pairs = [(one, two) for one in kept[0] for two in kept[1] if self.meet(one, two)]
        alone = [
            [one for one in rows if not any(one is pair[side] for pair in pairs)] for side, rows in enumerate(kept)
        ]
        made = []
        if self.how in {"inner", "left", "right", "full"}:
            made += [(left, right, place) for (left, place), (right, _) in pairs]
        if self.how in {"left", "full", "anti"}:
            made += [(left, None, place) for left, place in alone[0]]
        if self.how in {"right", "full"}:
            made += [(None, right, place) for right, place in alone[1]]
        if self.how == "semi":
            # In each window by itself: a row may have a partner in one window, and none in the next.
            made += [(one[0], None, one[1]) for one in kept[0] if not any(one is each for each in alone[0])]
        return made

    def meet(self, one, two):
        (left, place), (right, other) = one, two
        return (
            place == other
            and near(self.bound, left, right)
            and all(left[key] == right[key] and left[key] not in {None, ""} for key in self.keys)
            and (self.condition is None or self.condition(left, right))
        )


@dataclass(frozen=True)
class AsOf:
    """A join as of a time: each left row with the newest right one that is not newer, of several the greatest."""

    how: str
    tolerance: int | None
    keys: tuple[str, ...] = ("k",)
    # The field that tells right rows of one time apart.
    by: str = "w"
    # Whether a right row ends the one before it.
    ends: Callable[[dict], bool] = lambda row: False

    def accepted(self, batches, delays, restarts=()):
        """As of a join by interval: each row in time for the watermark of its batch."""
        return Joined(timedelta(0), self.how, self.keys).accepted(batches, delays, restarts)

    def rows(self, kept):
        """The rows of the join of all that came in time."""
        made = []
        for left, place in kept[0]:
            before = [right for right, _ in kept[1] if self.meet(left, right)]
            newest = max(before, key=lambda row: (row["ts"], not self.ends(row), row[self.by]), default=None)
            if newest is not None and self.ends(newest):
                newest = None
            if newest is not None or self.how == "left":
                made.append((left, newest, place))
        return made

    def meet(self, left, right):
        apart = left["ts"] - right["ts"]
        return (
            timedelta(0) <= apart
            and (self.tolerance is None or apart <= timedelta(seconds=self.tolerance))
            and all(left[key] == right[key] and left[key] not in {None, ""} for key in self.keys)
        )
