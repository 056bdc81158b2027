"""A copy of state for point lookups, in RocksDB: not the state itself, and only as fresh as its last snapshot."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
import pyarrow as pa
from rocksdict import AccessType, Options, Rdict, WriteBatch

from rs_assets.common.files import write_atomically
from rs_assets.common.scratch import new_folder
from rs_assets.errors import CheckpointError
from rs_assets.operators.state.reader import BATCH, CHANGE, DELETED, KEY, VALUE
from rs_assets.operators.state.snapshot import StateSnapshot

# Rows that are written to RocksDB at a time.
BLOCK_ROWS = 10_000
POINTER = "current.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One row of state: key and value as JSON text, and the batch in which it last changed."""

    key: str
    value: str
    batch_id: int


class ServedState:
    """Reads the copy in `folder`; a context manager. CheckpointError if there is none.

    A concurrent refresh does no harm: the opened copy stays readable.
    """

    def __init__(self, folder: Path) -> None:
        self.facts = _facts(folder)
        if self.facts is None:
            raise CheckpointError(
                "there is no served copy of this state",
                remedy="take a snapshot: rs-assets state NAME STEP --refresh",
                file=folder,
            )
        self._links: Path | None = None
        self._db = self._opened(folder / self.facts["copy"])

    def __enter__(self) -> Self:
        """Nothing more to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the copy."""
        self._db.close()
        if self._links is not None:
            shutil.rmtree(self._links, ignore_errors=True)

    def _opened(self, copy: Path) -> Rdict:
        try:
            return Rdict(str(copy), _options(), access_type=AccessType.read_only())
        except OSError:
            # RocksDB writes its log to the folder that it reads. A folder of links serves where that is not allowed.
            self._links = new_folder("rs-served-")
            _link(copy, self._links)
            return Rdict(str(self._links), _options(), access_type=AccessType.read_only())

    @property
    def batch_id(self) -> int:
        """The batch whose state was copied."""
        assert self.facts is not None  # checked when made
        return int(self.facts[BATCH])

    @property
    def age(self) -> timedelta:
        """How long ago the copy was made."""
        assert self.facts is not None  # checked when made
        return datetime.now(UTC) - datetime.fromisoformat(self.facts["at"])

    def get(self, key: str) -> Lookup | None:
        """The row with this key (JSON text, as in the state), None without one."""
        stored: Any = self._db.get(key.encode())
        return None if stored is None else _lookup(key.encode(), stored)

    def find(self, fields: Mapping[str, str], *, limit: int = 100) -> Iterator[Lookup]:
        """Rows whose key has these fields, nested ones too; scans all rows, up to `limit` finds."""
        found = 0
        entries: Any = self._db.items()
        for key, stored in entries:
            if matches(orjson.loads(key), fields):
                yield _lookup(key, stored)
                found += 1
                if found == limit:
                    return

    def keys(self) -> Iterator[Mapping[str, Any]]:
        """The keys of all rows."""
        entries: Any = self._db.keys()
        return map(orjson.loads, entries)


def refresh(folder: Path, snapshot: StateSnapshot, *, table: Callable[[], pa.Table]) -> None:
    """Bring the copy in `folder` to `snapshot`.

    If the snapshot knows its changes and the copy has the previous version, only those are written. In all other cases
    (a first copy, one that missed a snapshot, a compaction between them) all rows of `table()` are written to a new
    copy, which then replaces the old one.
    """
    facts = _known(folder)
    if facts is not None and facts["version"] == snapshot.version:
        return
    if facts is not None and snapshot.changes is not None and facts["version"] == snapshot.version - 1:
        copy = str(facts["copy"])
        _apply(folder / copy, snapshot.changes)
    else:
        copy = f"v{snapshot.version:08d}"
        shutil.rmtree(folder / copy, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        _fill(folder / copy, table())
    _point(folder, copy, snapshot)
    for old in folder.glob("v*"):
        if old.name != copy:
            shutil.rmtree(old, ignore_errors=True)


def _known(folder: Path) -> dict[str, Any] | None:
    """The facts of the copy, None if there is none that changes can be added to."""
    try:
        facts = _facts(folder)
    except CheckpointError:
        return None
    return facts if facts is not None and (folder / str(facts["copy"])).is_dir() else None


def _apply(folder: Path, changes: pa.Table) -> None:
    with_db = Rdict(str(folder), _options())
    try:
        batch = WriteBatch(raw_mode=True)
        for row in changes.to_pylist():
            if row[CHANGE] == DELETED:
                batch.delete(row[KEY].encode())
            else:
                batch.put(row[KEY].encode(), _stored(row[BATCH], row[VALUE]))
        with_db.write(batch)
    finally:
        with_db.close()


def _fill(folder: Path, table: pa.Table) -> None:
    db = Rdict(str(folder), _options())
    try:
        for block in table.select([KEY, VALUE, BATCH]).to_batches(max_chunksize=BLOCK_ROWS):
            batch = WriteBatch(raw_mode=True)
            for key, value, changed in zip(*(column.to_pylist() for column in block.columns), strict=True):
                batch.put(key.encode(), _stored(changed, value))
            db.write(batch)
        db.flush()
    finally:
        db.close()


def _point(folder: Path, copy: str, snapshot: StateSnapshot) -> None:
    content = {
        "copy": copy,
        "version": snapshot.version,
        BATCH: snapshot.batch_id,
        "rows": snapshot.rows,
        "at": datetime.now(UTC).isoformat(),
    }
    write_atomically(folder / POINTER, orjson.dumps(content))


def _facts(folder: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = orjson.loads((folder / POINTER).read_bytes())
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise CheckpointError(
            f"the served copy of the state cannot be read: {error.strerror}",
            remedy="ask as the user who runs the stream, or let this one read the folder",
            file=folder,
        ) from error
    except (OSError, orjson.JSONDecodeError) as error:
        raise CheckpointError(
            "the served copy of the state is damaged",
            remedy="remove the folder: the next snapshot makes a new one",
            file=folder,
        ) from error
    return content


def _link(copy: Path, links: Path) -> None:
    """Make in `links` what RocksDB reads of a copy."""
    for file in copy.iterdir():
        if file.suffix == ".json":
            shutil.copyfile(file, links / file.name)
        elif not file.name.startswith(("LOG", "LOCK")):
            (links / file.name).symlink_to(file)


def _options() -> Options:
    # Raw: keys and values are bytes; nothing is ever pickled.
    return Options(raw_mode=True)


def _stored(batch_id: int, value: str) -> bytes:
    return b"%d\n%s" % (batch_id, value.encode())


def _lookup(key: bytes, stored: bytes) -> Lookup:
    batch_id, _, value = stored.partition(b"\n")
    return Lookup(key=key.decode(), value=value.decode(), batch_id=int(batch_id))


def matches(key: Mapping[str, Any], fields: Mapping[str, str]) -> bool:
    """Whether a key has these fields, nested ones too; a text as it is, other values as in JSON.

    >>> matches({"page": "/a", "paid": True, "window": {"n": 7}}, {"page": "/a", "paid": "true", "n": "7"})
    True
    """
    known = flat(key)
    return all(name in known and _text(known[name]) == wanted for name, wanted in fields.items())


def flat(key: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a key, and those in them."""
    return {**key, **{n: v for nested in key.values() if isinstance(nested, dict) for n, v in nested.items()}}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
