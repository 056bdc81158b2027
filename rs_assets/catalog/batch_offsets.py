"""The plans of committed batches in the catalog: offsets, watermark and clock, for longer than Spark's log has them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from rs_assets.catalog.catalog import Catalog, Row
from rs_assets.checkpoint.log import BatchOffsets

TABLE = "batch_offsets"


def offsets_row(planned: BatchOffsets, before: BatchOffsets | None) -> Row:
    """The columns of a batch, with stored names of sources; `before` is the batch before it."""
    return {
        "planned": planned.started,
        "planned_before": before.started if before is not None else None,
        "watermark": planned.watermark,
        "sources": json.dumps(planned.sources, sort_keys=True),
    }


def older_batches(catalog: Catalog, *, pipeline: str, query: str, first: BatchOffsets) -> Mapping[int, BatchOffsets]:
    """The batches before `first`, which Spark's log still has, as far back as the catalog knows each one before.

    A batch may have been planned several times: by generations that were undone. Each row names the batch before it by
    the time of its plan, so only those that lead to `first` are taken.
    """
    known = defaultdict[int, dict[datetime, Row]](dict)
    for each in catalog.rows(TABLE, pipeline=pipeline, query=query):
        known[each["batch_id"]][each["planned"]] = each
    found = dict[int, BatchOffsets]()
    row: Row | None = known[first.batch_id].get(first.started)
    while row is not None and row["planned_before"] is not None:
        row = known[row["batch_id"] - 1].get(row["planned_before"])
        if row is not None:
            found[row["batch_id"]] = _offsets(row)
    return found


def _offsets(row: Row) -> BatchOffsets:
    return BatchOffsets(row["batch_id"], row["watermark"], row["planned"], json.loads(row["sources"]))
