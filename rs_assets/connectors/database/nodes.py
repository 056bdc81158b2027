"""Tables of databases as sinks, and as sources that are polled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Literal, get_args

from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.common.secrets import Deferred
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords

DatabaseMode = Literal["append", "upsert"]
# Tables of the sinks' own, in the databases that they write.
RESERVED = ("rs_marks", "rs_claims", "rs_returns")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSink(Sink):
    """A table of a database, `name` or `schema.name`, which is made if it does not exist.

    `append` adds rows, `upsert` replaces the row of the same `keys`: of the rows of a batch with equal keys the one
    that was read last is taken. If its boolean field `deletes` is true, the row is deleted; that field has no column.
    `where` is the place for people, and what distinguishes it from others, without credentials.
    """

    icon: ClassVar[str] = "postgres"
    order_by: ClassVar[tuple[str, ...]] = ()

    url: Deferred = field(repr=False, compare=False, metadata=NO_EFFECT)
    where: str = ""
    table: str
    mode: DatabaseMode = "append"
    keys: tuple[str, ...] = ()
    deletes: str | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid table, and invalid combinations of options."""
        Sink.__post_init__(self)
        check_table(self.table, step=self.name)
        if self.mode not in get_args(DatabaseMode):
            raise TopologyError(
                f"the mode of step {self.name!r} must be one of {', '.join(get_args(DatabaseMode))}, not {self.mode!r}",
                remedy=f"use one of: {', '.join(get_args(DatabaseMode))}",
                step=self.name,
            )
        if (self.mode == "upsert") != bool(self.keys):
            raise TopologyError(
                f"step {self.name!r}: keys belong to mode='upsert' and it needs them", remedy="keys=['page']"
            )
        if self.deletes is not None and self.mode != "upsert":
            raise TopologyError(f"step {self.name!r}: deletes belongs to mode='upsert'", remedy="leave it out")
        if self.deletes in self.keys:
            raise TopologyError(f"step {self.name!r}: {self.deletes!r} is a key, so it cannot mark deleted rows")

    @property
    def read_order(self) -> bool:
        """Whether the winning row depends on the positions at which rows were read."""
        return self.mode == "upsert"

    @property
    def flag(self) -> str | None:
        """The boolean column of the rows that delete the row of their keys; None if none does."""
        return self.deletes

    @property
    def named(self) -> tuple[str, ...]:
        """The fields of a row that its settings name."""
        return (*self.keys, *((self.deletes,) if self.deletes else ()))

    def detail(self) -> str:
        """Mode and place."""
        gone = f" but {self.deletes}" if self.deletes else ""
        return f"{self.mode} {self.where}{gone}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSource(Source):
    """A table of a database that is asked for new rows by its column `column`. Unbounded.

    `where` is the place for people, without credentials. `lag` is how old rows must be to be read.
    """

    icon: ClassVar[str] = "postgres"

    url: Deferred = field(repr=False, compare=False, metadata=NO_EFFECT)
    where: str = ""
    table: str
    column: str
    lag: timedelta | None = None
    every: timedelta = field(default=timedelta(seconds=1), metadata=NO_EFFECT)
    keep: int = field(default=10, metadata=NO_EFFECT)
    policy: BadRecords = BadRecords.FAIL
    max_rows_per_batch: int = field(default=100_000, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        Source.__post_init__(self)
        check_table(self.table, step=self.name)
        checks: Sequence[tuple[bool, str, str]] = (
            (isinstance(self.column, str) and bool(self.column), "the column must be text", "column='updated_at'"),
            (self.lag is None or (isinstance(self.lag, timedelta) and self.lag > timedelta(0)),
             "lag must be a time above 0", "lag=timedelta(minutes=5)"),
            (isinstance(self.every, timedelta) and self.every >= timedelta(0), "every must be a time",
             "every=timedelta(seconds=1)"),
            (positive(self.keep), "keep must be a positive number of polls", "keep=10"),
            (positive(self.max_rows_per_batch), "a limit must be a positive number", ""),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)

    @property
    def origin(self) -> tuple[str, ...]:
        """The database and the table."""
        return ("database", self.where)

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    def detail(self) -> str:
        """The place and the column."""
        return f"{self.where} by {self.column}"

    def identity(self) -> tuple[str, ...]:
        """The database may move; the table, the column and the schema may not change."""
        return (self.table, self.column, self.schema or "inferred")


def check_table(table: object, *, step: str) -> None:
    """TopologyError for what is not the name of a table, or that of a table of the sinks' own."""
    if not isinstance(table, str) or not all(table.split(".")) or "\0" in table or table.count(".") > 1:
        raise TopologyError(
            f"step {step!r}: the table must be text, name or schema.name, not {table!r}",
            remedy="table='orders', or 'shop.orders'",
            step=step,
        )
    if table.rpartition(".")[2].lower() in RESERVED:
        raise TopologyError(
            f"step {step!r}: the table name {table!r} is reserved for the marks of sinks",
            remedy="use another one",
            step=step,
        )
