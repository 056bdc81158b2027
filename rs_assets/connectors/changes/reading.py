"""The schema of a table's changes, and where its landed rows are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql.types import StructType

from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.connectors.changes.landed import Landed
from rs_assets.connectors.changes.nodes import CHANGE_TYPES
from rs_assets.connectors.own.plan import Position, loaded
from rs_assets.connectors.source import Start
from rs_assets.errors import ConfigurationError, SchemaError
from rs_assets.records.schema import quoted

FOLDER: Final = "landed"


def check_one_query(start: Start, name: str) -> None:
    """ConfigurationError if several queries would land the rows of one source."""
    if len(start.logs) > 1:
        raise ConfigurationError(
            f"{len(start.logs)} queries of the pipeline read the source {name!r}, and the changes of a table land for"
            " one reader",
            remedy="put .shuffle(2, strategy='delta') right after the source, so that one query reads it",
            source=name,
        )


def with_changes(schema: StructType) -> StructType:
    """The fields of a table, and those of a change."""
    return StructType([*schema.fields, *_struct(CHANGE_TYPES).fields])


def struct_of(fields: Mapping[str, str], *, table: str, step: str) -> StructType:
    """The fields of a table; SchemaError if one has the name of a field of a change."""
    taken = next((name for name in fields if name.lower() in CHANGE_TYPES), None)
    if taken is not None:
        others = {name: kind for name, kind in fields.items() if name != taken}
        raise SchemaError(
            f"the table {table} has a column {taken!r}, which is the name of a field of a change",
            remedy=f"leave it out: schema='{_ddl(others)}'",
            step=step,
        )
    return _struct(fields)


def folder_of(query: Path, source: str) -> Path:
    """The folder of a source's landed rows: next to the generations of the job, because it outlives them."""
    return query.parent.parent / FOLDER / source


def landed_of(log: SourceLog) -> tuple[Landed, int]:
    """The landed rows of a query, and the number of the next one to read."""
    query, offsets = log.log.folder.parent, loaded(log.committed)
    split = next(iter(offsets), query.parent.name)
    return Landed(folder_of(query, log.stored_name) / split), offsets.get(split, Position(0, 0)).next


def _struct(fields: Mapping[str, str]) -> StructType:
    return StructType.fromDDL(_ddl(fields))  # type: ignore[return-value]  # a list of fields is a struct


def _ddl(fields: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in fields.items())
