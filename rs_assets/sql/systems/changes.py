"""Changes of a table in SQL: options that all databases have, and the rows of a table that is declared with a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rs_assets.records.schema import quoted
from rs_assets.sql.systems.secrets import secret_of

if TYPE_CHECKING:
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

POLICIES = {"fail": "fail", "row": "row"}
STARTS = {"initial": True, "latest-offset": False}


def of_database(table: SourceTable, example: str) -> dict[str, Any]:
    """The arguments of a source for the options that all databases have; `example` is a name of a table."""
    options = table.options
    return {
        "url": secret_of(options.need("url", "$SHOP_DATABASE")),
        "table": options.need("table-name", example),
        "schema": table.schema,
        "snapshot": options.choice("scan.startup.mode", STARTS, "initial"),
        "truncate": options.choice("truncate", POLICIES, "fail"),
        "bad_records": table.bad_records,
        "max_rows_per_batch": options.number("max-rows-per-batch") or 100_000,
        "name": table.name,
    }


def rows_of(table: SourceTable, stream: DataStream, connector: str) -> DataStream | Table:
    """The changes as rows; with a PRIMARY KEY the table that they lead to."""
    declared = [column.name.text for column in table.options.table.declared]
    made = {f"{connector}_{key}": key for key in table.metadata}
    named = stream.with_fields(**made, name=f"{table.name}_change") if made else stream
    if not table.keys:
        return named.select_fields(*declared, *made, name=f"{table.name}_columns")
    rows = named.to_table(*table.keys, deletes="op = 'delete'", name=f"{table.name}_table")
    return rows.map_values(*(quoted(name) for name in (*declared, *made) if name not in table.keys))
