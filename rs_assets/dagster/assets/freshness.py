"""Freshness of outputs by event time: how far a watermark may lag the clock."""

# No `from __future__ import annotations` here: Dagster reads the annotations of a check's function.
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    MetadataValue,
    asset_check,
)

from rs_assets.compile.planner.plan import plan_queries
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.checkpoint_rows import checkpoints_of
from rs_assets.dagster.place import Place, place_of
from rs_assets.errors import RsError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.event_time import has_ended
from rs_assets.runtime.run.lag import lag
from rs_assets.topology.topology import Topology

NAME = "event_time_is_fresh"
AHEAD = "the watermark is ahead of the clock, so current rows are late: a row had a time in the future"


def freshness_checks(assets: StreamAssets) -> list[AssetChecksDefinition]:
    """A check for each output after a step with event time, if the pipeline has `fresh_within`."""
    within = assets.pipeline.fresh_within
    if within is None:
        return []
    return [_check(assets, sink, query, within) for sink, query in fresh_sinks(assets.topology).items()]


def fresh_sinks(topology: Topology) -> dict[str, str]:
    """The sinks whose rows depend on a watermark, with their queries."""
    return {sink: plan.name for plan in plan_queries(topology) if plan.stateful is not None for sink in plan.outputs}


def watermarks(topology: Topology, place: Place) -> Mapping[str, datetime]:
    """The newest watermark of each query that has one."""
    known: dict[str, datetime] = {}
    for row in checkpoints_of(topology, place):
        if row.watermark is not None and row.watermark > EPOCH:
            known[row.name] = max(known.get(row.name, row.watermark), row.watermark)
    return known


def event_time_is_fresh(watermark: datetime | None, within: timedelta) -> AssetCheckResult:
    """The watermark of an output's query is at most as old as the pipeline promises (`fresh_within`).

    It must not be further ahead of the clock either: current rows would be late, and the output would never seem stale.
    """
    if watermark is None:
        return AssetCheckResult(passed=False, description="no batch has had a watermark yet")
    if has_ended(watermark):
        return AssetCheckResult(passed=True, description="the input has ended, and all rows were emitted")
    lag = datetime.now(UTC) - watermark
    return AssetCheckResult(
        passed=abs(lag) <= within,
        description=AHEAD if lag < -within else None,
        metadata={
            "watermark": MetadataValue.timestamp(watermark),
            "watermark_lag_seconds": round(lag.total_seconds(), 1),
            "fresh_within_seconds": within.total_seconds(),
        },
    )


def judged(topology: Topology, query: str, place: Place, within: timedelta) -> AssetCheckResult:
    """Whether the outputs of a query are fresh; not if that cannot be determined.

    If not, the metadata has what is unread of its sources.
    """
    try:
        found = event_time_is_fresh(watermarks(topology, place).get(query), within)
    except RsError as error:
        return AssetCheckResult(passed=False, description=str(error))
    return found if found.passed else found.with_metadata({**found.metadata, **_unread(topology, query, place)})


def _unread(topology: Topology, query: str, place: Place) -> Mapping[str, MetadataValue]:
    """What is unread of each source of a query, or why that cannot be said; nothing if no source can say it."""
    try:
        lines = [str(each) for each in lag(topology, place.home) if each.query == query]
    except RsError as error:
        lines = [str(error)]
    return {"unread": MetadataValue.text("\n".join(lines))} if lines else {}


def evaluations(assets: StreamAssets, place: Place) -> list[AssetCheckEvaluation]:
    """The current results of the checks, without a run."""
    within, topology = assets.pipeline.fresh_within, assets.topology
    if within is None:
        return []
    found = []
    for sink, query in fresh_sinks(topology).items():
        result = judged(topology, query, place, within)
        found.append(
            AssetCheckEvaluation(
                asset_key=assets.key(sink),
                check_name=NAME,
                passed=bool(result.passed),
                metadata=result.metadata,
                description=result.description,
            )
        )
    return found


def _check(assets: StreamAssets, sink: str, query: str, within: timedelta) -> AssetChecksDefinition:
    topology = assets.topology

    @asset_check(asset=assets.key(sink), name=NAME, description=f"Event time is at most {within} before the clock.")
    def check(context: AssetCheckExecutionContext) -> AssetCheckResult:
        return judged(topology, query, place_of(context, topology), within)

    return check
