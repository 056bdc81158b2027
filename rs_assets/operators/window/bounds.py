"""Bounds of accepted event times."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from rs_assets.errors import TopologyError
from rs_assets.operators.window.durations import EPOCH, checked_duration
from rs_assets.records.policy import BadRecords

# A watermark cannot lie before the epoch in Spark, so no earlier event could ever be counted.
DEFAULT_MAX_AHEAD = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class EventTimeBounds:
    """The accepted event times; others are bad records and follow `policy`.

    `earliest` cannot lie before 1970 (Spark's watermark starts there). `max_ahead` is how far an event may be ahead of
    the driver's clock at the start of its batch: without it one row of the year 2999 would move the watermark past
    everything. `policy` None means the policy of the sources.
    """

    earliest: datetime = EPOCH
    max_ahead: timedelta = DEFAULT_MAX_AHEAD
    policy: BadRecords | None = None

    def __post_init__(self) -> None:
        """Refuse bounds that Spark does not support."""
        if not isinstance(self.earliest, datetime) or self.earliest.tzinfo is None or self.earliest < EPOCH:
            raise TopologyError(
                "the earliest event time must be a datetime with a time zone, and not before 1970, and is"
                f" {self.earliest!r}",
                remedy="use datetime(1970, 1, 1, tzinfo=UTC) or later",
            )
        checked_duration(self.max_ahead, what="max_ahead", least=timedelta(0), most=timedelta.max)
