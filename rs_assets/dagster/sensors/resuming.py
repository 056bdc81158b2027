"""Which streams are to be started again after upkeep has stopped them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dagster import DagsterInstance

from rs_assets.catalog import requests


def resume_request(folder: Path, instance: DagsterInstance) -> dict[str, Any] | None:
    """The request to start the stream again; None without one.

    Upkeep writes it when it is done. If its run was killed before, its request to stop is still there, and takes the
    place of the other; of a run that this Dagster does not know, once its process is gone.
    """
    resume = requests.asked(folder, "resume")
    if resume is not None:
        return resume
    stop = requests.asked(folder, "stop")
    if stop is None:
        return None
    upkeep = instance.get_run_by_id(stop["run"]) if stop.get("run") else None
    over = upkeep.is_finished if upkeep is not None else requests.is_left(stop)
    return stop if over else None
