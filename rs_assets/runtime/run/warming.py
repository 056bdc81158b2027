"""Warm-up of a process that waits: batches of a small pipeline of its own, in a temporary folder."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from rs_assets.common.home import Home
from rs_assets.common.scratch import scratch_folder
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.files.nodes import FileSource
from rs_assets.operators.window.output import Aggregate
from rs_assets.operators.window.spec import TumblingWindow
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run.run import run
from rs_assets.spark.driver import SparkDriver
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.topology import Topology

# Each run begins its queries again, as a takeover does. The second one compiles what the first one has called often.
RUNS = 2
ROWS = 200


def warm_up(driver: SparkDriver) -> None:
    """Read files, keep the state of windows, and commit to Delta tables, so that the next first batch finds all warm.

    Spark's and our classes are loaded and compiled by then. The rows are made up, and no code of a user sees them.
    Everything is in a folder that is removed: no catalog, no lineage and no metrics have these batches.
    """
    with scratch_folder("rs-warm-") as folder:
        options = RunOptions(home=Home(folder / "home"), driver=driver).apart()
        for number in range(RUNS):
            _put(folder / "in", number)
            run(_topology(folder), options)


def _topology(folder: Path) -> Topology:
    nodes = (
        FileSource(name="file", path=str(folder / "in"), schema="key string, ms bigint"),
        DeltaSink(name="rows", inputs=("file",), table=str(folder / "rows")),
        WindowAggregate(
            name="windows",
            inputs=("file",),
            window=TumblingWindow.of(timedelta(seconds=1), "ms"),
            group_by=("key",),
            aggregates=(Aggregate(function="count", field=None, alias="n"),),
            water_mark=timedelta(0),
        ),
        DeltaSink(name="counts", inputs=("windows",), table=str(folder / "counts")),
    )
    return Topology("standby", "warm_up", nodes)


def _put(folder: Path, number: int) -> None:
    """A file whose rows close the windows of the file before."""
    folder.mkdir(exist_ok=True)
    rows = ({"key": f"k{n % 3}", "ms": 10_000 * number + 10 * n} for n in range(ROWS))
    (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
