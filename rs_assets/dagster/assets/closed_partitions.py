"""The asset of an output's closed partitions: Dagster has one partition of it for each hour, day or month.

The partition sensor reports them. A run of the asset, as from Dagster's page of backfills, computes them again.
"""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    Config,
    multi_asset,
)
from pydantic import Field

from rs_assets.common.priority import give_way
from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import place_of
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.runtime.recorded.backfill import Judge, backfill
from rs_assets.runtime.recorded.partitions import parted_sinks

# The last part of the key, after the key of the output.
CLOSED = "closed"


class BackfillConfig(Config):
    """How a run of the asset computes partitions again."""

    judge: Judge = Field(
        default="all",
        description="all: records that were late then are taken; as_then: they are left out; as_now: those are taken"
        " that the last backfill of the partition has taken",
    )


def closed_key(assets: StreamAssets, sink: str) -> AssetKey:
    """The key of the closed partitions of an output: `namespace/job/table/closed`."""
    return AssetKey([*assets.key(sink).path, CLOSED])


def closed_assets(assets: StreamAssets) -> list[AssetsDefinition]:
    """One asset for the closed partitions of each output that has some; the output itself is not partitioned.

    So a stream, which writes many partitions in a run, is launched without the choice of one.
    """
    return [_asset(assets, sink, partitions) for sink, partitions in parted_sinks(assets.topology)]


def _asset(assets: StreamAssets, sink: DeltaSink, partitions: EventTimePartitions) -> AssetsDefinition:
    """The asset of one output; a run of it is a backfill of its partitions."""

    @multi_asset(
        name=f"{assets.label}__backfill_{sink.name}",
        specs=[_spec(assets, sink, partitions)],
        partitions_def=partitions.definition(),
        backfill_policy=BackfillPolicy.single_run(),
        op_tags={"rs/pipeline": assets.name},
    )
    def backfilled(context: AssetExecutionContext, config: BackfillConfig, rs_spark: SparkResource) -> None:
        if not rs_spark.driver.started:
            # The stream goes first.
            give_way()
        options = place_of(context, assets.topology).options(driver=rs_spark.driver, run_id=context.run.run_id)
        # Dagster gives a range without gaps.
        first, last = context.partition_keys[0], context.partition_keys[-1]
        for done in backfill(assets.topology, first, options, last=last, sink=sink.name, judge=config.judge):
            context.log.info("%s", done)
            shown = {"dagster/row_count": done.rows, "rows_before": done.rows_before, "batches": done.batches}
            context.add_asset_metadata(
                {**shown, "delta_version": done.version},
                asset_key=closed_key(assets, sink.name),
                partition_key=done.partition,
            )

    return backfilled


def _spec(assets: StreamAssets, sink: DeltaSink, partitions: EventTimePartitions) -> AssetSpec:
    written = assets.specs[sink.name]
    return AssetSpec(
        key=closed_key(assets, sink.name),
        deps=[written.key],
        partitions_def=partitions.definition(),
        group_name=written.group_name,
        owners=list(written.owners),
        kinds=set(written.kinds),
        tags={name: written.tags[name] for name in ("rs/pipeline", "rs/step") if name in written.tags},
        description=f"Each {partitions.unit} of `{partitions.field}` ({partitions.zone}) that the watermark has passed:"
        f" no more rows of it come into `{sink.table}`.",
    )
