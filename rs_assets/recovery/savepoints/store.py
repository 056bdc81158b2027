"""The store of savepoints: content by digest, and one manifest per savepoint, on any file system."""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, Literal

import fsspec.core  # type: ignore[import-untyped]
import orjson
import psutil
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

from rs_assets.common.names import checked_name
from rs_assets.common.processes import has_ended, started_s, this_host
from rs_assets.common.uri import shown_uri
from rs_assets.errors import CheckpointError, ConfigurationError
from rs_assets.recovery.savepoints.model import Savepoint, checked_id, damaged, decode, encode, newest_first

CHUNK_BYTES = 8 << 20
Work = Literal["taking", "collecting"]
# Protocols of stores in which a written file appears at once and whole.
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})


@dataclass(frozen=True, slots=True)
class Stored:
    """Content in the store; `new` if it was not there before."""

    sha256: str
    size_bytes: int
    new: bool


class SavepointStore:
    """Savepoints at a path or an fsspec URI; created by the first write.

    `objects/ab/abcd...` holds content by its SHA-256, `savepoints/NAMESPACE/JOB/ID.json` the manifests, which are
    written last, `incoming/` files being written, and `work/` the running operations.
    """

    def __init__(self, uri: str) -> None:
        if not uri.strip():
            raise ConfigurationError("the store of savepoints has no address", remedy="give a path or a URI")
        try:
            # A cached listing would hide writes and removals by other processes.
            self.fs, path = fsspec.core.url_to_fs(uri, use_listings_cache=False)
        except (ValueError, ImportError) as error:
            # Python's message for an invalid address has parts of it, and may contain parts of a password.
            raise ConfigurationError(
                "the address of the savepoints cannot be used",
                remedy="give a path or a URI of fsspec, and install the package for it",
                scheme=uri.partition("://")[0] if "://" in uri else "",
            ) from (error if isinstance(error, ImportError) else None)
        except (OSError, EOFError) as error:
            raise CheckpointError(
                f"the savepoints cannot be reached: {getattr(error, 'strerror', None) or type(error).__name__}",
                remedy="try again when their server answers, or give another address (RS_SAVEPOINTS)",
                address=shown_uri(uri),
            ) from None
        self.path = str(path).rstrip("/")
        # On a disk the whole path, which has no secrets.
        self.address = self.path if isinstance(self.fs, LocalFileSystem) else shown_uri(uri).rstrip("/")
        names = self.fs.protocol
        self._whole = bool(_OBJECT_STORES & ({names} if isinstance(names, str) else set(names)))
        self._made: set[str] = set()

    def reason(self, error: OSError) -> str:
        """The reason of a failure of the file system, without secrets: its own message may contain a password."""
        return error.strerror or self.shown(str(error))

    def shown(self, path: str) -> str:
        """A path of the store, or a text with one, without secrets."""
        return path.replace(self.path, self.address) if self.path else path

    # Content.

    def object_path(self, sha256: str) -> str:
        """The path of an object."""
        return f"{self.path}/objects/{sha256[:2]}/{sha256}"

    def put(self, stream: BinaryIO) -> Stored:
        """Store the content of `stream`; content that is in the store already is not written again.

        OSError if it cannot be read or written.
        """
        head = stream.read(CHUNK_BYTES)
        if len(head) == CHUNK_BYTES:
            return self._put_large(head, stream)
        sha256 = hashlib.sha256(head).hexdigest()
        new = not self.has(sha256, len(head))
        if new:
            self.write(self.object_path(sha256), head)
        return Stored(sha256, len(head), new)

    def has(self, sha256: str, size_bytes: int) -> bool:
        """Whether content is in the store with its size; incomplete content is not, and will be written again."""
        try:
            return bool(self.fs.info(self.object_path(sha256))["size"] == size_bytes)
        except FileNotFoundError:
            return False

    def read(self, sha256: str, size_bytes: int) -> Iterator[bytes]:
        """The content in pieces. CheckpointError if it is missing or, at the end, if its digest differs."""
        path = self.object_path(sha256)
        try:
            size = self.fs.info(path)["size"]
        except FileNotFoundError as error:
            raise _spoilt(self.shown(path), "is missing") from error
        if size != size_bytes:
            raise _spoilt(self.shown(path), f"has {size} bytes instead of {size_bytes}")
        digest = hashlib.sha256()
        for start in range(0, size_bytes, CHUNK_BYTES):
            # By ranges, since open files of some file systems share their position.
            block = self.fs.cat_file(path, start=start, end=min(start + CHUNK_BYTES, size_bytes))
            digest.update(block)
            yield block
        if digest.hexdigest() != sha256:
            raise _spoilt(self.shown(path), "has a wrong digest")

    def objects(self) -> dict[str, int]:
        """The sizes of all objects in bytes, by path."""
        return self.files("objects")

    def modified(self, path: str) -> datetime | None:
        """When a file was written, None if it is gone; ConfigurationError if the file system cannot report it."""
        try:
            at: datetime = self.fs.modified(path)
        except FileNotFoundError:
            return None
        except NotImplementedError as error:
            raise ConfigurationError(
                "this kind of store does not report the age of its files",
                remedy="keep savepoints on a disk or in an object store",
                store=self.address,
            ) from error
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    def leftovers(self) -> Iterable[str]:
        """The files of interrupted writers, and of active ones."""
        return self.files("incoming")

    def remove_file(self, path: str) -> None:
        """Remove one file; it may be missing."""
        with suppress(FileNotFoundError):
            self.fs.rm_file(path)

    # Manifests.

    def save(self, savepoint: Savepoint) -> None:
        """Write the manifest, after all of its content is stored."""
        path = self._manifest(savepoint.namespace, savepoint.job, savepoint.id)
        self.write(path, encode(savepoint))

    def load(self, namespace: str, job: str, savepoint_id: str) -> Savepoint:
        """One savepoint; CheckpointError if there is none with that id or its manifest is damaged."""
        path = self._manifest(namespace, job, savepoint_id)
        try:
            data = self.fs.cat_file(path)
        except FileNotFoundError as error:
            raise CheckpointError(
                f"there is no savepoint {savepoint_id} of {namespace}.{job}",
                remedy="list the savepoints to see which there are",
                file=self.shown(path),
            ) from error
        savepoint = decode(data, self.shown(path))
        if (savepoint.namespace, savepoint.job, savepoint.id) != (namespace, job, savepoint_id):
            raise damaged(self.shown(path))
        return savepoint

    def savepoints(self, namespace: str, job: str) -> tuple[Savepoint, ...]:
        """All savepoints of a job, of any pipeline, newest first; CheckpointError if one is damaged."""
        return newest_first(self.load(namespace, job, each) for each in self.ids(namespace, job))

    def ids(self, namespace: str, job: str) -> tuple[str, ...]:
        """The ids of a job's savepoints, newest first by the clock of their writers, without reading them."""
        folder = f"savepoints/{checked_name(namespace, what='namespace')}/{checked_name(job, what='job')}"
        return tuple(sorted((_id(path) for path in self.files(folder) if _id(path)), reverse=True))

    def everything(self) -> Iterator[Savepoint]:
        """The savepoints of all jobs; CheckpointError if one is damaged."""
        for path in self.files("savepoints"):
            match path.removeprefix(f"{self.path}/savepoints/").split("/"):
                case [namespace, job, _] if _id(path):
                    yield self.load(namespace, job, _id(path))

    def remove(self, savepoint: Savepoint) -> None:
        """Remove the manifest; its content stays until garbage is collected."""
        self.remove_file(self._manifest(savepoint.namespace, savepoint.job, savepoint.id))

    def _manifest(self, namespace: str, job: str, savepoint_id: str) -> str:
        names = f"{checked_name(namespace, what='namespace')}/{checked_name(job, what='job')}"
        return f"{self.path}/savepoints/{names}/{checked_id(savepoint_id)}.json"

    # Running operations: content may not be removed while a savepoint relies on it, and vice versa.

    @contextmanager
    def announced(self, work: Work) -> Iterator[None]:
        """Announce an operation on the store to other processes, during the block."""
        path = f"{self.path}/work/{work}-{uuid.uuid4().hex}"
        me = {"host": this_host(), "pid": os.getpid(), "process_started": started_s(psutil.Process())}
        self.write(path, orjson.dumps(me))
        try:
            yield
        finally:
            self.remove_file(path)

    def at_work(self, work: Work, *, within: timedelta) -> bool:
        """Whether `work` is announced and not ended.

        Work that is older than `within` was killed, and so was that of a process of this machine which is gone.
        """
        since = datetime.now(UTC) - within
        announced = [(path, self.modified(path)) for path in self.files("work") if f"/{work}-" in path]
        return any(at is not None and at > since and not self._killed(path) for path, at in announced)

    def _killed(self, path: str) -> bool:
        """Whether the process of an announcement is known to be gone."""
        try:
            who = orjson.loads(self.fs.cat_file(path) or b"{}")
        except FileNotFoundError:
            return True
        return bool(who) and has_ended(who["host"], who["pid"], who["process_started"])

    # Files.

    def files(self, folder: str) -> dict[str, int]:
        """The sizes in bytes of all files in a folder of the store, by path."""
        found = self.fs.find(f"{self.path}/{folder}", detail=True)
        return {path: int(info["size"] or 0) for path, info in found.items()}

    def _put_large(self, head: bytes, stream: BinaryIO) -> Stored:
        """Hash and write in one pass: only at the end is it known whether the content was there."""
        digest, size = hashlib.sha256(), 0

        def blocks() -> Iterator[bytes]:
            nonlocal size
            block = head
            while block:
                digest.update(block)
                size += len(block)
                yield block
                block = stream.read(CHUNK_BYTES)

        incoming = self._incoming(blocks())
        new = not self.has(digest.hexdigest(), size)
        if new:
            self._move(incoming, self.object_path(digest.hexdigest()))
        else:
            self.remove_file(incoming)
        return Stored(digest.hexdigest(), size, new)

    def write(self, path: str, data: bytes) -> None:
        """Write a small file; readers see it whole, or as it was before. OSError if it cannot be written."""
        if self._whole:
            # One request instead of three: an object appears whole.
            self.fs.pipe_file(path, data)
        else:
            self._move(self._incoming([data]), path)

    def _incoming(self, blocks: Iterable[bytes]) -> str:
        """Write a file under a unique name; it is removed if that fails."""
        path = f"{self.path}/incoming/{uuid.uuid4().hex}"
        self._make_folder(path)
        try:
            with self.fs.open(path, "wb") as file:
                for block in blocks:
                    file.write(block)
                if isinstance(self.fs, LocalFileSystem):
                    file.flush()
                    os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                self.remove_file(path)
            raise
        return path

    def _move(self, incoming: str, path: str) -> None:
        self._make_folder(path)
        self.fs.mv(incoming, path)

    def _make_folder(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        if folder not in self._made:
            self.fs.makedirs(folder, exist_ok=True)
            self._made.add(folder)


def wait_for_collection(store: SavepointStore, *, within: timedelta, patience: timedelta) -> None:
    """Return when no process removes content; CheckpointError if that takes longer than `patience`."""
    pause, waited = threading.Event(), timedelta(0)
    step = timedelta(milliseconds=100)
    while store.at_work("collecting", within=within):
        if waited >= patience:
            raise CheckpointError(
                "old savepoints are being removed from the store",
                remedy="try again in a minute",
                store=store.address,
            )
        pause.wait(step.total_seconds())
        waited += step


def _id(path: str) -> str:
    """The id in the path of a manifest, empty for other files."""
    name = path.rpartition("/")[2].removesuffix(".json")
    try:
        return checked_id(name) if path.endswith(".json") else ""
    except ConfigurationError:
        return ""


def _spoilt(path: str, what: str) -> CheckpointError:
    return CheckpointError(
        f"an object of the savepoint {what}",
        remedy="restore another savepoint, or bring the object back",
        object=path,
    )
