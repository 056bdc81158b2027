"""Takes a savepoint of a job, also while its queries run."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import orjson

from rs_assets.checkpoint.manifest import Manifest, generation_folder
from rs_assets.errors import CheckpointError
from rs_assets.recovery.savepoints.listing import CHECKPOINT, SHUFFLES, Listed, QueryFiles, list_query
from rs_assets.recovery.savepoints.model import SavedFile, Savepoint, seal
from rs_assets.recovery.savepoints.shuffled import Link, copied_in_order, tables_of
from rs_assets.recovery.savepoints.store import SavepointStore, wait_for_collection

THREADS = 4
# How often a query is listed again because files vanished during the copy; each time less is left to copy.
ROUNDS = 5
# Longer than a collection can last, which `retention` ensures.
COLLECTION_LASTS = timedelta(minutes=15)
PATIENCE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The job of a savepoint, and its description for people."""

    namespace: str
    job: str
    fingerprint: str
    note: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of copying one query. It begins again when the query is listed again because files vanished."""

    query: str
    files: int
    files_total: int
    bytes: int
    bytes_total: int


OnProgress = Callable[[Progress], None]


def take(  # noqa: PLR0913  all but the first four have defaults
    job_folder: Path,
    manifest: Manifest,
    *,
    store: SavepointStore,
    subject: Subject,
    on_progress: OnProgress | None = None,
    threads: int = THREADS,
    now: datetime | None = None,
    links: Collection[Link] = (),
    before_saving: Callable[[], object] = bool,
) -> Savepoint:
    """Copy the current checkpoints of `manifest` into `store`, each up to its last committed batch.

    The queries may run meanwhile. Of the tables in `links` between them, the rows that readers have not read yet are
    copied; no reader is ahead of its writer. State in the job's newest savepoint is not read again. CheckpointError if
    nothing is committed yet, if a file that Spark needs is missing, and if one cannot be read or stored. An error of
    `before_saving`, which is called after the copy, leaves no savepoint.
    """
    job = job_folder.absolute()
    queries = queries_of(job, manifest)
    try:
        with store.announced("taking"):
            wait_for_collection(store, within=COLLECTION_LASTS, patience=PATIENCE)
            copier = Copier(store, job, _known(store, subject, manifest), on_progress=on_progress, threads=threads)
            copied = copied_in_order(queries, links, lambda folder, until: _copied(copier, queries, folder, until))
            tables = copier.files(tables_of(links, copied))
            savepoint = _sealed(job, manifest, subject, copied, tables, copier.new, now or datetime.now(UTC))
            before_saving()
            store.save(savepoint)
    except OSError as error:
        raise CheckpointError(
            f"the savepoint cannot be stored: {store.reason(error)}",
            remedy="check the store and its permissions",
            store=store.address,
        ) from error
    return savepoint


def _copied(copier: Copier, queries: Mapping[Path, bool], folder: Path, until: int | None) -> Copied:
    """A copy of one query, up to a batch."""
    listed = partial(list_query, copier.job, folder, stateful=queries[folder], until=until)
    return copier.query(folder.name, listed)


@dataclass(frozen=True, slots=True)
class Copied:
    """The copy of one query: its last committed batch (-1 for none), and its files."""

    last: int
    files: tuple[SavedFile, ...]


class Copier:
    """Copies files of a job into a store; remembers copies, since a query may be listed more than once.

    `known` are copies of files that never change; they are looked up in the store.
    """

    def __init__(
        self,
        store: SavepointStore,
        job: Path,
        known: Mapping[str, SavedFile],
        *,
        on_progress: OnProgress | None = None,
        threads: int = THREADS,
    ) -> None:
        self.store = store
        self.job = job
        self.known = known
        self.on_progress = on_progress
        self.threads = threads
        # The sizes of objects that were not in the store before.
        self.new: dict[str, int] = {}
        self._done: dict[str, SavedFile] = {}

    def files(self, paths: Iterable[Path]) -> tuple[SavedFile, ...]:
        """Copies of files that no longer change; CheckpointError if one is missing."""
        return tuple(self._file(path) for path in paths)

    def _file(self, path: Path) -> SavedFile:
        try:
            found = path.stat()
        except FileNotFoundError:
            found = None
        name = path.relative_to(self.job).as_posix()
        copy = None if found is None else self._one(Listed(name, found.st_size, found.st_mtime_ns))
        if copy is None:
            raise CheckpointError(
                "a file of a durable shuffle vanished while it was copied", remedy="try again", file=path
            )
        return copy

    def remember(self, files: Iterable[SavedFile]) -> None:
        """Take `files` as the only copies that are in the store; they are not looked up there."""
        self._done = {file.path: file for file in files}

    def query(self, name: str, listing: Callable[[], QueryFiles]) -> Copied:
        """Copy one query. It is listed again until no file that could be needed has vanished."""
        problem: str | None = None
        for _ in range(ROUNDS):
            listed = listing()
            saved = self._copy(name, listed)
            lost = [f.path for f in listed.files if f.path not in saved and not listed.is_passing(f.path)]
            problem = listed.problem(set(saved))
            if problem is None and not lost:
                return Copied(listed.last, tuple(saved.values()))
        if problem is None and all(listed.is_state(path) for path in lost):
            return Copied(listed.last, tuple(saved.values()))
        raise CheckpointError(
            f"the query {name} cannot be saved: {problem or f'{lost[0]} keeps changing'}",
            remedy="verify the checkpoint; if the query is only very busy, try again or stop it",
            file=self.job / (lost[0] if problem is None else listed.checkpoint),
        )

    def _copy(self, query: str, listed: QueryFiles) -> dict[str, SavedFile]:
        """Copy the listed files, and return those that still exist; a checksum only with its file."""
        saved: dict[str, SavedFile] = {}
        total, done = sum(file.size_bytes for file in listed.files), 0
        with ThreadPoolExecutor(self.threads, "rs-savepoint") as pool:
            for count, (file, copy) in enumerate(zip(listed.files, pool.map(self._one, listed.files), strict=True), 1):
                done += file.size_bytes
                if copy is not None:
                    saved[file.path] = copy
                if self.on_progress is not None:
                    self.on_progress(
                        Progress(query=query, files=count, files_total=len(listed.files), bytes=done, bytes_total=total)
                    )
        without = [f.path for f in listed.files if f.checked_file is not None and f.checked_file not in saved]
        for path in without:
            saved.pop(path, None)
        return saved

    def one_of(self, path: Path, file: Listed) -> SavedFile:
        """Copy a file from outside of the job's folder under the name of `file`; it does not change.

        CheckpointError if it is missing.
        """
        copy = self._one(file, path)
        if copy is None:
            raise CheckpointError("a file vanished while it was copied", remedy="try again", file=path)
        return copy

    def _one(self, file: Listed, place: Path | None = None) -> SavedFile | None:
        """Copy one file, None if it vanished or changed; `place` is its path if that is outside of the job's folder."""
        path = place or self.job / file.path
        done, known = self._done.get(file.path), self.known.get(file.path)
        if done and _same(done, file):
            return done
        if known and _same(known, file) and self.store.has(known.sha256, known.size_bytes):
            return known
        try:
            stream = path.open("rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(path, error) from error
        with stream:
            stored = self.store.put(stream)
            after = os.fstat(stream.fileno())
        if (after.st_size, after.st_mtime_ns, stored.size_bytes) != (file.size_bytes, file.mtime_ns, file.size_bytes):
            return None
        if stored.new:
            self.new[stored.sha256] = stored.size_bytes
        copy = SavedFile(file.path, stored.sha256, stored.size_bytes, file.mtime_ns)
        self._done[file.path] = copy
        return copy


def queries_of(job: Path, manifest: Manifest) -> Mapping[Path, bool]:
    """The folders of the current queries of the manifest, and whether each keeps state."""
    found: dict[Path, bool] = {}
    for name, facts in sorted(manifest.queries.items()):
        folder = job / generation_folder(facts.generation) / name
        if (folder / CHECKPOINT).is_dir():
            found[folder] = facts.stateful is not None
        elif facts.query_id is not None:
            raise CheckpointError(
                f"the checkpoint of the query {name} is missing", remedy="restore a savepoint", file=folder / CHECKPOINT
            )
    if not found:
        raise CheckpointError("the job has no checkpoint to save", remedy="run it first", file=job)
    return found


def _same(copy: SavedFile, file: Listed) -> bool:
    return (copy.size_bytes, copy.mtime_ns) == (file.size_bytes, file.mtime_ns)


def _known(store: SavepointStore, subject: Subject, manifest: Manifest) -> Mapping[str, SavedFile]:
    """The files of state and of tables in the newest readable savepoint of this pipeline.

    Files of the same name and time never change.
    """
    for savepoint_id in store.ids(subject.namespace, subject.job):
        try:
            newest = store.load(subject.namespace, subject.job, savepoint_id)
        except CheckpointError:
            # Damaged, or just removed: reading everything only costs time.
            continue
        if newest.pipeline_id != manifest.pipeline_id:
            continue
        lasting = (f"/{CHECKPOINT}/state/", f"/{SHUFFLES}/")
        return {file.path: file for file in newest.files if any(part in file.path for part in lasting)}
    return {}


def _sealed(
    job: Path,
    manifest: Manifest,
    subject: Subject,
    copied: Mapping[str, Copied],
    tables: tuple[SavedFile, ...],
    new: Mapping[str, int],
    now: datetime,
) -> Savepoint:
    batches = {query: copy.last for query, copy in copied.items()}
    if max(batches.values()) < 0:
        raise CheckpointError("no batch of the job is committed yet", remedy="take it after the first batch", file=job)
    of_queries = (file for copy in copied.values() for file in copy.files)
    files = tuple(sorted((*of_queries, *tables), key=lambda file: file.path))
    return seal(
        **asdict(subject),
        pipeline_id=manifest.pipeline_id,
        generation=manifest.generation,
        batches=batches,
        created_at=now,
        files=files,
        manifest=orjson.loads(orjson.dumps(manifest.body())),
        bytes_total=sum(file.size_bytes for file in files),
        bytes_new=sum(new.values()),
        origin=str(job),
    )


def _unreadable(file: Path, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"a file of the checkpoint cannot be read: {error.strerror}",
        remedy="check the disk and the permissions",
        file=file,
    )
