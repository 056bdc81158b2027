"""Rescaling: changes the number of partitions of a pipeline's state, without loss or duplicates.

The target number is in the manifest until every query has it, so an interrupted rescale is completed by the next start.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime

from rs_assets.common.plural import count_of
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run.rescaled import RescaleReport, check_partitions
from rs_assets.runtime.run.run import run_wired, wire_all
from rs_assets.topology.topology import Topology


def rescale(topology: Topology, partitions: int, options: RunOptions | None = None) -> RescaleReport:
    """Drain the pipeline, rewrite its state in `partitions` partitions, and leave it stopped.

    ConfigurationError for an invalid number, for a pipeline without state, and for steps whose state cannot be
    redistributed; PipelineBusyError if it runs; CheckpointError if rows or sums over the state differ afterwards, which
    leaves the state unchanged.
    """
    options = RunOptions.of(options)
    began = datetime.now(UTC)
    check_partitions(topology, partitions)
    with opened(topology, options) as session:
        options.driver.call(lambda spark: wire_all(session, spark))
        before = session.manifest.partitions
        # An incomplete batch of a crash is completed first: state moves between two batches only.
        run_wired(session, finish=False, stop=threading.Event())
        session.manifest = replace(session.manifest, rescaling=partitions)
        session.save()
        sums = options.driver.call(session.finish_rescale)
        report = RescaleReport(
            pipeline=topology.name,
            before=before,
            after=partitions,
            state_rows={name: found.rows for name, found in sums.items()},
            seconds=(datetime.now(UTC) - began).total_seconds(),
        )
        session.note("rescale", f"{before} -> {count_of(partitions, 'partition')}", state_rows=report.state_rows)
    return report
