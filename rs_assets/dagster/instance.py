"""Dagster's home: where runs and events are kept."""

from __future__ import annotations

import os
from pathlib import Path

from rs_assets.common.project import project_folder

# What an instance needs here: nothing leaves the machine, runs are watched, never repeated by themselves.
SETTINGS = """\
telemetry: {enabled: false}
nux: {enabled: false}
run_monitoring: {enabled: true, cancel_timeout_seconds: 120}
run_retries: {enabled: true, max_retries: 0, retry_on_asset_or_op_failure: false}
code_servers: {wait_for_local_processes_on_shutdown: true}
"""


def ensure_home() -> Path:
    """The folder that DAGSTER_HOME names, else `.dagster` of the project; made, with settings, if it is not there."""
    named = os.environ.get("DAGSTER_HOME")
    home = Path(named).absolute() if named else project_folder() / ".dagster"
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists():
        own = project_folder() / "dagster.yaml"
        settings.write_text(own.read_text() if own.exists() else SETTINGS)
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    return home
