"""A table of SQL that is read: the facts for its connector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.memory import MemoryChannel
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.sql.read.options import ORDER_BY, Options
from rs_assets.sql.read.statements import Column

if TYPE_CHECKING:
    from rs_assets.stream.builder import DataStreamSource
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

# Rows, or a channel of rows, that the program passes for a table.
Bound = MemoryChannel | Iterable[Mapping[str, Any]]
POLICIES: Final = {name: name for name in ("fail", "dead_letter", "quarantine", "skip")}


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table that is read: its options, its columns as DDL, and the name of the step.

    `bound` are the rows, or the channel, that the program passes for it. With `versions` all records of a
    table are used.
    """

    begin: DataStreamSource
    options: Options
    schema: str
    name: str
    bound: Bound | None
    versions: bool = False

    @property
    def bad_records(self) -> str:
        """The policy for bad records, an option of all sources that can have any."""
        return str(self.options.choice("bad-records", POLICIES, "fail"))

    @property
    def metadata(self) -> list[str]:
        """The keys that METADATA columns name."""
        return [column.metadata.text for column in self.options.table.columns if column.metadata is not None]

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the PRIMARY KEY; empty without one."""
        return tuple(word.text for word in self.options.table.key)

    def rows(
        self, stream: DataStream, *, placed: bool = True, instead: str = "'follow' = 'true'"
    ) -> DataStream | Table:
        """The rows as they are read; with a PRIMARY KEY the newest of each key, as a table.

        The options `order-by` and `deletes` name columns. Rows that are not `placed` have no order of reading, so they
        need the first, or the option `instead`.
        """
        if not self.keys:
            return stream
        order = self.options.names(ORDER_BY)
        if not (order or placed or self.versions):
            raise self.options.error(
                f"the rows of {self.options.table.name.text!r} have no order of reading, so no row is the newest",
                at=self.options.table.key[0].start, remedy=f"'{ORDER_BY}' = 'ts', or {instead}",
            )  # fmt: skip
        gone = self._deletes()
        deletes = quote_name(gone) if gone is not None else None
        return stream.to_table(*self.keys, order_by=order, deletes=deletes, name=f"{self.name}_table")

    def _deletes(self) -> str | None:
        """The column that ends the row of its key; SqlError unless records have it as a boolean."""
        pair, gone = self.options.found.get("deletes"), self.options.take("deletes")
        if gone is None:
            return None
        columns = {column.name.text.casefold(): column for column in self.options.table.columns}
        why = _not_a_flag(columns.get(gone.casefold()))
        if why:
            raise self.options.error(
                f"'deletes' must name a BOOLEAN column of the records, not {gone!r}, {why}",
                at=pair[1].start if pair else None,
                remedy=f"declare it as the records have it: {gone} BOOLEAN; or in Python a condition:"
                " .to_table('id', deletes=\"op = 'd'\")",
            )
        return gone


def _not_a_flag(column: Column | None) -> str:
    """Why no row has a column as a boolean; an empty text if rows may have it."""
    if column is None:
        return "which the table does not have"
    if column.computed is not None or column.metadata is not None:
        return "which is computed" if column.metadata is None else "which is METADATA"
    kind = column.type
    return "" if kind is None or kind.name == "boolean" else f"of type {kind.text.upper()}"
