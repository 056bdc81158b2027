"""The user's project in the campaign of commands: a copy, the newest record of each page, and windows by the hour."""

from __future__ import annotations

import os

from rs_assets import EventTimePartitions, StreamBuilder, Time, TumblingWindow
from rs_assets.stream.data_stream import DataStream
from tests.torture.commands.plain import DELAY, WINDOW

FILES, STRICT, FACTOR = "TORTURE_FILES", "TORTURE_STRICT", "TORTURE_FACTOR"
HOURS = EventTimePartitions.hourly("start_time", since="2024-01-01")

begin = StreamBuilder.data_stream("shop", "pages")


def _read(name: str, bad_records: str) -> DataStream:
    """The records, read by a query of its own, a file in a batch."""
    schema = "page string, n bigint, ts timestamp"
    folder = os.environ.get(FILES, ".")
    return begin.from_file(folder, schema=schema, bad_records=bad_records, name=name, max_files_per_batch=1)


def _factor() -> str:
    """What the current code multiplies totals with."""
    return f"total * {os.environ.get(FACTOR, '1')}"


usual = "n % 5 <> 4" if os.environ.get(STRICT) else "true"
_read("raw_copy", "skip").expect(usual, on_fail="dead_letter", name="usual").to_delta("copy")
_read("raw_latest", "skip").to_delta("latest", mode="upsert", keys=["page"], order_by="n")
windows = _read("raw", "dead_letter").window(TumblingWindow.of(Time.minutes(WINDOW), "ts"), name="window")
rows = windows.group_by("page").count("rows").sum("n", "total").water_mark(Time.minutes(DELAY)).to_data_stream()
pipeline = rows.with_fields(total=_factor()).to_delta("totals", partitions=HOURS).build()
