"""Reports the results of a pipeline's checks to Dagster without a run of the checks.

Runs of a pipeline do not include its checks: Dagster would show them as in progress while a stream runs, and as failed
or skipped after a refused run. A reported result stays until the next one. Dagster shows it as "not evaluated" once its
asset has an event of another run, so a stream reports results in its own name (`RunResults`), and at its end without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial

from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetCheckResult,
    AssetKey,
    DagsterEvent,
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
    MetadataValue,
    OpExecutionContext,
)
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster_shared.record import replace

from rs_assets.dagster.assets import freshness
from rs_assets.dagster.assets.checks import judges_of
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place, instance_of, place_of
from rs_assets.errors import RsError

# How often checks are evaluated during a stream: with batches, and without.
JUDGED_EVERY_S, IDLE_EVERY_S = 60.0, 300.0
# Reports a result in the name of a run, if Dagster would show it.
Take = Callable[[AssetCheckEvaluation], bool]


def verdicts(assets: StreamAssets, place: Place) -> Iterator[AssetCheckEvaluation]:
    """The result of each check; a check that cannot be evaluated has failed, with the reason."""
    for step, name, judge in judges_of(assets.topology):
        try:
            result = judge(assets.topology, step, place)
        except RsError as error:
            result = AssetCheckResult(passed=False, description=str(error))
        yield AssetCheckEvaluation(
            asset_key=assets.key(step),
            check_name=name,
            passed=bool(result.passed),
            metadata=result.metadata,
            severity=result.severity,
            description=result.description,
        )
    yield from freshness.evaluations(assets, place)


class RunResults:
    """The results that a run has reported in its own name, while it goes on.

    Dagster keeps one result of a check for each run, the newest, and shows it whatever the run materializes later.
    """

    def __init__(self, instance: DagsterInstance, run: DagsterRun) -> None:
        self._instance = instance
        self._run = run
        self._reported: set[AssetCheckKey] = set()

    def take(self, verdict: AssetCheckEvaluation) -> bool:
        """Report a result; False if Dagster would not show it, because another one has come since the run's first."""
        key = verdict.asset_check_key
        if key in self._reported and _shown_run(self._instance, key) != self._run.run_id:
            return False
        self._reported.add(key)
        _report_in(self._instance, self._run, verdict)
        return True


def report_verdicts(instance: DagsterInstance, assets: StreamAssets, place: Place, take: Take | None = None) -> None:
    """Evaluate all checks now and report the results to Dagster, of the newest event of each asset.

    A result without it would be compared with that event by time, which SQLite has in seconds: Dagster shows a check
    that seems older than its asset as "not evaluated". `take` reports a result in the name of a run that goes on, and
    returns whether it did so.
    """
    newest = dict[AssetKey, AssetCheckEvaluationTargetMaterializationData | None]()
    for verdict in verdicts(assets, place):
        key = verdict.asset_key
        if key not in newest:
            newest[key] = _newest(instance, key)
        found = replace(verdict, target_materialization_data=newest[key])
        if take is None or not take(found):
            instance.report_runless_asset_event(found)


def replaced_in_run(instance: DagsterInstance, verdict: AssetCheckEvaluation) -> bool:
    """Replace the result that Dagster shows, if it is one of a run that goes on; returns whether it is."""
    run = instance.get_run_by_id(_shown_run(instance, verdict.asset_check_key))
    if run is None or run.is_finished:
        return False
    _report_in(instance, run, verdict)
    return True


def _shown_run(instance: DagsterInstance, key: AssetCheckKey) -> str:
    """The run of the result that Dagster shows; empty for one without a run, and if there is none."""
    shown = instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
    return shown.run_id if shown is not None else ""


def _report_in(instance: DagsterInstance, run: DagsterRun, verdict: AssetCheckEvaluation) -> None:
    """Report a result in the name of a run, with the time: Dagster shows that of the first result of the run."""
    timed = replace(verdict, metadata={**verdict.metadata, "evaluated_at": MetadataValue.timestamp(datetime.now(UTC))})
    said = f": {verdict.description}" if verdict.description else ""
    event = DagsterEvent(
        event_type_value=DagsterEventType.ASSET_CHECK_EVALUATION.value,
        job_name=run.job_name,
        event_specific_data=timed,
        message=f"{verdict.check_name} {'passed' if verdict.passed else 'did not pass'}{said}",
    )
    instance.report_dagster_event(event, run_id=run.run_id)


def _newest(instance: DagsterInstance, key: AssetKey) -> AssetCheckEvaluationTargetMaterializationData | None:
    """The newest materialization of an asset; None if there is none."""
    for record in instance.fetch_materializations(key, limit=1).records:
        return AssetCheckEvaluationTargetMaterializationData(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
    return None


def judged_anyway(assets: StreamAssets) -> Callable[[OpExecutionContext], None]:
    """For a refused run: a launch of assets plans their checks, which Dagster would show as failed or skipped.

    Errors are only logged: the reason of the refusal is more important.
    """

    def report(context: OpExecutionContext) -> None:
        instance = instance_of(context)
        try:
            if instance is not None:
                place, take = place_of(context, assets.topology), partial(replaced_in_run, instance)
                report_verdicts(instance, assets, place, take)
        except Exception as error:  # noqa: BLE001  a store of another project may raise anything
            context.log.warning("the checks are shown as this run left them: %s", error)

    return report
