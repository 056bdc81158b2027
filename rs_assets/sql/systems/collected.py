"""What tables of SQL over collected messages have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.collector.nodes import METADATA_TYPES

if TYPE_CHECKING:
    from rs_assets.sql.systems.source_table import SourceTable

FORMATS: Final = {"json": "json", "csv": "csv", "raw": "text", "text": "text"}


def of_messages(table: SourceTable) -> dict[str, Any]:
    """The arguments of a source for the options that all of them have."""
    options = table.options
    form = options.choice("format", FORMATS, "json")
    delimiter = options.take("csv.field-delimiter") if form == "csv" else None
    schema = None if form == "text" else table.schema
    return {"format": form, "schema": schema, "delimiter": delimiter or ",", **of_log(table)}


def of_log(table: SourceTable) -> dict[str, Any]:
    """The arguments for what is read of a log, whatever its messages are."""
    return {
        "metadata": table.metadata,
        "bad_records": table.bad_records,
        "max_rows_per_batch": table.options.number("max-rows-per-batch") or 100_000,
        "name": table.name,
    }


def kinds_of(facts: tuple[str, ...]) -> Mapping[str, str]:
    """The types of METADATA columns."""
    return {name: METADATA_TYPES[name] for name in facts}
