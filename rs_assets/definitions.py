"""What `dagster` loads: the pipelines of RS_MODULES, else of pyproject.toml, and those that are deployed."""

from __future__ import annotations

import os

from dagster import Definitions  # noqa: TID253  only Dagster loads this module

from rs_assets.common.home import Home
from rs_assets.dagster.definitions_of import build_definitions
from rs_assets.dagster.deployed.definitions import deployed_definitions
from rs_assets.dagster.discovery import pipelines_of_code

_PIPELINES = pipelines_of_code(os.environ.get("RS_MODULES", "").split(), Home.default())
defs = Definitions.merge(build_definitions(_PIPELINES), deployed_definitions(others=_PIPELINES))
