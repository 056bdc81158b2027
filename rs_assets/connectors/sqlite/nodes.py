"""SQLite tables as a source and as a sink."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.common.project import anchored
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteSource(Source):
    """Rows of a table by its INTEGER PRIMARY KEY; unbounded. `path` becomes absolute."""

    icon: ClassVar[str] = "sqlite"

    path: str
    table: str
    policy: BadRecords = BadRecords.FAIL
    max_rows_per_batch: int | None = field(default=None, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Refuse invalid options, and make the path absolute."""
        Source.__post_init__(self)
        _check_place(self.name, self.path, self.table)
        if self.max_rows_per_batch is not None and not positive(self.max_rows_per_batch):
            raise TopologyError(f"step {self.name!r}: max_rows_per_batch must be a positive number")
        object.__setattr__(self, "path", anchored(self.path))

    @property
    def origin(self) -> tuple[str, ...]:
        """The table of the database."""
        return ("sqlite", self.path, self.table)

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    def detail(self) -> str:
        """The table."""
        return self.table

    def identity(self) -> tuple[str, ...]:
        """The database may move; the table and the schema may not change."""
        return (self.table, self.schema or "inferred")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteSink(Sink):
    """Rows appended to a table, which is created if it does not exist. `path` becomes absolute."""

    icon: ClassVar[str] = "sqlite"

    path: str
    table: str

    def __post_init__(self) -> None:
        """Refuse an invalid database or table, and make the path absolute."""
        Sink.__post_init__(self)
        _check_place(self.name, self.path, self.table)
        object.__setattr__(self, "path", anchored(self.path))

    def detail(self) -> str:
        """The table."""
        return self.table


def _check_place(step: str, path: object, table: object) -> None:
    for what, text in (("path", path), ("table", table)):
        if not isinstance(text, str) or not text or "\0" in text:
            raise TopologyError(f"step {step!r}: the {what} must be text, not {text!r}", step=step)
    if isinstance(table, str) and table.lower().startswith(("_rs_", "sqlite_")):
        raise TopologyError(f"step {step!r}: the table name {table!r} is reserved", remedy="use another one")
