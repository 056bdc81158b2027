"""Reading the catalog of a stream that has run for long: sensors, checks and commands, in seconds and megabytes."""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dagster import build_sensor_context
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from benchmarks.bench import Bench
from benchmarks.measure import Figure
from rs_assets import Pipeline, StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.catalog import TABLES, Catalog, row_of
from rs_assets.catalog.layout import CONFIGURATION, DAY, ROW_GROUP
from rs_assets.catalog.offsets.delta import PART, STORED, part_of
from rs_assets.catalog.offsets.merge import row_key, source_key
from rs_assets.cli.recorded.lineage import around
from rs_assets.cli.run.status import status_of
from rs_assets.common.home import Home
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.dagster.assets.checks import SOURCE_CHECKS, STATE_CHECKS
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.checkpoint_rows import checkpoints_of
from rs_assets.dagster.place import Place
from rs_assets.dagster.sensors import checkpoint_sensor
from rs_assets.runtime.record.journal import IDENTITIES
from rs_assets.runtime.run.lag import unread

SPLITS = 12
DAY_S = 86_400
MOST_S, MOST_MB = 2.0, 200.0


def followed(folder: Path) -> Pipeline:
    """The pipeline whose catalog is made up; its files are never read."""
    stream = StreamBuilder.data_stream("bench", "year").from_file(
        folder, schema="page string, ts timestamp", tail=True, name="file"
    )
    window = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="window").group_by("page").count("n")
    return window.to_data_stream().to_delta("pages").build()


def catalog_figures(bench: Bench) -> Iterator[Figure]:
    """A year in full, or as many of its days as the rows of other benchmarks are of two millions."""
    days = max(365 * bench.rows // 2_000_000, 2)
    bench.say(f"a catalog of {days} days")
    with bench.place() as folder:
        home = Home(folder / "rs")
        fabricate(home, days=days)
        (folder / "in").mkdir()
        # In a process of its own: this one has had its peak of memory.
        command = [sys.executable, "-m", "benchmarks.catalog", str(folder)]
        done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
        for figure in json.loads(done.stdout.splitlines()[-1]):
            yield Figure(benchmark="a catalog of a year", **figure)


def measure(folder: Path) -> list[dict[str, Any]]:
    """The figures of a catalog below `folder`: seconds of each reader, and by how much memory has grown over all."""
    pipeline, home, before = followed(folder / "in"), Home(folder / "rs"), _peak_mb()
    figures: list[dict[str, Any]] = [
        {"what": what, "value": seconds, "unit": "s", "target": MOST_S} for what, seconds in read_all(pipeline, home)
    ]
    return [*figures, {"what": "memory of all", "value": _peak_mb() - before, "unit": "MB", "target": MOST_MB}]


def read_all(pipeline: Pipeline, home: Home) -> Iterator[tuple[str, float]]:
    """Everything that reads the catalog, with the processor seconds of this process that it takes."""
    for what, read in readers(pipeline, home):
        gc.collect()
        began = time.process_time()
        read()
        yield what, time.process_time() - began


def readers(pipeline: Pipeline, home: Home) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Everything that reads the catalog in `home`, by name; each is called before the next is asked for."""
    with patch.dict(os.environ, {"RS_HOME": str(home.root)}):
        yield from _readers(pipeline, home)


def _readers(pipeline: Pipeline, home: Home) -> Iterator[tuple[str, Callable[[], Any]]]:
    topology, place = pipeline.topology, Place(home=home)
    sensor, ticks = checkpoint_sensor(StreamAssets.of(pipeline)), []
    assert sensor is not None
    yield "checkpoint sensor, first tick", lambda: ticks.append(sensor(build_sensor_context()))
    yield "checkpoint sensor, next tick", lambda: sensor(build_sensor_context(cursor=ticks[0].cursor))
    yield "rescale sensor, the lag", lambda: unread(topology, place.home)
    for name, judge in SOURCE_CHECKS.items():
        yield f"check {name}", lambda judge=judge: judge(topology, "file", place)
    for name, judge in STATE_CHECKS.items():
        yield f"check {name}", lambda judge=judge: judge(topology, "window", place)
    yield "rs-assets checkpoints", lambda: checkpoints_of(topology, place, batches=20)
    newest = checkpoints_of(topology, place)[-1].batch_id
    (plan,) = plan_queries(topology)
    yield "rs-assets lineage, in the middle", lambda: around(topology, plan, place, newest // 2)
    yield "rs-assets status", lambda: status_of(pipeline, home)
    told = IDENTITIES["system_messages"]
    yield (
        "a start behind a kill",
        lambda: place.catalog.there("system_messages", told, pipeline=topology.name, from_batch=newest - 100),
    )


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fabricate(home: Home, *, days: int, batches_a_day: int = DAY_S, splits: int = SPLITS) -> None:
    """The catalog of a stream that ended just now: a batch every so often, a savepoint and its state every ten minutes.

    Files are as the nightly compaction leaves them.
    """
    last = datetime.now(UTC)
    first = last - timedelta(days=days)
    checkpoints = _Fabricated(home.catalog / "checkpoints", STORED, [PART, DAY])
    messages = _Fabricated(home.catalog / "system_messages", TABLES["system_messages"], ["pipeline", DAY])
    for number in range(days):
        batches = np.arange(number * batches_a_day, (number + 1) * batches_a_day)
        at = np.datetime64(first.replace(tzinfo=None), "us") + batches * (DAY_S * 1_000_000 // batches_a_day)
        for day in np.unique(at.astype("datetime64[D]")):
            of_day = at.astype("datetime64[D]") == day
            checkpoints.add(day.astype(date), _checkpoints(batches[of_day], at[of_day], splits))
            messages.add(day.astype(date), _messages(batches[of_day], at[of_day]))
    checkpoints.commit()
    messages.commit()
    _small_tables(Catalog(home.catalog), first, days, batches_a_day, splits)


def _checkpoints(batches: np.ndarray, at: np.ndarray, splits: int) -> dict[str, pa.Array]:
    rows = len(batches) * splits
    split = np.tile(np.arange(splits), len(batches))
    batch, times = np.repeat(batches, splits), np.repeat(at, splits)
    names = pa.array([f"access-{number:02d}.log" for number in range(splits)])
    key = source_key("bench", "year", "file", "window")
    keys = pa.array([row_key(key, name) for name in names.to_pylist()])
    offset = pa.array(batch * 1000 + split).cast(pa.string())
    fixed = {"namespace": "bench", "group": "year", "topic": "file", "name": "window", "query": "window"}
    fixed[PART] = part_of(key)
    return {
        **{name: pa.repeat(value, rows) for name, value in {**fixed, "run_id": "run", "generation": 1}.items()},
        "key": keys.take(pa.array(split)),
        "queue": names.take(pa.array(split)),
        "offset": pa.compute.binary_join_element_wise('{"byte":', offset, ',"line":7}', ""),
        "batch_id": pa.array(batch),
        "at": pa.array(times, pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC")),
        "reconciled": pa.repeat(pa.scalar(value=False), rows),
    }


def _messages(batches: np.ndarray, at: np.ndarray) -> dict[str, pa.Array]:
    rows = len(batches)
    fixed = {"pipeline": "bench.year", "run_id": "run", "query": "window", "kind": "CheckPoint", "source": "file"}
    return {
        **{name: pa.repeat(value, rows) for name, value in {**fixed, "generation": 1, "number": 0}.items()},
        "batch_id": pa.array(batches),
        "at": pa.array(at, pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC")),
        "reconciled": pa.repeat(pa.scalar(value=False), rows),
    }


class _Fabricated:
    """A table of the catalog whose files are written without going through Delta."""

    def __init__(self, path: Path, schema: pa.Schema, partitions: list[str]) -> None:
        self.schema, self.partitions = schema, partitions
        path.mkdir(parents=True)
        self.table = DeltaTable.create(str(path), schema, partition_by=partitions, configuration=dict(CONFIGURATION))
        self.path = path
        self.actions: list[AddAction] = []

    def add(self, day: date, columns: dict[str, pa.Array]) -> None:
        rows = len(columns["batch_id"])
        names = [name for name in self.schema.names if name not in self.partitions]
        schema = pa.schema([self.schema.field(name) for name in names])
        arrays = [columns.get(n, pa.nulls(rows)).cast(schema.field(n).type) for n in names]
        owner = columns[self.partitions[0]][0].as_py()
        name = f"{self.partitions[0]}={owner}/{DAY}={day.isoformat()}/part-{len(self.actions):05d}.parquet"
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(arrays, schema=schema), file, row_group_size=ROW_GROUP, compression="zstd")
        bounds = {n: (columns[n][0].as_py(), columns[n][-1].as_py()) for n in ("generation", "batch_id")}
        stats = {
            "numRecords": rows,
            "minValues": {n: low for n, (low, _) in bounds.items()},
            "maxValues": {n: high for n, (_, high) in bounds.items()},
            "nullCount": dict.fromkeys(bounds, 0),
        }
        self.actions.append(
            AddAction(
                path=name,
                size=file.stat().st_size,
                partition_values={self.partitions[0]: owner, DAY: day.isoformat()},
                modification_time=int(file.stat().st_mtime * 1000),
                data_change=True,
                stats=json.dumps(stats),
            )
        )

    def commit(self) -> None:
        self.table.create_write_transaction(self.actions, "append", self.table.schema(), self.partitions)
        self.table.create_checkpoint()


def _small_tables(catalog: Catalog, first: datetime, days: int, batches_a_day: int, splits: int) -> None:
    who = {"generation": 1, "run_id": "run", "query": "window", "source": "file", "batch_id": 0}
    names = [f"access-{number:02d}.log" for number in range(splits)]
    catalog.append("splits", [row_of("bench.year", at=first, split=name, event="added", **who) for name in names])
    snapshots = []
    for number in range(days * 144):
        at, batch = first + timedelta(minutes=10 * number), number * batches_a_day // 144
        what = {"generation": 1, "run_id": "run", "at": at, "batch_id": batch, "query": "window"}
        snapshots.append(row_of("bench.year", snapshot_id=f"s{number}", kind="savepoint", bytes=1, uri="s", **what))
        state = {"kind": "state", "step": "window", "rows": 1, "uri": "none"}
        snapshots.append(row_of("bench.year", snapshot_id=f"window-v{number}", **state, **what))
    catalog.append("snapshots", snapshots)


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
