"""Compaction: joins the small files of many batches into few large ones."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.compaction import compact_table
from rs_assets.catalog.tidying import kept_for, tidy_catalog
from rs_assets.common.home import Home
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.table import open_table
from rs_assets.recovery.savepoints import SavepointStore, collect_garbage
from rs_assets.recovery.savepoints.listing import SHUFFLES
from rs_assets.recovery.savepoints.restore import TRASH
from rs_assets.stream.pipeline import Pipeline
from rs_assets.topology.topology import Topology

# Longer than any reader of an old version should take; files of older versions are removed.
RETENTION = timedelta(days=7)
MEGABYTE = 1 << 20
# Numbers of files of a table that were joined, added and removed.
Counts = dict[str, int]


def delta_outputs(topology: Topology, home: Home) -> dict[str, str]:
    """The path of every Delta sink, by its step."""
    sinks = (sink for sink in topology.sinks if isinstance(sink, DeltaSink))
    return {sink.name: home.table(topology.namespace, sink.table) for sink in sinks}


def compact_everything(
    pipelines: Sequence[Pipeline], home: Home, *, savepoints: str | None = None, target_mb: int | None = None
) -> dict[str, Counts]:
    """Compact the tables of `pipelines` in `home` and the shared ones. Returns the counts by table."""
    done: dict[str, Counts] = {}
    for pipeline in pipelines:
        done |= compact_pipeline(pipeline.topology, home, target_mb=target_mb)
    return done | compact_shared(home, savepoints=savepoints)


def compact_pipeline(topology: Topology, home: Home, *, target_mb: int | None = None) -> dict[str, Counts]:
    """Compact Delta outputs and the tables of state and of shuffles; remove what restores and rewinds moved aside.

    Files of outputs are joined up to about `target_mb`; None: as `compact_table` does.
    """
    done: dict[str, Counts] = {}
    target = None if target_mb is None else target_mb * MEGABYTE
    targets: dict[str, int | None] = dict.fromkeys(delta_outputs(topology, home).values(), target)
    for path, size in {**targets, **dict.fromkeys(map(str, _own_tables(topology, home)))}.items():
        table = open_table(path)
        if table is not None:
            done[path] = compact_table(table, retention=RETENTION, target_bytes=size)
    clear_trash(home.job(topology.namespace, topology.job))
    return done


def compact_shared(home: Home, *, savepoints: str | None = None) -> dict[str, Counts]:
    """Compact the catalog. Rows older than RS_CATALOG_DAYS and files of removed savepoints are removed."""
    tidy_catalog(home.catalog, keep=kept_for())
    catalog = Catalog(home.catalog).compact(retention=RETENTION)
    collect_garbage(SavepointStore(savepoints or home.savepoints))
    return {f"catalog/{name}": counts for name, counts in catalog.items()}


def clear_trash(job: Path, *, keep: timedelta = RETENTION) -> int:
    """Remove the folders that a restore or a rewind moved aside longer ago than `keep`; returns how many."""
    old = [f for f in job.glob(f"{TRASH}*") if time.time() - f.stat().st_mtime > keep.total_seconds()]
    for folder in old:
        # Another compaction may remove it, too.
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
    return len(old)


def _own_tables(topology: Topology, home: Home) -> Iterator[Path]:
    yield from sorted((home.state / topology.namespace / topology.job).glob("*"))
    yield from sorted(home.job(topology.namespace, topology.job).glob(f"g*/*/{SHUFFLES}/*"))
