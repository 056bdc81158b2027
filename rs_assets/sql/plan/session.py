"""Interactive statements: what they create is kept for later statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.sql.connectors.connectors import check_connector
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.build import PositionedErrors, pipeline_from_sql, text_of
from rs_assets.sql.plan.catalog import catalog_of
from rs_assets.sql.plan.outputs import Output
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.query import selected_of
from rs_assets.sql.plan.relation import free_name
from rs_assets.sql.plan.windowing import check_once
from rs_assets.sql.read.reader import statements
from rs_assets.sql.read.source import Dialect, Text, nearest
from rs_assets.sql.read.statements import (
    CreateFunction,
    CreateTable,
    CreateView,
    Select,
    SetOption,
    Statement,
    WatermarkClause,
)
from rs_assets.sql.read.types import BOOLEAN
from rs_assets.stream.builder import StreamBuilder
from rs_assets.stream.table import Table

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.pipeline import Pipeline

QUERY: Final = "query"
UNKNOWN: Final = "?"


@dataclass(slots=True)
class Session:
    """The statements so far, as source text; a statement that creates a name again replaces the earlier one.

    >>> session = Session()
    >>> session.keep("CREATE TABLE t (a BIGINT) WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json')")
    >>> session.keep("CREATE VIEW v AS SELECT a + 1 AS b FROM t")
    >>> session.columns("v")
    {'b': 'bigint'}
    """

    namespace: str = "sql"
    variables: Mapping[str, str] = field(default_factory=dict)
    dialect: Dialect = "flink"
    # The text of each statement, by the name it creates or sets.
    kept: dict[str, str] = field(default_factory=dict)
    # The kind of each name: a table, a view or a function.
    names: dict[str, str] = field(default_factory=dict)

    def read(self, sql: str) -> tuple[Statement, ...]:
        """The statements of a text; SqlError, with its position, for an invalid one."""
        found = statements(text_of(sql, self.variables, self.dialect), queries=True)
        return tuple(each for each in found if not isinstance(each, WatermarkClause))

    def keep(self, sql: str) -> None:
        """Keeps a statement that creates something or sets an option; SqlError for any other."""
        (statement,) = self.read(sql)
        name, kind = _created(statement)
        others = {key: text for key, text in self.kept.items() if key != name}
        text = self._text(sql, others)
        catalog_of(text, statements(text), writes=False)
        if isinstance(statement, CreateTable):
            check_connector(text, statement)
        if isinstance(statement, CreateView):
            self._planned(self._text(sql, {**others, QUERY: _all_of(name)}))
        self.kept = {**others, name: sql}
        if kind:
            self.names = {**self.names, name: kind}

    def stream(self, sql: str) -> DataStream:
        """The rows of a query, under the names of its columns."""
        return self._planned(self._text(sql, self.kept))[0]

    def pipeline(self, sql: str) -> Pipeline:
        """The pipeline of INSERT statements over the kept statements."""
        return pipeline_from_sql(self._text(sql, self.kept).sql, namespace=self.namespace, dialect=self.dialect)

    def columns(self, name: str) -> dict[str, str]:
        """The columns of a table or a view with their types; SqlError for an unknown name."""
        if name not in self.names:
            raise Text(name).error(f"there is no table {name!r}", 0, remedy=nearest(name, self.names) or "CREATE TABLE")
        if self.names[name] == "view":
            found = self._planned(self._text(_all_of(name), self.kept))[1]
            return {out.name: out.value.type.text if out.value.type else UNKNOWN for out in found}
        (table,) = self.read(self.kept[name])
        columns = table.columns if isinstance(table, CreateTable) else ()
        return {c.name.text: c.type.text if c.type else UNKNOWN if c.computed else "string" for c in columns}

    def _text(self, sql: str, others: Mapping[str, str]) -> Text:
        """A statement followed by the kept ones, so that lines and columns of errors fit the statement."""
        return text_of("\n;\n".join([sql, *others.values()]), self.variables, self.dialect)

    def _planned(self, text: Text) -> tuple[DataStream, list[Output]]:
        """The one query among statements, and its columns."""
        found = statements(text, queries=True)
        query = next(each for each in found if isinstance(each, Select))
        builder = StreamBuilder.data_stream(self.namespace, QUERY)
        planner = Planner(text, catalog_of(text, found, writes=False), builder, {})
        context = QueryContext(QUERY, root=QUERY)
        with PositionedErrors(planner, query.at):
            made = selected_of(planner, query.tree, context)
            check_once(planner, made.relation, query.at)
            outputs = _apart(made.outputs)
            texts = [f"{out.value.plain} AS {quote_name(out.name)}" for out in outputs]
            rows = made.relation.stream.map(*texts, name=planner.name(context, "row", query.at))
            if not made.relation.changes:
                return rows, outputs
            changes = Table(rows.draft, rows.step, ()).to_stream(name=planner.name(context, "changes", query.at))
            return changes, [*outputs, Output("retracted", Value("`retracted`", BOOLEAN), query.at)]


def _apart(outputs: Sequence[Output]) -> list[Output]:
    """Columns with unique names: duplicates get a number."""
    found: list[Output] = []
    for number, out in enumerate(outputs, 1):
        name = free_name(out.name or f"column_{number}", [each.name for each in found])
        found.append(Output(name, out.value, out.at))
    return found


def _all_of(view: str) -> str:
    return f"SELECT * FROM {quote_name(view)}"  # noqa: S608  the name is quoted


def _created(statement: Statement) -> tuple[str, str]:
    """The name that a statement creates, or the option that it sets, and its kind."""
    if isinstance(statement, CreateTable):
        return statement.name.text, "table"
    if isinstance(statement, CreateView):
        return statement.name.text, "view"
    if isinstance(statement, CreateFunction):
        return statement.name.text, "function"
    assert isinstance(statement, SetOption)  # nothing else is kept
    return f"SET {statement.key.text}", ""
