"""The stopped pipeline of which keys are forgotten, as its home has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import CheckpointError
from rs_assets.runtime.forget.keys import Keys
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.upkeep.returns import matching
from rs_assets.topology.topology import Topology

Consent = Literal["refuse", "remove"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query of the pipeline: its plan, its stored name, its log and the folder that it is in."""

    plan: QueryPlan
    stored: str
    folder: Path
    generation: int
    log: CheckpointLog

    @property
    def last(self) -> int:
        """Its last committed batch, -1 for none."""
        return self.log.last_committed()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The pipeline with its `manifest` by current names; `token` is that of the lease, 0 if nothing is written.

    `savepoints` says whether savepoints and uploads that may have rows of the keys may be removed.
    """

    topology: Topology
    options: RunOptions
    keys: Keys
    manifest: Manifest
    queries: tuple[Query, ...]
    job: Path
    savepoints: Consent
    token: int = 0

    @classmethod
    def of(cls, topology: Topology, options: RunOptions, keys: Keys, *, savepoints: Consent) -> World:
        """That of a home; CheckpointError before the first run, TopologyChangedError as for a rewind."""
        job = options.home.job(topology.namespace, topology.job)
        stored = manifests.load(job)
        if stored is None:
            raise CheckpointError(f"{topology.name} has no checkpoint yet", remedy="run it first", file=job)
        manifest, folders = matching(topology, stored)
        return cls(
            topology=topology,
            options=options,
            keys=keys,
            manifest=manifest,
            queries=tuple(_queries(topology, manifest, folders, job)),
            job=job,
            savepoints=savepoints,
        )

    def query_of(self, sink: str) -> Query | None:
        """The query that writes a sink, None if it has not run yet."""
        return next((query for query in self.queries if sink in query.plan.sinks), None)

    def mark(self, sink: str, query: Query) -> BatchMark:
        """The marker of a sink at the last batch."""
        stored = self.manifest.stored_name(sink)
        return BatchMark(self.manifest.pipeline_id, query.generation, stored, query.last, self.token)


def _queries(topology: Topology, manifest: Manifest, folders: Mapping[str, str], job: Path) -> Iterator[Query]:
    for plan in plan_queries(topology):
        stored = folders[plan.name]
        if stored in manifest.queries:
            folder = manifest.place(job, stored)
            log = CheckpointLog(folder / "checkpoint", manifest.aliases)
            generation = manifest.queries[stored].generation
            yield Query(plan=plan, stored=stored, folder=folder, generation=generation, log=log)
