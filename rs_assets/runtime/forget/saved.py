"""Savepoints and uploads: copies of earlier state, which are removed whole."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.plural import count_of
from rs_assets.errors import CheckpointError, ConfigurationError
from rs_assets.recovery.savepoints import Savepoint, SavepointStore, collect_garbage
from rs_assets.recovery.savepoints.retention import GRACE, TAKING_LASTS
from rs_assets.recovery.uploads.store import UploadId, UploadStore
from rs_assets.runtime.forget.report import Finding
from rs_assets.runtime.forget.world import World
from rs_assets.runtime.upkeep.ownership import savepoints_of
from rs_assets.runtime.upkeep.uploads import upload_return

# A collection ends after a while; the next one goes on.
MOST_COLLECTIONS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoints:
    """The savepoints of the pipeline, all of which were taken before."""

    world: World
    place: str = "savepoints"
    name: str = ""

    def check(self) -> None:
        """ConfigurationError if there are some and they may not be removed; CheckpointError while one is taken."""
        found, store = self._mine(), savepoints_of(self.world.options)
        if store.at_work("taking", within=TAKING_LASTS):
            raise _taken_now(store)
        if found and self.world.savepoints != "remove":
            raise ConfigurationError(
                f"{count_of(len(found), 'savepoint')} of {self.world.topology.name} may have the keys, and a restore"
                " would bring them back",
                remedy="let them be removed: --savepoints remove (Python: savepoints='remove')",
                newest=found[0].id,
            )

    def found(self) -> Finding:
        """Savepoints."""
        number = len(self._mine())
        return Finding(more=number, said=f"{number:,}, to be removed by --savepoints remove" if number else "")

    def erase(self) -> None:
        """Remove them, and their content that no other savepoint has."""
        store, found = savepoints_of(self.world.options), self._mine()
        for savepoint in found:
            store.remove(savepoint)
        # After a crash there may be content of those that were removed.
        collect(store)

    def _mine(self) -> tuple[Savepoint, ...]:
        topology = self.world.topology
        found = savepoints_of(self.world.options).savepoints(topology.namespace, topology.job)
        return tuple(each for each in found if each.pipeline_id == self.world.manifest.pipeline_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploads:
    """The uploaded checkpoints of the pipeline; if the policy requires uploads, a new one takes their place."""

    world: World
    place: str = "uploads"
    name: str = ""

    def check(self) -> None:
        """ConfigurationError if there are some, no new one takes their place, and they may not be removed."""
        policy = self.world.options.savepoints
        if not policy.upload and self.world.savepoints != "remove" and self._earlier():
            raise ConfigurationError(
                f"uploads of {self.world.topology.name} may have the keys, and uploads are off, so no new one would"
                " take their place",
                remedy="let them be removed: --savepoints remove (Python: savepoints='remove')",
            )

    def found(self) -> Finding:
        """Uploads of runs before this one."""
        earlier = len(self._earlier())
        return Finding(more=earlier, said=f"{count_of(earlier, 'upload')} of earlier batches" if earlier else "")

    def erase(self) -> None:
        """Upload the checkpoint as it is now, if the policy requires it; then remove the others with their content."""
        world, uploads = self.world, self._store
        if not uploads.ids():
            return
        if world.options.savepoints.upload:
            stored = manifests.load(world.job)
            assert stored is not None  # it has a checkpoint
            upload_return(world.topology, world.options, stored, world.token)
        uploads.remove(self._earlier())
        newest, store = uploads.newest(), uploads.store
        kept = {store.object_path(file.sha256) for file in newest.content.files} if newest is not None else set()
        for path in (*(path for path in store.objects() if path not in kept), *store.leftovers()):
            store.remove_file(path)

    def _earlier(self) -> list[UploadId]:
        """Those that the run with this lease has not made."""
        token = self.world.token
        return [each for each in self._store.ids() if not token or each.token < token]

    @property
    def _store(self) -> UploadStore:
        world = self.world
        uri = world.options.savepoints.uri or world.options.home.savepoints
        return UploadStore(uri, world.topology.namespace, world.topology.job, world.manifest.pipeline_id)


def collect(store: SavepointStore) -> None:
    """Remove all content that no savepoint has, however young; CheckpointError while a savepoint is taken."""
    for _ in range(MOST_COLLECTIONS):
        done = collect_garbage(store, now=datetime.now(UTC) + GRACE)
        if done.postponed:
            raise _taken_now(store)
        if not done.objects:
            return


def _taken_now(store: SavepointStore) -> CheckpointError:
    return CheckpointError(
        "a savepoint is being taken, so the content of removed ones cannot be removed",
        remedy="wait until it is complete, then forget the keys again",
        store=store.address,
    )
