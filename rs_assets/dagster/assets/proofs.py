"""The check that the closed partitions of an output equal one batch over the recorded input."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetSelection,
    Config,
    MetadataValue,
    ScheduleDefinition,
    asset_check,
    define_asset_job,
    in_process_executor,
)
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from pydantic import Field

from rs_assets.catalog.ledger import Ledger
from rs_assets.common.priority import give_way
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.dagster.assets.closed_partitions import closed_key
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.nightly import newest_night, nightly
from rs_assets.dagster.place import place_of
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.errors import TopologyError
from rs_assets.runtime.recorded.equation import TERMS
from rs_assets.runtime.recorded.partitions import parted_sinks
from rs_assets.runtime.recorded.prove import Proof, prove
from rs_assets.runtime.recorded.recompute import Way

CHECK = "stream_equals_batch"


class ProofConfig(Config):
    """What a run of the check compares."""

    newest: int = Field(default=24, description="At most so many of the partitions that are not proved as they are now")


def proof_checks(assets: StreamAssets) -> list[AssetChecksDefinition]:
    """One check for each output whose partitions can be computed again."""
    return [_check(assets, sink) for sink in _provable(assets)]


def nightly_proof(assets: StreamAssets) -> tuple[list[UnresolvedAssetJobDefinition], list[ScheduleDefinition]]:
    """The job of the checks, and its schedule: every night between four and five, UTC; switched on in the UI."""
    keys = [closed_key(assets, sink.name) for sink in _provable(assets)]
    if not keys:
        return [], []
    job = define_asset_job(
        name=f"{assets.label}_proof",
        selection=AssetSelection.checks_for_assets(*keys),
        description=f"{assets.name}: compares closed partitions with one batch over the recorded input.",
        tags={"rs/pipeline": assets.name, "dagster/max_retries": "0"},
        executor_def=in_process_executor,
    )
    schedule = ScheduleDefinition(
        name=f"{assets.label}_nightly_proof",
        job=job,
        cron_schedule=nightly(assets.name, hour=4),
        execution_fn=newest_night,
        execution_timezone="UTC",
    )
    return [job], [schedule]


def _provable(assets: StreamAssets) -> list[DeltaSink]:
    """The outputs whose partitions can be computed again."""
    found = []
    for sink, partitions in parted_sinks(assets.topology):
        with suppress(TopologyError):
            found.append(Way.to(assets.topology, sink, partitions).sink)
    return found


def _check(assets: StreamAssets, sink: DeltaSink) -> AssetChecksDefinition:
    @asset_check(
        asset=closed_key(assets, sink.name),
        name=CHECK,
        description="The closed partitions equal one batch over the recorded input, as far as they are proved.",
    )
    def check(context: AssetCheckExecutionContext, config: ProofConfig, rs_spark: SparkResource) -> AssetCheckResult:
        if not rs_spark.driver.started:
            # The stream goes first.
            give_way()
        place = place_of(context, assets.topology)
        options = place.options(driver=rs_spark.driver, run_id=context.run.run_id)
        proofs = prove(assets.topology, options, sink=sink.name, newest=config.newest)
        ledger = Ledger(place.home.catalog, assets.name)
        newest = {each["start"]: each for each in ledger.entries() if each["sink"] == sink.name}
        unequal = [each["partition"] for each in newest.values() if not each["equal"]]
        # None: by an earlier release.
        lost = [each["partition"] for each in newest.values() if each["accounted"] is False]
        wrong = {"unequal": unequal, "records not accounted for": lost}
        said = "; ".join(f"{what}: {', '.join(keys)}" for what, keys in wrong.items() if keys)
        broken = ledger.first_break()
        return AssetCheckResult(
            passed=not (said or broken),
            severity=AssetCheckSeverity.ERROR,
            description=broken or said or None,
            metadata={
                "proved_now": len(proofs),
                "proved": len(newest),
                "unequal": len(unequal),
                "not_accounted": len(lost),
                **_shown(proofs),
            },
        )

    return check


def _shown(proofs: Sequence[Proof]) -> dict[str, Any]:
    """The records of the partitions that were proved now, and what differs."""
    shown: dict[str, Any] = {}
    if proofs:
        names = ("rows_in", *TERMS, "unaccounted")
        rows = ["| ".join([each.partition, *(_term(each, name) for name in names)]) for each in proofs]
        head = ["| ".join(["partition", *names]), "| ".join(["---", *("---:" for _ in names)])]
        shown["records"] = MetadataValue.md("\n".join([*head, *rows]))
    if differing := "\n".join(str(each) for each in proofs if not each.holds):
        shown["differences"] = MetadataValue.md(f"```\n{differing}\n```")
    return shown


def _term(proof: Proof, name: str) -> str:
    return "unknown" if proof.records is None else f"{getattr(proof.records, name):,}"
