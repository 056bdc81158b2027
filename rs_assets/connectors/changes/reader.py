"""What readers of a table's changes have in common, whatever the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql.types import StructType

from rs_assets.connectors.changes.nodes import CHANGE_TYPES, ChangesSource, OnAdded, OnTruncate
from rs_assets.connectors.changes.plan import ChangesPlan, Landing
from rs_assets.connectors.changes.reading import folder_of, with_changes
from rs_assets.connectors.own.reader import NumberedReader
from rs_assets.connectors.own.spark_source import registered
from rs_assets.connectors.source import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReader(NumberedReader):
    """Exactly once: what the database gives is on disk before it is read, and each batch is read from there.

    `declared`: the fields are those of a schema, and not those of the table. The other settings are those of the node.
    Subclasses say what brings rows to disk, which fields the table has, and what must be true before a run.
    """

    table: str
    declared: bool
    snapshot: bool
    keep: timedelta
    on_truncate: OnTruncate
    on_added: OnAdded

    def landing(self, fields: Mapping[str, str]) -> Landing:
        """What brings rows with these fields, and their types, to disk."""
        raise NotImplementedError

    def inferred(self) -> StructType:
        """The fields of the table as it is."""
        raise NotImplementedError

    @property
    def landed_by(self) -> dict[str, Any]:
        """The arguments of `landing` that all databases have."""
        return {
            "table": self.table,
            "declared": self.declared,
            "snapshot": self.snapshot,
            "on_truncate": self.on_truncate,
            "on_added": self.on_added,
            "rows": self.max_rows_per_batch,
        }

    def _registered(self, reading: Reading) -> str:
        fields = {f.name: f.dataType.simpleString() for f in self._schema(reading).fields if f.name not in CHANGE_TYPES}
        folder, generation = folder_of(reading.folder, reading.name), reading.folder.parent
        plan = ChangesPlan(self.landing(fields), folder, generation.name, self.keep)
        return registered(reading.spark, plan, key=f"{reading.folder}/{reading.name}")

    def _schema(self, reading: Reading) -> StructType:
        """The fields of the table, declared or as they were at the first start, and those of a change."""
        return with_changes(reading.schema_of(self.inferred))


def settings_of(node: ChangesSource) -> dict[str, Any]:
    """The arguments of a reader that all databases have."""
    return {
        "name": node.name,
        "max_rows_per_batch": node.max_rows_per_batch,
        "table": node.table,
        "declared": node.schema is not None,
        "snapshot": node.snapshot,
        "keep": node.keep,
        "on_truncate": node.truncate,
        "on_added": node.added_columns,
    }
