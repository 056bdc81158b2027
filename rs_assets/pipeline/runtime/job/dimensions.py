"""The dimensions of a run: loaded before its queries start, and again beside them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rs_assets.engine.background import Repeated, Troubles
from rs_assets.engine.checkpoint.catalog import Row
from rs_assets.engine.dimension.loading import loader_of
from rs_assets.engine.dimension.notes import DimensionNotes
from rs_assets.engine.dimension.versions import VersionStore
from rs_assets.engine.home import Home
from rs_assets.pipeline.compile.wiring import ddl_type
from rs_assets.pipeline.runtime.batch.dimensions import BatchVersions, RunDimension
from rs_assets.pipeline.topology.dim_join import DimJoin
from rs_assets.pipeline.topology.topology import Topology

# How long an end waits for a load that has begun.
PATIENCE_S = 3.0


@dataclass(slots=True)
class Dimensions:
    """All dimensions of a run, by the step that looks rows up in them."""

    by_step: Mapping[str, RunDimension] = field(default_factory=dict)
    pinning: threading.Lock = field(default_factory=threading.Lock)
    _loops: list[Repeated] = field(default_factory=list)

    def begin(self) -> None:
        """Load all of them, and go on doing so beside the batches."""
        for each in self.by_step.values():
            each.begin()
            each.prune()
        for each in self.by_step.values():
            every = each.node.dimension.every
            loop = Repeated(
                _renewing(each), name="rs-dimension", every=every, troubles=each.troubles, effect=each.effect
            )
            self._loops.append(loop.start())

    def of_query(self, folder: Path, steps: Collection[str]) -> BatchVersions:
        """What chooses the versions for the batches of the query in `folder`, which has the steps `steps`."""
        mine = {step: each for step, each in self.by_step.items() if step in steps}
        return BatchVersions(DimensionNotes.load(folder), mine, self.pinning)

    def close(self) -> None:
        """End loading; may be called twice. A load that does not end is left alone: its rows are not taken up."""
        for each in self.by_step.values():
            each.end()
        for loop in self._loops:
            loop.stop(patience_s=PATIENCE_S)


def _renewing(dimension: RunDimension) -> Callable[[], None]:
    def renew() -> None:
        dimension.reload()
        dimension.prune()

    return renew


def dimensions_of(
    topology: Topology, home: Home, spark: SparkSession, troubles: Troubles, pinned: Mapping[str, str]
) -> Dimensions:
    """The dimensions of a topology, not loaded yet; `pinned` are schemas that were inferred once, JSON by step."""
    made = Dimensions()
    job = home.job(topology.namespace, topology.job)

    def held(node: DimJoin) -> RunDimension:
        return RunDimension(
            node=node,
            loader=loader_of(node.dimension, spark, partial(home.table, topology.namespace)),
            store=VersionStore(home.dimension(topology.namespace, topology.job, node.name)),
            troubles=troubles,
            job=job,
            pinning=made.pinning,
            schema=_known(node, pinned.get(node.name)),
        )

    made.by_step = {node.name: held(node) for node in topology if isinstance(node, DimJoin)}
    return made


def _known(node: DimJoin, pinned: str | None) -> StructType | None:
    """The schema of a dimension, None before it was ever loaded."""
    if node.dimension.schema is not None:
        return ddl_type(node.dimension.schema, step=node.name)
    return StructType.fromJson(json.loads(pinned)) if pinned is not None else None


def versions_begun(topology: Topology, home: Home, folder: Path) -> Callable[[int], Sequence[Row]]:
    """What the catalog shall have of the versions that came into use with a batch of the query in `folder`."""
    nodes = {node.name: node for node in topology if isinstance(node, DimJoin)}

    def begun(batch_id: int) -> Sequence[Row]:
        found = DimensionNotes.load(folder).begun(batch_id) if nodes else {}
        return [_row(nodes[step], name) for step, name in found.items() if step in nodes]

    def _row(node: DimJoin, name: str) -> Row:
        version = VersionStore(home.dimension(topology.namespace, topology.job, node.name)).named(name)
        facts = asdict(version) if version is not None else {}
        kept = {column: facts.get(column) for column in ("digest", "rows", "bytes", "loaded_at")}
        return {"step": node.name, "version": name, "origin": node.dimension.text, **kept}

    return begun
