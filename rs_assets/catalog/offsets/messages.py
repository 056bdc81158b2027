"""System messages: notifications of user-defined sinks about the splits of the sources, and their answers.

They follow the order of the rows: NewSplit before the first row of a split, the others after the last row of a batch.
Steps do not get them: state is kept by key and not by split, so added or removed splits do not load or drop state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, TypeAlias, runtime_checkable

# The offset of a split whose start is unknown.
UNKNOWN_OFFSET = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """`source` is the name of the source step, `query` the query that reads it, `batch_id` its batch (from 0)."""

    source: str
    query: str
    batch_id: int

    @property
    def kind(self) -> str:
        """The name of the message's class."""
        return type(self).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSplit(_Message):
    """Rows of `split` are about to come; `offset` is where they begin (JSON text, `null` if unknown)."""

    split: str
    offset: str = UNKNOWN_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSplit(_Message):
    """No more rows of `split` will come; a CheckPoint of its last offset follows."""

    split: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPoint(_Message):
    """All rows up to `offsets` (split to offset, as JSON text) were handed out; the answer says how many are safe.

    It is sent before Spark commits the batch, and decides whether Spark does (see SystemMessageListener).
    """

    offsets: Mapping[str, str]

    def __post_init__(self) -> None:
        # A copy, since a listener may keep the message for longer than the sender keeps its mapping.
        object.__setattr__(self, "offsets", dict(self.offsets))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFinish(_Message):
    """The bounded source has ended; the CheckPoint before this was its last."""


SystemMessage: TypeAlias = NewSplit | RemoveSplit | CheckPoint | BatchFinish


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPointState:
    """One listener's answer to a system message; made by `normal`, `any` or `refuse`.

    >>> CheckPointState.normal({"a.log": "7"}).offsets
    {'a.log': '7'}
    >>> CheckPointState.refuse("the disk is full").reason
    'the disk is full'
    """

    kind: Literal["normal", "any", "refuse"]
    offsets: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", dict(self.offsets))

    @classmethod
    def normal(cls, offsets: Mapping[str, str]) -> Self:
        """Safe up to these offsets (split to JSON text), and not further; of other splits nothing is safe."""
        return cls(kind="normal", offsets=offsets)

    @classmethod
    def any(cls) -> Self:
        """The listener keeps nothing: any offset is safe."""
        return cls(kind="any")

    @classmethod
    def refuse(cls, reason: str) -> Self:
        """Not all rows before this checkpoint are safe, for the `reason` given: the batch must not be committed."""
        return cls(kind="refuse", reason=reason)


@runtime_checkable
class SystemMessageListener(Protocol):
    """A sink that is notified of splits and checkpoints.

    Messages are delivered in order, one at a time. A sink that buffers rows must flush them before it answers a
    CheckPoint, and answer `normal(message.offsets)`. While it refuses, or names smaller offsets or not all of them, it
    is asked again, 5 times within 2 s; then the run ends with a CheckpointHeldError. Spark has not committed the batch,
    no offset has moved and nothing is stored: the next start hands all its rows to each sink whose `committed` does not
    say that it has them. Answers to other messages are ignored; `any` is usual.
    """

    def on_system_message(self, message: SystemMessage) -> CheckPointState:
        """Handle `message` and answer it."""
        ...
