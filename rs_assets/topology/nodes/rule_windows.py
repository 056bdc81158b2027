"""Windows of rules: a rule fires when enough of its matches come together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rs_assets.common.node import Family
from rs_assets.errors import TopologyError
from rs_assets.operators.window.kind import WindowKind
from rs_assets.topology.nodes.match import RULE
from rs_assets.topology.nodes.timed import TimedState

# The column of a rule with what must be reached in which time.
HAVING = "having"
# The fields of an alert besides the rule, its `having` and the fields that are carried.
OWN = "by map<string,string>, value double, start_time timestamp, end_time timestamp, fire_time timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWindows(TimedState):
    """An alert for each rule, group and window in which what the rule's `having` says is reached, once.

    The windows are those of the rules: each has its own length, from the epoch on. `carry` are fields of the matches
    that alerts have.
    """

    family: ClassVar[Family] = "window"

    time_field: str | None = None
    carry: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse fields that alerts have already."""
        TimedState.__post_init__(self)
        own = (RULE, HAVING, *(part.split()[0] for part in OWN.split(", ")))
        taken = next((name for name in self.carry if name.casefold() in own), None)
        if taken is not None or len(set(self.carry)) != len(self.carry):
            raise TopologyError(
                f"alerts of step {self.name!r} would have {taken or self.carry[0]!r} twice",
                remedy=f"leave it out of carry=; alerts have: {', '.join(own)}",
                step=self.name,
            )

    @property
    def event_time(self) -> str | None:
        """The field with the time of a match; None for the time of arrival."""
        return self.time_field

    @property
    def variable(self) -> str:
        """The name of its state."""
        return WindowKind.state_name

    @property
    def solitary(self) -> bool:
        """Whether no other step with state may share its query: always, because it emits at any time."""
        return True

    def detail(self) -> str:
        """The time, and what is carried."""
        carried = f", with {', '.join(self.carry)}" if self.carry else ""
        return f"windows of rules on {self.time_field or 'arrival'}{carried}"

    def identity(self) -> tuple[str, ...]:
        """Everything that decides what is in state."""
        return (f"by={self.time_field}", f"carry={','.join(self.carry)}", f"water_mark={self.water_mark}")
