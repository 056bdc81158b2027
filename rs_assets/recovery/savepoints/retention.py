"""Removes expired savepoints, and content that no savepoint references."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rs_assets.errors import ConfigurationError
from rs_assets.recovery.savepoints.copy import COLLECTION_LASTS
from rs_assets.recovery.savepoints.model import Savepoint
from rs_assets.recovery.savepoints.store import SavepointStore

# Younger content is kept, referenced or not: a savepoint may be about to reference it.
GRACE = timedelta(hours=1)
# A savepoint that takes longer was killed.
TAKING_LASTS = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Removed items: ids of savepoints, objects and their bytes. `postponed` if a savepoint was being taken."""

    savepoints: tuple[str, ...] = ()
    objects: int = 0
    bytes: int = 0
    postponed: bool = False


def retention(
    store: SavepointStore,
    namespace: str,
    job: str,
    *,
    keep: int,
    max_age: timedelta | None = None,
    now: datetime | None = None,
    taken: Savepoint | None = None,
) -> Removed:
    """Remove the savepoints of a pipeline beyond the newest `keep`, and those older than `max_age` (None: any age).

    The pipeline is that of `taken`, the newest savepoint; without it each pipeline of that name is handled by itself.
    The newest is always kept, and `taken` too. Content is removed by `collect_garbage`. ConfigurationError for `keep`
    below 1; CheckpointError, without any change, if a savepoint of the job is damaged.
    """
    if keep < 1:
        raise ConfigurationError("at least one savepoint must be kept", remedy="set keep to 1 or more", keep=keep)
    oldest = None if max_age is None else (now or datetime.now(UTC)) - max_age
    found = defaultdict[str, list[Savepoint]](list)
    for savepoint in store.savepoints(namespace, job):
        if taken is None or savepoint.pipeline_id == taken.pipeline_id:
            found[savepoint.pipeline_id].append(savepoint)
    going = [
        savepoint
        for of_one in found.values()
        for place, savepoint in enumerate(of_one)
        if place >= keep or (place > 0 and oldest is not None and savepoint.created_at < oldest)
        if taken is None or savepoint.id != taken.id
    ]
    for savepoint in reversed(going):
        store.remove(savepoint)
    return Removed(savepoints=tuple(savepoint.id for savepoint in going))


def collect_garbage(store: SavepointStore, *, now: datetime | None = None) -> Removed:
    """Remove objects and unfinished files that are an hour old and not referenced by a savepoint of any job.

    Nothing is removed while a savepoint is being taken. CheckpointError, without any change, if a savepoint is damaged,
    since its references are unknown.
    """
    before = (now or datetime.now(UTC)) - GRACE
    until = time.monotonic() + COLLECTION_LASTS.total_seconds() / 2
    with store.announced("collecting"):
        if store.at_work("taking", within=TAKING_LASTS):
            return Removed(postponed=True)
        sizes = store.objects()
        named = {store.object_path(file.sha256) for savepoint in store.everything() for file in savepoint.files}
        unnamed = [path for path in sizes if path not in named]
        removed = 0, 0
        for path in (*unnamed, *store.leftovers()):
            # After this time a savepoint no longer waits for us; the rest is removed next time.
            if time.monotonic() > until:
                break
            written = store.modified(path)
            if written is not None and written < before:
                store.remove_file(path)
                removed = removed[0] + 1, removed[1] + sizes.get(path, 0)
    return Removed(objects=removed[0], bytes=removed[1])
