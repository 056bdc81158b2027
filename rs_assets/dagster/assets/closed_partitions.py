"""The asset of an output's closed partitions: Dagster has one partition of it for each hour, day or month."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from dagster import (
    AssetKey,
    AssetSpec,
    DailyPartitionsDefinition,
    HourlyPartitionsDefinition,
    MonthlyPartitionsDefinition,
    TimeWindowPartitionsDefinition,
)

from rs_assets.connectors.delta.event_partitions import EventTimePartitions, PartitionUnit
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.dagster.assets.stream_assets import StreamAssets

# The last part of the key, after the key of the output.
CLOSED = "closed"
DEFINITIONS: Mapping[PartitionUnit, Callable[..., TimeWindowPartitionsDefinition]] = MappingProxyType(
    {"hour": HourlyPartitionsDefinition, "day": DailyPartitionsDefinition, "month": MonthlyPartitionsDefinition}
)


def parted_sinks(assets: StreamAssets) -> list[DeltaSink]:
    """The outputs that have partitions by event time."""
    return [sink for sink in assets.topology.sinks if isinstance(sink, DeltaSink) and sink.partitions is not None]


def closed_key(assets: StreamAssets, sink: str) -> AssetKey:
    """The key of the closed partitions of an output: `namespace/job/table/closed`."""
    return AssetKey([*assets.key(sink).path, CLOSED])


def closed_specs(assets: StreamAssets) -> list[AssetSpec]:
    """One asset for the closed partitions of each output that has some; the output itself is not partitioned.

    So a stream, which writes many partitions in a run, is launched without the choice of one.
    """
    return [_spec(assets, sink, sink.partitions) for sink in parted_sinks(assets) if sink.partitions is not None]


def definition_of(partitions: EventTimePartitions) -> TimeWindowPartitionsDefinition:
    """Dagster's definition of the partitions, with the same keys."""
    settings: dict[str, Any] = {"timezone": partitions.zone}
    return DEFINITIONS[partitions.unit](start_date=partitions.key(partitions.first), **settings)


def _spec(assets: StreamAssets, sink: DeltaSink, partitions: EventTimePartitions) -> AssetSpec:
    written = assets.specs[sink.name]
    return AssetSpec(
        key=closed_key(assets, sink.name),
        deps=[written.key],
        partitions_def=definition_of(partitions),
        group_name=written.group_name,
        owners=list(written.owners),
        kinds=set(written.kinds),
        tags={name: written.tags[name] for name in ("rs/pipeline", "rs/step") if name in written.tags},
        description=f"Each {partitions.unit} of `{partitions.field}` ({partitions.zone}) that the watermark has passed:"
        f" no more rows of it come into `{sink.table}`.",
    )
