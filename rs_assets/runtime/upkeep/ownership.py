"""Identifies the pipeline of a home, a savepoint and a name: the pipeline's id decides, never its name alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rs_assets.catalog.catalog import Catalog
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.errors import CheckpointError
from rs_assets.recovery.savepoints import Savepoint, SavepointStore
from rs_assets.runtime.options import RunOptions
from rs_assets.topology.topology import Topology

# How many savepoints an error lists.
LISTED = 5


@dataclass(frozen=True, slots=True)
class Known:
    """A pipeline in the catalog, with its greatest generation."""

    pipeline_id: str
    generation: int


def savepoints_of(options: RunOptions) -> SavepointStore:
    """The store of savepoints."""
    return SavepointStore(options.savepoints.uri or options.home.savepoints)


def known_of(options: RunOptions, namespace: str, job: str) -> Known | None:
    """The pipeline in the catalog, None if it never ran here or the catalog is lost."""
    catalog, name = Catalog(options.home.catalog), f"{namespace}.{job}"
    rows = catalog.rows("pipelines", pipeline=name)
    if not rows:
        return None
    # Not the newest: the clock may have been set back between two of them.
    latest = max(rows, key=lambda row: int(row["generation"]))
    went_back = catalog.rows("operations", pipeline=name)
    return Known(latest["pipeline_id"], max(row["generation"] for row in (latest, *went_back)))


def readable(options: RunOptions, namespace: str, job: str) -> Manifest | None:
    """The manifest in this home; None if it is damaged, since a restore replaces it."""
    try:
        return manifests.load(options.home.job(namespace, job))
    except CheckpointError:
        return None


def savepoint_to_restore(topology: Topology, options: RunOptions, savepoint_id: str | None) -> Savepoint:
    """The savepoint with this id, or the newest of this home's pipeline; CheckpointError for another pipeline.

    If this home cannot identify its pipeline among several of that name, a person has to choose.
    """
    if savepoint_id is None:
        return newest_savepoint(options, topology.namespace, topology.job)
    chosen = savepoints_of(options).load(topology.namespace, topology.job, savepoint_id)
    if _pipeline_id(options, topology.namespace, topology.job) not in (None, chosen.pipeline_id):
        raise _another(topology.name, chosen)
    return chosen


def newest_savepoint(options: RunOptions, namespace: str, job: str) -> Savepoint:
    """The newest savepoint of the pipeline that has this name in this home.

    CheckpointError if there is none, and with a list if there are several pipelines and the home knows none of them.
    """
    name, pipeline_id = f"{namespace}.{job}", _pipeline_id(options, namespace, job)
    found = savepoints_of(options).savepoints(namespace, job)
    mine = [each for each in found if pipeline_id in (None, each.pipeline_id)]
    if not found:
        raise CheckpointError(f"there is no savepoint of {name}", remedy="take one: rs-assets savepoint")
    if not mine:
        raise _another(name, *found)
    if len({each.pipeline_id for each in mine}) > 1:
        raise CheckpointError(
            f"several pipelines were called {name}, and this home knows none of them:\n    {listed(mine)}",
            remedy="name the savepoint by its id",
        )
    return mine[0]


def _pipeline_id(options: RunOptions, namespace: str, job: str) -> str | None:
    current, known = readable(options, namespace, job), known_of(options, namespace, job)
    return current.pipeline_id if current else known.pipeline_id if known else None


def newest_of(options: RunOptions, namespace: str, job: str, pipeline_id: str) -> Savepoint | None:
    """The newest savepoint of one pipeline."""
    found = savepoints_of(options).savepoints(namespace, job)
    return next((each for each in found if each.pipeline_id == pipeline_id), None)


def not_lost(topology: Topology, savepoints: Sequence[Savepoint]) -> CheckpointError:
    """The refusal of a first start in a home without records of `savepoints`: another home may have been lost."""
    return CheckpointError(
        f"{topology.name} has not run in this home, but there are savepoints of it:\n    {listed(savepoints)}",
        remedy=f"bring it here: rs-assets restore {topology.name}; or begin another pipeline of that name with"
        " --new-generation",
    )


def listed(savepoints: Sequence[Savepoint]) -> str:
    """The newest savepoint of each pipeline, and some more, for people to choose from."""
    first = {each.pipeline_id: each for each in reversed(savepoints)}
    shown = [*first.values(), *(each for each in savepoints if each not in first.values())][: max(LISTED, len(first))]
    lines = [f"{each.id} of pipeline {each.pipeline_id[:8]}, taken in {each.origin}" for each in shown]
    more = len(savepoints) - len(shown)
    return "\n    ".join([*lines, *([f"and {more} more"] if more else [])])


def _another(name: str, *savepoints: Savepoint) -> CheckpointError:
    return CheckpointError(
        f"{name} of this home is not the pipeline of the savepoint:\n    {listed(savepoints)}",
        remedy="restore it into a home of its own (RS_HOME, with this store in RS_SAVEPOINTS), or fork it into a job of"
        " another name (rs-assets fork)",
    )
