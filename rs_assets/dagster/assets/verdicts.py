"""What the checks of a pipeline say now, told to Dagster without a run of the checks.

Runs of a pipeline judge nothing by themselves: Dagster would show their checks as in progress for as long as a stream
runs, and as failed or skipped behind a run that was refused. A verdict that is told in between stays until the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dagster import AssetCheckEvaluation, AssetCheckResult, DagsterInstance, OpExecutionContext

from rs_assets.dagster.assets import freshness
from rs_assets.dagster.assets.checks import judges_of
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place, instance_of, place_of
from rs_assets.errors import RsError

# While a stream runs it is judged so often: with batches, and without.
JUDGED_EVERY_S, IDLE_EVERY_S = 60.0, 300.0


def verdicts(assets: StreamAssets, place: Place) -> Iterator[AssetCheckEvaluation]:
    """The verdict of each check; what cannot be looked at has failed, with the reason."""
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
    """Judge everything now and let Dagster have it."""
    for verdict in verdicts(assets, place):
        instance.report_runless_asset_event(verdict)


def judged_anyway(assets: StreamAssets) -> Callable[[OpExecutionContext], None]:
    """For a run that was refused: a launch of assets plans their checks, and would leave them as failed or skipped.

    Whatever prevents a verdict is in the log of the run: why that was refused is more important.
    """

    def told(context: OpExecutionContext) -> None:
        instance = instance_of(context)
        try:
            if instance is not None:
                report_verdicts(instance, assets, place_of(context, assets.topology))
        except Exception as error:  # noqa: BLE001  a store of somebody else's may raise anything
            context.log.warning("the checks are shown as this run left them: %s", error)

    return told
