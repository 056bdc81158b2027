"""MySQL and MariaDB: what a connection needs, and rows by LOAD DATA.

LOAD DATA LOCAL makes warnings of errors: a value that does not fit is changed, a row that a unique index forbids is
left out. So rows go into a temporary table first, a warning there ends the batch, and statements bring them from there
into the table, where errors are errors.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from sqlalchemy import Boolean, Column, Connection, MetaData, Table, insert, text

from rs_assets.connectors.database.rows import as_lines, has_rest, statements
from rs_assets.connectors.database.same_keys import check_blanks, one_key
from rs_assets.connectors.database.session import DIALECTS, LOADS, driver_of
from rs_assets.connectors.database.target import Target
from rs_assets.connectors.database.types import dialect_of
from rs_assets.errors import SinkError

STAGED: Final = "_rs_staged"
# The ends of collations by which texts are equal that have the same bytes.
EXACT: Final = ("_nopad_bin", "_0900_bin")
_ENGINE: Final = """SELECT e.engine FROM information_schema.tables t JOIN information_schema.engines e
 ON e.engine = t.engine WHERE t.table_schema = coalesce(:schema, database()) AND t.table_name = :name
 AND e.transactions <> 'YES'"""


class Found(NamedTuple):
    """A column as the server has it: its name, its whole type, the collation of texts, and YES if it may be null."""

    name: str
    type: str
    collation: str | None
    null: str


def loads(connection: Connection) -> bool:
    """Whether rows can be staged by LOAD DATA."""
    return connection.dialect.driver == LOADS and bool(connection.execute(text("SELECT @@local_infile")).scalar())


def check_engine(connection: Connection, target: Target) -> None:
    """SinkError for a table whose engine has no transactions: it would keep rows of a batch that was not committed."""
    if connection.dialect.name not in DIALECTS:
        return
    engine = connection.execute(text(_ENGINE), {"schema": target.schema, "name": target.name}).scalar()
    if engine is not None:
        raise SinkError(
            f"the table {target.name!r} has the engine {engine}, which has no transactions: rows of a batch that fails"
            " would stay",
            remedy=f"ALTER TABLE {quoted(target.name)} ENGINE = InnoDB",
            step=target.step,
        )


def load(connection: Connection, rows: pa.Table, target: Target, table: Table, deletes: str | None) -> None:
    """Write rows; with keys of the target they replace the rows of these keys, or delete them."""
    if rows.num_rows == 0:
        return
    _check_finite(rows, target.step)
    names, into = table.columns.keys(), _placed(table.schema, table.name)
    staged, columns = _placed(table.schema, STAGED), _listed(names)
    cursor = driver_of(connection).cursor()
    times = [name for name in rows.column_names if kinds.is_timestamp(rows[name].type)]
    found = _found(cursor, into) if times or target.keys else {}
    _check_times(rows, times, found)
    # Temporary tables begin and end without a commit.
    cursor.execute(f"CREATE TEMPORARY TABLE {staged} AS SELECT {columns}, 0 AS {STAGED} FROM {into} LIMIT 0")  # noqa: S608
    gone = pc.fill_null(rows[deletes], fill_value=False) if deletes is not None else pa.repeat(False, rows.num_rows)  # noqa: FBT003
    marked = rows.select(names).append_column(STAGED, gone)
    if loads(connection):
        _stage(cursor, marked, staged)
    else:
        _insert(connection, marked, table)
    if target.keys:
        remedies = _folding(connection, rows, target, found, into)
        cursor.execute(_delete(target.keys, remedies, into, staged))
        _check_keys(cursor, target, remedies, into, staged)
    for statement in _merge(names, target.keys, into, staged) if target.keys else _append(columns, into, staged):
        cursor.execute(statement)
    cursor.execute(f"DROP TEMPORARY TABLE {staged}")


def _append(columns: str, into: str, staged: str) -> Sequence[str]:
    return (f"INSERT INTO {into} ({columns}) SELECT {columns} FROM {staged}",)  # noqa: S608


def _same(keys: Sequence[str]) -> str:
    return " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keys)


def _delete(keys: Sequence[str], folding: Iterable[str], into: str, staged: str) -> str:
    """The statement that deletes rows of the very keys, also where the collation holds others for equal."""
    exact = "".join(f" AND CAST(t.{quoted(key)} AS BINARY) = CAST(s.{quoted(key)} AS BINARY)" for key in folding)
    return f"DELETE t FROM {staged} s STRAIGHT_JOIN {into} t ON {_same(keys)} WHERE s.{STAGED}{exact}"


def _merge(names: Sequence[str], keys: Sequence[str], into: str, staged: str) -> Sequence[str]:
    """Statements that go by the keys alone: ON DUPLICATE KEY UPDATE would change a row of any other unique index."""
    same = _same(keys)
    changed = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in names if name not in keys)
    from_stage = ", ".join(f"s.{quoted(name)}" for name in names)
    update = f"UPDATE {staged} s STRAIGHT_JOIN {into} t ON {same} SET {changed} WHERE NOT s.{STAGED}"  # noqa: S608
    insert = (
        f"INSERT INTO {into} ({_listed(names)}) SELECT {from_stage} FROM {staged} s LEFT JOIN {into} t ON {same}"  # noqa: S608
        f" WHERE NOT s.{STAGED} AND t.{quoted(keys[0])} IS NULL"
    )
    return (update, insert) if changed else (insert,)


def _folding(
    connection: Connection, rows: pa.Table, target: Target, found: Mapping[str, Found], into: str
) -> dict[str, str]:
    """The keys whose collation holds texts for equal that differ, each with a statement that ends it.

    A column CHAR keeps no blanks at the end, and most collations compare without them, or without case and accents.
    SinkError for a key with such blanks.
    """
    shown = {key: found[key.casefold()] for key in target.keys}
    texts = {key: (column.type, column.collation) for key, column in shown.items() if column.collation is not None}
    exact = "utf8mb4_nopad_bin" if dialect_of(connection) == "mariadb" else "utf8mb4_0900_bin"
    remedies = {
        key: f"ALTER TABLE {into} MODIFY {quoted(key)} {_varying(kind)} CHARACTER SET utf8mb4 COLLATE {exact} NOT NULL"
        for key, (kind, _) in texts.items()
    }
    check_blanks(rows, {key: remedies[key] for key, (kind, _) in texts.items() if kind.startswith("char(")}, target)
    return {key: remedies[key] for key, (_, collation) in texts.items() if not collation.endswith(EXACT)}


def _check_keys(cursor: Any, target: Target, folding: Mapping[str, str], into: str, staged: str) -> None:
    """SinkError for two texts that differ and are equal in a key: one of the batch and the table, or two of the batch.

    Rows that the batch deletes are gone.
    """
    for key, remedy in folding.items():
        for statement in _equal(key, target.keys, into, staged):
            cursor.execute(statement)
            pair = cursor.fetchone()
            if pair is not None:
                one, other = (each.decode(errors="replace") for each in pair)
                raise one_key(one, other, key, remedy, target)


def _varying(kind: str) -> str:
    """The type of a text of varying length.

    >>> _varying("char(9)"), _varying("varchar(9)")
    ('varchar(9)', 'varchar(9)')
    """
    return f"var{kind}" if kind.startswith("char(") else kind


def _equal(key: str, keys: Sequence[str], into: str, staged: str) -> Sequence[str]:
    """Queries of two texts of a key that differ by their bytes, and are equal by the collation."""
    here, there, one = (f"CAST({of}{quoted(key)} AS BINARY)" for of in ("s.", "t.", ""))
    joined, grouped = f"{staged} s STRAIGHT_JOIN {into} t ON {_same(keys)}", _listed(keys)
    unlike = f"min({one}) <> max({one})"
    return (
        f"SELECT {there}, {here} FROM {joined} WHERE NOT s.{STAGED} AND {there} <> {here} LIMIT 1",  # noqa: S608
        f"SELECT min({one}), max({one}) FROM {staged} WHERE NOT {STAGED} GROUP BY {grouped} HAVING {unlike} LIMIT 1",  # noqa: S608
    )


def _stage(cursor: Any, rows: pa.Table, staged: str) -> None:
    """Load rows into the temporary table; the driver's DataError if one of them does not fit as it is."""
    places, values = [], []
    for number, (name, column) in enumerate(zip(rows.column_names, rows.columns, strict=True)):
        bytes_ = kinds.is_binary(column.type) or kinds.is_large_binary(column.type)
        places.append(f"@c{number}" if bytes_ else quoted(name))
        values += [f"{quoted(name)} = UNHEX(@c{number})"] if bytes_ else []
    with tempfile.NamedTemporaryFile(prefix="rs-load-") as file:
        for piece in as_lines(rows):
            file.write(piece)
        file.flush()
        cursor.execute(
            f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE {staged} CHARACTER SET utf8mb4"
            f" FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' ({', '.join(places)})"
            + (f" SET {', '.join(values)}" if values else "")
        )
    if cursor.warning_count:
        import pymysql

        cursor.execute("SHOW WARNINGS LIMIT 1")
        _, code, said = cursor.fetchone()
        raise pymysql.err.DataError(code, said)


def _insert(connection: Connection, rows: pa.Table, table: Table) -> None:
    """Where the server does not allow LOAD DATA LOCAL."""
    columns = [*(Column(column.name, column.type) for column in table.columns), Column(STAGED, Boolean)]
    into = Table(STAGED, MetaData(), *columns, schema=table.schema)
    for part in statements(rows, connection.dialect.name):
        connection.execute(insert(into), part)


def _found(cursor: Any, into: str) -> dict[str, Found]:
    """The columns of a table by their names in lower case."""
    cursor.execute(f"SHOW FULL COLUMNS FROM {into}")
    return {row[0].casefold(): Found(*row[:4]) for row in cursor.fetchall()}


def _check_times(rows: pa.Table, times: Sequence[str], found: Mapping[str, Found]) -> None:
    """The driver's error for a null that would become the current time, and for a fraction of a second that is cut."""
    import pymysql

    for name in times:
        column = found[name.casefold()]
        if column.null == "NO" and rows[name].null_count:
            raise pymysql.err.IntegrityError(1048, f"a column of times cannot be null: {name}")
        digits = re.search(r"[(](\d)[)]", column.type)
        if has_rest(rows[name], int(digits[1]) if digits else 0):
            what = f"a time has more digits of a second than the column {name} ({column.type})"
            raise pymysql.err.DataError(1292, what)


def _check_finite(rows: pa.Table, step: str) -> None:
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if (
            kinds.is_floating(column.type)
            and not pc.all(pc.is_finite(column)).as_py()
            and column.null_count < len(column)
        ):
            raise SinkError(
                f"step {step!r}: a value of {name!r} is NaN or infinite, which the database cannot hold",
                remedy=f"make it null before the sink: .with_fields({name}='if({name} - {name} = 0, {name}, null)')",
                step=step,
            )


def quoted(name: str) -> str:
    """A name as an identifier of MySQL.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def _placed(schema: str | None, name: str) -> str:
    return ".".join(map(quoted, filter(None, (schema, name))))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))
