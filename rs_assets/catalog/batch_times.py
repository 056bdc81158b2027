"""The event times of batches: an index that finds the batches which may have read rows of a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rs_assets.catalog.catalog import Catalog, Row

TABLE = "batch_times"
# Spark has event times to the millisecond below.
PRECISION = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class EventTimes:
    """How many rows came to a gate, and their least and greatest event time, to the millisecond below."""

    rows: int
    least: datetime
    greatest: datetime

    def meets(self, start: datetime | None, end: datetime | None) -> bool:
        """Whether a time may be in `[start, end)`; None is any.

        >>> from datetime import UTC
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        >>> seen = EventTimes(2, noon, noon + timedelta(minutes=5))
        >>> seen.meets(noon + timedelta(minutes=5), None), seen.meets(None, noon)
        (True, False)
        """
        return (start is None or self.greatest + PRECISION > start) and (end is None or self.least < end)

    def with_(self, other: EventTimes) -> EventTimes:
        """Both together."""
        least, greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        return EventTimes(self.rows + other.rows, least, greatest)


def spans(catalog: Catalog, *, pipeline: str, since: int) -> dict[tuple[int, str, int], EventTimes]:
    """The event times of the batches from `since` on, by generation, query and batch; of all gates with rows."""
    found = dict[tuple[int, str, int], EventTimes]()
    for row in catalog.rows(TABLE, pipeline=pipeline, at_least={"batch_id": since}):
        place, times = (row["generation"], row["query"], row["batch_id"]), _times(row)
        if times is not None:
            found[place] = found[place].with_(times) if place in found else times
    return found


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """The event times at one gate, by batch and the time at which it was planned; None for a batch without rows there.

    Batches that are not in it are unknown: before this table was there, of other code, or not written yet. A batch that
    one version had planned and another computed again after a kill may have a row of each.
    """

    known: Mapping[tuple[int, datetime], EventTimes | None]

    @classmethod
    def of(cls, catalog: Catalog, *, pipeline: str, query: str, gate: str, code: str) -> BatchTimes:
        """Those in the catalog of batches that ran with this `code`."""
        rows = catalog.rows(TABLE, pipeline=pipeline, query=query, gate=gate, code=code)
        return cls({(row["batch_id"], row["planned"]): _times(row) for row in rows})

    def may_hold(self, batch: int, planned: datetime, start: datetime | None, end: datetime | None) -> bool:
        """Whether a batch may have read rows whose time is in `[start, end)`; None is any."""
        if (batch, planned) not in self.known:
            return True
        times = self.known[batch, planned]
        return times is not None and times.meets(start, end)


def _times(row: Row) -> EventTimes | None:
    return EventTimes(row["rows"], row["least"], row["greatest"]) if row["rows"] else None
