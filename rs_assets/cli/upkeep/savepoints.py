"""The commands `savepoint`, `restore`, `rewind` and `fork`: the ways back, and a copy that begins with saved state."""

from __future__ import annotations

from typing import Any

import click

from rs_assets.cli.base import AS_JSON, MODULES, NAME, chosen, guarded
from rs_assets.cli.output import emit, progress


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
@click.option(
    "--from",
    "source",
    required=True,
    metavar="[NAMESPACE.]JOB",
    help="The pipeline that was saved; by default of the same namespace.",
)
@click.option("--savepoint", "savepoint_id", help="The savepoint (the newest if none is named).")
@MODULES
@AS_JSON
@guarded
def fork(name: str, modules: tuple[str, ...], *, source: str, savepoint_id: str | None, as_json: bool) -> None:
    """Begin a pipeline that has not run yet with the state of another one's savepoint."""
    from rs_assets.runtime.upkeep import savepoints

    topology = chosen(modules, name).topology
    namespace, job = source.split(".", 1) if "." in source else (topology.namespace, source)
    emit([_entry(savepoints.fork(topology, (namespace, job), savepoint_id=savepoint_id))], as_json=as_json)


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
