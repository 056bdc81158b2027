"""Tables: the current row of each key, and what is computed from it while it changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rs_assets.common.names import one_by_one
from rs_assets.common.node import Node
from rs_assets.errors import TopologyError
from rs_assets.operators.join.spec import pairs_of
from rs_assets.operators.window.output import Aggregate, AggregateFunction
from rs_assets.records.schema import quoted
from rs_assets.stream.draft import Draft
from rs_assets.stream.method_hints import Fluent, no_such_method
from rs_assets.stream.reduced_table import CogroupedTable, adder, reduced
from rs_assets.stream.table_sinks import TableSinks
from rs_assets.topology.nodes.step import Filter, Map, WithFields
from rs_assets.topology.nodes.table import SUBTRACTED, TableChanges, TableGroup, TableJoin, TableJoinType, TableTop
from rs_assets.topology.user_code.expression import (
    ColumnBuilder,
    Expression,
    PythonFunction,
    SqlText,
    expression,
    is_spark_column,
    returned_schema,
    steady,
    steady_native,
)
from rs_assets.topology.user_code.quoting import QUOTED

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.pipeline import Pipeline

Keys = str | Sequence[str] | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Keyed:
    """A function whose rows keep the keys of its input."""

    call: Callable[[dict[str, Any]], Mapping[str, Any]]
    keys: tuple[str, ...]

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The result of the function for `row`, with the keys of `row`."""
        keys = {key: row[key] for key in self.keys}
        return {**self.call(row), **keys}


@dataclass(frozen=True, slots=True)
class Records:
    """The step whose records a table was made of, and the condition of those that remove their key."""

    step: str
    deletes: object


@dataclass(frozen=True, slots=True)
class Versions:
    """The step with the versions of a table, their event time, and how far back they are kept."""

    step: str
    time_field: str
    history: timedelta


@dataclass(frozen=True, slots=True)
class Table(TableSinks, Fluent):
    """The current row of each key. Each method returns another table, which changes when this one does.

    Its rows are changes inside: a row that goes and a row that comes. Steps of SQL and Python see both, so a row that
    stops to pass a filter goes, and the sinks of a table hold exactly its current rows. In one batch a key changes
    once, from what it was to what it is. `keys` are the fields that identify a row; some may be null if it is
    `nullable`. `versions` has a table with a history, `records` one that was made of a stream; steps of it have
    neither.

    >>> from rs_assets import StreamBuilder
    >>> rows = [{"id": 1, "tier": "free"}, {"id": 2, "tier": "free"}, {"id": 1, "tier": "paid"}]
    >>> users = StreamBuilder.data_stream("shop", "tiers").from_array(rows).to_table("id")
    >>> tiers = users.group_by("tier").count("n")
    >>> sorted(tiers.to_stream().preview(), key=lambda row: row["tier"])
    [{'tier': 'free', 'n': 1, 'retracted': False}, {'tier': 'paid', 'n': 1, 'retracted': False}]
    """

    draft: Draft
    step: str
    keys: tuple[str, ...]
    versions: Versions | None = None
    records: Records | None = None
    nullable: bool = False

    def filter(self, condition: object, *, trace: bool = True, name: str | None = None) -> Table:
        """The rows for which `condition` is true. A row that stops to fulfil it goes.

        Typical uses: active users, open orders.

        - `condition` (SQL text, Column, or a Python function of a read-only mapping): must be deterministic.
        - `trace`, `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> rows = [{"id": 1, "open": True}, {"id": 2, "open": True}, {"id": 1, "open": False}]
        >>> orders = StreamBuilder.data_stream("shop", "open").from_array(rows).to_table("id")
        >>> orders.filter("open").to_stream().preview()
        [{'id': 2, 'open': True, 'retracted': False}]
        """
        step = self.draft.auto_name("filter", name, after=self.step)
        made = steady(expression(condition, step=step, trace=trace), step=step)
        return self._then(Filter(name=step, inputs=(self.step,), condition=made))

    def map_values(
        self, first: object, *more: object, schema: Any = None, trace: bool = True, name: str | None = None
    ) -> Table:
        """The keys, and fields computed from a row.

        Typical uses: choose fields, compute them in SQL or Python.

        - `first`, `more`: a select list in SQL or Columns, without the keys; or one Python function from dict to dict,
          whose keys are ignored. They must be deterministic.
        - `schema` (default: the function's return annotation): the fields of a function's result, with the keys.
        - `trace`, `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> orders = StreamBuilder.data_stream("shop", "named").from_array([{"id": 1, "ms": 1500}]).to_table("id")
        >>> orders.map_values("ms / 1000 AS seconds").to_stream().preview()
        [{'id': 1, 'seconds': 1.5, 'retracted': False}]
        """
        step = self.draft.auto_name("map", name, after=self.step)
        if callable(first) and not is_spark_column(first) and not more:
            function = PythonFunction(Keyed(first, self.keys), returned_schema(first, schema, step=step), trace)
            return self._then(Map(name=step, inputs=(self.step,), function=function))
        select = tuple(steady_native(each, step=step) for each in (first, *more))
        keys_first = tuple(SqlText(quoted(key)) for key in self.keys)
        return self._then(Map(name=step, inputs=(self.step,), select=(*keys_first, *select)))

    def with_fields(self, *, name: str | None = None, **fields: object) -> Table:
        """Fields in addition to the others.

        - `fields` (SQL text or Column by name): no key can be among them.
        - `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> orders = StreamBuilder.data_stream("shop", "slow").from_array([{"id": 1, "ms": 1500}]).to_table("id")
        >>> orders.with_fields(slow="ms > 100").to_stream().preview()
        [{'id': 1, 'ms': 1500, 'slow': True, 'retracted': False}]
        """
        step = self.draft.auto_name("with_fields", name, after=self.step)
        given = {field.casefold() for field in fields}
        changed = [key for key in self.keys if key.casefold() in given]
        if changed:
            raise TopologyError(
                f"step {step!r} would change the key {changed[0]!r} of a table",
                remedy="give the field another name, or make another table of it: .to_stream() ... .to_table(...)",
                step=step,
            )
        columns = tuple((field, steady_native(value, step=step)) for field, value in fields.items())
        return self._then(WithFields(name=step, inputs=(self.step,), columns=columns))

    def group_by(self, *fields: str) -> GroupedTable:
        """Begin aggregates over the rows that are equal in `fields`; a row with a null among them is in no group.

        Typical uses: orders of a customer, users of a tier, totals that follow corrections.

        - `fields` (str): the key of the resulting table.

        >>> from rs_assets import StreamBuilder
        >>> rows = [
        ...     {"id": 1, "user": "ann", "ms": 5},
        ...     {"id": 2, "user": "ann", "ms": 7},
        ...     {"id": 1, "user": "bo", "ms": 6},
        ... ]
        >>> orders = StreamBuilder.data_stream("shop", "totals").from_array(rows).to_table("id")
        >>> totals = orders.group_by("user").sum("ms", "total").max("ms", "longest")
        >>> sorted(totals.to_table().to_stream().preview(), key=lambda row: row["user"])
        [{'user': 'ann', 'total': 7, 'longest': 7, 'retracted': False},
         {'user': 'bo', 'total': 6, 'longest': 6, 'retracted': False}]
        """
        return GroupedTable(self, one_by_one(fields, call="group_by"))

    def join(
        self,
        other: Table | GroupedTable,
        *,
        on: Keys | None = None,
        how: TableJoinType = "inner",
        prefix: str | None = None,
        name: str = "table_join",
    ) -> Table:
        """The rows of this table with those of `other`; they change when either does.

        If `on` names the key of `other`, a row has one partner, and the result has the key of this table. By other
        fields a row has any number of them: the result has the keys of both tables, and a row without a partner null
        for the key of the other one. So has an "outer" join, unless it is by the keys of both.

        Typical uses: users with their totals; orders with their users, by a foreign key; orders with all payments of
        their user.

        - `other` (Table): of the same pipeline; may be this table, or made of it by filters and maps in SQL.
        - `on` (dict from a field of this table to a field of `other`, or names of both; default: the keys of both, by
          their names if these are the same, else by their places).
        - `how` (default "inner"): "inner", "left", or "outer". A row whose fields `on` are null has no partner.
        - `prefix` (str, default None): put before the names of the other table's fields. Without it names must differ,
          and the other table's fields `on` are left out.
        - `name` (str, default "table_join"): the state is stored under it.

        By other fields a batch reads all rows of the values `on` that it changes, and emits each pair that changes.

        >>> from rs_assets import StreamBuilder
        >>> shop = StreamBuilder.data_stream("shop", "rich")
        >>> users = shop.from_array([{"id": "ann", "tier": "paid"}], name="users").to_table("id", name="user")
        >>> rows = [{"order": 1, "user": "ann"}, {"order": 2, "user": "bo"}]
        >>> orders = shop.from_array(rows, name="orders").to_table("order", name="order")
        >>> rich = orders.join(users, on={"user": "id"}, how="left")
        >>> sorted(rich.to_stream().preview(), key=lambda row: row["order"])
        [{'order': 1, 'user': 'ann', 'tier': 'paid', 'retracted': False},
         {'order': 2, 'user': 'bo', 'tier': None, 'retracted': False}]
        >>> rows = [{"no": 7, "payer": "ann"}, {"no": 8, "payer": "ann"}]
        >>> paid = orders.join(shop.from_array(rows, name="paid").to_table("no"), on={"user": "payer"}, name="payments")
        >>> paid.keys, sorted(row["no"] for row in paid.to_stream().preview())
        (('order', 'no'), [7, 8])
        """
        right = table_of(other, self.draft, step=name)
        pairs = _pairs_of_tables(self.keys, right.keys, on, step=name)
        one, nulls = _has_one(pairs, self.keys, right.keys, outer=how == "outer"), self.nullable and right.nullable
        if one and nulls and how == "outer":
            # Rows of two tables whose keys may be null have no common key.
            _check_apart(prefix, step=name)
            one = False
        keys = self.keys if one else _keys_of_pairs(self.keys, right.keys, pairs, prefix)
        node = TableJoin(
            name=name,
            inputs=(self.step, right.step),
            keys=keys,
            on=pairs,
            how=how,
            prefix=prefix,
            both_keys=None if one else (self.keys, right.keys),
            nulls=one and nulls,
        )
        both = how == "outer" or not one
        nullable = self.nullable or (both and right.nullable) or (how != "inner" and not one)
        return replace(self._then(node), keys=keys, nullable=nullable)

    def to_stream(self, *, name: str | None = None) -> DataStream:
        """The changes as a stream, in which a row that goes has the field `retracted` true.

        Typical uses: sinks other than tables, a program that follows changes. A key that changes gives two rows.
        Stateful steps cannot follow: they would count a row that goes.

        - `name`: see `DataStream`.

        >>> from rs_assets import StreamBuilder
        >>> users = StreamBuilder.data_stream("shop", "users").from_array([{"id": 1, "tier": "free"}]).to_table("id")
        >>> users.to_stream().preview()
        [{'id': 1, 'tier': 'free', 'retracted': False}]
        """
        from rs_assets.stream.data_stream import DataStream

        step = self.draft.auto_name("changes", name, after=self.step)
        return DataStream(self.draft, self.draft.add(TableChanges(name=step, inputs=(self.step,), keys=self.keys)))

    def build(self, **settings: Any) -> Pipeline:
        """The pipeline up to here.

        - `settings`: as for `DataStream.build`.

        >>> from rs_assets import StreamBuilder
        >>> users = StreamBuilder.data_stream("shop", "users").from_array([{"id": 1, "tier": "free"}]).to_table("id")
        >>> print(users.to_delta("tiers").build().describe())
        shop.users  fingerprint ...
          array        array_source  [1 row]
        * table        to_table <- array  [by id]
          tiers_table  delta_sink <- table  [upsert tiers]
        """
        from rs_assets.stream.data_stream import DataStream

        return DataStream(self.draft, self.step).build(**settings)

    def _then(self, node: Node) -> Table:
        return replace(self, step=self.draft.add(node), versions=None, records=None)


@dataclass(frozen=True, slots=True)
class GroupedTable:
    """Aggregates over the rows of a table, or of a stream. Each method adds one; those of `Table` take the result.

    Counts, sums and means subtract a row that goes: a group costs what it changes. The others keep the rows of each
    group, of which they need some fields, in state, and read them in each batch that changes the group. A sum of
    doubles is exact up to rounding. A group without rows has no row. No row of a stream goes, so no group of one keeps
    rows.

    >>> from rs_assets import StreamBuilder
    >>> orders = StreamBuilder.data_stream("shop", "orders").from_array([{"id": 1, "user": "ann"}]).to_table("id")
    >>> orders.group_by("user").count("n").to_stream().preview()
    [{'user': 'ann', 'n': 1, 'retracted': False}]
    """

    table: Table
    fields: tuple[str, ...]
    aggregates: tuple[Aggregate, ...] = ()
    own: tuple[tuple[str, SqlText | ColumnBuilder], ...] = ()
    name: str = "group"
    appends: bool = False

    def count(self, name: str = "count") -> GroupedTable:
        """The number of rows (bigint).

        - `name` (str, default "count"): the field of the result.
        """
        return self._with("count", None, name)

    def sum(self, field: str, name: str | None = None) -> GroupedTable:
        """The sum of a number; null if there is no value.

        - `field` (str): a numeric field.
        - `name` (str, default: the field): the field of the result.
        """
        return self._with("sum", field, name)

    def avg(self, field: str, name: str | None = None) -> GroupedTable:
        """The mean of a number, as a double; null if there is no value.

        - `field` (str): a numeric field.
        - `name` (str, default: the field): the field of the result.
        """
        return self._with("avg", field, name)

    def min(self, field: str, name: str | None = None) -> GroupedTable:
        """The smallest value. Keeps the values of each group.

        - `field` (str): a field with an order.
        - `name` (str, default: the field): the field of the result.
        """
        return self._with("min", field, name)

    def max(self, field: str, name: str | None = None) -> GroupedTable:
        """The greatest value. Keeps the values of each group.

        - `field` (str): a field with an order.
        - `name` (str, default: the field): the field of the result.
        """
        return self._with("max", field, name)

    def count_distinct(self, field: str, name: str | None = None) -> GroupedTable:
        """The number of different values (bigint). Keeps the values of each group.

        - `field` (str): any field but a map.
        - `name` (str, default: the field): the field of the result.
        """
        return self._with("count_distinct", field, name)

    def collect(self, field: str, name: str | None = None) -> GroupedTable:
        """All values but null, in their own order. Keeps the values of each group.

        - `field` (str): any field with an order.
        - `name` (str, default: the field): the field of the result.
        """
        return self._with("collect", field, name)

    def top_n(
        self,
        n: int,
        by: str | Sequence[str],
        *,
        descending: bool = True,
        rank: str | None = None,
        name: str = "top",
    ) -> Table:
        """The first `n` rows of each group in the order of `by`, through all changes. Keeps the rows of each group.

        Typical uses: the three best sellers of a category, the ten last orders of a user. A row has the fields and the
        key that it has in the table.

        - `n` (int): rows a group, at most 100,000.
        - `by` (str or sequence of str): the order. Null is smaller than any value; rows that are equal are in the order
          of their keys.
        - `descending` (bool, default True): for all of `by`.
        - `rank` (str, default none): a field for the number of a row, from 1. With it a row that comes changes the
          rows that follow it.
        - `name` (str, default "top"): the state is stored under it.

        >>> from rs_assets import StreamBuilder
        >>> rows = [
        ...     {"id": 1, "user": "ann", "ms": 5},
        ...     {"id": 2, "user": "ann", "ms": 7},
        ...     {"id": 3, "user": "ann", "ms": 6},
        ...     {"id": 2, "user": "ann", "ms": 1},
        ... ]
        >>> orders = StreamBuilder.data_stream("shop", "slowest").from_array(rows).to_table("id")
        >>> slowest = orders.group_by("user").top_n(2, by="ms", rank="place")
        >>> sorted(slowest.to_stream().preview(), key=lambda row: row["place"])
        [{'id': 3, 'user': 'ann', 'ms': 6, 'place': 1, 'retracted': False},
         {'id': 1, 'user': 'ann', 'ms': 5, 'place': 2, 'retracted': False}]
        """
        if self.appends or self.aggregates or self.own:
            what = "a stream, whose rows have no key" if self.appends else "a group that has aggregates"
            raise TopologyError(
                f"step {name!r} cannot rank the rows of {what}",
                remedy="rank the rows of a table: .to_table('id').group_by('user').top_n(3, by='ms')",
                step=name,
            )
        node = TableTop(
            name=name,
            inputs=(self.table.step,),
            keys=self.table.keys,
            groups=self.fields,
            by=tuple((field, descending) for field in ((by,) if isinstance(by, str) else by)),
            n=n,
            rank=rank,
        )
        return Table(self.table.draft, self.table.draft.add(node), self.table.keys)

    def aggregate(self, *, name: str | None = None, **columns: object) -> Table:
        """Any aggregates of Spark, and the table of all. Keeps the rows of each group, unless all can be subtracted.

        - `columns` (SQL text or Column by name): deterministic aggregates, `longest="max_by(id, ms)"`. `count(*)`,
          `count(distinct x)`, and `count`, `sum` and `avg` of a field, are taken as those methods.
        - `name` (str, default "group"): the state is stored under it.

        >>> from rs_assets import StreamBuilder
        >>> rows = [{"id": 1, "user": "ann", "ms": 5}, {"id": 2, "user": "ann", "ms": 7}]
        >>> orders = StreamBuilder.data_stream("shop", "longest").from_array(rows).to_table("id")
        >>> orders.group_by("user").aggregate(n="count(*)", longest="max_by(id, ms)").to_stream().preview()
        [{'user': 'ann', 'n': 2, 'longest': 2, 'retracted': False}]
        """
        grouped = replace(self, name=name or self.name)
        for field, value in columns.items():
            known = _plain_aggregate(field, value)
            if known is not None:
                grouped = replace(grouped, aggregates=(*grouped.aggregates, known))
                continue
            made = steady_native(value, step=grouped.name)
            _check_distinct(made, step=grouped.name)
            grouped = replace(grouped, own=(*grouped.own, (field, made)))
        return grouped.to_table()

    def reduce(
        self,
        function: Callable[[Any, dict[str, Any]], Any],
        *,
        subtract: Callable[[Any, dict[str, Any]], Any] | None = None,
        schema: Any = None,
        name: str = "reduced",
    ) -> Table:
        """The table of a value for each group that a Python function keeps: `function(value, row)`, row by row.

        Typical uses: aggregates that Spark lacks. State has the value alone, however many rows the group has.

        - `function`: `value` is None for the first row of a group, then the previous result, a dict with all fields of
          `schema`. Rows of a stream come as they were read; those of a table in any order. If it returns None the group
          has no value and no row, until its next row, which finds None.
        - `subtract` (needed for the rows of a table): `subtract(value, row)` takes the effect of a row away that goes.
          A group whose last row goes has no value, and begins with None again.
        - `schema` (default: the function's return annotation): the fields of the value, without the keys.
        - `name` (str, default "reduced"): the state is stored under it.

        >>> from rs_assets import StreamBuilder
        >>> rows = [
        ...     {"id": 1, "user": "ann", "ms": 5},
        ...     {"id": 2, "user": "ann", "ms": 2},
        ...     {"id": 1, "user": "bo", "ms": 3},
        ... ]
        >>> orders = StreamBuilder.data_stream("shop", "bits").from_array(rows).to_table("id")
        >>> def with_(value, row):
        ...     return {"bits": (value["bits"] if value else 0) ^ row["ms"]}
        >>> table = orders.group_by("user").reduce(with_, subtract=with_, schema="bits bigint")
        >>> sorted(table.to_stream().preview(), key=lambda row: row["user"])
        [{'user': 'ann', 'bits': 2, 'retracted': False}, {'user': 'bo', 'bits': 3, 'retracted': False}]
        """
        return reduced(self, function, subtract, schema=schema, name=name)

    def cogroup(
        self,
        function: Callable[[dict[str, Any], dict[str, Any], Any], Any],
        *,
        subtract: Callable[[dict[str, Any], dict[str, Any], Any], Any] | None = None,
    ) -> CogroupedTable:
        """Begin a value for each key to which the rows of several inputs are added, each by its own function.

        Typical uses: the state of an order out of its events, payments and deliveries, without joining them.

        - `function`: `function(key, row, value)` returns the new value; `value` is None for a new key, or what
          `aggregate(initial=)` makes. If it returns None the key has no value, until its next row.
        - `subtract`: as for `reduce`, with the same three arguments.

        >>> from rs_assets import StreamBuilder
        >>> shop = StreamBuilder.data_stream("shop", "carts")
        >>> clicks = shop.from_array([{"user": "ann", "page": "/"}, {"user": "ann", "page": "/a"}], name="clicks")
        >>> buys = shop.from_array([{"user": "ann", "ms": 7}], name="buys")
        >>> def clicked(key, row, value):
        ...     return {**value, "clicks": value["clicks"] + 1}
        >>> def bought(key, row, value):
        ...     return {**value, "spent": value["spent"] + row["ms"]}
        >>> both = clicks.group_by("user").cogroup(clicked).cogroup(buys.group_by("user"), bought)
        >>> table = both.aggregate(schema="clicks int, spent bigint", initial=lambda: {"clicks": 0, "spent": 0})
        >>> table.to_stream().preview()
        [{'user': 'ann', 'clicks': 2, 'spent': 7, 'retracted': False}]
        """
        return CogroupedTable((self,), (adder(self, function, subtract),))

    def to_table(self, *, name: str | None = None) -> Table:
        """The table of the aggregates, with the group fields as its key.

        - `name` (str, default "group"): the state is stored under it.
        """
        node = TableGroup(
            name=name or self.name,
            inputs=(self.table.step,),
            keys=self.fields,
            aggregates=self.aggregates,
            own=self.own,
            appends=self.appends,
        )
        return Table(self.table.draft, self.table.draft.add(node), self.fields)

    def __getattr__(self, name: str) -> Any:
        """A method of `Table`, called on `to_table()`."""
        if name.startswith("_") or not callable(getattr(Table, name, None)):
            raise no_such_method(self, name, also=Table)
        return getattr(self.to_table(), name)

    def _with(self, function: AggregateFunction, field: str | None, name: str | None) -> GroupedTable:
        return replace(self, aggregates=(*self.aggregates, Aggregate(function, field, name or str(field))))


PLAIN = re.compile(rf"({'|'.join(SUBTRACTED)})\(\s*(\*|`[^`]+`|[A-Za-z_]\w*)\s*\)", re.IGNORECASE)

DISTINCT = re.compile(r"count\(\s*distinct\s+(`[^`]+`|[A-Za-z_]\w*)\s*\)", re.IGNORECASE)
OF_DISTINCT = re.compile(r"\(\s*distinct\b", re.IGNORECASE)


def _plain_aggregate(name: str, value: object) -> Aggregate | None:
    """An aggregate that is one of the methods; None for another one.

    >>> _plain_aggregate("n", "COUNT(*)")
    Aggregate(function='count', field=None, alias='n')
    >>> _plain_aggregate("n", "count(DISTINCT ms)")
    Aggregate(function='count_distinct', field='ms', alias='n')
    >>> _plain_aggregate("n", "sum(a + b)") is None
    True
    """
    text = value.strip() if isinstance(value, str) else ""
    distinct = DISTINCT.fullmatch(text)
    if distinct is not None:
        return Aggregate("count_distinct", distinct[1].strip("`"), name)
    found = PLAIN.fullmatch(text)
    function = next((each for each in SUBTRACTED if found is not None and found[1].lower() == each), None)
    if found is None or function is None or (found[2] == "*" and function != "count"):
        return None
    return Aggregate(function, None if found[2] == "*" else found[2].strip("`"), name)


def table_of(other: object, draft: Draft, *, step: str) -> Table:
    """`other` as a table of the pipeline of `draft`; TopologyError for anything else."""
    table = other.to_table() if isinstance(other, GroupedTable) else other
    if not isinstance(table, Table):
        raise TopologyError(
            f"step {step!r} joins a table, not {type(other).__name__}",
            remedy="make one of a stream: .to_table('id')",
            step=step,
        )
    if table.draft is not draft:
        raise TopologyError(
            f"step {step!r} joins tables of two pipelines",
            remedy="begin both from one StreamBuilder.data_stream(...)",
            step=step,
        )
    return table


def _alike(keys: Sequence[str], others: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The keys of two tables that are equal: those of the same names, else by their places."""
    return tuple(zip(keys, keys if sorted(keys) == sorted(others) else others, strict=False))


def _pairs_of_tables(
    keys: Sequence[str], others: Sequence[str], on: Keys | None, *, step: str
) -> tuple[tuple[str, str], ...]:
    """The pairs of fields of two tables that must be equal; in the order of the right key, if they name that."""
    if on is None:
        alike = _alike(keys, others)
        _check_pairs(alike, keys, others, step=step)
        return alike
    pairs = pairs_of(on, step=step)
    own = {theirs: one for one, theirs in pairs}
    whole = sorted(theirs for _, theirs in pairs) == sorted(others)
    return tuple((own[key], key) for key in others) if whole else pairs


def _has_one(pairs: Sequence[tuple[str, str]], keys: Sequence[str], others: Sequence[str], *, outer: bool) -> bool:
    """Whether each row of the result has another row of the left table, so that it has the key of that."""
    mine, theirs = zip(*pairs, strict=True)
    return sorted(theirs) == sorted(others) and (not outer or mine == tuple(keys))


def _check_apart(prefix: str | None, *, step: str) -> None:
    """TopologyError without a prefix: the keys of both tables would be one."""
    if prefix is None:
        raise TopologyError(
            f"step {step!r} joins tables whose keys may be null: a row of each may have the same key",
            remedy="give the fields of the other table a prefix: .join(..., prefix='other_')",
            step=step,
        )


def _keys_of_pairs(
    own: Sequence[str], others: Sequence[str], pairs: Sequence[tuple[str, str]], prefix: str | None
) -> tuple[str, ...]:
    """The key of a pair of rows: the keys of both tables. Without a prefix the left table has the equal fields."""
    same = {theirs: one for one, theirs in reversed(pairs)} if prefix is None else {}
    return tuple(dict.fromkeys((*own, *(same.get(key, f"{prefix or ''}{key}") for key in others))))


def _check_pairs(
    pairs: Sequence[tuple[str, str]], own: Sequence[str] | None, keys: Sequence[str], *, step: str
) -> None:
    """TopologyError unless the pairs name the whole key of the other table (and of this one, if `own` is given)."""
    named = sorted(theirs for _, theirs in pairs)
    if named != sorted(keys) or (own is not None and len(own) != len(keys)):
        wanted = ", ".join(f"'...': {key!r}" for key in keys)
        raise TopologyError(
            f"step {step!r} must name the key of the other table: {', '.join(keys)}",
            remedy=f"on={{{wanted}}}",
            step=step,
        )


def _check_distinct(made: Expression, *, step: str) -> None:
    if isinstance(made, SqlText) and OF_DISTINCT.search(QUOTED.sub("''", made.text)) is not None:
        raise TopologyError(
            f"step {step!r} aggregates DISTINCT values in SQL: {made.text}",
            remedy="aggregate the set of the values, such as size(collect_set(ms)), or .count_distinct('ms')",
            step=step,
        )


def stream_table_pairs(on: Keys, table: Table, *, step: str) -> tuple[tuple[str, str], ...]:
    """The fields of a stream that equal the key of `table`, in the order of the key."""
    pairs = pairs_of(on, step=step)
    _check_pairs(pairs, None, table.keys, step=step)
    by_field = {theirs: own for own, theirs in pairs}
    return tuple((by_field[key], key) for key in table.keys)
