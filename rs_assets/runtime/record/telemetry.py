"""Metrics of a run by OpenTelemetry, pushed to a collector over HTTP."""

from __future__ import annotations

import time
from typing import Self

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from rs_assets.common.background import BackgroundFailures
from rs_assets.errors import EngineError
from rs_assets.operators.window.event_time import moving
from rs_assets.runtime.record.metrics import SECONDS
from rs_assets.runtime.report import BatchProgress

# How long an unresponsive collector may delay the end of a run, in seconds.
PATIENCE_S = 5.0


class Telemetry:
    """Counts the batches of one run, as `Metrics` does under the same names, and sends the numbers to `endpoint`.

    A context manager, which sends the remaining metrics at its end. Interval, headers and attributes are set by
    OpenTelemetry's own variables (OTEL_METRIC_EXPORT_INTERVAL, OTEL_EXPORTER_OTLP_HEADERS, OTEL_RESOURCE_ATTRIBUTES).
    An unavailable collector does not end the run: it is reported in `failures`.
    """

    def __init__(self, pipeline: str, endpoint: str, failures: BackgroundFailures) -> None:
        self._pipeline = pipeline
        self._provider = MeterProvider(
            resource=Resource.create({"service.name": pipeline}),
            metric_readers=[PeriodicExportingMetricReader(_Exporter(endpoint, failures))],
        )
        meter = self._provider.get_meter("rs_assets")
        self._rows = meter.create_counter("rs_rows", "{row}", "Rows of the sources")
        self._out = meter.create_counter("rs_rows_out", "{row}", "Rows that a sink got")
        self._expected = meter.create_counter("rs_expected_rows", "{row}", "Rows that an expectation judged")
        self._seconds = meter.create_histogram(
            "rs_batch_seconds", "s", "Time of a batch", explicit_bucket_boundaries_advisory=SECONDS
        )
        self._state = meter.create_gauge("rs_state_rows", "{row}", "Rows of state: open groups")
        self._bytes = meter.create_gauge("rs_state_bytes", "By", "Memory that the state takes")
        self._watermark = meter.create_gauge("rs_watermark_timestamp_seconds", "s", "The watermark")
        self._last = meter.create_gauge("rs_last_batch_timestamp_seconds", "s", "When a batch was finished")

    def __enter__(self) -> Self:
        """These metrics, which are being sent."""
        return self

    def __exit__(self, *_: object) -> None:
        """Send the remaining metrics."""
        self._provider.shutdown(timeout_millis=PATIENCE_S * 1000)

    def count(self, progress: BatchProgress) -> None:
        """Add a finished batch."""
        names = {"pipeline": self._pipeline, "query": progress.query}
        for kind, rows in progress.counts.items():
            self._rows.add(rows, {**names, "kind": kind})
        for sink, rows in progress.rows_out.items():
            self._out.add(rows, {**names, "sink": sink})
        for step, (judged, failed) in progress.judged.items():
            self._expected.add(judged - failed, {**names, "step": step, "outcome": "met"})
            self._expected.add(failed, {**names, "step": step, "outcome": "failed"})
        self._seconds.record(progress.seconds, names)
        self._state.set(progress.state_rows, names)
        self._bytes.set(progress.state_bytes, names)
        self._last.set(time.time(), names)
        watermark = moving(progress.watermark)
        if watermark is not None:
            self._watermark.set(watermark.timestamp(), names)


class _Exporter(OTLPMetricExporter):
    """Reports metrics that the collector does not accept."""

    def __init__(self, endpoint: str, failures: BackgroundFailures) -> None:
        super().__init__(endpoint=endpoint, timeout=PATIENCE_S)
        self._failures = failures

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = PATIENCE_S * 1000, **kwargs: object
    ) -> MetricExportResult:
        result = super().export(metrics_data, timeout_millis, **kwargs)
        with self._failures.guarding("metrics do not reach the collector of OpenTelemetry"):
            if result is not MetricExportResult.SUCCESS:
                raise EngineError("it did not take them", remedy="see RS_METRICS_ENDPOINT, and the collector's own log")
        return result
