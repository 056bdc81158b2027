"""Shared state of planning: the statements, the names of steps, and the streams made so far."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rs_assets.errors import SqlError
from rs_assets.operators.window.trigger import ONCE, Firing
from rs_assets.sql.expressions.expressions import Expressions, Resolve
from rs_assets.sql.expressions.functions import Calls
from rs_assets.sql.expressions.rules import REFUSED, RULES
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.relation import Relation, Scope, free_name
from rs_assets.sql.read.source import Text, start_of
from rs_assets.sql.spark.functions import SPARK_RULES, SparkCalls

if TYPE_CHECKING:
    from rs_assets.sql.plan.catalog import Catalog
    from rs_assets.sql.read.statements import Column
    from rs_assets.stream.builder import DataStreamSource
    from rs_assets.stream.data_stream import DataStream

LONGEST_NAME: Final = 60
Planned = TypeVar("Planned")


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query of WITH, and the queries that it can read by name: previous ones, and those of outer WITHs."""

    tree: Any
    local: Mapping[str, NamedQuery]


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The context of a query: the prefix of its step names, and the number of the reading of its sources.

    Both sides of a join must not share a source, so the right one reads it again. `local` are the queries of WITH.
    """

    base: str
    reading: int = 1
    local: Mapping[str, NamedQuery] = field(default_factory=dict)
    firing: Firing = ONCE
    # The table of its INSERT.
    root: str = ""
    # The target columns of a query, if their table keeps the newest row of each key.
    upsert_columns: tuple[Column, ...] = ()
    # Whether the rows of the query are read by a group or a join: groups without a window emit changes.
    changes: bool = False

    def inside(self, name: str) -> QueryContext:
        """The context of a sub-query."""
        return replace(self, base=f"{self.base}_{name.lower()}" if name else self.base, upsert_columns=())


@dataclass(slots=True)
class Planner:
    """Plans queries as steps of a pipeline; each view is planned once for each reading."""

    text: Text
    catalog: Catalog
    begin: DataStreamSource
    # Rows and channels that the program passes for tables.
    bound: Mapping[str, Any]
    # Sources and views by name, reading, firing, and whether they are versions, or changes.
    made: dict[tuple[str, int, Firing, bool], Relation] = field(default_factory=dict)
    # The names of steps, each with the offset of its clause.
    steps: dict[str, int] = field(default_factory=dict)
    reading: set[str] = field(default_factory=set)
    # How many queries are being planned, each for the one before.
    depth: int = 0
    # Unions whose sides with different states are in queries of their own; None if there are no such.
    divides: set[str] | None = None

    def as_tables(
        self, plan: Callable[[QueryContext], Planned], context: QueryContext, needed: Callable[[Planned], bool]
    ) -> Planned:
        """What `plan` makes; if `needed` says so, made again with groups without a window as tables.

        The rows of such a table are retracted; those of other groups are only replaced, which costs less.
        """
        if context.changes:
            return plan(context)
        return self.again(lambda: plan(context), needed, lambda: plan(replace(context, changes=True)))

    def divided(
        self,
        plan: Callable[[], Planned],
        step_of: Callable[[Planned], str],
        lacks: Callable[[str], bool],
        lags: Callable[[str, Container[str]], bool],
    ) -> Planned:
        """What `plan` makes; again, with durable shuffles before unions of different states, if its step `lacks` one.

        Not if a step by event time reads such a union, whose rows then come from queries that lag differently.
        Views that lack one state are made once more, also those that an earlier statement groups.
        """

        def apart() -> Planned:
            self.made = {key: relation for key, relation in self.made.items() if not lacks(relation.stream.step)}
            self.divides = set()
            try:
                return self.again(plan, lambda found: lags(step_of(found), self.divides or ()), whole)
            finally:
                self.divides = None

        def whole() -> Planned:
            self.divides = None
            return plan()

        return self.again(plan, lambda found: lacks(step_of(found)), apart)

    def again(
        self, plan: Callable[[], Planned], needed: Callable[[Planned], bool], other: Callable[[], Planned]
    ) -> Planned:
        """What `plan` makes, or `other` in its place if `needed` says so of it."""
        draft = self.begin.draft
        before = dict(self.made), dict(self.steps), list(draft.pending), draft.count
        found = plan()
        if not needed(found):
            return found
        self.made, self.steps, draft.pending, draft.count = before
        return other()

    def name(self, context: QueryContext, kind: str, at: object) -> str:
        """A name for a step, which depends only on the names in the statement and the kind of step."""
        again = f"_{context.reading}" if context.reading > 1 else ""
        made = free_name(step_name(f"{context.base}_{kind}{again}" if kind else f"{context.base}{again}"), self.steps)
        self.steps[made] = start_of(at)
        return made

    def expressions(self, resolve: Resolve) -> Expressions:
        """Expressions over the columns of `resolve`."""
        if self.text.dialect == "spark":
            return Expressions(self.text, resolve, SparkCalls(self.catalog.functions), SPARK_RULES, REFUSED)
        return Expressions(self.text, resolve, Calls(self.catalog.functions), RULES, REFUSED)

    def over(self, relation: Relation) -> Expressions:
        """Expressions over the columns of a relation."""
        return self.expressions(Scope(self.text, relation.columns).find)

    def error(self, what: str, at: object, *, remedy: str = "") -> SqlError:
        """The error at a tree, a token or an offset."""
        return self.text.error(what, at, remedy=remedy)

    def with_fields(
        self, relation: Relation, values: Mapping[str, Value], context: QueryContext, kind: str, at: object
    ) -> tuple[Relation, dict[str, str]]:
        """`relation` with `values` as fields, added if they are not fields yet; the field of each by wanted name."""
        named, new = dict[str, str](), dict[str, str]()
        for wanted, value in values.items():
            if value.field is not None:
                named[wanted] = value.field
                continue
            known = next((name for name, text in new.items() if text == value.text), None)
            made = known or free_name(wanted, [*relation.fields, *new])
            named[wanted] = made
            new[made] = value.text
        return self._with(relation, new, context, kind, at), named

    def with_keys(
        self, relation: Relation, values: Iterable[Value], context: QueryContext, at: object
    ) -> tuple[Relation, list[str]]:
        """`relation` with `values` as fields, and the field of each; no two are the same, even if they are equal.

        A join takes each field once: of `a.id = b.id AND a.id = b.other` the second `a.id` is a copy.
        """
        names, new = list[str](), dict[str, str]()
        for number, value in enumerate(values, 1):
            if value.field is not None and value.field not in names:
                names.append(value.field)
                continue
            made = free_name(f"key_{number}", [*relation.fields, *new])
            names.append(made)
            new[made] = value.text
        return self._with(relation, new, context, "keys", at), names

    def _with(
        self, relation: Relation, new: Mapping[str, str], context: QueryContext, kind: str, at: object
    ) -> Relation:
        if not new:
            return relation
        stream = added(relation.stream, new, self.name(context, kind, at))
        return replace(relation, stream=stream, fields=(*relation.fields, *new))


def added(stream: DataStream, columns: Mapping[str, str], name: str) -> DataStream:
    """`stream` with more fields, whose names need not be valid Python keyword arguments."""
    from rs_assets.topology.nodes.step import WithFields
    from rs_assets.topology.user_code.expression import SqlText

    made = tuple((field, SqlText(text)) for field, text in columns.items())
    return type(stream)(stream.draft, stream.draft.add(WithFields(name=name, inputs=(stream.step,), columns=made)))


def step_name(text: str) -> str:
    """A valid step name, made from names of the statement.

    >>> step_name("Hourly Sales_where")
    'hourly_sales_where'
    """
    made = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    made = made if made[:1].isalpha() else f"t_{made}"
    if len(made) <= LONGEST_NAME:
        return made
    return f"{made[: LONGEST_NAME - 9]}_{hashlib.sha256(made.encode()).hexdigest()[:8]}"


def conjuncts(tree: Any) -> Iterator[Any]:
    """The parts of a condition joined by AND."""
    if tree is None:
        return
    if tree.key == "paren":
        yield from conjuncts(tree.this)
    elif tree.key == "and":
        yield from conjuncts(tree.this)
        yield from conjuncts(tree.expression)
    else:
        yield tree


def not_null(value: Any, conditions: Iterable[Any]) -> bool:
    """Whether `value IS NOT NULL` is among the conditions."""
    tests = [each.this.unnest() for each in conditions if each.key == "not"]
    return any(each.key == "is" and each.expression.key == "null" and each.this.unnest() == value for each in tests)


def named_queries(queries: Iterable[Any], around: Mapping[str, NamedQuery]) -> dict[str, NamedQuery]:
    """The queries that can be read by name after a WITH: its own, and those of outer WITHs."""
    local = dict(around)
    for each in queries:
        local[each.alias] = NamedQuery(each.this, dict(local))
    return local


def name_of(item: Any) -> str:
    """The name of an item of a select list: its alias, or the name of its column; empty for a computed one."""
    return item.alias or (item.name if item.key in ("column", "dot") else "")
