"""Changes of a table of Postgres in SQL. The names of options are those of Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rs_assets.connectors.changes.nodes import CHANGE_TYPES
from rs_assets.sql.systems.changes import POLICIES, STARTS, rows_of
from rs_assets.sql.systems.form import SqlSource
from rs_assets.sql.systems.secrets import secret_of

if TYPE_CHECKING:
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table


def _read(table: SourceTable) -> DataStream | Table:
    """The changes as rows; with a PRIMARY KEY the table that they lead to."""
    options = table.options
    stream = table.begin.from_postgres(
        secret_of(options.need("url", "$SHOP_DATABASE")),
        options.need("table-name", "public.orders"),
        schema=table.schema,
        slot=options.take("slot.name"),
        publication=options.take("publication.name"),
        snapshot=options.choice("scan.startup.mode", STARTS, "initial"),
        truncate=options.choice("truncate", POLICIES, "fail"),
        bad_records=table.bad_records,
        max_rows_per_batch=options.number("max-rows-per-batch") or 100_000,
        name=table.name,
    )
    return rows_of(table, stream, "postgres-cdc")


SOURCE: Final = SqlSource(read=_read, metadata=CHANGE_TYPES)
