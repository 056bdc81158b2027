"""Rows with other columns than their table: it gets those that it lacks, and they get nulls for the others."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field
from deltalake import Schema as DeltaSchema

from rs_assets.connectors.delta.log.commit_info import FENCED
from rs_assets.connectors.delta.log.retry import retried
from rs_assets.connectors.delta.log.store import delta_table
from rs_assets.connectors.delta.table import arrow_schema
from rs_assets.connectors.delta.table_rules import nullable
from rs_assets.connectors.sink import BatchMark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def fitted(
    rows: DataFrame, table: DeltaTable, path: str, mark: BatchMark, *, own: Collection[str] = ()
) -> tuple[DataFrame, DeltaTable]:
    """`rows` with all columns of the table at `path`, and the table with all columns of `rows`, in a commit of its own.

    A column that differs from another one by case only, and one of the partitions, is left to the rules of the table,
    which refuse the rows. `own` are columns that the writer makes.
    """
    table = widened(arrow_schema(rows), table, path, mark)
    return _filled(rows, table, own), table


def widened(rows: pa.Schema, table: DeltaTable, path: str, mark: BatchMark) -> DeltaTable:
    """The newest version of the table, with all columns of `rows`; the same object if it has them."""
    return retried(lambda: _widened(rows, path, mark)) if _new_columns(rows, table) else table


def absent_columns(rows: pa.Schema, table: DeltaTable) -> list[pa.Field]:
    """The columns that the table has got since the `rows` were fitted; see `fitted` for those that are left out."""
    known = pa.schema(table.schema().to_arrow())
    return [known.field(name) for name in _absent(rows.names, table)]


def _absent(names: Iterable[str], table: DeltaTable) -> list[str]:
    """The columns of the table that are not among `names`, in any case, and are not of its partitions."""
    there = {name.lower() for name in (*names, *table.metadata().partition_columns)}
    return [column.name for column in table.schema().fields if column.name.lower() not in there]


def _widened(rows: pa.Schema, path: str, mark: BatchMark) -> DeltaTable:
    table = delta_table(path)
    new = _new_columns(rows, table)
    if new:
        table.alter.add_columns(new, commit_properties=CommitProperties(custom_metadata={FENCED: mark.writer}))
        table = delta_table(path)
    return table


def _new_columns(rows: pa.Schema, table: DeltaTable) -> list[Field]:
    known = {column.name.lower() for column in table.schema().fields}
    wanted = DeltaSchema.from_arrow(nullable(rows)).fields
    return [column for column in wanted if column.name.lower() not in known]


def _filled(rows: DataFrame, table: DeltaTable, own: Collection[str]) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    kinds = StructType.fromJson(json.loads(table.schema().to_json()))
    absent = {name: F.lit(None).cast(kinds[name].dataType) for name in _absent((*own, *rows.columns), table)}
    return rows.withColumns(absent) if absent else rows
