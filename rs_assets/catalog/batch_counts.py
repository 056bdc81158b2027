"""What a stream counted in each of its batches: records read, refused and late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from rs_assets.catalog.catalog import Catalog

TABLE = "batch_counts"


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """The records that one batch of a query read, the rows of them that were refused, and those that came late.

    `dead` are the rows that a source or a check of event times refused, before any state.
    """

    rows_in: int
    dead: int
    late: int


@dataclass(frozen=True, slots=True)
class CountedBatch:
    """The counts of a batch that ran with the steps of `code`."""

    counts: BatchCounts
    code: str


def counted(catalog: Catalog, *, pipeline: str, query: str) -> Mapping[tuple[int, datetime], CountedBatch]:
    """The batches of a query, by its stored name, whose counts the catalog has; by number and time of the plan."""
    rows = catalog.rows(TABLE, pipeline=pipeline, query=query)
    return {(row["batch_id"], row["planned"]): CountedBatch(_counts(row), row["code"]) for row in rows}


def _counts(row: Mapping[str, int]) -> BatchCounts:
    return BatchCounts(row["rows_in"], row["rows_dead"], row["rows_late"])
