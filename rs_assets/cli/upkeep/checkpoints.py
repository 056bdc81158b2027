"""The commands `verify`, `checkpoints` and `rescale`: the checkpoints of a pipeline, checked, shown and rewritten."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from rs_assets.cli.base import AS_JSON, FAILED, MODULES, NAME, NAME_OR_NONE, chosen, guarded
from rs_assets.cli.output import emit, progress, show
from rs_assets.common.plural import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rs_assets.catalog.batch_times import EventTimes
    from rs_assets.catalog.offsets import CheckpointRow

SECONDS = "%Y-%m-%d %H:%M:%S"


@click.command()
@NAME_OR_NONE
@click.option("--repair", metavar="REPAIR", help="Apply a repair that a finding names.")
@MODULES
@AS_JSON
@guarded
def verify(name: str | None, modules: tuple[str, ...], *, repair: str | None, as_json: bool) -> None:
    """Check the checkpoints of a stopped pipeline; exit code 1 if a start would be refused."""
    from rs_assets.runtime.job import preflight

    topology = chosen(modules, name).topology
    done = preflight.repair(topology, repair) if repair else ()
    found = [(query.query, f) for query in preflight.verify(topology) for f in query.found]
    rows = [
        {
            "query": query,
            "code": f.code,
            "severity": f.severity,
            "file": str(f.file),
            "meaning": f.meaning,
            "remedy": f.remedy,
            "repair": f.repair,
        }
        for query, f in found
    ]
    if as_json:
        click.echo(json.dumps({"findings": rows, "repaired": done}))
    else:
        for line in done:
            click.echo(line)
        show(rows, ("query", "code", "severity", "file", "meaning", "remedy"), empty=f"{topology.job}: nothing found")
    if any(f.severity == "error" for _, f in found):
        sys.exit(FAILED)


@click.command()
@NAME_OR_NONE
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1), help="At most so many, the newest.")
@MODULES
@AS_JSON
@guarded
def checkpoints(name: str | None, modules: tuple[str, ...], *, limit: int, as_json: bool) -> None:
    """Show the committed batches of a pipeline: offsets by split, event times, watermark, run, and which are undone."""
    from rs_assets.catalog.batch_times import spans
    from rs_assets.catalog.catalog import Catalog
    from rs_assets.cli.run.status import in_words
    from rs_assets.dagster.checkpoint_rows import checkpoints_of, undone
    from rs_assets.dagster.place import Place

    topology = chosen(modules, name).topology
    newest = checkpoints_of(topology, Place(), batches=limit)[-limit:]
    since = min((row.batch_id for row in newest), default=0)
    times = spans(Catalog(Place().home.catalog), pipeline=topology.name, since=since)
    seen = [times.get((row.generation, row.name, row.batch_id)) for row in newest]
    gone = undone(topology, Place(), newest)
    rows = [_checkpoint(row, each, undone=was) for row, each, was in zip(newest, seen, gone, strict=True)]
    if as_json:
        emit(rows, as_json=True)
        return
    for row, each, shown in zip(newest, seen, rows, strict=True):
        shown["watermark"] = in_words(row.watermark)
        shown["event times"] = f"{each.least:{SECONDS}} to {in_words(each.greatest)}" if each else None
        shown["undone"] = "yes" if shown["undone"] else None
    columns = ("at", "query", "batch", "source", "split", "offset", "event times", "watermark")
    show(rows, (*columns, *["undone"] * any(gone)), empty=f"{topology.job}: no checkpoint yet")


def _checkpoint(row: CheckpointRow, times: EventTimes | None, *, undone: bool) -> dict[str, Any]:
    return {
        "at": f"{row.at:{SECONDS}}",
        "query": row.name,
        "generation": row.generation,
        "batch": row.batch_id,
        "source": row.topic,
        "split": row.queue,
        "offset": row.offset,
        "least_event_time": times.least.isoformat() if times else None,
        "greatest_event_time": times.greatest.isoformat() if times else None,
        "watermark": row.watermark.isoformat() if row.watermark else None,
        "run": row.run_id,
        "reconciled": row.reconciled,
        "undone": undone,
    }


@click.command()
@NAME
@click.option("--partitions", type=int, required=True, help="The number of state partitions to change to.")
@MODULES
@AS_JSON
@guarded
def rescale(name: str, modules: tuple[str, ...], *, partitions: int, as_json: bool) -> None:
    """Rewrite the state of a pipeline in another number of partitions.

    A running stream does it itself, and stops for seconds. A stopped pipeline processes the remaining input first.
    """
    from dataclasses import asdict

    from rs_assets.runtime.options import RunOptions
    from rs_assets.runtime.run.rescale import rescale as change
    from rs_assets.runtime.run.rescale_requests import rescale_running

    topology, options = chosen(modules, name).topology, RunOptions()
    with progress(f"rescaling {name}", hidden=as_json):
        outcome = rescale_running(topology, options, partitions, reason=f"rs-assets rescale {name}")
        if outcome is not None and outcome.refused is not None:
            if not outcome.gone:
                raise outcome.refused
            click.echo(f"{outcome.refused.what}; rescaling the stopped pipeline", err=True)
        live = outcome.report if outcome is not None else None
        report = asdict(live or change(topology, partitions, options))
    if as_json:
        click.echo(json.dumps(report))
        return
    click.echo(f"{name}: {_rescaled(report)}")


def _rescaled(report: Mapping[str, Any]) -> str:
    """A report in words."""
    before, after, waited_s = report["before"], report["after"], report["waited_s"]
    if before == after and waited_s is not None:
        return f"its state has {count_of(after, 'partition')} already"
    rows = count_of(sum(report["state_rows"].values()), "row")
    pause = f"; the stream stopped for {waited_s:.1f} s" if waited_s is not None else ""
    changed = f"{before} -> {count_of(after, 'partition')} in {report['seconds']:.1f} s"
    return f"{changed}, {rows} of state, equal before and after{pause}"
