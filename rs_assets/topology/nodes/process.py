"""Python functions and processors that keep a state for each key."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Final, Literal

from rs_assets.common.node import NO_EFFECT, Family, Node, positive
from rs_assets.errors import TopologyError
from rs_assets.operators.window.durations import checked_duration
from rs_assets.topology.nodes.timed import NONE, Side, TimedState
from rs_assets.topology.user_code.expression import PythonFunction

# The name of the processor's state.
STATE: Final = "process"
BUCKETS: Final = 64
TIMEOUT: Final = timedelta(minutes=5)
# The column with the name of a record's output, and that of the output that has none.
OUTPUT, MAIN = "output", ""


def rows_of(output: str) -> str:
    """The column with the records of an output.

    >>> rows_of("alerts"), rows_of(MAIN)
    ('rows_alerts', 'rows_')
    """
    return f"rows_{output}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process(TimedState):
    """A function of the rows of each key and of its state, a record of the schema `state`.

    `form`: a function that is called for each key, one for all keys of a batch, or a class of processors. Keys are
    spread over `buckets`, which are the unit of work and of rescaling. Rows of a key come by event time, by `order_by`,
    then as they were read. A call that takes longer than `timeout` ends the run. With a `time_field` or a `tick` a
    processor has timers, by event time or by the clock, which then advances that often without rows. With `outputs`,
    names with their schemas, it has several kinds of records, which `ProcessOutput` steps separate.
    """

    family: ClassVar[Family] = "processor"

    function: PythonFunction
    form: Literal["key", "batch", "processor"]
    keys: tuple[str, ...]
    state: str
    order_by: tuple[str, ...] = ()
    buckets: int = BUCKETS
    timeout: timedelta = field(default=TIMEOUT, metadata=NO_EFFECT)
    time_field: str | None = None
    tick: timedelta | None = None
    outputs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse no key, a duplicate, no bucket, or two kinds of time."""
        TimedState.__post_init__(self)
        checked_duration(self.timeout, what=f"the timeout of step {self.name!r}")
        if not self.keys or len({key.casefold() for key in self.keys}) != len(self.keys):
            raise TopologyError(
                f"the keys of step {self.name!r} must be at least one field and none twice:"
                f" {', '.join(self.keys) or 'none'}",
                remedy="name the fields that have a state of their own: keys='user'",
                step=self.name,
            )
        if not positive(self.buckets):
            raise TopologyError(
                f"step {self.name!r} needs a whole number of buckets, at least 1: {self.buckets!r}",
                remedy="leave buckets= out",
                step=self.name,
            )
        self._check_time()

    def _check_time(self) -> None:
        if self.tick is not None:
            checked_duration(self.tick, what=f"the tick of step {self.name!r}")
        if self.tick is not None and self.time_field is not None:
            raise TopologyError(
                f"step {self.name!r} cannot go by event time and by the clock",
                remedy="leave tick= or time_field= out",
                step=self.name,
            )
        if self.water_mark != NONE and self.time_field is None:
            raise TopologyError(
                f"step {self.name!r} has a watermark delay and no event time",
                remedy="name the field of its event time: time_field='ts'",
                step=self.name,
            )

    @property
    def timed(self) -> bool:
        """Whether it has timers."""
        return self.time_field is not None or self.tick is not None

    @property
    def solitary(self) -> bool:
        """Whether no other step with state may share its query: if it has timers, which need its watermark."""
        return self.timed

    @property
    def untimed(self) -> bool:
        """Whether no watermark reaches it."""
        return not self.timed

    @property
    def event_time(self) -> str | None:
        """The field with the event time; None for the time of arrival."""
        return self.time_field

    @property
    def sides(self) -> tuple[Side, ...]:
        """Its input, if it has a time."""
        return (Side(self.name, self.event_time, self.delay),) if self.timed else ()

    @property
    def endless(self) -> bool:
        """Whether the end of input leaves its state: always."""
        return True

    @property
    def goes_by_time(self) -> bool:
        """Whether it may emit rows when time advances."""
        return self.timed

    @property
    def arrival_tick(self) -> timedelta | None:
        """How often its clock advances without rows."""
        return self.tick

    @property
    def variable(self) -> str:
        """The name of its state."""
        return STATE

    @property
    def made(self) -> str:
        """The schema of its records; with several outputs those of each are in a column of their own."""
        main = self.function.schema or ""
        if not self.outputs:
            return main
        columns = (f"`{rows_of(name)}` struct<{schema}>" for name, schema in ((MAIN, main), *self.outputs))
        return ", ".join([f"{OUTPUT} string", *columns])

    def detail(self) -> str:
        """The function, the keys, the time and the outputs."""
        time = f" on {self.time_field}" if self.time_field else f" every {self.tick}" if self.tick else ""
        outputs = f", to {', '.join(name for name, _ in self.outputs)}" if self.outputs else ""
        return f"{self.function.label} by {', '.join(self.keys)}{time}{outputs}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides what is in state, and where; not the function, which may be mended."""
        time = (f"time={self.time_field or 'arrival'}",) if self.timed else ()
        return (",".join(self.keys), self.state, f"buckets={self.buckets}", *time)

    @property
    def emitting(self) -> tuple[str, ...]:
        """The function, the order of its rows, and the outputs."""
        order = (f"order={','.join(self.order_by)}",) if self.order_by else ()
        return (self.function.identity(), *order, *(f"{name}: {schema}" for name, schema in self.outputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOutput(Node):
    """The records of one output of a processor, with the fields of `schema`."""

    output: str
    schema: str

    def detail(self) -> str:
        """The name of the output."""
        return self.output or "the records without an output"
