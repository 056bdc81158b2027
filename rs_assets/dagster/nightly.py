"""When the nightly schedule of a pipeline is due."""

from __future__ import annotations

import zlib


def nightly(pipeline: str, *, hour: int) -> str:
    """The cron schedule of each night within an hour, at a different minute for each pipeline.

    >>> nightly("shop.orders", hour=3)
    '11 3 * * *'
    """
    return f"{zlib.crc32(pipeline.encode()) % 60} {hour} * * *"
