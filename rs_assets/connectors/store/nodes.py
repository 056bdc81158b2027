"""Stores as sinks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from rs_assets.common.node import Node
from rs_assets.connectors.nodes import Sink
from rs_assets.errors import TopologyError
from rs_assets.records.columns import RETRACTED

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSink(Sink):
    """The current row of each of `keys`, in the order of the keys.

    With `changes` the rows are those of a table with these keys, and RETRACTED marks those that go. Else the row that
    was read last replaces that of its keys; if its boolean field `deletes` is true, the keys have no row any more.
    """

    icon: ClassVar[str] = "sqlite"
    mode: ClassVar[str] = "upsert"
    order_by: ClassVar[tuple[str, ...]] = ()

    store: str
    keys: tuple[str, ...]
    deletes: str | None = None
    changes: bool = False

    def __post_init__(self) -> None:
        """Refuse an invalid name, and invalid keys."""
        Sink.__post_init__(self)
        if not isinstance(self.store, str) or not NAME.fullmatch(self.store):
            raise TopologyError(
                f"step {self.name!r}: the name of a store must be letters, digits, '_', '-', '.', not {self.store!r}",
                remedy="serve('totals')",
                step=self.name,
            )
        if not self.keys or len({*self.keys}) != len(self.keys):
            raise TopologyError(
                f"step {self.name!r} must name at least one key and none twice: {', '.join(self.keys) or 'none'}",
                remedy="name the fields that identify a row: keys=['user']",
                step=self.name,
            )
        if self.deletes in self.keys:
            raise TopologyError(f"step {self.name!r}: {self.deletes!r} is a key, so it cannot mark deleted rows")

    @property
    def read_order(self) -> bool:
        """Whether the winning row depends on the positions at which rows were read."""
        return not self.changes

    @property
    def flag(self) -> str | None:
        """The boolean column of the rows that delete the row of their keys; None if none does."""
        return RETRACTED if self.changes else self.deletes

    @property
    def named(self) -> tuple[str, ...]:
        """The fields of a row that its settings name."""
        return (*self.keys, *((self.deletes,) if self.deletes else ()))

    def detail(self) -> str:
        """The store and its keys."""
        gone = f" but {self.deletes}" if self.deletes else ""
        return f"{self.store} by {', '.join(self.keys)}{gone}"


def stores_of(sinks: Iterable[Node]) -> tuple[str, ...]:
    """The names of the stores among the sinks of a pipeline."""
    return tuple(sink.store for sink in sinks if isinstance(sink, StoreSink))
