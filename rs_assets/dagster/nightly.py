"""When the nightly schedule of a pipeline is due."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta

from dagster import RunRequest, ScheduleEvaluationContext, SkipReason


def nightly(pipeline: str, *, hour: int) -> str:
    """The cron schedule of each night within an hour, at a different minute for each pipeline.

    >>> nightly("shop.orders", hour=3)
    '11 3 * * *'
    """
    return f"{zlib.crc32(pipeline.encode()) % 60} {hour} * * *"


def newest_night(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
    """A run for the newest night alone.

    Of a job over partitions Dagster starts up to five runs for nights that passed while its daemon was away.
    """
    age = datetime.now(UTC) - context.scheduled_execution_time
    return RunRequest() if age < timedelta(days=1) else SkipReason("a later night has passed")
