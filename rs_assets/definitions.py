"""What `dagster` loads: the pipelines that pyproject.toml names, and those that are deployed."""

from __future__ import annotations

from dagster import Definitions  # noqa: TID253  nobody else loads this module

from rs_assets.orchestration.definitions_of import build_definitions
from rs_assets.orchestration.deployed.definitions import deployed_definitions
from rs_assets.orchestration.discovery import find_pipelines

_PIPELINES = find_pipelines()
defs = Definitions.merge(build_definitions(_PIPELINES), deployed_definitions(others=_PIPELINES))
