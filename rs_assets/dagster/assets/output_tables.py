"""The metadata of an output's Delta table, as both runs and the checkpoint sensor report it."""

from __future__ import annotations

from typing import Any

from dagster import MetadataValue, TableColumn, TableColumnDep, TableColumnLineage, TableSchema
from deltalake import DeltaTable

from rs_assets.compile.provenance import Columns, fields_of, provenance
from rs_assets.dagster.assets.newest_rows import newest_rows
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.records.types import SIMPLE

Metadata = dict[str, Any]


class OutputTables:
    """Describes the tables of a pipeline's outputs; the provenance of their columns is worked out once."""

    def __init__(self, assets: StreamAssets) -> None:
        self._assets = assets
        self._provenance: dict[str, Columns] = {}

    def metadata(self, sink: str, path: str, table: DeltaTable) -> Metadata:
        """Place, columns with their lineage, number of rows, version and newest rows of the table of `sink`."""
        # Delta's names of some types differ from SQL's, in which schemas are written.
        columns = [
            TableColumn(field.name, SIMPLE.get(str(field.type.type), str(field.type.type)))
            for field in table.schema().fields
        ]
        return {
            "dagster/uri": MetadataValue.path(path),
            "dagster/column_schema": TableSchema(columns=columns),
            "dagster/column_lineage": self._lineage(sink, [column.name for column in columns]),
            "dagster/row_count": table.count(),
            "delta_version": table.version(),
            "newest_rows": MetadataValue.md(newest_rows(table) or "none"),
        }

    def _lineage(self, sink: str, columns: list[str]) -> TableColumnLineage:
        """The source fields of each column, from the topology."""
        if sink not in self._provenance:
            self._provenance[sink] = provenance(self._assets.topology, sink)
        known = self._provenance[sink]
        return TableColumnLineage(
            {
                column: [
                    TableColumnDep(self._assets.key(source), name) for source, name in sorted(fields_of(known, column))
                ]
                for column in columns
            }
        )
