"""Metrics of a run in Prometheus' text format, on a port of loopback."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Self

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from rs_assets.errors import ConfigurationError
from rs_assets.operators.window.event_time import moving
from rs_assets.runtime.report import BatchProgress

HOST = "127.0.0.1"
# Batches take from milliseconds to minutes.
SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)


class Metrics:
    """Counts the batches of one run, and serves the metrics; a context manager that ends the server.

    `queries` are those of the pipeline with their sinks: they have series from the start, watermarks and last batches
    as soon as there are some. Counters begin at 0 with each run, as Prometheus expects of a restarted process. Port 0
    uses any free port: see `port`. ConfigurationError if the port is taken.
    """

    def __init__(self, pipeline: str, port: int, queries: Mapping[str, Sequence[str]] = MappingProxyType({})) -> None:
        registry = CollectorRegistry()
        query = ("pipeline", "query")
        self._pipeline = pipeline
        self._rows = Counter("rs_rows", "Rows of the sources", (*query, "kind"), registry=registry)
        self._out = Counter("rs_rows_out", "Rows that a sink got", (*query, "sink"), registry=registry)
        self._expected = Counter(
            "rs_expected_rows", "Rows that an expectation judged", (*query, "step", "outcome"), registry=registry
        )
        self._seconds = Histogram("rs_batch_seconds", "Time of a batch", query, registry=registry, buckets=SECONDS)
        self._state = Gauge("rs_state_rows", "Rows of state: open groups", query, registry=registry)
        self._bytes = Gauge("rs_state_bytes", "Memory that the state takes", query, registry=registry)
        self._watermark = Gauge("rs_watermark_timestamp_seconds", "The watermark", query, registry=registry)
        self._last = Gauge("rs_last_batch_timestamp_seconds", "When a batch was finished", query, registry=registry)
        for name, sinks in queries.items():
            self._begin(name, sinks)
        try:
            self._server, self._thread = start_http_server(port, addr=HOST, registry=registry)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"metrics cannot be served on {HOST}:{port}: {error}", remedy="choose another metrics_port; 0 takes any"
            ) from error

    def _begin(self, query: str, sinks: Sequence[str]) -> None:
        """Empty series: so a run before its first batch differs from one that is down."""
        names = (self._pipeline, query)
        for kind in ("in", "dead", "late"):
            self._rows.labels(*names, kind)
        for sink in sinks:
            self._out.labels(*names, sink)
        for each in (self._seconds, self._state, self._bytes):
            each.labels(*names)

    @property
    def port(self) -> int:
        """The port of 127.0.0.1 that serves `/metrics`."""
        return int(self._server.server_port)

    def __enter__(self) -> Self:
        """These metrics, which are being served."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def count(self, progress: BatchProgress) -> None:
        """Add a finished batch."""
        names = (self._pipeline, progress.query)
        for kind, rows in progress.counts.items():
            self._rows.labels(*names, kind).inc(rows)
        for sink, rows in progress.rows_out.items():
            self._out.labels(*names, sink).inc(rows)
        for step, (judged, failed) in progress.judged.items():
            self._expected.labels(*names, step, "met").inc(judged - failed)
            self._expected.labels(*names, step, "failed").inc(failed)
        self._seconds.labels(*names).observe(progress.seconds)
        self._state.labels(*names).set(progress.state_rows)
        self._bytes.labels(*names).set(progress.state_bytes)
        self._last.labels(*names).set(time.time())
        watermark = moving(progress.watermark)
        if watermark is not None:
            self._watermark.labels(*names).set(watermark.timestamp())
