"""The queries in Dagster: one group of assets, and for each query the jobs that run and start it.

They are a code location of their own, which workspace.yaml does not list, because it has far more assets than
the project's pipelines: `rs-assets ui -m pipelines.nexmark.definitions` opens it.

There are no sensors and no maintenance of state: a benchmark is run, and run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import AssetSpec, Definitions

from pipelines.nexmark.queries import PIPELINES
from resources import RESOURCES
from rs_assets import StreamTranslator, build_definitions

if TYPE_CHECKING:
    from rs_assets import StreamStep


class OneGroup(StreamTranslator):
    """The assets of all queries in one group."""

    def get_asset_spec(self, step: StreamStep) -> AssetSpec:
        """The asset of a step."""
        return super().get_asset_spec(step).replace_attributes(group_name="nexmark")


def nexmark_definitions() -> Definitions:
    """The definitions; they merge with others."""
    whole = build_definitions(PIPELINES, resources=RESOURCES, translator=OneGroup())
    names = {f"nexmark_{pipeline.topology.job}_{mode}" for pipeline in PIPELINES for mode in ("run", "start")}
    return Definitions(
        assets=whole.assets,
        jobs=[job for job in whole.jobs or () if job.name in names],
        asset_checks=whole.asset_checks,
        resources=whole.resources,
    )


defs = nexmark_definitions()
