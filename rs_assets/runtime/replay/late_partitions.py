"""The partitions by event time that late rows of a batch would have changed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import functions as F

from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions
from rs_assets.connectors.delta.files.partitions import event_partition
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.operators.window.assign import EDGES, WINDOW, assigned, copied
from rs_assets.records.columns import LINE, PASSED, SOURCE, SPLIT
from rs_assets.runtime.replay.replay import Replay
from rs_assets.topology.nodes.timed import NONE
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.topology import Topology

# By output and start of the partition: how many rows of the batch came too late for a window in it.
LatePartitions = Mapping[str, Mapping[datetime, int]]


def late_partitions(topology: Topology, plan: QueryPlan, replay: Replay) -> LatePartitions:
    """The late rows of a batch by partition, for outputs of a single window by its own times; others are left out."""
    window = topology[plan.states[0]] if len(plan.states) == 1 else None
    if not isinstance(window, WindowAggregate) or not window.window.by_time:
        return {}
    parted = {
        name: node.partitions
        for name in plan.outputs
        if isinstance(node := topology[name], DeltaSink) and node.partitions and node.partitions.field in EDGES
    }
    return {name: _late(window, partitions, replay) for name, partitions in parted.items()}


def _late(window: WindowAggregate, partitions: EventTimePartitions, replay: Replay) -> Mapping[datetime, int]:
    rows = replay.wired.flows[window.name].df
    passed = F.lit(replay.passed(window.name))
    if PASSED in rows.columns:
        passed = F.greatest(passed, PASSED)
    placed = copied(rows, window.window, NONE).withColumn(WINDOW, assigned(window.window, NONE))
    missed = placed.filter(F.col(WINDOW)["end"] <= passed)
    value = event_partition(F.col(WINDOW)[EDGES[partitions.field]], partitions)
    counted = missed.groupBy(value.alias("value")).agg(F.count_distinct(SOURCE, SPLIT, LINE).alias("rows"))
    found = ((partitions.stored(row["value"]), row["rows"]) for row in counted.toArrow().to_pylist())
    return {partitions.start(value): rows for value, rows in found if value is not None}
