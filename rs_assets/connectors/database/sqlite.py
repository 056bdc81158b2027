"""SQLite by its URL: what a column would change, and keys that its collation holds for equal."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlalchemy import BindParameter, Column, ColumnElement, Connection, LargeBinary, Table, bindparam, cast, select

from rs_assets.connectors.database.rows import statements
from rs_assets.connectors.database.same_keys import one_key
from rs_assets.connectors.database.target import Target
from rs_assets.connectors.sqlite.affinity import changes


def check_columns(connection: Connection, target: Target) -> None:
    """SinkError for a column that would change values of a field, as the text '007' becomes the number 7."""
    if connection.dialect.name != "sqlite":
        return
    found = connection.exec_driver_sql(
        "SELECT name, type FROM pragma_table_xinfo(?, ?)", (target.name, target.schema or "main")
    )
    known = {name.casefold(): declared for name, declared in found}
    for field in target.fields.fields:
        declared = known.get(field.name.casefold(), "")
        if changes(field.dataType, declared):
            raise target.misfit(field.name, field.dataType, declared)


def folding(connection: Connection, target: Target) -> list[str]:
    """The keys whose texts are compared by another collation than by their bytes."""
    schema = target.schema or "main"
    found = connection.exec_driver_sql(
        "SELECT DISTINCT x.name FROM pragma_index_list(?, ?) AS l JOIN pragma_index_xinfo(l.name, ?) AS x"
        " WHERE x.key AND x.coll <> 'BINARY' AND x.name IS NOT NULL",
        (target.name, schema, schema),
    )
    names = {name.casefold() for (name,) in found}
    return [key for key in target.keys if key.casefold() in names]


def same_bytes(column: Column[Any], given: BindParameter[Any]) -> ColumnElement[bool]:
    """Whether a text is the very one that is given, and not one that the collation holds for equal."""
    return cast(column, LargeBinary) == cast(given, LargeBinary)


def check_keys(connection: Connection, rows: pa.Table, target: Target, table: Table, *, column: str) -> None:
    """SinkError if a key of `rows` is equal to one of the table, from which it differs in `column`."""
    given = {key: bindparam(f"rs_{key}", type_=table.c[key].type) for key in target.keys}
    same = [table.c[key] == value for key, value in given.items()]
    asked = select(table.c[column]).where(*same, ~same_bytes(table.c[column], given[column])).limit(1)
    keys = rows.select([*target.keys]).rename_columns([f"rs_{key}" for key in target.keys])
    for part in statements(keys, "sqlite"):
        for values in part:
            there = connection.execute(asked, values).scalar()
            if there is not None:
                remedy = f"write to a table whose column {column} has COLLATE BINARY"
                raise one_key(str(there), str(values[f"rs_{column}"]), column, remedy, target)
