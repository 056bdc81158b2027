"""The commands for checkpoints and state, from verify to compact."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rs_assets.cli.base import AS_JSON, FAILED, MODULES, NAME, NAME_OR_NONE, chosen, guarded

if TYPE_CHECKING:
    from rs_assets.catalog.batch_times import EventTimes
    from rs_assets.catalog.offsets import CheckpointRow

# Characters of a value in a table.
CELL = 160
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
@click.option("--limit", default=20, show_default=True, help="At most so many, the newest.")
@MODULES
@AS_JSON
@guarded
def checkpoints(name: str | None, modules: tuple[str, ...], *, limit: int, as_json: bool) -> None:
    """Show the committed batches of a pipeline: offsets by split, event times, watermark, run."""
    from rs_assets.catalog.batch_times import spans
    from rs_assets.catalog.catalog import Catalog
    from rs_assets.cli.run.status import in_words
    from rs_assets.dagster.checkpoint_rows import checkpoints_of
    from rs_assets.dagster.place import Place

    topology = chosen(modules, name).topology
    newest = checkpoints_of(topology, Place(), batches=limit)[-limit:]
    since = min((row.batch_id for row in newest), default=0)
    times = spans(Catalog(Place().home.catalog), pipeline=topology.name, since=since)
    seen = [times.get((row.generation, row.name, row.batch_id)) for row in newest]
    rows = [_checkpoint(row, each) for row, each in zip(newest, seen, strict=True)]
    if as_json:
        emit(rows, as_json=True)
        return
    for row, each, shown in zip(newest, seen, rows, strict=True):
        shown["watermark"] = in_words(row.watermark)
        shown["event times"] = f"{each.least:{SECONDS}} to {in_words(each.greatest)}" if each else None
    show(
        rows,
        ("at", "query", "batch", "source", "split", "offset", "event times", "watermark"),
        empty=f"{topology.job}: no checkpoint yet",
    )


def _checkpoint(row: CheckpointRow, times: EventTimes | None) -> dict[str, Any]:
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
    }


@click.command()
@NAME
@click.option("--note", default="", help="What it is for.")
@click.option("--list", "listing", is_flag=True, help="List the savepoints instead of taking one.")
@MODULES
@AS_JSON
@guarded
def savepoint(name: str, modules: tuple[str, ...], *, note: str, listing: bool, as_json: bool) -> None:
    """Copy the checkpoints of a pipeline, running or stopped, to the savepoint store."""
    from rs_assets.runtime.options import RunOptions
    from rs_assets.runtime.upkeep import savepoints
    from rs_assets.runtime.upkeep.ownership import savepoints_of

    topology, options = chosen(modules, name).topology, RunOptions()
    if listing:
        found = savepoints_of(options).savepoints(topology.namespace, topology.job)
        emit([_entry(each) for each in found], as_json=as_json, empty=f"{name}: no savepoint yet")
        return
    with progress(f"copying {name}", hidden=as_json) as bar:
        taken = savepoints.savepoint(topology, options, note=note, on_progress=lambda p: bar(p.bytes, p.bytes_total))
    emit([_entry(taken)], as_json=as_json)


@click.command()
@NAME
@click.argument("savepoint_id", required=False)
@MODULES
@AS_JSON
@guarded
def restore(name: str, savepoint_id: str | None, modules: tuple[str, ...], *, as_json: bool) -> None:
    """Bring a stopped pipeline and its sinks back to a savepoint (the newest if none is named)."""
    from rs_assets.runtime.upkeep import savepoints

    emit([_entry(savepoints.restore(chosen(modules, name).topology, savepoint_id=savepoint_id))], as_json=as_json)


@click.command()
@NAME
@click.option("--to", "batch", type=int, required=True, help="The last batch that stays.")
@click.option("--step", help="The stateful step, if the pipeline has several queries.")
@MODULES
@guarded
def rewind(name: str, modules: tuple[str, ...], *, batch: int, step: str | None) -> None:
    """Bring a stopped pipeline and its sinks back to the end of a batch."""
    from rs_assets.runtime.upkeep import savepoints

    click.echo(savepoints.rewind(chosen(modules, name).topology, batch, step=step))


@click.command()
@NAME
@click.option("--from", "source", required=True, metavar="NAMESPACE.JOB", help="The pipeline that was saved.")
@click.option("--savepoint", "savepoint_id", help="The savepoint (the newest if none is named).")
@MODULES
@AS_JSON
@guarded
def fork(name: str, modules: tuple[str, ...], *, source: str, savepoint_id: str | None, as_json: bool) -> None:
    """Begin a pipeline that has not run yet with the state of another one's savepoint."""
    from rs_assets.runtime.upkeep import savepoints

    namespace, _, job = source.partition(".")
    emit(
        [_entry(savepoints.fork(chosen(modules, name).topology, (namespace, job), savepoint_id=savepoint_id))],
        as_json=as_json,
    )


@click.command()
@NAME
@click.option("--partitions", type=int, required=True, help="The number of state partitions to change to.")
@MODULES
@AS_JSON
@guarded
def rescale(name: str, modules: tuple[str, ...], *, partitions: int, as_json: bool) -> None:
    """Drain a stopped pipeline and rewrite its state in another number of partitions."""
    from dataclasses import asdict

    from rs_assets.runtime.run.rescale import rescale as change

    with progress(f"rescaling {name}", hidden=as_json):
        report = asdict(change(chosen(modules, name).topology, partitions))
    if as_json:
        click.echo(json.dumps(report))
        return
    rows = sum(report["state_rows"].values())
    click.echo(
        f"{name}: {report['before']} -> {report['after']} partitions in {report['seconds']:.1f} s,"
        f" {rows:,} rows of state, equal before and after"
    )


@click.command()
@NAME
@click.argument("step")
@click.option("--key", "keys", multiple=True, metavar="FIELD=VALUE", help="Rows whose key has this field; repeatable.")
@click.option("--batch", type=int, help="The state as it was after this batch, from the table of snapshots.")
@click.option("--diff", type=int, metavar="BATCH", help="What changed between this batch and --batch (or now).")
@click.option("--open", "open_now", is_flag=True, help="The open windows as they would fire now; starts Spark.")
@click.option("--refresh", is_flag=True, help="Take a snapshot first; starts Spark.")
@click.option("--limit", default=20, show_default=True, help="At most so many rows.")
@MODULES
@AS_JSON
@guarded
def state(name: str, step: str, modules: tuple[str, ...], *, limit: int, as_json: bool, **how: Any) -> None:
    """Show the state of a step: rows by key, as of a batch, or the changes between two batches."""
    from rs_assets.cli.rows.state_view import StateQuestion, answer

    question = StateQuestion(step=step, limit=limit, **how)
    said, rows = answer(chosen(modules, name).topology, question)
    if as_json:
        click.echo(json.dumps({"about": said, "rows": rows}, default=str))
        return
    show(rows, tuple(rows[0]) if rows else (), empty="no row")
    click.echo(said)


@click.command()
@click.argument("table")
@click.option("--version", type=int, help="The version of the table (the newest if none is named).")
@MODULES
@AS_JSON
@guarded
def lineage(table: str, modules: tuple[str, ...], *, version: int | None, as_json: bool) -> None:
    """Trace a table's version back to the batch, the run, the offsets and the snapshots that made it."""
    from rs_assets.cli.recorded.lineage import lineage_of, show_lineage
    from rs_assets.common.home import Home
    from rs_assets.dagster.discovery import find_pipelines

    found = lineage_of(find_pipelines(modules), table, version=version, home=Home.default())
    if as_json:
        click.echo(json.dumps(found.as_dict()))
        return
    show_lineage(found)


@click.command()
@MODULES
@AS_JSON
@guarded
def compact(modules: tuple[str, ...], *, as_json: bool) -> None:
    """Join the small files of all outputs and of the catalog, and remove files that no recent version uses."""
    from rs_assets.common.home import Home
    from rs_assets.dagster.discovery import find_pipelines
    from rs_assets.dagster.runs.compaction import compact_everything

    with progress("compacting", hidden=as_json):
        done = compact_everything(find_pipelines(modules), Home.default())
    rows = [{"table": table, **counts} for table, counts in done.items()]
    emit(rows, as_json=as_json, empty="no table yet")


def emit(rows: Sequence[dict[str, Any]], *, as_json: bool, empty: str = "nothing") -> None:
    """Rows as JSON for programs, as a table for people."""
    if as_json:
        click.echo(json.dumps(rows, default=str))
        return
    show(rows, tuple(rows[0]) if rows else (), empty=empty)


def show(rows: Sequence[dict[str, Any]], columns: Sequence[str], *, empty: str) -> None:
    """A table on the terminal, or `empty` if there are no rows."""
    from rich.table import Table
    from rich.text import Text

    from rs_assets.connectors.console.writer import terminal

    if not rows:
        click.echo(empty)
        return
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_short(row[column])) for column in columns))
    terminal().print(table)


def _short(value: object) -> str:
    """A value for a cell: long ones are cut; `--json` has them in full."""
    text = "" if value is None else str(value)
    return text if len(text) <= CELL else f"{text[: CELL - 1]}\u2026"


def progress(text: str, *, hidden: bool) -> Any:
    """A spinner with a bar; the value of the block is a function of done and total."""
    from rs_assets.cli.run.console import counting

    return counting(text, hidden=hidden)


def _entry(savepoint: Any) -> dict[str, Any]:
    return {
        "savepoint": savepoint.id,
        "pipeline": savepoint.pipeline_id[:8],
        "taken": f"{savepoint.created_at:%Y-%m-%d %H:%M:%S}",
        "generation": savepoint.generation,
        "batches": ", ".join(f"{query} {batch}" for query, batch in savepoint.batches.items()),
        "bytes": savepoint.bytes_total,
        "copied": savepoint.bytes_new,
        "note": savepoint.note,
        "home": savepoint.origin,
    }
