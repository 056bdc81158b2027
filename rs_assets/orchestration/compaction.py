"""Compaction: small files of many batches become few large ones."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from dagster import AssetKey, AssetObservation, JobDefinition, OpExecutionContext, ScheduleDefinition, job, op

from rs_assets.engine.checkpoint.catalog import Catalog
from rs_assets.engine.checkpoint.compaction import compact_table
from rs_assets.engine.checkpoint.savepoints import SavepointStore, collect_garbage
from rs_assets.engine.checkpoint.tidying import kept_for, tidy_catalog
from rs_assets.engine.home import Home
from rs_assets.engine.sink.delta_table import open_table
from rs_assets.orchestration.place import Place, place_of
from rs_assets.orchestration.roles import asset_path
from rs_assets.pipeline.stream.pipeline import Pipeline
from rs_assets.pipeline.topology.sink import DeltaSink

# Longer than any reader of an old version should take; what no version names by then is removed.
RETENTION = timedelta(days=7)


def delta_outputs(pipelines: Sequence[Pipeline], home: Home) -> Iterator[tuple[AssetKey, str]]:
    """The asset and the path of every Delta sink."""
    for pipeline in pipelines:
        topology = pipeline.topology
        for sink in topology.sinks:
            if isinstance(sink, DeltaSink):
                key = AssetKey(asset_path(topology, sink.name, "output"))
                yield key, home.table(topology.namespace, sink.table)


def compact_everything(
    pipelines: Sequence[Pipeline], home: Home, *, savepoints: str | None = None
) -> dict[str, dict[str, int]]:
    """Compact Delta outputs, tables of state and of shuffles and the catalog; clear what going back moved aside.

    Rows of the catalog that are older than RS_CATALOG_DAYS go, and files of savepoints that were removed. Returns what
    was done, by table.
    """
    done: dict[str, dict[str, int]] = {}
    for _, path in delta_outputs(pipelines, home):
        table = open_table(path)
        if table is not None:
            done[path] = compact_table(table, retention=RETENTION)
    for folder in sorted([*home.state.glob("*/*/*"), *home.shuffles.glob("*/*/*")]):
        table = open_table(str(folder))
        if table is not None:
            done[str(folder)] = compact_table(table, retention=RETENTION)
    tidy_catalog(home.catalog, keep=kept_for())
    catalog = Catalog(home.catalog).compact(retention=RETENTION)
    collect_garbage(SavepointStore(savepoints or home.savepoints))
    for pipeline in pipelines:
        clear_trash(home.job(pipeline.topology.namespace, pipeline.topology.job))
    return {**done, **{f"catalog/{name}": counts for name, counts in catalog.items()}}


def clear_trash(job: Path, *, keep: timedelta = RETENTION) -> int:
    """Remove the folders that a restore or a rewind moved aside longer ago than `keep`; returns how many."""
    old = [f for f in job.glob(".trash-*") if time.time() - f.stat().st_mtime > keep.total_seconds()]
    for folder in old:
        shutil.rmtree(folder)
    return len(old)


def compaction_job(pipelines: Sequence[Pipeline]) -> JobDefinition:
    """A job over all Delta outputs, the tables of state and the catalog."""

    @op(description="Joins the small files of every Delta table and removes what no recent version names.")
    def compact_delta_tables(context: OpExecutionContext) -> None:
        for place, there in _by_place(context, pipelines):
            done = compact_everything(there, place.home, savepoints=place.savepoints)
            for key, path in delta_outputs(there, place.home):
                if path in done:
                    context.log_event(AssetObservation(key, metadata=done[path]))
            for table, counts in done.items():
                context.log.info("%s: %s", table, counts)

    @job(name="compact_tables", description="Compacts the outputs of all pipelines, their state and the catalog.")
    def compact_tables() -> None:
        compact_delta_tables()

    return compact_tables


def _by_place(context: OpExecutionContext, pipelines: Sequence[Pipeline]) -> list[tuple[Place, list[Pipeline]]]:
    """The pipelines by where they keep what they have, and the place of the environment whether it has some or not."""
    found: list[tuple[Place, list[Pipeline]]] = [(Place(), [])]
    for pipeline in pipelines:
        place = place_of(context, pipeline.topology)
        there = next((mine for known, mine in found if known == place), None)
        if there is None:
            found.append((place, [pipeline]))
        else:
            there.append(pipeline)
    return found


def compaction_schedule(target: JobDefinition) -> ScheduleDefinition:
    """Every night at three, UTC; switched on in the UI."""
    return ScheduleDefinition(
        name="compact_tables_nightly", job=target, cron_schedule="0 3 * * *", execution_timezone="UTC"
    )
