"""Stores that answer queries, and copies of state: exported tables, and folders for lookups."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from rocksdict import AccessType, Options, Rdict

from rs_assets.common.plural import count_of
from rs_assets.connectors.delta.forgetting import TableErasure
from rs_assets.connectors.sqlite.database import connected
from rs_assets.connectors.store import file
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.connectors.store.rows import layout_of
from rs_assets.errors import SinkError
from rs_assets.operators.state.served import POINTER
from rs_assets.recovery.savepoints.listing import CHECKPOINT
from rs_assets.recovery.savepoints.restore import STAGING, TRASH
from rs_assets.runtime.forget.keys import InTexts, has_field
from rs_assets.runtime.forget.nested import holders
from rs_assets.runtime.forget.report import Finding, Place
from rs_assets.runtime.forget.tables import TableRows
from rs_assets.runtime.forget.world import Query, World
from rs_assets.runtime.upkeep import beside
from rs_assets.runtime.upkeep.state import served_folder, state_path


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRows:
    """The rows of a store, and what its last batches have changed, by which they could be undone."""

    name: str
    path: Path
    wanted: Mapping[str, Sequence[str]]
    place: str = "store"

    def check(self) -> None:
        """They can always be removed."""

    def found(self) -> Finding:
        """Rows, and batches that can be undone."""
        with connected(str(self.path), SinkError) as database:
            rows, steps = len(self._keys(database)), len(file.steps(database)) - 1
        more = f", {count_of(steps, 'batch')} that could be undone" if steps else ""
        return Finding(rows=rows, more=steps, said=f"{count_of(rows, 'row')}{more}" if rows or steps else "")

    def erase(self) -> None:
        """Remove them; freed pages of the file are overwritten."""
        with connected(str(self.path), SinkError, write=True) as database:
            database.execute("PRAGMA secure_delete = ON")
            database.execute("BEGIN IMMEDIATE")
            database.executemany("DELETE FROM rows WHERE key = ?", [(key,) for key in self._keys(database)])
            database.execute("DELETE FROM before")
            database.execute("DELETE FROM steps WHERE number < (SELECT max(number) FROM steps)")
            database.execute("COMMIT")
            database.execute("VACUUM")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _keys(self, database: Any) -> list[bytes]:
        rows = database.execute("SELECT key, row FROM rows")
        return [key for key, row in rows if has_field(orjson.loads(row), self.wanted)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCopy:
    """The copy of a step's state for lookups, which is removed whole: the next snapshot of state makes a new one."""

    name: str
    folder: Path
    wanted: Mapping[str, Sequence[str]]
    place: str = "served copy"

    def check(self) -> None:
        """It can always be removed."""

    def found(self) -> Finding:
        """Its rows with a key, and rows of copies that nothing reads any more."""
        rows = sum(self._count(copy) for copy in self.folder.glob("v*") if copy.is_dir())
        return Finding(rows=rows, said=count_of(rows, "row") if rows else "")

    def erase(self) -> None:
        """Remove the folder, also if no row has a key: its files may have rows that were replaced since."""
        (self.folder / POINTER).unlink(missing_ok=True)
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _count(self, copy: Path) -> int:
        try:
            database = Rdict(str(copy), Options(raw_mode=True), access_type=AccessType.read_only())
        except Exception:  # noqa: BLE001  rocksdict has no error of its own
            # A part of a copy, as after an interruption: whatever it has is removed.
            return 1
        try:
            entries: Any = database.items()
            return sum(self._has(key, stored) for key, stored in entries)
        finally:
            database.close()

    def _has(self, key: bytes, stored: bytes) -> bool:
        texts = (key, stored.partition(b"\n")[2])
        return any(has_field(orjson.loads(text), self.wanted) for text in texts if text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Folders that no start and no rewind reads, which are removed whole. `folders` finds those that are there."""

    place: str
    name: str
    folders: Callable[[], Sequence[Path]]

    def check(self) -> None:
        """They can always be removed: the pipeline is stopped."""

    def found(self) -> Finding:
        """Their files, whatever these have."""
        number = sum(path.is_file() for folder in self.folders() for path in folder.rglob("*"))
        return Finding(more=number, said=count_of(number, "file") if number else "")

    def erase(self) -> None:
        """Remove the folders."""
        for folder in self.folders():
            shutil.rmtree(folder)


def copies(world: World) -> Iterator[Place]:
    """The stores and copies that there are, and that have one of the fields."""
    topology, home = world.topology, world.options.home
    yield Leftovers(place="copies", name="of a rescale", folders=partial(_of_rescale, world.job))
    current = frozenset(world.manifest.place(world.job, stored) for stored in world.manifest.queries)
    former = partial(_former_checkpoints, world.job, current)
    yield Leftovers(place="checkpoints", name="of earlier generations", folders=former)
    for sink in topology.sinks:
        path = home.store(topology.namespace, sink.store) if isinstance(sink, StoreSink) else None
        if isinstance(sink, StoreSink) and path is not None and path.exists():
            wanted = world.keys.at(sink.name, sink.store)
            if holders(_schema(path), wanted):
                yield StoreRows(name=sink.store, path=path, wanted=wanted)
    for query, step in _steps(world):
        wanted = world.keys.at(step)
        matcher = InTexts({}, ("key", "value"), world.keys, partial(_in_json, wanted))
        exported = state_path(topology, step, home)
        if Path(exported).exists():
            mark = replace(world.mark(step, query), sink=f"state.{step}")
            erasure = TableErasure(path=exported, matcher=matcher, step=step, mark=mark, pipeline=world.topology.name)
            yield TableRows(place="state table", name=step, erasure=erasure)
        folder = served_folder(topology, step, home)
        if folder.exists():
            yield ServedCopy(name=step, folder=folder, wanted=wanted)


def _of_rescale(job: Path) -> list[Path]:
    """The copies of checkpoints that the rescale of a running stream has left, if its process was killed."""
    return [folder for folder in (job / beside.FOLDER,) if folder.is_dir()]


def _former_checkpoints(job: Path, current: Collection[Path]) -> list[Path]:
    """State of queries other than the `current` ones, and all that a restore or a rewind has moved aside or left."""
    queries = (query for query in job.glob("g*/*") if query not in current)
    states = (query / CHECKPOINT / "state" for query in queries)
    aside = (folder for begin in (TRASH, STAGING) for folder in job.glob(f"{begin}*"))
    return [folder for folder in (*states, *aside) if folder.is_dir()]


def _steps(world: World) -> Iterator[tuple[Query, str]]:
    """Each step with state, and a query that has it."""
    found = {step: query for query in reversed(world.queries) for step in query.plan.states}
    yield from ((query, step) for step, query in found.items())


def _schema(path: Path) -> pa.Schema:
    """The fields of the rows of a store."""
    with connected(str(path), SinkError) as database:
        newest = file.newest(database) if file.exists(database) else None
    return layout_of(file.head_of(newest).layout).schema if newest is not None else pa.schema([])


def _in_json(wanted: Mapping[str, Sequence[str]], texts: Sequence[str | None]) -> bool:
    return any(has_field(orjson.loads(text), wanted) for text in texts if text)
