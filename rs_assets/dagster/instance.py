"""Dagster's home, which stores runs and events."""

from __future__ import annotations

import os
from pathlib import Path

from rs_assets.common.project import project_folder
from rs_assets.errors import ConfigurationError

# Settings of the instance: no telemetry, runs are monitored and never retried automatically.
SETTINGS = """\
telemetry: {enabled: false}
nux: {enabled: false}
run_monitoring: {enabled: true, cancel_timeout_seconds: 120}
run_retries: {enabled: true, max_retries: 0, retry_on_asset_or_op_failure: false}
code_servers: {wait_for_local_processes_on_shutdown: true}
"""


def ensure_home() -> Path:
    """The folder DAGSTER_HOME, by default `.dagster` in the project; created with settings if it does not exist.

    ConfigurationError if it cannot be created.
    """
    named = os.environ.get("DAGSTER_HOME")
    home = Path(named).absolute() if named else project_folder() / ".dagster"
    own = project_folder() / "dagster.yaml"
    settings = home / "dagster.yaml"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not settings.exists():
            settings.write_text(own.read_text() if own.exists() else SETTINGS)
    except OSError as error:
        raise ConfigurationError(
            f"Dagster's home cannot be written: {error.strerror}",
            remedy="let this user write there, or name another folder in DAGSTER_HOME",
            folder=str(home),
        ) from error
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    return home
