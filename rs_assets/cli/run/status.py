"""The state of pipelines, read from their files: no Spark is started."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.markup import escape
from rich.table import Table

from rs_assets.catalog.lease import LeaseRow, read_lease
from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.background import background_failures_in
from rs_assets.common.home import Home
from rs_assets.common.plural import count_of
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.console.writer import terminal
from rs_assets.operators.window.event_time import watermark_in_words
from rs_assets.recovery.interrupted import interrupted
from rs_assets.runtime.identity import folder_of, log_of
from rs_assets.stream.pipeline import Pipeline


def status_of(pipeline: Pipeline, home: Home) -> list[dict[str, Any]]:
    """One entry for each query: generation, last committed batch, watermark, running process, warnings.

    `killed`: the last process ended without releasing its lease. The warnings are the background failures of the last
    run, and while nothing runs also what was interrupted so that a start is refused.
    """
    topology = pipeline.topology
    folder = home.job(topology.namespace, topology.job)
    manifest = manifests.load(folder)
    lease = read_lease(home.leases, topology.name)
    running = None if lease is None or lease.free else _holder(lease)
    warnings = [] if running else [f"{cut.what}; {cut.remedy}" for cut in interrupted(folder, topology.name)]
    warnings += background_failures_in(folder)
    entries = []
    for plan in plan_queries(topology):
        log = log_of(manifest, plan, folder)
        stored = folder_of(manifest, plan) if manifest else None
        batch = log.last_committed() if log else -1
        offsets = log.offsets(batch) if log and batch >= 0 else None
        entries.append(
            {
                "pipeline": pipeline.name,
                "query": plan.name,
                "generation": manifest.queries[stored].generation if manifest and stored else 0,
                "sealed": bool(manifest and manifest.sealed),
                "last_batch": batch,
                "watermark": offsets.watermark.isoformat() if offsets and plan.stateful else None,
                "running": running,
                "killed": bool(lease and lease.free and not lease.released),
                "warnings": warnings,
            }
        )
    return entries


def _holder(lease: LeaseRow) -> dict[str, Any]:
    """Who runs the pipeline; `silent_s`: seconds since the last sign of life, if that is too long ago, else None."""
    silent_s = round(abs(lease.age).total_seconds()) if lease.stale else None
    place = None if lease.here else lease.host.split("/")[0]
    return {"host": lease.host, "pid": lease.pid, "run": lease.run_id, "elsewhere": place, "silent_s": silent_s}


def show_status(pipelines: Sequence[Pipeline], *, as_json: bool) -> None:
    """Print the entries of all `pipelines`."""
    entries = [entry for pipeline in pipelines for entry in status_of(pipeline, Home.default())]
    if as_json:
        sys.stdout.write(json.dumps(entries) + "\n")
        return
    table = Table()
    for name in ("pipeline", "query", "generation", "last batch", "watermark", "state"):
        table.add_column(name, overflow="fold")
    for entry in entries:
        state = _state(entry)
        batch = str(entry["last_batch"]) if entry["last_batch"] >= 0 else "none yet"
        numbers = (str(entry["generation"]), batch, in_words(_read(entry["watermark"])))
        table.add_row(entry["pipeline"], entry["query"], *numbers, state)
    out = terminal()
    out.print(table)
    for name, text in dict.fromkeys((entry["pipeline"], text) for entry in entries for text in entry["warnings"]):
        out.print(f"[bold yellow]warning[/]: {name}: {escape(text)}", soft_wrap=True)


def _state(entry: Mapping[str, Any]) -> str:
    holder = entry["running"]
    if holder:
        where = f" on {holder['elsewhere']}" if holder["elsewhere"] else ""
        who = f"pid {holder['pid']}{where}"
        silent = holder["silent_s"]
        return f"running ({who})" if silent is None else f"no sign of life for {count_of(silent, 'second')} ({who})"
    known = {"sealed": entry["sealed"], "killed": entry["killed"], "not started yet": not entry["generation"]}
    return next((state for state, holds in known.items() if holds), "stopped")


def in_words(watermark: datetime | None) -> str:
    """A watermark for people.

    >>> from datetime import UTC
    >>> in_words(None), in_words(datetime(1970, 1, 1, tzinfo=UTC)), in_words(datetime(2026, 1, 5, 9, tzinfo=UTC))
    ('-', 'none yet', '2026-01-05 09:00:00')
    >>> in_words(datetime(9999, 12, 30, 23, 50, tzinfo=UTC))
    'end of input'
    """
    return watermark_in_words(watermark) or "-"


def _read(watermark: str | None) -> datetime | None:
    return None if watermark is None else datetime.fromisoformat(watermark)
