"""Tables of databases as sources of their changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import ClassVar, Literal, Self, get_args

from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.common.secrets import Deferred
from rs_assets.connectors.database.nodes import check_table
from rs_assets.connectors.nodes import Source
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords

OnTruncate = Literal["fail", "row"]
OnAdded = Literal["fail", "ignore"]
# The fields of a change besides those of the table.
CHANGE_TYPES: Mapping[str, str] = {"op": "string", "lsn": "bigint", "seq": "bigint", "commit_time": "timestamp"}
CHANGE_DDL = ", ".join(f"{name} {kind}" for name, kind in CHANGE_TYPES.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesSource(Source):
    """A table, then its changes, from the log of a database. Unbounded.

    `where` is the place for people, without credentials. `keep` is how long landed rows stay after they were read.
    """

    system: ClassVar[str] = ""
    self_contained: ClassVar[bool] = True

    url: Deferred = field(repr=False, compare=False, metadata=NO_EFFECT)
    where: str = ""
    table: str
    snapshot: bool = True
    keep: timedelta = field(default=timedelta(days=7), metadata=NO_EFFECT)
    truncate: OnTruncate = "fail"
    added_columns: OnAdded = "fail"
    policy: BadRecords = BadRecords.FAIL
    max_rows_per_batch: int | None = field(default=100_000, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options."""
        Source.__post_init__(self)
        check_table(self.table, step=self.name)
        limit = self.max_rows_per_batch
        checks: Sequence[tuple[bool, str, str]] = (
            *self.own_checks,
            (isinstance(self.keep, timedelta) and self.keep >= timedelta(0),
             f"keep must be a time, not {self.keep!r}", "keep=timedelta(days=7)"),
            (self.truncate in get_args(OnTruncate), f"{self.truncate!r} is not a policy for TRUNCATE",
             f"use one of: {', '.join(get_args(OnTruncate))}"),
            (self.added_columns in get_args(OnAdded), f"{self.added_columns!r} is not a policy for added columns",
             f"use one of: {', '.join(get_args(OnAdded))}"),
            (limit is None or positive(limit), "a limit must be a positive number", ""),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)

    @property
    def own_checks(self) -> Sequence[tuple[bool, str, str]]:
        """Further checks of one database: whether it holds, what is wrong, what helps."""
        return ()

    def unlimited(self) -> Self:
        """Without the limit of rows."""
        return replace(self, max_rows_per_batch=None)

    @property
    def origin(self) -> tuple[str, ...]:
        """The database and the table."""
        return (self.system, self.where)

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    @property
    def row_schema(self) -> str | None:
        """The schema, followed by the fields of a change."""
        return f"{self.schema}, {CHANGE_DDL}" if self.schema else None

    def detail(self) -> str:
        """The place."""
        return f"changes of {self.where}" + ("" if self.snapshot else " from now on")

    def identity(self) -> tuple[str, ...]:
        """The database may move; the table and the schema may not change."""
        return (self.table, self.schema or "inferred")
