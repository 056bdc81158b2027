"""One frame into one sink, exactly once under a mark: what a batch of a pipeline does, without a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from rs_assets.compile.readers import order_columns
from rs_assets.compile.sink import rows_for
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.sink import BatchMark, Checked, Closing, SinkWriter
from rs_assets.spark.driver import SparkDriver


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did: the number of rows, or `again` if the sink had them already and nothing was done."""

    rows: int
    again: bool = False


def write_once(frame: DataFrame, sink: Sink, writer: SinkWriter, mark: BatchMark) -> Written:
    """Write `frame` into `sink` by its `writer`, unless it has `mark`; rows and mark become visible together.

    Of a sink without memory, such as a topic under at-least-once, the rows may come again after a crash.
    """
    driver = SparkDriver.of(frame.sparkSession)
    return driver.call(lambda _: _write(frame, sink, writer, mark))


def _write(frame: DataFrame, sink: Sink, writer: SinkWriter, mark: BatchMark) -> Written:
    rows = rows_for(sink, frame.withColumns(order_columns()) if sink.read_order else frame)
    try:
        if isinstance(writer, Checked):
            writer.check_start()
        if writer.committed(mark):
            return Written(rows=0, again=True)
        return Written(rows=writer.stage(rows, mark).commit())
    finally:
        if isinstance(writer, Closing):
            writer.close()
