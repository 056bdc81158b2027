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
    """Rows that are added to a table, or all `changes` of it; unbounded.

    `table` is a plain name, of a table of `namespace` below the home, or a path, absolute once the node is made.
    """

    icon: ClassVar[str] = "deltalake"

    namespace: str
    table: str
    changes: bool = False
    starting: int | None = None
    policy: BadRecords = BadRecords.FAIL

    def __post_init__(self) -> None:
        """Refuse what is no table and no version, and anchor the path."""
        Source.__post_init__(self)
        if not isinstance(self.table, str) or not self.table or "\0" in self.table or REMOTE.match(self.table):
            raise TopologyError(
                f"step {self.name!r}: tables are not read from {self.table!r}",
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
        """The table, and which rows of it."""
        return ("delta", self.namespace, self.table, "changes" if self.changes else "rows")

    @property
    def bad_records(self) -> BadRecords:
        """The policy that was asked for."""
        return self.policy

    @property
    def row_schema(self) -> str | None:
        """The schema, and behind it what the change feed adds."""
        return f"{self.schema}, {CHANGES}" if self.schema and self.changes else self.schema

    def detail(self) -> str:
        """The table."""
        return f"changes of {self.table}" if self.changes else self.table

    def identity(self) -> tuple[str, ...]:
        """The home may move; which rows are read of the table, and what they look like, may not."""
        return (self.table.rpartition("/")[2], str(self.changes), self.schema or "inferred")
