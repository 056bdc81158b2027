"""Compaction: small files of many batches become few large ones."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from dagster import AssetKey, AssetObservation, JobDefinition, OpExecutionContext, ScheduleDefinition, job, op
from deltalake import DeltaTable

from pipelines.stream.pipeline import Pipeline
from pipelines.topology.sink import DeltaSink
from resources.home import Home
from resources.sink.delta import open_table
from rs_assets.roles import asset_path

# Longer than any reader of an old version should take; what no version names by then is removed.
RETENTION = timedelta(days=7)


def compact(table: DeltaTable, *, retention: timedelta = RETENTION) -> dict[str, int]:
    """Join small files and remove those that no version younger than `retention` names; returns what was done.

    Readers of the table, streams too, do not notice: a compaction adds no rows.
    """
    done = table.optimize.compact()
    removed = table.vacuum(int(retention / timedelta(hours=1)), dry_run=False, enforce_retention_duration=True)
    return {
        "files_added": int(done["numFilesAdded"]),
        "files_joined": int(done["numFilesRemoved"]),
        "files_removed": len(removed),
        "delta_version": table.version(),
    }


def delta_outputs(pipelines: Sequence[Pipeline], home: Home) -> Iterator[tuple[AssetKey, str]]:
    """The asset and the path of every Delta sink."""
    for pipeline in pipelines:
        topology = pipeline.topology
        for sink in topology.sinks:
            if isinstance(sink, DeltaSink):
                key = AssetKey(asset_path(topology, sink.name, "output"))
                yield key, home.table(topology.namespace, sink.table)


def compaction_job(pipelines: Sequence[Pipeline]) -> JobDefinition:
    """A job over all Delta outputs and the dead-letter table."""

    @op(description="Joins the small files of every Delta table and removes what no recent version names.")
    def compact_delta_tables(context: OpExecutionContext) -> None:
        home = Home.default()
        for key, path in delta_outputs(pipelines, home):
            table = open_table(path)
            if table is not None:
                context.log_event(AssetObservation(key, metadata=compact(table)))
        letters: Path = home.dead_letters
        table = open_table(str(letters))
        if table is not None:
            context.log.info("dead letters: %s", compact(table))

    @job(name="compact_tables", description="Compacts the outputs of all pipelines and the dead letters.")
    def compact_tables() -> None:
        compact_delta_tables()

    return compact_tables


def compaction_schedule(target: JobDefinition) -> ScheduleDefinition:
    """Every night at three, UTC; switched on in the UI."""
    return ScheduleDefinition(
        name="compact_tables_nightly", job=target, cron_schedule="0 3 * * *", execution_timezone="UTC"
    )
