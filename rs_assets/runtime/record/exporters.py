"""Metrics of a run for other systems: served to Prometheus, sent by OpenTelemetry, both or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Protocol

from rs_assets.common.background import LOG, BackgroundFailures
from rs_assets.common.extras import check_extra
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.report import BatchProgress


class Counting(Protocol):
    """Metrics of a run that are updated by its batches."""

    def count(self, progress: BatchProgress) -> None:
        """Add a finished batch."""
        ...


@contextmanager
def counted(
    options: RunOptions, pipeline: str, failures: BackgroundFailures, queries: Mapping[str, Sequence[str]]
) -> Iterator[RunOptions]:
    """`options` whose listener also updates the requested metrics with each batch, until the block ends.

    `queries` are those of the pipeline, with their sinks.
    """
    with ExitStack() as stack:
        # Imported here, since most runs have no metrics.
        if options.metrics_port is not None:
            from rs_assets.runtime.record.metrics import Metrics

            metrics = stack.enter_context(Metrics(pipeline, options.metrics_port, queries))
            LOG.info("metrics of %s: http://127.0.0.1:%d/metrics", pipeline, metrics.port)
            options = listening(options, metrics)
        if options.metrics_endpoint:
            check_extra("otel", "metrics by OpenTelemetry")
            from rs_assets.runtime.record.telemetry import Telemetry

            sender = stack.enter_context(Telemetry(pipeline, options.metrics_endpoint, failures))
            options = listening(options, sender)
        yield options


def listening(options: RunOptions, counting: Counting) -> RunOptions:
    """`options` whose listener also updates `counting` with each batch."""
    listener: Callable[[BatchProgress], None] = options.on_progress

    def hear(progress: BatchProgress) -> None:
        counting.count(progress)
        listener(progress)

    return replace(options, on_progress=hear)
