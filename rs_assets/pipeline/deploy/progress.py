"""How far the queries of a pipeline have come, so that it can be told whether a version has committed a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rs_assets.engine.checkpoint import manifest as manifests
from rs_assets.engine.checkpoint.log import CheckpointLog
from rs_assets.pipeline.runtime.run.running import RunningPipeline


@dataclass(frozen=True, slots=True)
class Position:
    """For each query its generation and the last batch that Spark has committed, -1 for none."""

    batches: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Whether any query has committed a batch."""
        return any(batch >= 0 for _, batch in self.batches.values())


def position_of(folder: Path) -> Position:
    """Where the queries of the job in `folder` stand."""
    manifest = manifests.load(folder)
    if manifest is None:
        return Position()
    logs = {name: CheckpointLog(manifest.place(folder, name) / "checkpoint") for name in manifest.queries}
    return Position({name: (manifest.queries[name].generation, log.last_committed()) for name, log in logs.items()})


def advanced(folder: Path, before: Position, running: RunningPipeline | None = None) -> bool:
    """Whether the queries have committed a batch since `before`, each that has planned one."""
    now = position_of(folder)
    moved = {
        name
        for name, (generation, batch) in now.batches.items()
        if batch >= 0 and (generation, batch) > tuple(before.batches.get(name, (0, -1)))
    }
    if not moved or running is None:
        return bool(moved)
    session = running.session
    return all(
        session.folders[plan.name] in moved
        or not session.log(plan).begun
        or session.log(plan).offsets(session.log(plan).last_committed() + 1) is None
        for plan in session.plans
    )
