"""The alert sensor: calls a function for failed runs, stale outputs and new dead letters."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from dagster import (
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from rs_assets.common.plural import count_of
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.dagster.assets.closed_partitions import closed_key
from rs_assets.dagster.assets.freshness import evaluations
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place, place_of
from rs_assets.dagster.sensors import cursor
from rs_assets.runtime.recorded.partitions import parted_sinks

# Failed runs that a tick looks at if it knows the last of them, and that the cursor remembers.
MOST_RUNS, MOST_KNOWN = 20, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An event that a person should know of; `text` describes it in a line.

    `kind` is "failed" (a run; `run_id` names it), "stale" (an output, by `fresh_within`) or "dead_letters".
    """

    pipeline: str
    kind: Literal["failed", "stale", "dead_letters"]
    text: str
    run_id: str = ""


OnAlert = Callable[[Alert], object]
Seen = Mapping[str, Any]


def alert_sensor(assets: StreamAssets, on_alert: OnAlert) -> SensorDefinition:
    """Calls `on_alert` once for each failed run, each output that became stale, and each tick with new dead letters.

    Earlier events than its first tick are not reported. If the function raises, the tick fails, and the next tick
    reports all of them again: at least once.
    """
    topology = assets.topology

    @sensor(
        name=f"{assets.label}_alerts",
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Reports failed runs, stale outputs and dead letters of {assets.name}.",
    )
    def alerts(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        seen, place = cursor.load(context.cursor), place_of(context, topology)
        found: list[Alert] = []
        now = {
            **_failed(context.instance, assets, seen, found),
            **_stale(assets, place, seen, found),
            **_dead_letters(assets, place, seen, found),
        }
        for alert in found:
            on_alert(alert)
        if not found and now == seen:
            return SkipReason("nothing to report")
        return SensorResult(cursor=cursor.dump(now))

    return alerts


def _failed(instance: DagsterInstance, assets: StreamAssets, seen: Seen, found: list[Alert]) -> Seen:
    """The runs of its jobs, and those of other jobs that were to compute an asset of it."""
    known, elsewhere = seen.get("failed"), seen.get("failed_elsewhere")
    mine = _failures(instance, {"rs/pipeline": assets.name}, known)
    every = _failures(instance, {}, elsewhere)
    others = [run for run in _new(every, elsewhere) if "rs/pipeline" not in run.tags]
    new = [*_new(mine, known), *_computing(instance, others, assets)]
    found.extend(
        Alert(
            pipeline=assets.name,
            kind="failed",
            text=f"the run {run.run_id[:8]} of {run.job_name} failed",
            run_id=run.run_id,
        )
        for run in new
    )
    lists = {"failed": mine, "failed_elsewhere": every}
    return {
        name: [*dict.fromkeys([*(run.run_id for run in runs), *seen.get(name, ())])][:MOST_KNOWN]
        for name, runs in lists.items()
    }


def _new(runs: Sequence[DagsterRun], known: Sequence[str] | None) -> list[DagsterRun]:
    """Those that are not known; none at the first look."""
    return [] if known is None else [run for run in runs if run.run_id not in known]


def _failures(instance: DagsterInstance, tags: Mapping[str, str], known: Sequence[str] | None) -> list[DagsterRun]:
    """The runs that failed last, as many as there are since those that are known: a daemon may have been away.

    Not those that began last: a stream may fail after a month, in which many other runs have failed.
    """
    failed, limit = RunsFilter(tags=tags, statuses=[DagsterRunStatus.FAILURE]), MOST_RUNS
    while True:
        records = instance.get_run_records(failed, limit=limit, order_by="update_timestamp")
        runs = [record.dagster_run for record in records]
        if known is None or len(runs) < limit or runs[-1].run_id in known or limit >= MOST_KNOWN:
            return runs
        limit = min(limit * 2, MOST_KNOWN)


def _computing(instance: DagsterInstance, runs: Sequence[DagsterRun], assets: StreamAssets) -> list[DagsterRun]:
    """Those, as of a backfill or a job of the project, that were to compute an asset of the pipeline."""
    mine = {spec.key for spec in assets.specs.values()}
    mine |= {closed_key(assets, sink.name) for sink, _ in parted_sinks(assets.topology)}

    def computes(run: DagsterRun) -> bool:
        planned = instance.all_logs(run.run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
        return any(entry.dagster_event is not None and entry.dagster_event.asset_key in mine for entry in planned)

    return [run for run in runs if computes(run)]


def _stale(assets: StreamAssets, place: Place, seen: Seen, found: list[Alert]) -> Seen:
    verdicts = {}
    for verdict in evaluations(assets, place):
        output = verdict.asset_key.to_user_string()
        verdicts[output] = bool(verdict.passed)
        if not verdict.passed and seen.get("fresh", {}).get(output, True):
            lag = verdict.metadata.get("watermark_lag_seconds")
            why = verdict.description or (f"its watermark lags the clock by {lag.value:,.0f} s" if lag else "")
            found.append(Alert(pipeline=assets.name, kind="stale", text=f"{output} is not fresh: {why}"))
    return {"fresh": verdicts}


def _dead_letters(assets: StreamAssets, place: Place, seen: Seen, found: list[Alert]) -> Seen:
    """The new ones of each query: they have the time at which their batch began, so a slow query's come late."""
    topology, known = assets.topology, seen.get("letters")
    known, first = (known, False) if isinstance(known, dict) else ({}, True)
    told, newest = dict[str, str](known), list[dict[str, Any]]()
    count = 0
    for plan in plan_queries(topology):
        since = known.get(plan.name)
        letters = dead_letters_of(
            place.home.dead_letters,
            topology.namespace,
            topology.job,
            query=plan.name,
            after=datetime.fromisoformat(since) if since else None,
        )
        count += letters.num_rows
        newest += letters.slice(max(letters.num_rows - 1, 0)).to_pylist()
        told.update((plan.name, letter["at"].isoformat()) for letter in newest[-1:] if letters.num_rows)
    if newest and not first:
        last = max(newest, key=lambda letter: letter["at"])
        text = f"{count_of(count, 'new dead letter')}; the newest, of {last['split']}: {last['reason']}"
        found.append(Alert(pipeline=assets.name, kind="dead_letters", text=text))
    return {"letters": told}
