"""Stateless steps over a table: the rows that a query computes from each row, without a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from rs_assets.common.home import Home
from rs_assets.common.scratch import scratch_folder
from rs_assets.compile.planner.context import BadRecordFilter, CompileContext, Flow
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.table import wire_node
from rs_assets.connectors.memory import Record
from rs_assets.connectors.nodes import Source
from rs_assets.records.admit import admit, expected
from rs_assets.records.columns import REASON, visible
from rs_assets.records.policy import BadRecords, OnFail
from rs_assets.records.rows import as_dicts, to_table
from rs_assets.records.schema import quoted
from rs_assets.runtime.job.analysis import declared_schema
from rs_assets.runtime.translate import translate
from rs_assets.spark.driver import SparkDriver
from rs_assets.topology.topology import Topology

# The rows of each source, by its name.
Given = Mapping[str, Sequence[Mapping[str, Any]]]


def computed(driver: SparkDriver, topology: Topology, given: Given) -> list[Record]:
    """The rows at the only sink of `topology`, in their order, if its sources have the rows of `given`.

    No step may keep state. Nothing is written. An error of a function is the error that would end a query.
    """
    return driver.call(lambda spark: _computed(spark, topology, given))


def _computed(spark: SparkSession, topology: Topology, given: Given) -> list[Record]:
    [sink] = topology.sinks
    [last] = sink.inputs
    flows: dict[str, Flow] = {}
    with scratch_folder("rs-rows-") as folder:
        for plan in plan_queries(topology):
            policy = BadRecords.strictest({source.bad_records for source in topology.sources})
            context = CompileContext(
                spark=spark,
                folder=folder,
                control_root=folder,
                read=lambda context, source: _frame(context, source, given[source.name]),
                record_filter=_RecordFilter(),
                pinned=lambda _source, infer: infer(),
                home=Home(folder / "home"),
                policy=policy,
                quarantines=policy is BadRecords.QUARANTINE,
                streaming=False,
            )
            for name in plan.nodes:
                if name not in flows and name != sink.name:
                    flows[name] = wire_node(context, topology, plan.streaming_output, name, flows)
        frame = flows[last].df
        shown = frame.select(*(F.col(quoted(name)) for name in visible(frame.columns)))
        try:
            return as_dicts(shown.toArrow())
        except Exception as error:
            raise translate(error, query=topology.job) from error


def _frame(context: CompileContext, source: Source, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """The rows of a source as a frame of its schema, with a null REASON: they were checked."""
    schema = declared_schema(context, source)
    table = to_table(rows, to_arrow_schema(schema, timezone="UTC"))
    return context.spark.createDataFrame(table, schema).withColumn(REASON, F.lit(None).cast("string"))


class _RecordFilter(BadRecordFilter):
    """Lets good rows pass; under `fail` a bad one ends the job."""

    def filter_bad_records(self, frame: DataFrame, *, step: str, policy: BadRecords, counted: bool) -> DataFrame:  # noqa: ARG002
        """`frame` without bad rows."""
        return admit(frame, gate=step, step=step, policy=policy, counted=False)

    def expect(self, frame: DataFrame, *, step: str, on_fail: OnFail) -> DataFrame:
        """The rows that an expectation lets pass."""
        return expected(frame, step=step, on_fail=on_fail, counted=False)
