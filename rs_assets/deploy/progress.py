"""Progress of the queries of a pipeline: whether a version has committed a batch of input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import NOTHING_READ, CheckpointLog
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.runtime.run.running import RunningPipeline


@dataclass(frozen=True, slots=True)
class Position:
    """For each query, by its folder: `generation`, the last committed `batch` (-1 for none), and the `offsets` then."""

    queries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Whether any query has committed a batch."""
        return any(query["batch"] >= 0 for query in self.queries.values())

    def read_since(self, before: Position) -> frozenset[str]:
        """The queries that have committed input since `before`; a batch without input proves nothing."""
        return frozenset(
            name
            for name, query in self.queries.items()
            if query["offsets"] and _has_read(query, before.queries.get(name))
        )


def _has_read(query: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> bool:
    """Whether a query has read new input, in its generation."""
    if earlier is None or earlier["generation"] != query["generation"]:
        return True
    known = earlier["offsets"]
    return any(known.get(source) != offset for source, offset in query["offsets"].items())


def position_of(folder: Path) -> Position:
    """The position of each query of the job in `folder`."""
    manifest = manifests.load(folder)
    if manifest is None:
        return Position()
    return Position({name: _of_query(manifest, folder, name) for name in manifest.queries})


def written_since(folder: Path, before: Position) -> frozenset[str]:
    """The outputs of the queries of the job in `folder` that have committed input since `before`.

    Generations do not count: a query that went back to `before` since has none.
    """
    manifest, now = manifests.load(folder), position_of(folder).queries
    known = {name: query["offsets"] for name, query in before.queries.items()}
    read = [name for name, query in now.items() if query["offsets"] != known.get(name, {})]
    return frozenset(sink for name in read if manifest is not None for sink in manifest.queries[name].sinks)


def _of_query(manifest: Manifest, folder: Path, name: str) -> dict[str, Any]:
    facts = manifest.queries[name]
    log = CheckpointLog(manifest.place(folder, name) / "checkpoint", manifest.aliases)
    batch = log.last_committed()
    planned = log.offsets(batch) if batch >= 0 else None
    read = planned.sources if planned is not None else {}
    offsets = {name: read[name] for name in facts.sources if read.get(name, NOTHING_READ) != NOTHING_READ}
    return {"generation": facts.generation, "batch": batch, "offsets": offsets}


class Proof:
    """Checks that a version computes its input: each query that has input has committed some of it.

    `running` is the running pipeline, None after its end: then no query can be said to have had no input.
    """

    def __init__(self, folder: Path, before: Position, running: RunningPipeline | None = None) -> None:
        self._folder = folder
        self._before = before
        self._running = running
        self._asked: set[str] = set()

    def given(self) -> bool:
        """Whether the check has passed; may be called repeatedly."""
        now = position_of(self._folder)
        read = now.read_since(self._before)
        if not read or self._running is None:
            return bool(read) and read == now.queries.keys()
        session, driver = self._running.session, self._running.session.options.driver
        waiting = [plan for plan in session.plans if session.folders[plan.name] not in read]
        if any(session.log(plan).offsets(session.log(plan).last_committed() + 1) for plan in waiting):
            return False
        # Output of the other queries may be input of these, so they look once more.
        for plan in waiting:
            if plan.name not in self._asked:
                self._asked.add(plan.name)
                driver.call(lambda _, q=session.queries[plan.name]: q.look_again())  # type: ignore[misc]
        queries = [session.queries[plan.name] for plan in waiting]
        found: bool = driver.call(lambda _: all(query.found_nothing() for query in queries))
        return found
