"""Reports the results of a pipeline's checks to Dagster without a run of the checks.

Runs of a pipeline do not include its checks: Dagster would show them as in progress while a stream runs, and as failed
or skipped after a refused run. A reported result stays until the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dagster import AssetCheckEvaluation, AssetCheckResult, AssetKey, DagsterInstance, OpExecutionContext
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster_shared.record import replace

from rs_assets.dagster.assets import freshness
from rs_assets.dagster.assets.checks import judges_of
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place, instance_of, place_of
from rs_assets.errors import RsError

# How often checks are evaluated during a stream: with batches, and without.
JUDGED_EVERY_S, IDLE_EVERY_S = 60.0, 300.0


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


def report_verdicts(instance: DagsterInstance, assets: StreamAssets, place: Place) -> None:
    """Evaluate all checks now and report the results to Dagster, of the newest event of each asset.

    A result without it would be compared with that event by time, which SQLite has in seconds: Dagster shows a check
    that seems older than its asset as "not evaluated".
    """
    newest = dict[AssetKey, AssetCheckEvaluationTargetMaterializationData | None]()
    for verdict in verdicts(assets, place):
        key = verdict.asset_key
        if key not in newest:
            newest[key] = _newest(instance, key)
        instance.report_runless_asset_event(replace(verdict, target_materialization_data=newest[key]))


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
                report_verdicts(instance, assets, place_of(context, assets.topology))
        except Exception as error:  # noqa: BLE001  a store of another project may raise anything
            context.log.warning("the checks are shown as this run left them: %s", error)

    return report
