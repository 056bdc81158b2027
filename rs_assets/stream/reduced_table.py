"""Tables of values that Python functions keep for each group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rs_assets.errors import TopologyError
from rs_assets.records.schema import Schema
from rs_assets.stream.method_hints import no_such_method
from rs_assets.stream.process_steps import needed_schema
from rs_assets.topology.nodes.table_reduce import Adder, Adders, TableReduce
from rs_assets.topology.user_code.expression import PythonFunction, returned_schema

if TYPE_CHECKING:
    from rs_assets.stream.table import GroupedTable, Table

Row = dict[str, Any]
Cogrouper = Callable[[Row, Row, Any], Any]


@dataclass(frozen=True, slots=True)
class WithoutKey:
    """A function of value and row, called as one of key, row and value."""

    function: Callable[[Any, Row], Any]

    @property
    def __name__(self) -> str:
        """The name of the function."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, key: Row, row: Row, value: Any) -> Any:  # noqa: ARG002  it does not ask for the key
        """The new value."""
        return self.function(value, row)


@dataclass(frozen=True, slots=True)
class CogroupedTable:
    """Groups of several inputs with equal keys, to one value of which the rows of all are added."""

    groups: tuple[GroupedTable, ...]
    adders: tuple[Adder, ...]

    def cogroup(self, other: GroupedTable, function: Cogrouper, *, subtract: Cogrouper | None = None) -> CogroupedTable:
        """Add the rows of another input too.

        - `other`: `group_by(...)` of a stream or a table of the same pipeline, with as many keys of the same names.
        - `function`, `subtract`: as for `GroupedTable.cogroup`.
        """
        return CogroupedTable((*self.groups, other), (*self.adders, adder(other, function, subtract)))

    def aggregate(self, *, schema: Schema, initial: Callable[[], Any] | None = None, name: str = "cogroup") -> Table:
        """The table of the values, with the group fields as its key.

        - `schema` (schema): the fields of a value, without the keys.
        - `initial` (function without arguments, default none): makes the value of a new key; without it that is None.
        - `name` (str, default "cogroup"): the state is stored under it.
        """
        from rs_assets.stream.table import Table, table_of

        first = self.groups[0]
        for other in self.groups[1:]:
            table_of(other.table, first.table.draft, step=name)
            if other.fields != first.fields:
                raise TopologyError(
                    f"step {name!r} groups its inputs by different fields: {', '.join(first.fields)};"
                    f" {', '.join(other.fields)}",
                    remedy="give the fields equal names before: .map('buyer AS user', ...)",
                    step=name,
                )
        node = TableReduce(
            name=name,
            inputs=tuple(group.table.step for group in self.groups),
            keys=first.fields,
            function=PythonFunction(
                Adders(self.adders, initial), needed_schema(schema, "schema", step=name), trace=False
            ),
        )
        return Table(first.table.draft, first.table.draft.add(node), first.fields)

    def __getattr__(self, name: str) -> Any:
        """No method of a table: it has no schema yet."""
        raise no_such_method(self, name)


def adder(group: GroupedTable, add: Cogrouper, subtract: Cogrouper | None) -> Adder:
    """The functions for the rows of `group`; TopologyError if rows of a table go and cannot be subtracted."""
    if group.aggregates or group.own:
        raise TopologyError(
            f"step {group.name!r} has other aggregates, and a function keeps a value alone",
            remedy="compute them in the function too",
            step=group.name,
        )
    if not group.appends and subtract is None:
        raise TopologyError(
            f"rows of the table {str(group.table.step)!r} go, and the function cannot subtract them",
            remedy="subtract=, a function of the same form that takes the effect of a row away",
            step=group.name,
        )
    return Adder(add, subtract)


def reduced(group: GroupedTable, function: Any, subtract: Any, *, schema: Schema, name: str) -> Table:
    """The table of `group` with the value that `function(value, row)` keeps."""
    both = [None if each is None else WithoutKey(each) for each in (function, subtract)]
    first = adder(group, both[0], both[1])  # type: ignore[arg-type]
    kept = returned_schema(function, schema, step=name)
    return CogroupedTable((group,), (first,)).aggregate(schema=kept, name=name)
