"""Rows of Postgres as texts of JSON objects that the server writes, so that no value becomes one of Python.

It is asked for one text a row, whose bytes go into Arrow as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final

import pyarrow as pa
from orjson import dumps
from sqlalchemy import Column, Connection, Select, case, cast, func, literal, literal_column, select, text
from sqlalchemy import types as sql
from sqlalchemy.sql.elements import ColumnElement

from rs_assets.common.chunks import in_chunks
from rs_assets.connectors.database.session import driver_of
from rs_assets.connectors.own.lines import Lines

# The driver whose results are taken as they come.
DRIVER: Final = "psycopg"
# The server takes 100 in a call.
ARGUMENTS: Final = 80
# All digits, and texts of one form, also where the server has other settings.
_FORMS: Final = (
    "SET LOCAL extra_float_digits = 1",
    "SET LOCAL DateStyle = 'ISO'",
    "SET LOCAL IntervalStyle = 'postgres'",
    "SET LOCAL bytea_output = 'hex'",
)
# Rows of one array.
CHUNK: Final = 20_000
_UTC, _END = "+00:00", '"'


def _same(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return column


def _text(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return cast(column, sql.Text)


def _real(column: ColumnElement[Any]) -> ColumnElement[Any]:
    # As a whole number of JSON, minus zero would have no sign.
    return case((column == 0, func.replace(_text(column), "-0", "-0.0")), else_=_text(column))


def _json(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return cast(func.to_json(column), sql.Text)


def _time(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A moment in UTC, which the server writes in the zone of its session."""
    if not getattr(column.type, "timezone", False):
        return func.to_json(column)
    made = _json(func.timezone("UTC", column)).concat(_UTC)
    return func.replace(made, _END + _UTC, _UTC + _END)


def _day(column: ColumnElement[Any]) -> ColumnElement[Any]:
    # Spark ignores what follows a blank: the year 44 BC would be 44. Without the blank it is a bad record.
    return func.replace(_json(column), " ", "")


def _bytes(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return literal(_END, sql.Text).concat(func.translate(func.encode(column, "base64"), "\n", "")).concat(_END)


def _list(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The text of a list in JSON: one of jsonb would have other numbers, and not every text."""
    return func.to_json(_json(column))


# What the server writes for a column, the first that fits; others are texts.
FORMS: Final[tuple[tuple[type[sql.TypeEngine[Any]], Callable[[ColumnElement[Any]], ColumnElement[Any]]], ...]] = (
    (sql.Boolean, _text),
    (sql.Integer, _same),
    (sql.Float, _real),
    (sql.DateTime, _time),
    (sql.Date, _day),
    (sql.LargeBinary, _bytes),
    (sql.ARRAY, _list),
    # Without a cast, which would take blanks from the end of a char(n).
    (sql.String, func.to_json),
)


def can_write(connection: Connection) -> bool:
    """Whether the server can be asked to write rows."""
    return connection.dialect.name == "postgresql" and connection.dialect.driver == DRIVER


def written(connection: Connection, rows: Select[Any], columns: Sequence[Column[Any]]) -> Lines:
    """The rows of a query with these columns, in its order."""
    for form in _FORMS:
        connection.execute(text(form))
    # The order is that of the rows as they are; those that are written are longer.
    query = rows.offset(literal_column("0")).subquery()
    parts: list[ColumnElement[Any]] = []
    for number, column in enumerate(columns):
        name = dumps(str(column.name)).decode()
        parts += [_literal(f"{',' if number else '{'}{name}:"), func.coalesce(_made(query.c[column.name]), "null")]
    compiled = select(_joined([*parts, _literal("}")])).compile(dialect=connection.dialect)
    with closing(driver_of(connection).cursor()) as cursor:
        found = cursor.execute(str(compiled).encode(), compiled.params).pgresult
        starts = range(0, found.ntuples, CHUNK)
        chunks = ([found.get_value(row, 0) for row in range(at, min(at + CHUNK, found.ntuples))] for at in starts)
        return Lines(pa.chunked_array([pa.array(chunk, pa.binary()) for chunk in chunks], pa.binary()))


def _literal(made: str) -> ColumnElement[Any]:
    return literal(made, sql.Text)


def _made(column: ColumnElement[Any]) -> ColumnElement[Any]:
    form = next((form for kind, form in FORMS if isinstance(column.type, kind)), None)
    return cast(func.to_json(cast(column, sql.Text)) if form is None else form(column), sql.Text)


def _joined(parts: Sequence[ColumnElement[Any]]) -> ColumnElement[Any]:
    """All parts as one text."""
    while len(parts) > ARGUMENTS:
        parts = [*map(_joined, in_chunks(parts, ARGUMENTS))]
    return func.concat(*parts)
