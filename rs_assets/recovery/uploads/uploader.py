"""Uploads the checkpoint of each planned batch in the background, while the batch is computed.

An upload has the plan of a batch and the state before it, as a crash at that moment would leave them. The sinks commit
only after it is stored. So a machine without this home continues as after a crash: the batch is computed again as it
was planned, and sinks that have it skip it.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import orjson
from tenacity import Retrying, retry_if_not_exception_type, stop_after_delay, wait_random_exponential

from rs_assets.checkpoint.manifest import Manifest
from rs_assets.errors import CheckpointError, LeaseLostError, RsError
from rs_assets.operators.dimension.notes import DimensionNotes
from rs_assets.recovery.savepoints.copy import Copied, Copier, Subject, queries_of
from rs_assets.recovery.savepoints.listing import Listed, list_upload
from rs_assets.recovery.savepoints.model import SavedFile, Savepoint, seal
from rs_assets.recovery.uploads.store import RunMark, UploadId, UploadStore

# The folder of a query with the dimension versions of its planned batch, in uploads only.
HELD = "held_dimensions"
# How many uploads are kept: one may be read while the next is written.
KEPT = 2
TIDY_EVERY = timedelta(minutes=1)
# For how long content that is no longer needed is kept, for who reads an older upload.
READ_WITHIN = timedelta(minutes=10)
# The age of content of unknown origin: a writer that was killed has left it.
LEFT_OVER = timedelta(hours=1)


class Uploader:
    """The uploads of one run into `store`, one at a time on a thread of its own.

    `manifest` returns that of the run at that moment. `run` is its mark, which is in the store. `dimensions` is the
    folder of the job's dimension versions. A store that fails is tried again for `patience`, then the batch fails: it
    is computed again after a restart.
    """

    def __init__(
        self,
        store: UploadStore,
        job: Path,
        *,
        dimensions: Path,
        subject: Subject,
        manifest: Callable[[], Manifest],
        run: RunMark,
        patience: timedelta,
    ) -> None:
        self.uploads = store
        self.job = job.absolute()
        self._dimensions = dimensions
        self._subject = subject
        self._manifest = manifest
        self._run = run
        self._patience = patience
        self._pool = ThreadPoolExecutor(1, "rs-upload")
        self._pending: dict[str, Future[None]] = {}
        self._copier = Copier(store.store, self.job, {})
        self._copied: dict[str, Copied] = {}
        self._number = 0
        self._begun = False
        # The stored content, by digest, with the time until which the newest upload needed it; and what that needs now.
        self._needed_at: dict[str, float] = {}
        self._needed: frozenset[str] = frozenset()
        self._tidied = time.monotonic()
        self._swept = False
        self._guard = threading.Lock()

    def of(self, query: str) -> QueryUploads:
        """The uploads of one query, by its folder name."""
        return QueryUploads(self, query)

    def begin(self, query: str) -> None:
        """Begin to upload the planned batch of a query; the earlier uploads of the query have ended."""
        with self._guard:
            self._pending[query] = self._pool.submit(self._try, (query,))

    def wait(self, query: str) -> None:
        """Return when the upload that was begun for a query is stored.

        CheckpointError if it could not be, LeaseLostError if another home has continued this pipeline.
        """
        with self._guard:
            pending = self._pending.pop(query, None)
        if pending is not None:
            pending.result()

    def committed(self) -> None:
        """Remove what is no longer needed, from time to time; called after sinks have accepted a batch of this run."""
        if time.monotonic() - self._tidied > TIDY_EVERY.total_seconds():
            self._tidied = time.monotonic()
            self._pool.submit(self._tidy)

    def begin_again(self) -> None:
        """Let the next upload copy all queries: their checkpoints have changed together, and the manifest with them."""
        self._pool.submit(self._copied.clear).result()

    def finish(self) -> None:
        """Upload all queries as they are after their last batch, and tidy up; errors as in `wait`."""
        self._pool.submit(self._try, tuple(self._manifest().queries)).result()
        # A short run has not done so before. Whatever stays is removed by a later run.
        with suppress(OSError):
            self._pool.submit(self._tidy).result()

    def close(self) -> None:
        """Wait for the upload in progress; no other one begins."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _try(self, queries: Iterable[str]) -> None:
        attempts = Retrying(
            retry=retry_if_not_exception_type(RsError),
            stop=stop_after_delay(self._patience),
            wait=wait_random_exponential(max=2),
            reraise=True,
        )
        try:
            attempts(self._upload, queries)
        except RsError:
            raise
        except Exception as error:
            reason = self.uploads.store.reason(error) if isinstance(error, OSError) else type(error).__name__
            raise CheckpointError(
                f"the checkpoint cannot be uploaded: {reason}",
                remedy="check the store of the savepoints and its permissions; the batch is computed again",
                store=self.uploads.store.address,
            ) from error

    def _upload(self, queries: Iterable[str]) -> None:
        """Copy what is new of `queries`, and of others that this run has not copied yet; then write the manifest."""
        self._refuse_outranked()
        if not self._begun:
            self._recall()
        manifest = self._manifest()
        for folder, stateful in queries_of(self.job, manifest).items():
            if folder.name in queries or folder.name not in self._copied:
                self._copied[folder.name] = self._copy(folder, stateful=stateful)
        self._copied = {name: copied for name, copied in self._copied.items() if name in manifest.queries}
        content = self._sealed(manifest)
        self.uploads.save(UploadId(self._run.token, self._number + 1), content)
        # Whoever has not read this upload has left a mark before.
        self._refuse_outranked()
        self._number += 1
        self._copier.remember(content.files)
        before, self._needed = self._needed, frozenset(file.sha256 for file in content.files)
        self._needed_at |= dict.fromkeys(before | self._needed, time.monotonic())

    def _refuse_outranked(self) -> None:
        above = self.uploads.outranked(self._run)
        if above:
            raise LeaseLostError(
                f"{self._subject.namespace}.{self._subject.job} was continued from its uploads in another home",
                remedy="stop one of them; the rows of this batch were not written",
                token=above,
            )

    def _recall(self) -> None:
        """Begin with the files of the newest upload, as far as their content is still in the store."""
        newest, there = self.uploads.newest(), self.uploads.store.objects()
        known = newest.content.files if newest is not None else ()
        stored = [f for f in known if there.get(self.uploads.store.object_path(f.sha256)) == f.size_bytes]
        self._copier.remember(stored)
        self._begun = True

    def _copy(self, folder: Path, *, stateful: bool) -> Copied:
        copied = self._copier.query(folder.name, partial(list_upload, self.job, folder, stateful=stateful))
        held = tuple(self._held(folder, copied.last + 1))
        return replace(copied, files=(*copied.files, *held))

    def _held(self, folder: Path, batch: int) -> Iterator[SavedFile]:
        """Copies of the dimension versions of a batch, which are outside of the job's folder."""
        for step, version in sorted(DimensionNotes.load(folder).of(batch).items()):
            place = f"{folder.relative_to(self.job).as_posix()}/{HELD}/{step}/{version}"
            for file in sorted(path for path in (self._dimensions / step / version).iterdir() if path.is_file()):
                found = file.stat()
                yield self._copier.one_of(file, Listed(f"{place}/{file.name}", found.st_size, found.st_mtime_ns))

    def _sealed(self, manifest: Manifest) -> Savepoint:
        files = tuple(sorted((f for copy in self._copied.values() for f in copy.files), key=lambda file: file.path))
        return seal(
            **asdict(self._subject),
            pipeline_id=manifest.pipeline_id,
            generation=manifest.generation,
            batches={query: copy.last for query, copy in self._copied.items()},
            created_at=datetime.now(UTC),
            files=files,
            manifest=orjson.loads(orjson.dumps(manifest.body())),
            bytes_total=sum(file.size_bytes for file in files),
            bytes_new=0,
            origin=str(self.job),
        )

    def _tidy(self) -> None:
        """Remove old manifests, and content that none of the kept ones needs; nothing if this run is outranked."""
        if self.uploads.outranked(self._run):
            return
        self.uploads.remove(self.uploads.ids()[:-KEPT])
        self.uploads.remove(each for each in self.uploads.marks() if each < self._run)
        store, now = self.uploads.store, time.monotonic()
        needed = {file.sha256 for copied in self._copied.values() for file in copied.files}
        old = {sha for sha, at in self._needed_at.items() if now - at > READ_WITHIN.total_seconds()} - needed
        for sha in old:
            store.remove_file(store.object_path(sha))
            del self._needed_at[sha]
        if not self._swept:
            self._swept = True
            self._sweep(needed | self._needed_at.keys())

    def _sweep(self, needed: Iterable[str]) -> None:
        """Remove content that killed runs have left."""
        store, paths = self.uploads.store, {self.uploads.store.object_path(sha) for sha in needed}
        before = datetime.now(UTC) - LEFT_OVER
        for path in [*(path for path in store.objects() if path not in paths), *store.leftovers()]:
            at = store.modified(path)
            if at is not None and at < before:
                store.remove_file(path)


@dataclass(frozen=True, slots=True)
class QueryUploads:
    """The uploads of one query, as its batches use them."""

    uploader: Uploader
    query: str

    def begin(self) -> None:
        """Begin to upload the batch that is planned."""
        self.uploader.begin(self.query)

    def wait(self) -> None:
        """Return when it is stored; errors as in `Uploader.wait`."""
        self.uploader.wait(self.query)

    def settle(self) -> None:
        """Wait until no upload of the query is in progress, whatever became of it."""
        try:
            self.wait()
        except RsError:
            # The next batch is uploaded whole.
            return

    def committed(self) -> None:
        """Tidy up, as sinks have accepted a batch of this run."""
        self.uploader.committed()


def adopt_held(job: Path, dimensions: Path) -> None:
    """Move dimension versions that were restored with a query to the folder of the job's dimensions."""
    for version in sorted(job.glob(f"g*/*/{HELD}/*/*")):
        target = dimensions / version.parent.name / version.name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
            version.rename(target)
    for folder in job.glob(f"g*/*/{HELD}"):
        shutil.rmtree(folder)
