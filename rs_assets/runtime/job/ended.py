"""Queries whose input an earlier run has ended without recording it: it was killed, stopped or failed in between."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import orjson

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.files import write_atomically
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.operators.window.event_time import control_folder, has_ended, waiting_controls


def ended(queries: Iterable[tuple[QueryPlan, CheckpointLog]]) -> frozenset[str]:
    """The names of the queries whose watermark is at the end of time, or goes there with the batch that is planned.

    They take all further rows for late.
    """
    return frozenset(plan.name for plan, log in queries if plan.controls and (_has_ended(log) or _is_ending(plan, log)))


def withdraw_ends(queries: Iterable[tuple[QueryPlan, CheckpointLog]]) -> None:
    """Empty the control rows that would end the input with a batch that is not planned yet: more may have come since.

    The queries must be stopped. Spark still finds a file that it has listed.
    """
    for plan, log in queries:
        for control in plan.controls.values():
            last = log.last_committed() + (log.offsets(log.last_committed() + 1) is not None)
            end = log.source_offset(control, last)
            planned = {file.local.name for file in log.planned_files(control) if file.batch <= end}
            for file in waiting_controls(control_folder(log.folder.parent, control), planned):
                if _ends(file):
                    write_atomically(file, b"")


def _has_ended(log: CheckpointLog) -> bool:
    at = log.watermark
    return at is not None and has_ended(at)


def _is_ending(plan: QueryPlan, log: CheckpointLog) -> bool:
    """Whether a batch that is planned, and not committed, has control rows that end the input."""
    batch = log.last_committed() + 1
    if log.offsets(batch) is None:
        return False
    planned = [file.local for control in plan.controls.values() for file in log.planned_files(control, batch)]
    return any(_ends(file) for file in planned)


def _ends(file: Path) -> bool:
    """Whether a file has a control row that ends the input; False for one that is gone, or elsewhere."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return False
    return any(has_ended(datetime.fromisoformat(str(at))) for line in lines for at in orjson.loads(line).values())
