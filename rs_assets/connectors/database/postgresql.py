"""Postgres: rows by COPY, and what a column would change of them without a word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from pyspark.sql.types import DecimalType
from sqlalchemy import Connection, Table

from rs_assets.connectors.database.place import quoted_name
from rs_assets.connectors.database.rows import as_csv, has_rest
from rs_assets.connectors.database.same_keys import check_blanks, one_key
from rs_assets.connectors.database.session import driver_of
from rs_assets.connectors.database.target import Target

STAGED: Final = "_rs_staged"
TIMES: Final = ("timestamp", "timestamptz")
# Types of the catalogue, which cut texts to so many bytes.
CUT: Final[Mapping[str, int]] = MappingProxyType({"name": 63, "char": 1})
# Of a domain the type, and the modifier, that it stands for. Older servers have deterministic collations alone.
_COLUMNS: Final = """SELECT a.attname::text, coalesce(b.typname, t.typname)::text,
 CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END,
 coalesce((to_jsonb(c) ->> 'collisdeterministic')::boolean, true)
 FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = t.typbasetype
 LEFT JOIN pg_collation c ON c.oid = a.attcollation
 WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped"""


class Found(NamedTuple):
    """A column as it is: the name of its type, the number after it (-1: none), and whether equal texts are the same."""

    name: str
    type: str
    modifier: int
    exact: bool

    @property
    def scale(self) -> int | None:
        """The digits after the point of a `numeric`; fewer than none: it has tens, hundreds...

        >>> [Found("a", "numeric", (9 << 16 | scale & 0x7FF) + 4, True).scale for scale in (2, -2)]
        [2, -2]
        """
        return ((self.modifier - 4 & 0x7FF) ^ 1024) - 1024 if self.type == "numeric" and self.modifier >= 0 else None

    @property
    def folds(self) -> bool:
        """Whether texts that differ may be equal there."""
        return self.type == "citext" or not self.exact


def check_columns(connection: Connection, target: Target) -> None:
    """SinkError for a column over a domain with fewer digits than a field, which SQLAlchemy does not know."""
    if connection.dialect.name != "postgresql" or connection.dialect.driver != "psycopg":
        return
    into = _place(target.schema, target.name)
    known = {column.name: column for column in _found(connection, into)}
    for field in target.fields.fields:
        scale = known[field.name].scale if field.name in known else None
        if isinstance(field.dataType, DecimalType) and scale is not None and scale < field.dataType.scale:
            raise target.misfit(field.name, field.dataType, f"numeric with {scale} digits after the point")


def load(connection: Connection, rows: pa.Table, target: Target, table: Table, deletes: str | None) -> None:
    """Write rows; with keys of the target they replace the rows of these keys, or delete them."""
    driver, into = driver_of(connection), _place(table.schema, table.name)
    found = _found(connection, into)
    _check_values(rows, found)
    if not target.keys:
        _copy(driver, rows, into, table.columns.keys())
        return
    keys = [column for column in found if column.name in target.keys]
    check_blanks(rows, {column.name: _as_text(into, column.name) for column in keys if column.type == "bpchar"}, target)
    _merged(driver, rows, target, table, deletes, [column.name for column in keys if column.folds])


def _merged(
    driver: Any, rows: pa.Table, target: Target, table: Table, deletes: str | None, folding: Sequence[str]
) -> None:
    """COPY into a table of the transaction, then delete and upsert from there by one statement each."""
    names = table.columns.keys()
    columns, into = _listed(names), _place(table.schema, table.name)
    driver.execute(
        f"CREATE TEMP TABLE {STAGED} ON COMMIT DROP AS SELECT {columns}, false AS {STAGED} FROM {into} LIMIT 0"  # noqa: S608
    )
    gone = pc.fill_null(rows[deletes], fill_value=False) if deletes is not None else pa.repeat(False, rows.num_rows)  # noqa: FBT003
    _copy(driver, rows.select(names).append_column(STAGED, gone), STAGED, [*names, STAGED])
    same = " AND ".join(f"t.{quoted_name(key)} = s.{quoted_name(key)}" for key in target.keys)
    if deletes is not None:
        texts = (_texts(quoted_name(key)) for key in folding)
        exact = "".join(f' AND {here} COLLATE "C" = {there} COLLATE "C"' for here, there, *_ in texts)
        driver.execute(f"DELETE FROM {into} AS t USING {STAGED} AS s WHERE s.{STAGED} AND {same}{exact}")  # noqa: S608
    for key in folding:
        _check_folded(driver, key, into, same, target)
    changed = ", ".join(
        f"{quoted_name(name)} = excluded.{quoted_name(name)}" for name in names if name not in target.keys
    )
    driver.execute(
        f"INSERT INTO {into} ({columns}) SELECT {columns} FROM {STAGED} WHERE NOT {STAGED}"  # noqa: S608
        f" ON CONFLICT ({_listed(target.keys)}) DO {f'UPDATE SET {changed}' if changed else 'NOTHING'}"
    )


def _check_folded(driver: Any, key: str, into: str, same: str, target: Target) -> None:
    """SinkError for two texts that differ and are equal there: one of the batch and the table, or two of the batch.

    Rows that the batch deletes are gone.
    """
    name, keys = quoted_name(key), _listed(target.keys)
    here, there, least, most = (f'{text} COLLATE "C"' for text in _texts(name))
    both, kept = f"{into} AS t JOIN {STAGED} AS s ON {same}", f"NOT {STAGED}"
    for statement in (
        f"SELECT {there}, {here} FROM {both} WHERE NOT s.{STAGED} AND {there} <> {here} LIMIT 1",  # noqa: S608
        f"SELECT {least}, {most} FROM {STAGED} WHERE {kept} GROUP BY {keys} HAVING {least} <> {most} LIMIT 1",  # noqa: S608
    ):
        pair = driver.execute(statement).fetchone()
        if pair is not None:
            one, other = pair
            raise one_key(one, other, key, _as_text(into, key), target)


def _as_text(into: str, name: str) -> str:
    return f'ALTER TABLE {into} ALTER COLUMN {quoted_name(name)} TYPE text COLLATE "C"'


def _texts(name: str) -> tuple[str, str, str, str]:
    """A column as text in a batch, in the table, and the least and the greatest one of a group."""
    return f"s.{name}::text", f"t.{name}::text", f'min({name}::text COLLATE "C")', f'max({name}::text COLLATE "C")'


def _check_values(rows: pa.Table, found: Sequence[Found]) -> None:
    """The driver's error for a time that a column would round, and for blanks at the end that it would cut."""
    import psycopg

    for column in found:
        if column.name not in rows.column_names:
            continue
        values, bytes_ = rows[column.name], CUT.get(column.type)
        if bytes_ is not None and _is_text(values.type) and _longest(values, pc.binary_length) > bytes_:
            raise psycopg.DataError(f'a text is longer than the column {column.name} ("{column.type}", {bytes_} bytes)')
        if column.modifier < 0:
            continue
        if column.type in TIMES and kinds.is_timestamp(values.type) and has_rest(values, column.modifier):
            raise psycopg.DataError(
                f"a time has more digits of a second than the column {column.name} ({column.type}({column.modifier}))"
            )
        if column.type == "varchar" and _is_text(values.type) and _longest(values) > column.modifier - 4:
            raise psycopg.DataError(f"a text is longer than the column {column.name} (varchar({column.modifier - 4}))")


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _longest(texts: pa.ChunkedArray, length: Callable[..., Any] = pc.utf8_length) -> int:
    return pc.max(length(texts)).as_py() or 0


def _copy(driver: Any, rows: pa.Table, into: str, names: Sequence[str]) -> None:
    statement = f"COPY {into} ({_listed(names)}) FROM STDIN (FORMAT csv)"
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for piece in as_csv(rows.select([*names])):
            copy.write(piece)


def _found(connection: Connection, into: str) -> list[Found]:
    return [Found(*row) for row in driver_of(connection).execute(_COLUMNS, (into,)).fetchall()]


def _place(schema: str | None, name: str) -> str:
    return ".".join(map(quoted_name, filter(None, (schema, name))))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted_name, names))
