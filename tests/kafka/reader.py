"""A pipeline over topics that is run several times; each run has a sink of its own, so that a repeated row shows."""

from __future__ import annotations

import time
from dataclasses import replace

from deltalake import DeltaTable

from rs_assets import MemoryChannel, StreamBuilder


class Reader:
    """Reads with `from_kafka(servers, **source)`; `rows()` runs to the end of what is there and gives what came."""

    def __init__(self, broker, options, topic=None, **source):
        self.servers = broker if isinstance(broker, str) else broker.bootstrap_servers
        self.options = options
        self.source = {"topic": topic, **source} if topic else source
        self.report = None

    def stream(self):
        return StreamBuilder.data_stream("tests", "kafka").from_kafka(self.servers, **self.source)

    def rows(self, *, finish=None, steps=lambda stream: stream, **options):
        channel = MemoryChannel()
        pipeline = steps(self.stream()).to_memory(channel).build()
        self.report = pipeline.run(replace(self.options, **options), finish=finish)
        return channel.take()

    def values(self, field="value", **run):
        return [row[field] for row in self.rows(**run)]

    def start(self, **options):
        """Runs on, into the Delta table `kept`."""
        return self.stream().to_delta("kept").build().start(replace(self.options, **options))

    def kept(self, field="value"):
        where = self.options.home.table("tests", "kept")
        if not DeltaTable.is_deltatable(where):
            return []
        return sorted(DeltaTable(where).to_pyarrow_table().column(field).to_pylist())


def until(done, seconds=120, running=None):
    """Wait for `done()`; with `running`, raise what ended it meanwhile."""
    deadline = time.monotonic() + seconds
    while not done():
        if running is not None and not running.active:
            running.await_termination(0)
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)


def numbered(first, last):
    return [b"%d" % number for number in range(first, last)]


def as_numbers(values):
    return sorted(int(value) for value in values)
