"""Analyses every step of a pipeline with Spark over empty streams, before there is any input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from rs_assets.common.home import Home
from rs_assets.common.node import Node
from rs_assets.common.scratch import scratch_folder
from rs_assets.compile.planner.context import BadRecordFilter, CompileContext, Flow, parse_ddl
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.planner.table import wire_node
from rs_assets.connectors.memory.nodes import ArraySource
from rs_assets.connectors.nodes import Source
from rs_assets.errors import SchemaError
from rs_assets.records.columns import REASON, visible
from rs_assets.records.policy import BadRecords, OnFail
from rs_assets.records.rows import infer_schema
from rs_assets.spark.driver import SparkDriver
from rs_assets.topology.nodes.shuffle import ShuffleRead, ShuffleWrite
from rs_assets.topology.topology import Topology


def analyse(topology: Topology, driver: SparkDriver) -> Mapping[str, str]:
    """The fields after each step, as Spark shows them; the UserError of the first step that it rejects.

    Nothing is read, written or connected to. SchemaError for a source whose schema would be inferred.
    """
    return MappingProxyType({name: _text(schema) for name, schema in schemas_of(topology, driver).items()})


def schemas_of(topology: Topology, driver: SparkDriver) -> Mapping[str, StructType]:
    """The schema after each step, without hidden columns; errors as for `analyse`."""
    return driver.call(lambda spark: _analysed(spark, without_brokers(topology)))


def _analysed(spark: SparkSession, topology: Topology) -> Mapping[str, StructType]:
    flows: dict[str, Flow] = {}
    with scratch_folder("rs-check-") as folder:
        for plan in plan_queries(topology):
            context = reading_nothing(spark, topology, plan, folder, flows)
            for name in plan.nodes:
                if name not in flows:
                    flows[name] = wire_node(context, topology, plan.streaming_output, name, flows)
        return {node.name: _visible(flows[node.name].df) for node in topology if node.name in flows}


def reading_nothing(
    spark: SparkSession, topology: Topology, plan: QueryPlan, folder: Path, flows: Mapping[str, Flow]
) -> CompileContext:
    """A context with empty sources and without filters; `flows` are those wired so far."""
    return CompileContext(
        spark=spark,
        folder=folder / plan.name,
        control_root=folder / plan.name,
        read=_empty,
        record_filter=_Open(),
        pinned=_unknown,
        behind=lambda step: _visible(flows[step].df),
        home=Home(folder / "home"),
        links=topology.links,
        controls=plan.controls,
        late=plan.late_steps(topology),
    )


@dataclass(frozen=True, slots=True)
class _Open(BadRecordFilter):
    """Lets all rows pass: there are none."""

    def filter_bad_records(self, frame: DataFrame, *, step: str, policy: BadRecords, counted: bool) -> DataFrame:  # noqa: ARG002
        """The frame without the reason."""
        return frame.drop(REASON)

    def expect(self, frame: DataFrame, *, step: str, on_fail: OnFail) -> DataFrame:  # noqa: ARG002
        """The frame without the reason."""
        return frame.drop(REASON)


def _empty(context: CompileContext, source: Source) -> DataFrame:
    """A stream with the fields of `source`, which is never started."""
    fields = [F.lit(None).cast(field.dataType).alias(field.name) for field in declared_schema(context, source)]
    ticks = context.spark.readStream.name(source.name).format("rate").load()
    return ticks.select(*fields, F.lit(None).cast("string").alias(REASON))


def declared_schema(context: CompileContext, source: Source) -> StructType:
    """The declared fields of a source; SchemaError if they would be inferred."""
    if isinstance(source, ShuffleRead):
        return context.behind(source.after)
    if source.row_schema is not None:
        return parse_ddl(context.spark, source.row_schema, step=source.name)
    if isinstance(source, ArraySource):
        return from_arrow_schema(infer_schema(source.rows, step=source.name))
    raise SchemaError(
        f"the schema of step {source.name!r} is inferred at the first start: nothing can be checked before",
        remedy="declare it: schema='page string, ms bigint'",
        step=source.name,
    )


def _unknown(source: Source, _infer: object) -> StructType:
    raise KeyError(source.name)


def without_brokers(topology: Topology) -> Topology:
    """The topology with durable shuffles in tables: locations are created, and brokers must not be used."""
    return replace(topology, nodes=tuple(_in_table(node) for node in topology))


def _in_table(node: Node) -> Node:
    return replace(node, strategy="delta", cluster=None) if isinstance(node, ShuffleWrite | ShuffleRead) else node


def _visible(frame: DataFrame) -> StructType:
    return StructType([frame.schema[name] for name in visible(frame.columns)])


def _text(schema: StructType) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
