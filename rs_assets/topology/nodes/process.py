"""Python functions that keep a state for each key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final, Literal

from rs_assets.common.node import Family, positive
from rs_assets.errors import TopologyError
from rs_assets.operators.window.durations import checked_duration
from rs_assets.topology.nodes.table import UntimedState
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.user_code.expression import PythonFunction

# The name of the processor's state.
STATE: Final = "process"
BUCKETS: Final = 64
TIMEOUT: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process(UntimedState):
    """A function of the rows of each key and of its state, a record of the schema `state`.

    `form`: a function that is called for each key, or for all keys of a batch. Keys are spread over `buckets`, which
    are the unit of work and of rescaling. Rows of a key come by `order_by`, then as they were read. A call that takes
    longer than `timeout` ends the run.
    """

    family: ClassVar[Family] = "processor"

    function: PythonFunction
    form: Literal["key", "batch"]
    keys: tuple[str, ...]
    state: str
    order_by: tuple[str, ...] = ()
    buckets: int = BUCKETS
    timeout: timedelta = TIMEOUT

    def __post_init__(self) -> None:
        """Refuse no key, a duplicate, or no bucket."""
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

    @property
    def variable(self) -> str:
        """The name of its state."""
        return STATE

    def detail(self) -> str:
        """The function and the keys."""
        return f"{self.function.label} by {', '.join(self.keys)}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides what is in state, and where; not the function, which may be mended."""
        return (",".join(self.keys), self.state, f"buckets={self.buckets}")
