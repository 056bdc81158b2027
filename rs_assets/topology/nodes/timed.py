"""Steps that keep state by event time, and how the event time of one follows that of another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from rs_assets.operators.window.bounds import EventTimeBounds
from rs_assets.operators.window.durations import checked_duration
from rs_assets.operators.window.splits import BySplit
from rs_assets.topology.nodes.base import Node

NONE = timedelta(0)


@dataclass(frozen=True, slots=True)
class Arrival:
    """When rows of a field's value come at the latest.

    A row with the value t comes in a batch that began with a watermark, as the step before hands it on, below t +
    `bound`. `grid`: all values are whole multiples of it since the epoch; None if they may be any.
    """

    bound: timedelta = NONE
    grid: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """An input of a step with state: the field with its event time (None: arrival) and how long it is waited for.

    `gate` names the place where its times are judged: the step, and behind a point the side where there are several.
    """

    gate: str
    time_field: str | None
    water_mark: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedState(Node):
    """A step whose state is closed by the watermark: the greatest event time seen less `water_mark`.

    Rows that come after the watermark has closed their place are late. `bounds` says which event times are believed.
    """

    stateful: ClassVar[bool] = True

    water_mark: timedelta = NONE
    bounds: EventTimeBounds = EventTimeBounds()

    def __post_init__(self) -> None:
        """Refuse a delay that is none."""
        Node.__post_init__(self)
        checked_duration(self.water_mark, what="the water mark", least=NONE)

    @property
    def event_time(self) -> str | None:
        """The field with the event time; None for the time of arrival."""
        raise NotImplementedError

    @property
    def by_split(self) -> BySplit | None:
        """How its watermark goes by the splits of the input; None if the greatest time of all of them counts."""
        return None

    @property
    def believed(self) -> EventTimeBounds:
        """The event times that are believed of its rows."""
        return self.bounds

    @property
    def delay(self) -> timedelta:
        """How far the watermark lies behind the greatest event time seen."""
        return self.water_mark

    @property
    def variable(self) -> str | None:
        """The name of its state in a processor; None if an operator of Spark's own keeps it."""
        return None

    @property
    def keeper(self) -> str | None:
        """What keeps its state, in a form that nothing else reads; None for an operator of Spark's own."""
        return "a processor" if self.variable is not None else None

    @property
    def sides(self) -> tuple[Side, ...]:
        """Its inputs, as far as they have event times: one that all rows share, or one for each of `inputs`."""
        return (Side(self.name, self.event_time, self.delay),)

    @property
    def holds(self) -> timedelta:
        """How far the watermark that it hands on lies behind its own."""
        return NONE

    @property
    def endless(self) -> bool:
        """Whether the end of input leaves its state as it is: it has told all that there is to tell."""
        return False

    @property
    def goes_by_time(self) -> bool:
        """Whether it has something to tell when time goes on and no row comes."""
        return True

    @property
    def own_delay(self) -> bool:
        """Whether it was given a water mark, which a step that follows another in one query cannot have."""
        return self.water_mark > NONE

    def lag(self, arrival: Arrival) -> timedelta:
        """How long after its time a place must stay open for rows that come by `arrival`, so that none is late."""
        return arrival.bound

    def leaving(self, field: str, lag: timedelta) -> Arrival | None:  # noqa: ARG002  a step's own matter
        """When rows with a value of `field` leave this step, whose places close with `lag`; None if it is unbounded."""
        return None
