"""Event-time stateful steps, and how the event time of one follows from that of another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from rs_assets.common.node import Node
from rs_assets.operators.window.bounds import EventTimeBounds
from rs_assets.operators.window.durations import checked_duration
from rs_assets.operators.window.splits import BySplit

NONE = timedelta(0)


@dataclass(frozen=True, slots=True)
class Arrival:
    """The latest time at which rows with a field's value arrive.

    A row with the value t comes in a batch that began with a watermark, as the step before passes it on, below t +
    `bound`. `grid`: all values are whole multiples of it since the epoch; None if they may be any.
    """

    bound: timedelta = NONE
    grid: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """An input of a stateful step: its event-time field (None: arrival) and its watermark delay.

    `gate` names the check of its times: the step, followed by a dot and the side where there are several.
    """

    gate: str
    time_field: str | None
    water_mark: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedState(Node):
    """A step whose state is closed by the watermark: the greatest event time seen less `water_mark`.

    Rows are late once the watermark has closed their window or interval. `bounds` are the accepted event times.
    """

    stateful: ClassVar[bool] = True

    water_mark: timedelta = NONE
    bounds: EventTimeBounds = EventTimeBounds()

    def __post_init__(self) -> None:
        """Refuse an invalid delay."""
        Node.__post_init__(self)
        checked_duration(self.water_mark, what="the watermark delay", least=NONE)

    @property
    def event_time(self) -> str | None:
        """The field with the event time; None for the time of arrival."""
        raise NotImplementedError

    @property
    def by_split(self) -> BySplit | None:
        """How its watermark follows the splits of the input; None if it follows the greatest time of all of them."""
        return None

    @property
    def believed(self) -> EventTimeBounds:
        """The accepted event times of its rows."""
        return self.bounds

    @property
    def delay(self) -> timedelta:
        """How far the watermark lags the greatest event time seen."""
        return self.water_mark

    @property
    def variable(self) -> str | None:
        """The name of its state in a processor; None if an operator of Spark's own keeps it."""
        return None

    @property
    def keeper(self) -> str | None:
        """The layout of its state in a processor, which nothing else reads; None for an operator of Spark's own."""
        return "a processor" if self.variable is not None else None

    @property
    def sides(self) -> tuple[Side, ...]:
        """Its inputs with event times: one side that all rows share, or one for each of `inputs`."""
        return (Side(self.name, self.event_time, self.delay),)

    @property
    def holds(self) -> timedelta:
        """How far the watermark that it passes on lags its own."""
        return NONE

    @property
    def endless(self) -> bool:
        """Whether the end of input leaves its state as it is: it has emitted everything."""
        return False

    @property
    def goes_by_time(self) -> bool:
        """Whether it may emit rows when time advances without new rows."""
        return True

    @property
    def untimed(self) -> bool:
        """Whether no watermark reaches it, so that it closes nothing and none of its rows is late."""
        return False

    @property
    def solitary(self) -> bool:
        """Whether no other step with state may share its query."""
        return False

    @property
    def arrival_tick(self) -> timedelta | None:
        """How often its time advances without rows, if that is the time of arrival."""
        return None

    @property
    def own_delay(self) -> bool:
        """Whether a watermark delay is configured, which a chained step cannot have."""
        return self.water_mark > NONE

    def lag(self, arrival: Arrival) -> timedelta:
        """How long after its end a window must stay open for rows that come by `arrival`, so that none is late."""
        return arrival.bound

    def leaving(self, field: str, lag: timedelta) -> Arrival | None:  # noqa: ARG002  a step's own matter
        """When rows with a value of `field` leave this step, whose windows close with `lag`; None: unbounded."""
        return None
