"""The keys of a lookup join: columns that are equal, and columns of the table that contain a value of the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rs_assets.errors import TopologyError
from rs_assets.operators.dimension.keys import Containing, Network, Range, check_within
from rs_assets.records.types import Type
from rs_assets.sql.expressions.expressions import Expressions
from rs_assets.sql.expressions.functions import LOOKUP_CALLS
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.planner import Planner, conjuncts
from rs_assets.sql.plan.relation import Column, Relation, Scope
from rs_assets.sql.read.lexer import CALL

WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
REMEDY: Final = (
    "add ON stream.key = table.key, IP_CONTAINS(table.network, stream.ip)"
    " or RANGE_CONTAINS(table.low, table.high, stream.value)"
)


@dataclass(frozen=True, slots=True)
class LookupKeys:
    """What a lookup join compares.

    `pairs` are values of the stream with the columns that they must equal, `within` is the value that a key of the
    table must contain, `rest` are the remaining conditions.
    """

    pairs: tuple[tuple[Value, str], ...]
    within: tuple[Value, Containing] | None
    rest: tuple[Any, ...]


def lookup_keys(planner: Planner, left: Relation, right: tuple[Column, ...], tree: Any) -> LookupKeys:
    """The keys in ON; SqlError if there are none."""
    both = planner.expressions(Scope(planner.text, (*left.columns, *right)).find)
    sides = _Sides(planner, both, {id(column.value): column for column in right})
    pairs, within, rest = list[tuple[Value, str]](), list[tuple[Value, Containing]](), list[Any]()
    for each in conjuncts(tree.args.get("on")):
        equal = sides.equal(each)
        if equal is not None:
            pairs.append(equal)
        elif sides.is_containing(each):
            within.append(sides.containing(each))
        else:
            rest.append(each)
    if len(within) > 1:
        raise planner.error(
            f"a lookup join has {len(within)} keys that contain values", tree,
            remedy="look one of them up in a join of its own",
        )  # fmt: skip
    if not pairs and not within:
        raise planner.error("a lookup join needs equal columns, or a network or range", tree, remedy=REMEDY)
    return LookupKeys(tuple(pairs), within[0] if within else None, tuple(rest))


@dataclass(frozen=True, slots=True)
class _Sides:
    """Conditions over both sides; `columns` are those of the table, by the identity of their values."""

    planner: Planner
    both: Expressions
    columns: Mapping[int, Column]

    def equal(self, tree: Any) -> tuple[Value, str] | None:
        """The value of the stream and the column that it must equal."""
        sides = [(tree.this, tree.expression), (tree.expression, tree.this)] if tree.key == "eq" else []
        found = next(((one, two) for one, two in sides if self._column(two) is not None), None)
        if found is None or self._reads_table(found[0]):
            return None
        column = self._column(found[1])
        assert column is not None  # it was found above
        return _alike(self.both.value(found[0]), column.value.type), column.name

    def is_containing(self, tree: Any) -> bool:
        """Whether a condition is one of LOOKUP_CALLS, and not a user-defined function."""
        name = tree.name.removeprefix(CALL).upper() if tree.key == "anonymous" else ""
        return name in LOOKUP_CALLS and name not in self.planner.catalog.functions

    def containing(self, tree: Any) -> tuple[Value, Containing]:
        """The value of the stream, and the columns that contain it."""
        name, given = tree.name.removeprefix(CALL).upper(), list(tree.expressions)
        closed = name == "RANGE_CONTAINS" and len(given) == 4 and given[3].key == "boolean"
        columns = [self._column(each) for each in given[: 1 if name == "IP_CONTAINS" else 2]]
        ends = [column for column in columns if column is not None]
        if len(given) - closed != len(columns) + 1 or len(ends) < len(columns) or self._reads_table(given[len(ends)]):
            raise self.planner.error(
                f"{name} takes columns of the table, then a value of the stream",
                tree,
                remedy=f"write {LOOKUP_CALLS[name]}",
            )
        first, last = ends[0].name, ends[-1].name
        included = closed and bool(given[3].this)
        key = Network(first) if name == "IP_CONTAINS" else Range(first, last, closed=included)
        value = self.both.value(given[len(ends)])
        self._check(key, value, ends, tree)
        return value, key

    def _check(self, key: Containing, value: Value, ends: list[Column], tree: Any) -> None:
        asked = ("the value of the stream", value.type.text if value.type else None)
        kinds = [(column.name, column.value.type.text if column.value.type else None) for column in ends]
        try:
            check_within(key, asked, kinds, step="join")
        except TopologyError as error:
            wanted = (
                "STRING" if isinstance(key, Network) else "BIGINT, DOUBLE or TIMESTAMP(3), both sides the same type"
            )
            what = error.what.removeprefix("step 'join' ")
            raise self.planner.error(f"a lookup join {what}", tree, remedy=f"CAST(... AS {wanted})") from error

    def _column(self, tree: Any) -> Column | None:
        """The column of the table that an expression is."""
        return self.columns.get(id(self.both.value(tree))) if tree.key == "column" else None

    def _reads_table(self, tree: Any) -> bool:
        from sqlglot import exp

        return any(self._column(column) is not None for column in tree.find_all(exp.Column))


def _alike(value: Value, kind: Type | None) -> Value:
    """The value cast to the type of its column, if both are integer types; null, which equals nothing, beyond it."""
    known = value.type
    if known is None or kind is None or known.name == kind.name or not {known.name, kind.name} <= set(WHOLE):
        return value
    function = "try_cast" if WHOLE.index(kind.name) < WHOLE.index(known.name) else "cast"
    return Value(f"({function}({value.plain} AS {kind.text}))", kind)
