"""Delta tables as a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rs_assets.common.project import anchored
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords
from rs_assets.topology.nodes.base import positive
from rs_assets.topology.nodes.source import REMOTE, SCHEME, Source

# The fields that a row of the change feed has besides those of its table.
CHANGES = "_change_type string, _commit_version bigint, _commit_timestamp timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSource(Source):
    """Rows added to a table, or all `changes` of it; unbounded.

    `table` is a name, of a table of `namespace` below the home, or a path, which becomes absolute.
    """

    icon: ClassVar[str] = "deltalake"

    namespace: str
    table: str
    changes: bool = False
    starting: int | None = None
    policy: BadRecords = BadRecords.FAIL

    def __post_init__(self) -> None:
        """Refuse invalid tables and versions, and make the path absolute."""
        Source.__post_init__(self)
        if not isinstance(self.table, str) or not self.table or "\0" in self.table or REMOTE.match(self.table):
            raise TopologyError(
                f"step {self.name!r}: tables cannot be read from {self.table!r}",
                remedy="use a name, or a path of a local or mounted file system",
                step=self.name,
            )
        if self.starting is not None and self.starting != 0 and not positive(self.starting):
            raise TopologyError(
                f"the starting version of step {self.name!r} must be a whole number from 0, not {self.starting!r}",
                remedy="starting_version=3",
                step=self.name,
            )
        plain = SCHEME.sub("", self.table)
        object.__setattr__(self, "table", anchored(plain) if "/" in plain else plain)

    @property
    def origin(self) -> tuple[str, ...]:
        """The table, and whether its rows or its changes are read."""
        return ("delta", self.namespace, self.table, "changes" if self.changes else "rows")

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    @property
    def row_schema(self) -> str | None:
        """The schema, followed by the fields of the change feed."""
        return f"{self.schema}, {CHANGES}" if self.schema and self.changes else self.schema

    def detail(self) -> str:
        """The table."""
        return f"changes of {self.table}" if self.changes else self.table

    def identity(self) -> tuple[str, ...]:
        """The home may move; the kind of rows and their schema may not change."""
        return (self.table.rpartition("/")[2], str(self.changes), self.schema or "inferred")
