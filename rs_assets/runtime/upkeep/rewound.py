"""The checkpoint of one query at the end of an earlier batch, in the folder of a new generation."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest, QueryFacts, generation_folder
from rs_assets.common.plural import count_of
from rs_assets.common.storage import is_remote
from rs_assets.compile.planner.query_plan import CONTROL_SOURCE, QueryPlan
from rs_assets.connectors.delta.files.staging import STAGING
from rs_assets.connectors.delta.log.store import write_file
from rs_assets.errors import CheckpointError
from rs_assets.operators.dimension.notes import repeat
from rs_assets.operators.shuffle.cut import cut, end_of
from rs_assets.operators.window.event_time import control_folder, waiting_controls
from rs_assets.recovery.rewinding import rewind as rewind_checkpoint
from rs_assets.recovery.rewinding import rewindable
from rs_assets.recovery.savepoints.listing import SHUFFLES
from rs_assets.recovery.savepoints.model import stamp
from rs_assets.recovery.savepoints.relocate import relocate
from rs_assets.recovery.savepoints.restore import TRASH
from rs_assets.runtime.upkeep.returns import QueryReturn, begun_with


def refuse_batch(plan: QueryPlan, place: Path, to_batch: int) -> None:
    """CheckpointError, with the possible batches, if the query in `place` cannot go back to a batch."""
    possible = rewindable(place / "checkpoint")
    if to_batch not in possible:
        span = f"possible are: {possible[0]} to {possible[-1]}" if possible else "there is no batch to go back to"
        raise CheckpointError(
            f"{plan.name} cannot be rewound to batch {to_batch}",
            remedy=f"{span}; restore a savepoint to go further back",
            file=place,
        )


def partitions_at(queries: Sequence[QueryReturn], manifest: Manifest, folder: Path) -> int:
    """The number of state partitions of the pipeline after the queries are rewound."""
    known = {query.folder: _partitions(query, manifest.place(folder, query.folder)) for query in queries}
    stateful = [name for name, facts in manifest.queries.items() if facts.stateful is not None]
    by_query = {name: known.get(name) or manifest.partitions for name in stateful}
    if len({*by_query.values()}) > 1:
        first = queries[0]
        before = count_of(known[first.folder] or 0, "partition")
        raise CheckpointError(
            f"at batch {first.batch} the state of {first.plan.name} had {before}, and that of"
            f" the other queries of the pipeline has {manifest.partitions}",
            remedy="go back to a batch after the rescale, or restore a savepoint from before it",
            file=folder,
        )
    return next(iter(by_query.values()), manifest.partitions)


def _partitions(query: QueryReturn, place: Path) -> int:
    return CheckpointLog(place / "checkpoint").partitions(query.batch) if query.plan.stateful else 0


def rewind_queries(folder: Path, stored: Manifest, queries: Sequence[QueryReturn], begun: int) -> Manifest:
    """Make the checkpoints, and the manifest that names them; the old folders go to the trash."""
    made = replace(stored, sealed=False)
    for query in queries:
        made = made.with_query(query.folder, _rewound(folder, stored, query, begun))
    manifests.save(folder, made)
    for query in queries:
        place = stored.place(folder, query.folder)
        place.rename(folder / f"{TRASH}{stamp(datetime.now(UTC))}-{place.parent.name}-{query.folder}")
    return made


def _rewound(folder: Path, stored: Manifest, query: QueryReturn, begun: int) -> QueryFacts:
    """The stored state of a query, after its earlier checkpoint is made."""
    facts = stored.queries[query.folder]
    place, target = stored.place(folder, query.folder), folder / generation_folder(begun) / query.folder
    _rewound_copy(place, target, query.batch)
    log = CheckpointLog(place / "checkpoint", stored.aliases)
    return replace(
        begun_with(facts.as_of(query.batch), query.batch, begun),
        left=left_at(facts, log, query.batch),
        catalogued=query.batch,
        rows_open=0,
    )


def left_at(facts: QueryFacts, log: CheckpointLog, to_batch: int) -> Mapping[str, str]:
    """The offsets, at the end of a batch, of sources that were removed before it or since."""
    then: dict[str, str] = {}
    later: set[str] = set()
    for batch in log.planned_batches():
        offsets = log.offsets(batch)
        named = offsets.sources if offsets else {}
        if batch <= to_batch:
            then |= named
        else:
            later |= set(named)
    current = log.offsets(to_batch)
    there = set(current.sources) if current else set()
    known = {*facts.left, *facts.sources}
    found = {
        name: offset for name, offset in then.items() if name in known and (name in facts.left or name not in there)
    }
    # Sources in no batch of Spark's log are known only here; one that was added later starts over.
    kept = {name: offset for name, offset in facts.left.items() if name not in later and name not in found}
    return {**kept, **found}


def _rewound_copy(place: Path, target: Path, to_batch: int) -> None:
    """The query's folder up to `to_batch`, as links: Spark never changes a file, and the old ones stay unchanged."""
    if target.exists():
        # From an interrupted rewind.
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    shutil.copytree(place, target, copy_function=_linked, ignore=shutil.ignore_patterns(STAGING))
    for table in (target / SHUFFLES).glob("*"):
        cut(table, end_of(table, to_batch))
    log = CheckpointLog(place / "checkpoint")
    gone = ((batch, log.offsets(batch)) for batch in log.committed_batches() if batch > to_batch)
    repeat(target, {batch: planned.sources for batch, planned in gone if planned is not None})
    relocate(target.parent, {str(place.parent): str(target.parent)})
    rewind_checkpoint(target / "checkpoint", to_batch)
    for source in (target / "checkpoint" / "sources").glob(f"{CONTROL_SOURCE}*"):
        _undo_control(CheckpointLog(target / "checkpoint"), source.name, to_batch)


def _undo_control(log: CheckpointLog, source: str, to_batch: int) -> None:
    """Empty the control rows after `to_batch`, also those of no batch: of a finish or an idle time that is undone."""
    end = log.source_offset(source, to_batch)
    planned = log.planned_files(source)
    # Spark still finds the files that it planned.
    for file in planned:
        if file.batch > end and is_remote(file.path):
            folder, _, name = file.path.rpartition("/")
            write_file(folder, name, b"")
    kept = {file.local.name for file in planned if file.batch <= end}
    for path in waiting_controls(control_folder(log.folder.parent, source), kept):
        path.unlink()
        path.touch()


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
