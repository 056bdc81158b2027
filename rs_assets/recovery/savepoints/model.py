"""The model of a savepoint: the files of a job's checkpoints at one moment, by their digests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cmp_to_key
from typing import Any

import orjson

from rs_assets.errors import CheckpointError, ConfigurationError

VERSION = 1
_ID = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-b[0-9]{6,18}-[0-9a-f]{6}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
GENERATION = re.compile(r"g[0-9]{4,}")
# Derived fields, which the digest does not cover.
_DERIVED = frozenset({"id", "digest", "version"})


@dataclass(frozen=True, slots=True)
class SavedFile:
    """One file: its path relative to the job's folder (with /), digest and size of its content, and its time (ns).

    ValueError for a path outside a generation's folder, and for an invalid digest or size.
    """

    path: str
    sha256: str
    size_bytes: int
    mtime_ns: int

    def __post_init__(self) -> None:
        parts = self.path.split("/")
        if len(parts) < 2 or not GENERATION.fullmatch(parts[0]) or {"", ".", ".."} & set(parts):
            raise ValueError(self.path)
        if "\0" in self.path or "\\" in self.path or not _SHA256.fullmatch(self.sha256):
            raise ValueError(self.path)
        if type(self.size_bytes) is not int or type(self.mtime_ns) is not int or self.size_bytes < 0:
            raise ValueError(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """A job's checkpoints at one moment.

    `batches` has the last committed batch of each query, -1 for none. `manifest` is the body of the job's manifest.
    `bytes_new` was copied, the rest was in the store. `origin` is the job's folder at that time, since Spark's logs
    name files in it. `digest` covers everything but the id, which is made from it.
    """

    id: str
    namespace: str
    job: str
    pipeline_id: str
    generation: int
    fingerprint: str
    batches: Mapping[str, int]
    created_at: datetime
    note: str
    run_id: str
    files: tuple[SavedFile, ...]
    manifest: Mapping[str, Any]
    bytes_total: int
    bytes_new: int
    origin: str
    version: int
    digest: str


def stamp(at: datetime) -> str:
    """A time as text in names: UTC, in sort order.

    >>> stamp(datetime(2026, 11, 21, 0, 45, 12, 123456, tzinfo=UTC))
    '20261121T004512.123456Z'
    """
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%S.%f}Z"


def newest_first(savepoints: Iterable[Savepoint]) -> tuple[Savepoint, ...]:
    """The savepoints in reverse order of taking; independent of clock changes.

    Of one pipeline, the later one has later batches, since generations and batches only grow. Between savepoints
    without progress, and of different pipelines, the clock decides.
    """
    return tuple(sorted(savepoints, key=cmp_to_key(_compare), reverse=True))


def _compare(one: Savepoint, other: Savepoint) -> int:
    """Less than 0 if `one` was taken before `other`."""
    if one.pipeline_id == other.pipeline_id:
        both = one.batches.keys() & other.batches.keys()
        steps = {
            _place(one, query) > _place(other, query) for query in both if _place(one, query) != _place(other, query)
        }
        if len(steps) == 1:
            return 1 if steps.pop() else -1
    return (one.created_at > other.created_at) - (one.created_at < other.created_at)


def _place(savepoint: Savepoint, query: str) -> tuple[int, int]:
    """The position of a query: its generation and its last batch."""
    facts = savepoint.manifest.get("queries", {}).get(query, {})
    return int(facts.get("generation", savepoint.generation)), savepoint.batches[query]


def checked_id(savepoint_id: str) -> str:
    """Return a savepoint's id; ConfigurationError if it is invalid, so that it cannot name another file."""
    if not _ID.fullmatch(savepoint_id):
        raise ConfigurationError(
            f"{savepoint_id!r} is not the id of a savepoint",
            remedy="an id looks like 20261121T004512.123456Z-b000042-0a1b2c; list the savepoints to see them",
        )
    return savepoint_id


def seal(**content: Any) -> Savepoint:
    """The savepoint of `content` (all fields that are not derived), with its digest and its id."""
    body = _plain(content)
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    latest = max(max(content["batches"].values(), default=0), 0)
    name = f"{stamp(content['created_at'])}-b{latest:06d}-{digest[:6]}"
    return Savepoint(**content, id=name, version=VERSION, digest=digest)


def encode(savepoint: Savepoint) -> bytes:
    """The stored form of a savepoint, with its version and its digest."""
    content = {f.name: getattr(savepoint, f.name) for f in fields(savepoint) if f.name not in _DERIVED}
    return orjson.dumps({"version": savepoint.version, "sha256": savepoint.digest, "savepoint": _plain(content)})


def decode(data: bytes, file: str) -> Savepoint:
    """The savepoint that `encode` wrote; CheckpointError that names `file` if it is damaged or of another version."""
    try:
        stored = orjson.loads(data)
        version = stored["version"]
        if version != VERSION:
            raise CheckpointError(
                f"the savepoint has version {version}, this release reads {VERSION}",
                remedy="restore it with the release that took it",
                file=file,
            )
        body = stored["savepoint"]
        savepoint = seal(**_parsed(body))
        sound = savepoint.digest == stored["sha256"]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(file) from error
    if not sound:
        raise damaged(file)
    return savepoint


def damaged(file: str) -> CheckpointError:
    """The error for a savepoint with a damaged manifest."""
    return CheckpointError(
        "the manifest of the savepoint is damaged", remedy="use another savepoint, and remove this file", file=file
    )


def _plain(content: Mapping[str, Any]) -> dict[str, Any]:
    rows = [[f.path, f.sha256, f.size_bytes, f.mtime_ns] for f in content["files"]]
    return {
        **content,
        "created_at": content["created_at"].astimezone(UTC).isoformat(),
        "batches": dict(content["batches"]),
        "manifest": dict(content["manifest"]),
        "files": rows,
    }


def _parsed(body: Mapping[str, Any]) -> dict[str, Any]:
    wanted = {f.name for f in fields(Savepoint)} - _DERIVED
    numbers = [body["generation"], body["bytes_total"], body["bytes_new"], *body["batches"].values()]
    texts = [body[name] for name in ("namespace", "job", "pipeline_id", "fingerprint", "note", "run_id", "origin")]
    if set(body) != wanted or not all(type(n) is int for n in numbers) or not all(isinstance(t, str) for t in texts):
        raise ValueError(sorted(body))
    created_at = datetime.fromisoformat(body["created_at"])
    # Python reads any character between date and time.
    if created_at.isoformat() != body["created_at"]:
        raise ValueError(body["created_at"])
    return {
        **body,
        "created_at": created_at,
        "manifest": dict(body["manifest"]),
        "files": tuple(SavedFile(*row) for row in body["files"]),
    }
