"""Delta's per-file statistics, read from a Parquet footer."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Self

import orjson
import pyarrow.parquet as pq

# Delta compares text by prefix; a longer value would only enlarge the log.
TEXT_LIMIT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatistics:
    """Statistics of the flat columns, from a footer; `nulls` lacks columns without a null count."""

    rows: int
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    nulls: Mapping[str, int]

    def text(self) -> str:
        """The statistics as Delta's JSON."""
        made = {"numRecords": self.rows, "minValues": self.low, "maxValues": self.high, "nullCount": self.nulls}
        return orjson.dumps(made).decode()

    def without_range(self, names: Collection[str]) -> Self:
        """The same without minimum and maximum of the columns `names`."""
        low, high = ({n: v for n, v in values.items() if n not in names} for values in (self.low, self.high))
        return replace(self, low=low, high=high)

    @classmethod
    def of_text(cls, text: str) -> Self:
        """The statistics of a text that `text` has made."""
        made = orjson.loads(text)
        return cls(rows=made["numRecords"], low=made["minValues"], high=made["maxValues"], nulls=made["nullCount"])


def file_statistics(metadata: pq.FileMetaData) -> FileStatistics:
    """Row count, and minimum, maximum and null count of each flat column."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        if column.path != column.name:
            # A member of a struct, a list or a map.
            continue
        chunks = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
        if any(c is None or not c.has_null_count for c in chunks):
            continue
        nulls[column.name] = sum(c.null_count for c in chunks)
        span = _span(chunks)
        if span is not None and "." not in column.name:
            low[column.name], high[column.name] = span
    return FileStatistics(rows=metadata.num_rows, low=low, high=high, nulls=nulls)


def _span(chunks: Sequence[Any]) -> tuple[Any, Any] | None:
    """The least and the greatest value, None if a chunk does not say or Delta cannot compare them."""
    if not chunks or not all(c.has_min_max for c in chunks):
        return None
    try:
        least, most = min(c.min for c in chunks), max(c.max for c in chunks)
    except (ValueError, OverflowError):
        # A time in a year that Python does not have.
        return None
    return (_value(least), _value(most)) if _comparable(least) and _comparable(most) else None


def _comparable(value: object) -> bool:
    if isinstance(value, float):
        # JSON has no word for the others.
        return math.isfinite(value)
    return isinstance(value, int | date) or (isinstance(value, str) and len(value) <= TEXT_LIMIT)


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
