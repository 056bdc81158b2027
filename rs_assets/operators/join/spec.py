"""Joins as data: kinds, bounds in time, and the pairs of fields that must be equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from rs_assets.errors import TopologyError
from rs_assets.operators.window.durations import LONGEST, checked_duration
from rs_assets.operators.window.spec import AlignedWindow
from rs_assets.records.types import holding

JoinType = Literal["inner", "left", "right", "full", "semi", "anti"]
# Kinds whose rows have the fields of both sides; the others keep rows of the left side as they are.
OF_BOTH = frozenset({"inner", "left", "right", "full"})

MILLISECOND = timedelta(milliseconds=1)
PREFIXED = "put another prefix before the right side's fields: prefix='right_'"


@dataclass(frozen=True, slots=True)
class Interval:
    """The distance in time of two rows, both ends included: `-before <= right - left <= after`.

    `before` is how long before the left row the right one may be, `after` how long after it. One of them may be
    negative: `Interval.of(before=Time.seconds(-2), after=Time.seconds(5))` takes right rows from 2 to 5 s later.

    >>> from rs_assets import Time
    >>> Interval.of(before=Time.seconds(5), after=Time.seconds(7)).after
    datetime.timedelta(seconds=7)
    """

    before: timedelta
    after: timedelta

    def __post_init__(self) -> None:
        """Refuse anything but durations of whole milliseconds, and an empty interval."""
        for name, value in (("before", self.before), ("after", self.after)):
            if not isinstance(value, timedelta) or value % MILLISECOND:
                raise TopologyError(
                    f"{name} of an interval must be a timedelta of whole milliseconds, not {value!r}",
                    remedy=f"write it as {name}=Time.seconds(10)",
                )
            checked_duration(value, what=f"{name} of an interval", least=-LONGEST)
        if self.before + self.after < timedelta(0):
            raise TopologyError(
                f"an interval from {-self.before} to {self.after} is empty",
                remedy="before + after must be zero or more",
            )

    @classmethod
    def of(cls, *, before: timedelta = timedelta(0), after: timedelta = timedelta(0)) -> Interval:
        """An interval around the time of the left row."""
        return cls(before, after)

    @property
    def exact(self) -> bool:
        """Whether both rows must have the same time."""
        return not self.before and not self.after

    @property
    def reach(self) -> timedelta:
        """How long after a row its last match may come, by event time; at least zero."""
        return max(self.before, self.after, timedelta(0))


@dataclass(frozen=True, slots=True)
class AsOf:
    """The newest right row at or before the left one's time, at most `tolerance` before; None: however old."""

    tolerance: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid tolerance."""
        if self.tolerance is not None:
            checked_duration(self.tolerance, what="the tolerance of an as-of join", least=timedelta(0))


Within = timedelta | Interval | AlignedWindow | None
# The same with a plain duration converted to an interval.
Bound = Interval | AlignedWindow | None
AnyBound = Bound | AsOf


def bound_of(within: Within, *, step: str) -> Bound:
    """`within` as a bound: a duration `d` stands for the interval from `d` before to `d` after.

    >>> bound_of(timedelta(seconds=5), step="join") == Interval(timedelta(seconds=5), timedelta(seconds=5))
    True
    """
    if isinstance(within, timedelta):
        return Interval(within, within)
    if within is None or isinstance(within, Interval | AlignedWindow):
        return within
    raise TopologyError(
        f"step {step!r} cannot join within {within!r}",
        remedy="use a timedelta, Interval.of(before=, after=), a tumbling or a hopping window, or None for no bound",
        step=step,
    )


def pairs_of(on: str | Sequence[str] | Mapping[str, str], *, step: str) -> tuple[tuple[str, str], ...]:
    """The pairs of fields, of the left and of the right side, that must be equal; TopologyError for anything else.

    >>> pairs_of({"id": "order_id"}, step="join")
    (('id', 'order_id'),)
    """
    if isinstance(on, Mapping):
        pairs = tuple(on.items())
    else:
        names = (on,) if isinstance(on, str) or not isinstance(on, Iterable) else on
        pairs = tuple((name, name) for name in names)
    texts = all(isinstance(name, str) for pair in pairs for name in pair)
    if not pairs or not texts or len(set(pairs)) != len(pairs):
        raise TopologyError(
            f"step {step!r} must join on at least one pair of fields, and on each pair once, not on {on!r}",
            remedy="name them: on='user', on=['a', 'b'] or on={'left_field': 'right_field'}",
            step=step,
        )
    return pairs


def unlike_keys(left: tuple[str, str], right: tuple[str, str], *, step: str, loaded: bool = False) -> TopologyError:
    """The error for keys, each a name and a type, that Spark would compare by a cast.

    The right one of a dimension, which is `loaded`, has no steps before: its schema names the type.
    """
    (one, kind), (two, other) = left, right
    wide = holding(kind, other)
    if loaded:
        last = f"declare {two!r} as {wide or kind} in the schema of the dimension" if wide != other else ""
    else:
        last = cast_to(two, wide or kind) if wide != other else ""
    both = " and ".join(filter(None, (cast_to(one, wide) if wide and wide != kind else "", last)))
    return TopologyError(
        f"step {step!r} cannot compare {one!r}, which is a {kind}, with {two!r}, which is a {other}",
        remedy=f"give both one type before: {both}",
        step=step,
    )


def cast_to(name: str, kind: str) -> str:
    """The step that gives a field another type."""
    return f".with_fields({name}='cast({name} as {kind})')"


def two_fields(name: str, why: str, *, step: str, remedy: str = PREFIXED) -> TopologyError:
    """The error for two fields of one name in the rows of a step."""
    return TopologyError(
        f"the rows of step {step!r} would have two fields called {name!r}{why}", remedy=remedy, step=step
    )
