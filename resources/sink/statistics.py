"""Delta's per-file statistics, read from a Parquet footer."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import orjson
import pyarrow.parquet as pq

# Delta compares text by prefix; a longer value would only grow the log.
TEXT_LIMIT = 32


def file_statistics(metadata: pq.FileMetaData) -> str:
    """Row count, and minimum, maximum and null count of each flat column, as Delta's JSON."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).path
        if "." in name:
            continue
        chunks = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
        if any(c is None or not c.has_null_count for c in chunks):
            continue
        nulls[name] = sum(c.null_count for c in chunks)
        ranged = [c for c in chunks if c.has_min_max]
        if len(ranged) == len(chunks) and ranged:
            least, most = min(c.min for c in ranged), max(c.max for c in ranged)
            if _comparable(least) and _comparable(most):
                low[name], high[name] = _value(least), _value(most)
    return orjson.dumps(
        {"numRecords": metadata.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    ).decode()


def _comparable(value: object) -> bool:
    return isinstance(value, int | float | date) or (isinstance(value, str) and len(value) <= TEXT_LIMIT)


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value
