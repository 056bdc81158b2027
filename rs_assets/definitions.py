"""What `dagster` loads: the pipelines that pyproject.toml names."""

from __future__ import annotations

from rs_assets.orchestration.definitions_of import build_definitions
from rs_assets.orchestration.discovery import find_pipelines

defs = build_definitions(find_pipelines())
