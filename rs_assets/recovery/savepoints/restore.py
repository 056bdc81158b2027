"""Restores a savepoint: into its own job's folder, or as a fork into another one's."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest, generation_folder
from rs_assets.common.files import write_atomically
from rs_assets.errors import CheckpointError
from rs_assets.recovery import restore_marker as marker
from rs_assets.recovery.savepoints.copy import THREADS
from rs_assets.recovery.savepoints.model import GENERATION, SavedFile, Savepoint, stamp
from rs_assets.recovery.savepoints.relocate import relocate, renew_query_ids
from rs_assets.recovery.savepoints.store import SavepointStore

STAGING = ".staging-"
# Where a restore or a rewind moves what it replaces, until a compaction removes it.
TRASH = ".trash-"
MANIFEST = "manifest.json"


def verify(store: SavepointStore, savepoint: Savepoint, *, threads: int = THREADS) -> list[str]:
    """Problems of a savepoint's content, one line per file; all of it is read."""

    def problem(file: SavedFile) -> str | None:
        try:
            for _ in store.read(file.sha256, file.size_bytes):
                pass
        except CheckpointError as error:
            return f"{file.path}: {error.what}"
        except OSError as error:
            return f"{file.path}: cannot be read: {store.reason(error)}"
        return None

    with ThreadPoolExecutor(threads, "rs-savepoint") as pool:
        return [line for line in pool.map(problem, savepoint.files) if line is not None]


def restore(
    store: SavepointStore,
    savepoint: Savepoint,
    job_folder: Path,
    *,
    threads: int = THREADS,
    now: datetime | None = None,
    ready: Callable[[], None] = lambda: None,
    recovery: bool = False,
) -> Manifest:
    """Restore the job to `savepoint`; returns the manifest that was written.

    `ready` is called when the savepoint is completely copied and verified; if it raises, nothing is changed. With
    `recovery` the next start repeats an interrupted restore.

    The job must be stopped and its state stores unloaded, as for `rs_assets.recovery.rewinding.rewind`. The savepoint's
    generations and later ones are moved to `.trash-TIME-gNNNN` in the job's folder. Sinks are not changed.
    CheckpointError, without any change, if anything of the savepoint is missing or damaged, or if the folder belongs to
    another pipeline.
    """
    restored = _manifest(savepoint)
    job = job_folder.absolute()
    current = _current(job)
    if current is not None and current.pipeline_id != savepoint.pipeline_id:
        raise CheckpointError(
            f"{job.name} is not the pipeline of savepoint {savepoint.id}",
            remedy="fork the savepoint into a job of its own",
            file=job,
        )
    with _staged(store, savepoint, job, threads, lambda generation: generation) as staging:
        ready()
        _exchange(
            staging,
            job,
            restored,
            f"{marker.RECOVERY} {savepoint.id}" if recovery else savepoint.id,
            stamp(now or datetime.now(UTC)),
        )
    return restored


def fork(store: SavepointStore, savepoint: Savepoint, job_folder: Path, *, threads: int = THREADS) -> Manifest:
    """Begin another job from `savepoint`; returns its manifest, with a new pipeline id and new query ids.

    All queries continue in generation 1, with sinks that have none of their rows yet. CheckpointError, without any
    change, if the folder has a job already, or as in `restore`. The remains of an interrupted fork are not a job.
    """
    source = _manifest(savepoint)
    job = job_folder.absolute()
    if marker.under_way(job)[0] != marker.FORK and ((job / MANIFEST).exists() or _generations(job)):
        raise CheckpointError(
            f"{job.name} has run already, so nothing can be forked into it",
            remedy="fork into a job that has not run, or move its folder away",
            file=job,
        )
    first = generation_folder(1)
    told = f"{marker.FORK} {savepoint.id}"
    with _begun(job, told), _staged(store, savepoint, job, threads, lambda _: first) as staging, _disk(job):
        ids = renew_query_ids(staging / first)
        queries = {
            name: replace(
                facts,
                generation=1,
                query_id=ids.get(name),
                # The names are kept: a query without state is identified by its sinks.
                sinks=dict.fromkeys(facts.sinks, -1),
                path=(),
                catalogued=savepoint.batches.get(name, -1),
            )
            for name, facts in source.queries.items()
        }
        forked = replace(
            source, pipeline_id=Manifest.new().pipeline_id, generation=1, queries=queries, token=0, claims={}
        )
        _exchange(staging, job, forked, told, stamp(datetime.now(UTC)))
    return forked


def _manifest(savepoint: Savepoint) -> Manifest:
    """The manifest in a savepoint, as it would be read from disk."""
    try:
        return Manifest.from_body(savepoint.manifest)
    except (TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(
            "the job's manifest in the savepoint has fields that this release does not know",
            remedy="restore it with the release that took it",
            savepoint=savepoint.id,
        ) from error


def _current(job: Path) -> Manifest | None:
    """The job's manifest, None if it is damaged, since a restore replaces it."""
    with suppress(CheckpointError):
        return manifests.load(job)
    return None


@contextmanager
def _begun(job: Path, told: str) -> Iterator[None]:
    """The job's folder with `told` in the marker; an error puts both back as they were."""
    made, mark = not job.exists(), job / marker.FILE
    before = _content(mark)
    with ExitStack() as back:
        if made:
            back.callback(_remove_empty, job)
        back.callback(_put_back, mark, before)
        with _disk(job):
            job.mkdir(parents=True, exist_ok=True, mode=0o750)
            write_atomically(mark, told.encode())
        yield
        back.pop_all()


@contextmanager
def _staged(
    store: SavepointStore, savepoint: Savepoint, job: Path, threads: int, renamed: Callable[[str], str]
) -> Iterator[Path]:
    """A hidden folder in the job's, with the savepoint's generations complete and checked; removed at the end."""
    made = not job.exists()
    staging = job / f"{STAGING}{uuid.uuid4().hex}"
    generations = {file.path.partition("/")[0] for file in savepoint.files}
    try:
        with _disk(job):
            staging.mkdir(parents=True, mode=0o750)
        with ThreadPoolExecutor(threads, "rs-savepoint") as pool:
            for _ in pool.map(lambda file: _fetch(store, file, staging, renamed), savepoint.files):
                pass
        moves = {f"{savepoint.origin}/{each}": f"{job}/{renamed(each)}" for each in generations}
        with _disk(job):
            for folder in _generations(staging):
                relocate(folder, moves)
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if made:
            _remove_empty(job)


def _fetch(store: SavepointStore, file: SavedFile, staging: Path, renamed: Callable[[str], str]) -> None:
    """Copy one file out of the store, with its time, so that the next savepoint recognizes it."""
    generation, *rest = file.path.split("/")
    path = staging.joinpath(renamed(generation), *rest)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        with path.open("xb") as out:
            for block in store.read(file.sha256, file.size_bytes):
                out.write(block)
            out.flush()
            os.fsync(out.fileno())
        os.utime(path, ns=(file.mtime_ns, file.mtime_ns))
    except CheckpointError as error:
        raise CheckpointError(error.what, remedy=error.remedy, file=file.path, **error.facts) from error
    except OSError as error:
        raise CheckpointError(
            f"a file cannot be restored: {error.strerror or error}",
            remedy="check the disk, the store and the permissions",
            file=file.path,
        ) from error


def _exchange(staging: Path, job: Path, manifest: Manifest, told: str, at: str) -> None:
    """Replace the generations by the staged ones, with `told` in the marker; an error undoes all steps."""
    staged = _generations(staging)
    first = min(_number(folder) for folder in staged)
    with _disk(job), ExitStack() as back:
        mark = job / marker.FILE
        old = _content(job / MANIFEST)
        back.callback(_put_back, mark, _content(mark))
        write_atomically(mark, told.encode())
        for folder in _generations(job):
            # A later generation would be continued as if it had just begun.
            if _number(folder) >= first:
                aside = folder.with_name(f"{TRASH}{at}-{folder.name}")
                _move(folder, aside, back)
                _keep_manifest(job, aside, back)
        for folder in staged:
            _move(folder, job / folder.name, back)
        back.callback(_put_back, job / MANIFEST, old)
        manifests.save(job, manifest)
        back.pop_all()
        mark.unlink()
        for leftover in job.glob(f"{STAGING}*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _move(source: Path, target: Path, back: ExitStack) -> None:
    source.rename(target)
    back.callback(target.rename, source)


def _keep_manifest(job: Path, aside: Path, back: ExitStack) -> None:
    """A copy of the job's manifest next to its generation, for a manual rollback."""
    if (job / MANIFEST).exists():
        back.callback((aside / MANIFEST).unlink, missing_ok=True)
        shutil.copy2(job / MANIFEST, aside / MANIFEST)


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _put_back(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink(missing_ok=True)
    else:
        write_atomically(file, content)


def _generations(job: Path) -> list[Path]:
    return sorted(path for path in job.glob("g*") if path.is_dir() and GENERATION.fullmatch(path.name))


def _number(generation: Path) -> int:
    return int(generation.name[1:])


@contextmanager
def _disk(job: Path) -> Iterator[None]:
    """Convert OSError in the block to CheckpointError."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"the job's folder cannot be written to: {error.strerror or error}",
            remedy="check the disk and the permissions",
            file=job,
        ) from error
