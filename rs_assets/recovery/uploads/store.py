"""The uploaded checkpoints of one pipeline: content by digest, a manifest per upload, and a sign of life of the run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import NamedTuple

import orjson

from rs_assets.common.names import checked_name
from rs_assets.recovery.savepoints.model import Savepoint, decode, encode
from rs_assets.recovery.savepoints.store import SavepointStore

FOLDER = "uploads"
_NAME = re.compile(r"(\d{12,})-(\d{6,})\.json")
_MARK = re.compile(r"(\d{12,})-([0-9a-f]{16})\.run")


class UploadId(NamedTuple):
    """The place of an upload among those of its pipeline: the fencing token of its run, and its number in that run.

    >>> UploadId(3, 1) > UploadId(2, 900)
    True
    """

    token: int
    number: int

    @property
    def file(self) -> str:
        """The name of its manifest.

        >>> UploadId(3, 12).file
        '000000000003-000012.json'
        """
        return f"{self.token:012d}-{self.number:06d}.json"


class RunMark(NamedTuple):
    """A run that uploads: its fencing token, and an id for runs of two homes with the same token; the greatest rules.

    >>> RunMark(3, "8f14e45fceea167a").file
    '000000000003-8f14e45fceea167a.run'
    """

    token: int
    run: str

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.token:012d}-{self.run}.run"


class Upload(NamedTuple):
    """An uploaded checkpoint, as a savepoint; its queries may have planned the batch after their last committed one."""

    id: UploadId
    content: Savepoint


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOfLife:
    """The run that uploads, as it says from time to time; `beat` counts. `ended`: it uploads nothing more."""

    token: int
    home: str
    beat: int
    ttl_s: float
    ended: bool = False


class UploadStore:
    """The uploads of one pipeline, in a store of savepoints of their own: `uploads/NAMESPACE/JOB/PIPELINE_ID`.

    The removal of savepoints leaves them alone.
    """

    def __init__(self, uri: str, namespace: str, job: str, pipeline_id: str) -> None:
        self.store = SavepointStore(f"{uri.rstrip('/')}/{_folder(namespace, job)}/{pipeline_id}")

    def save(self, upload: UploadId, content: Savepoint) -> None:
        """Write the manifest of an upload, after all of its content is stored."""
        self.store.write(self._path(upload), encode(content))

    def ids(self) -> tuple[UploadId, ...]:
        """The uploads, oldest first: by fencing token, so independent of clocks."""
        return self._ids(self._names())

    def newest(self) -> Upload | None:
        """The newest upload, None without one; CheckpointError if its manifest is damaged."""
        while ids := self.ids():
            path = self._path(ids[-1])
            # A run that goes on removes old ones meanwhile.
            with suppress(FileNotFoundError):
                return Upload(ids[-1], decode(self.store.fs.cat_file(path), self.store.shown(path)))
        return None

    def remove(self, files: Iterable[UploadId | RunMark]) -> None:
        """Remove manifests and marks; the content of uploads stays."""
        for file in files:
            self.store.remove_file(self._path(file))

    def mark(self, run: RunMark) -> None:
        """Write the mark of a run: a run below it finds that it is outranked, before and after it uploads."""
        self.store.write(self._path(run), b"")

    def marks(self) -> tuple[RunMark, ...]:
        """The marks, least first."""
        return self._marks(self._names())

    def token(self) -> int:
        """The greatest token of a run or an upload, 0 without one."""
        names = self._names()
        tokens = [*(each.token for each in self._ids(names)), *(each.token for each in self._marks(names))]
        return max(tokens, default=0)

    def outranked(self, mine: RunMark) -> int:
        """The token of the run that outranks `mine`, 0 if none does."""
        names = self._names()
        above = [each.token for each in self._ids(names) if each.token > mine.token]
        return max([*above, *(each.token for each in self._marks(names) if each > mine)], default=0)

    def sign(self, life: SignOfLife) -> None:
        """Replace the sign of life."""
        self.store.write(self._alive, orjson.dumps(asdict(life)))

    def life(self) -> SignOfLife | None:
        """The last sign of life, None if there is none that can be read."""
        with suppress(FileNotFoundError, ValueError, TypeError):
            return SignOfLife(**orjson.loads(self.store.fs.cat_file(self._alive)))
        return None

    @property
    def _alive(self) -> str:
        return f"{self.store.path}/alive.json"

    def _path(self, named: UploadId | RunMark) -> str:
        return f"{self.store.path}/manifests/{named.file}"

    def _names(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.store.files("manifests")]

    @staticmethod
    def _ids(names: Iterable[str]) -> tuple[UploadId, ...]:
        return tuple(sorted(UploadId(int(m[1]), int(m[2])) for m in map(_NAME.fullmatch, names) if m))

    @staticmethod
    def _marks(names: Iterable[str]) -> tuple[RunMark, ...]:
        return tuple(sorted(RunMark(int(m[1]), m[2]) for m in map(_MARK.fullmatch, names) if m))


def pipelines_of(uri: str, namespace: str, job: str) -> frozenset[str]:
    """The ids of the pipelines of this name that have uploads in the store at `uri`."""
    store = SavepointStore(f"{uri.rstrip('/')}/{_folder(namespace, job)}")
    try:
        found = (str(path).rstrip("/").rpartition("/")[2] for path in store.fs.ls(store.path, detail=False))
        return frozenset(name for name in found if UploadStore(uri, namespace, job, name).ids())
    except FileNotFoundError:
        return frozenset()


def _folder(namespace: str, job: str) -> str:
    return f"{FOLDER}/{checked_name(namespace, what='namespace')}/{checked_name(job, what='job')}"
