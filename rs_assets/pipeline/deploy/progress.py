"""How far the queries of a pipeline have come: whether a version has committed a batch of input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rs_assets.engine.checkpoint import manifest as manifests
from rs_assets.engine.checkpoint.log import CheckpointLog
from rs_assets.engine.checkpoint.manifest import Manifest
from rs_assets.engine.checkpoint.source_log import NOTHING_READ
from rs_assets.pipeline.runtime.run.running import RunningPipeline


@dataclass(frozen=True, slots=True)
class Position:
    """For each query, by its folder: `generation`, the last committed `batch` (-1 for none), and the `offsets` then."""

    queries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Whether any query has committed a batch."""
        return any(query["batch"] >= 0 for query in self.queries.values())

    def read_since(self, before: Position) -> frozenset[str]:
        """The queries that have committed input since `before`; a batch without any proves nothing."""
        return frozenset(
            name
            for name, query in self.queries.items()
            if query["offsets"] and _has_read(query, before.queries.get(name))
        )


def _has_read(query: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> bool:
    """Whether a query has read what it had not, in its generation."""
    if earlier is None or earlier["generation"] != query["generation"]:
        return True
    known = earlier["offsets"]
    return any(known.get(source) != offset for source, offset in query["offsets"].items())


def position_of(folder: Path) -> Position:
    """Where the queries of the job in `folder` stand."""
    manifest = manifests.load(folder)
    if manifest is None:
        return Position()
    return Position({name: _of_query(manifest, folder, name) for name in manifest.queries})


def _of_query(manifest: Manifest, folder: Path, name: str) -> dict[str, Any]:
    facts = manifest.queries[name]
    log = CheckpointLog(manifest.place(folder, name) / "checkpoint", manifest.aliases)
    batch = log.last_committed()
    planned = log.offsets(batch) if batch >= 0 else None
    read = planned.sources if planned is not None else {}
    offsets = {name: read[name] for name in facts.sources if read.get(name, NOTHING_READ) != NOTHING_READ}
    return {"generation": facts.generation, "batch": batch, "offsets": offsets}


def advanced(folder: Path, before: Position, running: RunningPipeline | None = None) -> bool:
    """Whether input was committed since `before`, by each query of `running` that has planned a batch."""
    read = position_of(folder).read_since(before)
    if not read or running is None:
        return bool(read)
    session = running.session
    waiting = [plan for plan in session.plans if session.folders[plan.name] not in read]
    return not any(session.log(plan).offsets(session.log(plan).last_committed() + 1) for plan in waiting)
