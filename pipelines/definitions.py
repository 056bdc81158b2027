"""What Dagster loads (workspace.yaml): this project's pipelines, with its resources."""

from __future__ import annotations

from pipelines import access_log, order_totals
from resources import RESOURCES
from rs_assets import build_definitions

defs = build_definitions([access_log.pipeline, order_totals.pipeline], resources=RESOURCES)
