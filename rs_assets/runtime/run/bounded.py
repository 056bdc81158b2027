"""A pipeline over input that ends, as a frame: computed by its own queries, in a folder of its own."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame

from rs_assets.common.home import Home
from rs_assets.common.plural import count_of
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.table import open_table
from rs_assets.runtime.job.analysis import schemas_of
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run.run import run
from rs_assets.spark.driver import SparkDriver
from rs_assets.topology.topology import Topology

LOG = logging.getLogger(__name__)
# The sink that the rows go to.
RESULT = "result"


def bounded_result(topology: Topology, folder: Path, options: RunOptions) -> DataFrame:
    """The rows at the only sink of `topology`, a Delta table in `folder`, to the end of all windows.

    Checkpoints, catalog and dead letters are in `folder`, too; tables that are given by name are those of the home of
    `options`. The frame reads files in `folder`. Rows that could not be used are logged.
    """
    [sink] = topology.sinks
    assert isinstance(sink, DeltaSink)  # made by the callers
    own = replace(options, home=Home(folder / "home", tables_of=options.home)).apart()
    report = run(topology, own, finish=True)
    if report.rows_dead:
        dead = count_of(report.rows_dead, "row")
        LOG.warning("%s: left out, because it could not be used: %s", topology.name, dead)
    table = open_table(sink.table)
    files = table.file_uris() if table is not None else []
    if files:
        # No one changes the table any more, and Spark plans a read of files faster than one of a Delta table.
        return options.driver.call(lambda spark: spark.read.parquet(*files))
    schema = schemas_of(topology, options.driver)[sink.inputs[0]]
    return options.driver.call(lambda spark: spark.createDataFrame([], schema))


def result_sink(step: str, folder: Path) -> DeltaSink:
    """The sink of the rows after `step`."""
    return DeltaSink(name=RESULT, inputs=(step,), table=str(folder / RESULT))


def store_frame(frame: DataFrame, path: Path, driver: SparkDriver) -> None:
    """Compute `frame` once, into Parquet files at `path`."""
    driver.call(lambda _: frame.write.parquet(str(path)))
