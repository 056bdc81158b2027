"""The definitions that Dagster loads (workspace.yaml): the project's pipelines, Nexmark's queries, and resources."""

from __future__ import annotations

from dagster import Definitions

from pipelines import access_log, order_totals, security
from pipelines.nexmark.definitions import nexmark_definitions
from pipelines.nexmark.queries import PIPELINES as NEXMARK
from resources import RESOURCES
from rs_assets import build_definitions, deployed_definitions

_PIPELINES = [access_log.pipeline, order_totals.pipeline, security.pipeline]
defs = Definitions.merge(
    build_definitions(_PIPELINES, resources=RESOURCES),
    nexmark_definitions(),
    deployed_definitions(RESOURCES, others=[*_PIPELINES, *NEXMARK]),
)
