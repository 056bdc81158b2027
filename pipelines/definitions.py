"""The definitions that Dagster loads (workspace.yaml): the project's pipelines, what is deployed, and resources.

Those of Nexmark's queries are in `pipelines/nexmark/definitions.py`.
"""

from __future__ import annotations

from dagster import Definitions

from pipelines import access_log, order_totals, security
from pipelines.nexmark.queries import PIPELINES as NEXMARK
from resources import RESOURCES
from rs_assets import build_definitions, deployed_definitions

_PIPELINES = [access_log.pipeline, order_totals.pipeline, security.pipeline]
defs = Definitions.merge(
    build_definitions(_PIPELINES, resources=RESOURCES),
    deployed_definitions(RESOURCES, others=[*_PIPELINES, *NEXMARK]),
)
