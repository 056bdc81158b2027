"""Tables of databases as sinks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from rs_assets.common.secrets import Deferred
from rs_assets.connectors.nodes import Sink
from rs_assets.errors import TopologyError

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

    url: Deferred = field(repr=False, compare=False)
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
    def named(self) -> tuple[str, ...]:
        """The fields of a row that its settings name."""
        return (*self.keys, *((self.deletes,) if self.deletes else ()))

    def detail(self) -> str:
        """Mode and place."""
        gone = f" but {self.deletes}" if self.deletes else ""
        return f"{self.mode} {self.where}{gone}"


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
