"""The dimensions of a run: loaded before its queries start, and reloaded in the background."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rs_assets.catalog.catalog import Row
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.background import LOOK_S, BackgroundFailures, PeriodicTask
from rs_assets.common.home import Home
from rs_assets.compile.planner.context import ddl_type
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.errors import SourceReadError
from rs_assets.expressions.rules.spec import given_by
from rs_assets.operators.dimension.loading import loaded, loader_of
from rs_assets.operators.dimension.notes import DimensionNotes, notes_of
from rs_assets.operators.dimension.versions import VersionStore
from rs_assets.runtime.batch.dimension_load import DimensionLoad
from rs_assets.runtime.batch.dimensions import BatchVersions, RunDimension
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology

# How long an end waits for a running load.
PATIENCE_S = 3.0


def repeats(topology: Topology, plan: QueryPlan, log: CheckpointLog) -> bool:
    """Whether a query computes batches again with the versions of tables or files that they used before a rewind."""
    nodes = (topology[name] for name in plan.nodes)
    loaded_by = any(isinstance(node, VersionedTable) and not given_by(node.dimension) for node in nodes)
    return loaded_by and DimensionNotes.load(log.folder.parent).again > log.last_committed()


@dataclass(slots=True)
class Dimensions:
    """All dimensions of a run: `loads`, and by lookup step. `root` is the folder of all."""

    root: Path | None = None
    job: Path = Path()
    by_step: Mapping[str, RunDimension] = field(default_factory=dict)
    loads: tuple[DimensionLoad, ...] = ()
    pinning: threading.Lock = field(default_factory=threading.Lock)
    _queries: dict[Path, BatchVersions] = field(default_factory=dict)
    _closed: threading.Event = field(default_factory=threading.Event)
    _loops: list[PeriodicTask] = field(default_factory=list)

    def begin(self) -> None:
        """Load all of them, and reload them in the background; RsError if one of them has no version.

        Loads run on a thread of their own, so that a hanging load is abandoned when the run is closed.
        """
        self._forget()
        done: Future[None] = Future()
        if self.loads:
            threading.Thread(target=self._first, args=(done,), name="rs-dimension-first", daemon=True).start()
            self._wait(done)
        for each in self.loads:
            loop = PeriodicTask(
                _renewing(each),
                name="rs-dimension",
                every=each.dimension.every,
                failures=each.failures,
                effect=each.effect,
            )
            self._loops.append(loop.start())

    def reload(self, step: str) -> None:
        """Load the dimension of a step again, if there is something new; RsError if that fails."""
        next(each for each in self.loads if self.by_step[step] in each.used).reload()

    def of_query(self, folder: Path, steps: Collection[str]) -> BatchVersions:
        """The versions for the batches of the query in `folder`, which has the steps `steps`."""
        mine = {step: each for step, each in self.by_step.items() if step in steps}
        self._queries[folder] = versions = BatchVersions(DimensionNotes.load(folder), mine, self.pinning)
        return versions

    def by_code(self) -> Mapping[str, str]:
        """The versions of the rules of the program by step, for batches that are computed again by the current code.

        They are part of the code. A batch may have noted those of other code.
        """
        found = dict[str, str]()
        for load in self.loads:
            if load.used[0].in_code:
                table, _ = loaded(load.loader, load.used[0].schema, step=load.step)
                found.update({each.node.name: each.of_code(table).name for each in load.used})
        return found

    def announce(self) -> None:
        """Let each query record with which versions its next batch would begin."""
        for versions in [*self._queries.values()]:
            versions.announce()

    def close(self) -> None:
        """End loading; may be called twice. A load that does not end is abandoned: its rows are not used."""
        self._closed.set()
        for each in self.loads:
            each.end()
        for loop in self._loops:
            loop.stop(patience_s=PATIENCE_S)

    def _first(self, done: Future[None]) -> None:
        try:
            for each in self.loads:
                each.begin()
                each.prune()
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            done.set_exception(error)
        else:
            done.set_result(None)

    def _wait(self, done: Future[None]) -> None:
        ended = threading.Event()
        done.add_done_callback(lambda _: ended.set())
        while not ended.wait(LOOK_S):
            if self._closed.is_set():
                raise SourceReadError("the run was closed before its dimensions were loaded", remedy="start it again")
        done.result()

    def _forget(self) -> None:
        """Remove the versions of removed steps, unless a batch that may be computed again used them."""
        folders = [path for path in self.root.glob("*") if path.name not in self.by_step] if self.root else []
        needed = frozenset[str]().union(*(notes.steps for notes in notes_of(self.job))) if folders else frozenset()
        for folder in folders:
            if folder.name not in needed:
                shutil.rmtree(folder, ignore_errors=True)


def _renewing(load: DimensionLoad) -> Callable[[], None]:
    def renew() -> None:
        load.reload()
        load.prune()

    return renew


def dimensions_of(
    topology: Topology, home: Home, spark: SparkSession, failures: BackgroundFailures, pinned: Mapping[str, str]
) -> Dimensions:
    """The dimensions of a topology, not loaded yet; `pinned` are inferred schemas, JSON by step."""
    job = home.job(topology.namespace, topology.job)
    nodes = [node for node in topology if isinstance(node, VersionedTable)]
    made = Dimensions(home.dimensions(topology.namespace, topology.job), job)

    def held(node: VersionedTable) -> RunDimension:
        store = VersionStore(home.dimension(topology.namespace, topology.job, node.name))
        return RunDimension(node=node, store=store, failures=failures, job=job, schema=_known(node, nodes, pinned))

    def load(used: Sequence[RunDimension]) -> DimensionLoad:
        dimension = used[0].node.dimension
        loader = loader_of(dimension, spark, partial(home.table, topology.namespace))
        return DimensionLoad(
            dimension=dimension,
            loader=loader,
            used=tuple(used),
            failures=failures,
            pinning=made.pinning,
            taken_up=made.announce,
        )

    made.by_step = {node.name: held(node) for node in nodes}
    made.loads = tuple(map(load, _together(made.by_step.values())))
    return made


def _together(held: Iterable[RunDimension]) -> Iterable[Sequence[RunDimension]]:
    """Groups of steps with the same dimension and the same known fields."""
    shared: dict[tuple[int, str | None], list[RunDimension]] = {}
    for each in held:
        schema = each.schema.json() if each.schema is not None else None
        shared.setdefault((id(each.node.dimension), schema), []).append(each)
    return shared.values()


def _known(node: VersionedTable, nodes: Iterable[VersionedTable], pinned: Mapping[str, str]) -> StructType | None:
    """The schema of a dimension, None before it was ever loaded."""
    if node.dimension.schema is not None:
        return ddl_type(node.dimension.schema, step=node.name)
    steps = [node.name, *(each.name for each in nodes if each.dimension is node.dimension)]
    found = next((pinned[step] for step in steps if step in pinned), None)
    return StructType.fromJson(json.loads(found)) if found is not None else None


def versions_begun(topology: Topology, home: Home, folder: Path) -> Callable[[int], Sequence[Row]]:
    """The catalog rows of the versions first used by a batch of the query in `folder`."""
    nodes = {node.name: node for node in topology if isinstance(node, VersionedTable)}

    def begun(batch_id: int) -> Sequence[Row]:
        found = DimensionNotes.load(folder).begun(batch_id) if nodes else {}
        return [_row(nodes[step], name) for step, name in found.items() if step in nodes]

    def _row(node: VersionedTable, name: str) -> Row:
        version = VersionStore(home.dimension(topology.namespace, topology.job, node.name)).named(name)
        facts = asdict(version) if version is not None else {}
        kept = {column: facts.get(column) for column in ("digest", "rows", "bytes", "loaded_at")}
        return {"step": node.name, "version": name, "origin": node.dimension.text, **kept}

    return begun
