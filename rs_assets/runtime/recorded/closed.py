"""The closed partitions of an output that a command names, and what computes each of them again."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from rs_assets.connectors.delta.table import open_table
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.partitions import Partition, filled_up_to, partitions_of
from rs_assets.runtime.recorded.recompute import Recompute, Way
from rs_assets.runtime.recorded.recorded import Recorded
from rs_assets.topology.topology import Topology

# How many bytes of files of a table are compared at once; larger partitions one by one.
PASS_BYTES: Final = 256 << 20


def closed_between(topology: Topology, options: RunOptions, way: Way, first: str, last: str) -> Sequence[Partition]:
    """The closed partitions from `first` to `last`, also those without rows; ConfigurationError if one is open."""
    begin, end = (way.partitions.parse(key) for key in (first, last))
    if way.partitions.start(begin) > way.partitions.start(end):
        raise ConfigurationError(f"the partition {last} is before {first}", remedy=f"name {last} first")
    chosen = partitions_of(topology, options, sink=way.sink.name, span=(begin, end)).partitions
    opened = [each.key for each in chosen if not each.closed]
    if opened or not chosen:
        raise ConfigurationError(
            f"the partition {opened[0] if opened else first} of {way.sink.name!r} has not closed",
            remedy="wait until it has: rs-assets partitions shows it",
            pipeline=topology.name,
        )
    return chosen


def named_or(
    otherwise: Callable[[], Sequence[Partition]],
    topology: Topology,
    options: RunOptions,
    way: Way,
    *,
    first: str | None,
    last: str | None,
) -> Sequence[Partition]:
    """The closed partitions from `first` to `last`, or those of `otherwise` if none is named.

    ConfigurationError for a last one without a first one.
    """
    if first is not None:
        return closed_between(topology, options, way, first, last or first)
    if last is not None:
        raise ConfigurationError("to= needs the first partition", remedy=f"partition={last!r}")
    return otherwise()


def as_streamed(spark: SparkSession, recorded: Recorded, way: Way, chosen: Sequence[Partition]) -> list[Recompute]:
    """What computes the rows of each partition as the stream and its backfills did; on the driver's thread."""
    query, filled = recorded.query(spark, recorded.plan_of(way.sink.name)), late_taken(recorded, way)
    return [Recompute(spark, query, way, (each,), partial(operator.ge, filled(each))) for each in chosen]


def in_passes(spark: SparkSession, recorded: Recorded, way: Way, chosen: Sequence[Partition]) -> list[Recompute]:
    """The same of several partitions that follow each other, in their order: a batch is read once for all of them.

    They are those of which a backfill has taken the late records of the same batches, and at most PASS_BYTES.
    """
    query, filled = recorded.query(spark, recorded.plan_of(way.sink.name)), late_taken(recorded, way)
    passes = list[list[Partition]]()
    for each in chosen:
        last = passes[-1] if passes else []
        fits = last and filled(last[0]) == filled(each) and sum(part.bytes for part in (*last, each)) <= PASS_BYTES
        passes = [*passes[:-1], [*last, each]] if fits else [*passes, [each]]
    return [Recompute(spark, query, way, tuple(each), partial(operator.ge, filled(each[0]))) for each in passes]


def late_taken(recorded: Recorded, way: Way) -> Callable[[Partition], int]:
    """The last batch whose late records a backfill has taken into a partition, -1 for none."""
    filled = filled_late(recorded, way)
    return lambda partition: filled.get(partition.start, -1)


def filled_late(recorded: Recorded, way: Way) -> Mapping[datetime, int]:
    """The same by the starts of the partitions that were backfilled."""
    session, plan, sink = recorded.session, recorded.plan_of(way.sink.name), way.sink
    table = open_table(session.options.home.table(session.topology.namespace, sink.table))
    return filled_up_to(session.topology, plan, sink, table, session.manifest, session.catalog)
