"""Rows of the program itself as sources, and a sink that collects rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rs_assets.common.node import NO_EFFECT
from rs_assets.common.plural import count_of
from rs_assets.connectors.memory.channel import MemoryChannel
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import SchemaError
from rs_assets.records.policy import BadRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySource(Source):
    """Rows given in the program; bounded."""

    rows: tuple[Mapping[str, Any], ...] = field(default=(), repr=False, metadata=NO_EFFECT)
    policy: BadRecords = BadRecords.FAIL

    def __post_init__(self) -> None:
        """Refuse rows that are not mappings."""
        Source.__post_init__(self)
        wrong = [row for row in self.rows if not isinstance(row, Mapping)]
        if wrong:
            raise SchemaError(f"step {self.name!r}: a row must be a dict, not {wrong[0]!r}", step=self.name)
        if not self.rows and self.schema is None:
            raise SchemaError(f"step {self.name!r} has no rows to infer a schema from", remedy="pass schema='...'")

    @property
    def bounded(self) -> bool:
        """An array always ends."""
        return True

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy; rows are checked when they are given, so only steps can fail on them."""
        return self.policy

    def detail(self) -> str:
        """The number of rows."""
        return count_of(len(self.rows), "row")

    def identity(self) -> tuple[str, ...]:
        """The rows may change from run to run; the state depends on the schema."""
        return (self.schema or "inferred",)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySource(Source):
    """Rows that the program puts into a channel while the pipeline runs; bounded once the channel is closed."""

    channel: MemoryChannel = field(repr=False, compare=False, metadata=NO_EFFECT)
    policy: BadRecords = BadRecords.FAIL

    def __post_init__(self) -> None:
        """Refuse anything but a channel, and take its schema."""
        # Only pipelines with a channel have loaded the module.
        from rs_assets.connectors.memory import checked_kind

        checked_kind(self.channel, step=self.name)
        object.__setattr__(self, "schema", self.channel.schema)
        Source.__post_init__(self)

    @property
    def bounded(self) -> bool:
        """A closed channel ends."""
        return self.channel.closed

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy; rows are checked when they are put, so only steps can fail on them."""
        return self.policy

    def detail(self) -> str:
        """The name of its only split."""
        return "memory channel"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySink(Sink):
    """Rows collected into a channel of this process."""

    channel: MemoryChannel = field(repr=False, compare=False, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Refuse anything but a channel."""
        Sink.__post_init__(self)
        # Only pipelines with a channel have loaded the module.
        from rs_assets.connectors.memory import checked_kind

        checked_kind(self.channel, step=self.name)
