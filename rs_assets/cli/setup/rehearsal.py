"""A small pipeline that set-up runs, to archive the classes that it loads; also run as a module.

It does what most pipelines do: files, a bad record, a Python step, windows that close, Delta; then sessions over a log
that grows, and what is open in them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from rs_assets import Pipeline, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home
from rs_assets.common.scratch import scratch_folder
from rs_assets.errors import EngineError, RsError
from rs_assets.runtime.options import RunOptions
from rs_assets.spark import archive
from rs_assets.spark.driver import SparkDriver
from rs_assets.spark.processor.library import session_jars
from rs_assets.spark.settings import SparkSettings

# Java writes 200 MB when it ends.
_END_TIMEOUT_S = 300


def archive_classes() -> str:
    """Make the archive unless it exists for this Java and these jars; returns the result in a line."""
    try:
        return f"archived in {archive.make(session_jars(), rehearse)}"
    except RsError as error:
        return f"not archived, each start of Spark takes some seconds longer: {error.what}"


def rehearse(java_options: str) -> None:
    """Run the pipeline on its own Spark, started with `java_options`, and wait for its Java to end."""
    from pyspark import SparkContext

    driver = SparkDriver(SparkSettings(master="local[2]", partitions=2, java_options=java_options))
    with scratch_folder("rs-setup-") as folder:
        records = _write_records(folder / "records")
        options = RunOptions(home=Home(folder / "rs"), driver=driver, preview_rows=1).apart()
        for pipeline in (_pipeline(records), _sessions(records)):
            pipeline.run(options)
        java = cast("Any", SparkContext)._gateway.proc  # noqa: SLF001  pyspark has no public way to its JVM
        driver.stop()
    try:
        java.wait(timeout=_END_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"Java did not end within {_END_TIMEOUT_S} s") from error


def _write_records(folder: Path) -> Path:
    folder.mkdir()
    for file in range(2):
        rows = [json.dumps({"ms": 60_000 * (100 * file + minute), "page": f"p{minute % 3}"}) for minute in range(100)]
        (folder / f"{file}.jsonl").write_text("\n".join([*rows, "no record", ""]), encoding="utf-8")
    return folder


def _pipeline(folder: Path) -> Pipeline:
    fields = "ms bigint, page string"
    records = StreamBuilder.data_stream("setup", "rehearsal").from_file(
        str(folder), "json", schema=fields, bad_records="dead_letter", max_files_per_batch=1
    )
    pipeline: Pipeline = (
        records.map(lambda row: row | {"page": row["page"].swapcase().upper()}, schema=fields)
        .window(TumblingWindow.of(Time.minutes(10), "ms"))
        .group_by("page")
        .count("hits")
        .water_mark(Time.minutes(1))
        .to_delta("rehearsal")
        .build()
    )
    return pipeline


def _sessions(folder: Path) -> Pipeline:
    records = StreamBuilder.data_stream("setup", "sessions").from_file(
        str(folder), "json", schema="ms bigint, page string", bad_records="dead_letter", tail=True
    )
    pipeline: Pipeline = (
        records.window(SessionWindow.of(Time.minutes(5), "ms"))
        .group_by("page")
        .count("hits")
        .count_distinct("ms", "times")
        .water_mark(Time.minutes(1))
        .to_delta("sessions")
        .build()
    )
    return pipeline


if __name__ == "__main__":
    sys.stdout.write(f"{archive_classes()}\n")
