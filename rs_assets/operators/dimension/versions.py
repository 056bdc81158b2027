"""The versions of a dimension on disk: immutable folders, each complete before it gets its name."""

from __future__ import annotations

import hashlib
import re
import shutil
import uuid
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pyarrow as pa

from rs_assets.common.files import sync
from rs_assets.errors import CheckpointError
from rs_assets.operators.dimension.keys import Key
from rs_assets.operators.dimension.ranges import build

FACTS = "version.json"
HIDDEN = "."
# The folder of versions that no run has used yet: those of code that computes recorded batches again.
ASIDE = ".code"
# The number of a version, from the name of its folder; other names are not versions.
NAMED = re.compile(r"v(\d{6,})-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The facts of a version. `digest` covers its rows, `mark` identifies the state of the origin when it was loaded.

    `shape` are its fields and keys, `origin` its origin: other versions may replace it for a batch only if they have
    the same shape. `bytes` is the size of its files, `loaded_at` is ISO text in UTC.
    """

    number: int
    digest: str
    shape: str
    origin: str
    rows: int
    bytes: int
    loaded_at: str
    mark: str | None = None

    @property
    def name(self) -> str:
        """The name of its folder, which records refer to."""
        return f"v{self.number:06d}-{self.digest[:12]}"


def shape_of(schema: pa.Schema, keys: Sequence[Key]) -> str:
    """The fields of a version, and its keys.

    >>> shape_of(pa.schema([("user", pa.string()), ("age", pa.int32())]), ["user"])
    'user string, age int32 by user'
    """
    return f"{', '.join(f'{field.name} {field.type}' for field in schema)} by {', '.join(map(str, keys))}"


@dataclass(frozen=True, slots=True)
class VersionStore:
    """The versions in the folder `root`; one process at a time may add and remove."""

    root: Path

    def folder(self, name: str) -> Path:
        """The folder of a version."""
        return self.root / name

    def named(self, name: str) -> Version | None:
        """The version of this name, None if it does not exist or its facts cannot be read."""
        try:
            facts = orjson.loads((self.folder(name) / FACTS).read_bytes())
            found = Version(**facts)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if found.name == name and _size(self.folder(name)) == found.bytes else None

    def newest(self, shape: str, origin: str) -> Version | None:
        """The latest version of this shape and origin."""
        found = (self.named(name) for name in reversed(self._names()))
        return next((v for v in found if v is not None and (v.shape, v.origin) == (shape, origin)), None)

    def of_code(self, table: pa.Table, keys: Sequence[Key], *, origin: str) -> tuple[VersionStore, Version]:
        """The version with the rows of `table`, and where it is: here, or aside under the number it would have here.

        Nothing is added here, since only the process of a run does that. CheckpointError if it cannot be written aside.
        """
        after, aside = self._last, VersionStore(self.root / ASIDE)
        version = aside.add(table, keys, origin=origin, after=after)
        known = (self.named(name) for name in reversed(self._names()) if name.endswith(f"-{version.digest[:12]}"))
        return next(((self, found) for found in known if found is not None), (aside, version))

    def add(
        self, table: pa.Table, keys: Sequence[Key], *, origin: str = "", mark: str | None = None, after: int = 0
    ) -> Version:
        """Store `table` as a version; the newest one is returned instead if it has the same rows.

        Its number is greater than `after`. A killed process leaves no version. CheckpointError if it cannot be written.
        """
        folder = self.root / f"{HIDDEN}{uuid.uuid4().hex}.tmp"
        try:
            folder.mkdir(parents=True, mode=0o750)
            return self._added(folder, table, keys, origin, mark, after)
        except OSError as error:
            raise CheckpointError(
                f"a version of a dimension cannot be written: {error.strerror or error}",
                remedy="check the disk and the permissions",
                file=self.root,
            ) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _added(
        self, folder: Path, table: pa.Table, keys: Sequence[Key], origin: str, mark: str | None, after: int
    ) -> Version:
        rows, shape = build(table, keys, folder), shape_of(table.schema, keys)
        digest, newest = _digest(folder), self.newest(shape, origin)
        if newest is not None and newest.digest == digest and newest.number > after:
            return newest
        version = Version(
            number=max(self._last, after) + 1,
            digest=digest,
            shape=shape,
            origin=origin,
            rows=rows,
            bytes=_size(folder),
            loaded_at=datetime.now(UTC).isoformat(timespec="seconds"),
            mark=mark,
        )
        (folder / FACTS).write_bytes(orjson.dumps(asdict(version)))
        for path in (*folder.rglob("*"), folder):
            sync(path)
        folder.rename(self.folder(version.name))
        sync(self.root)
        return version

    def prune(self, needed: Collection[str]) -> tuple[str, ...]:
        """Remove all versions but the `needed` ones; returns the names of the removed ones."""
        gone = tuple(name for name in self._names() if name not in needed)
        for name in gone:
            # Renamed first: a half removed folder must not look like a version.
            hidden = self.folder(f"{HIDDEN}{name}.tmp")
            self.folder(name).rename(hidden)
            shutil.rmtree(hidden, ignore_errors=True)
        return gone

    def sweep(self) -> None:
        """Remove the files of killed processes."""
        for folder in self.root.glob(f"{HIDDEN}*.tmp"):
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def _last(self) -> int:
        return max(map(_number, self._names()), default=0)

    def _names(self) -> list[str]:
        """In the order of their numbers, which may differ in length."""
        there = (path.name for path in self.root.glob("v*-*") if NAMED.fullmatch(path.name) and path.is_dir())
        return sorted(there, key=lambda name: (_number(name), name))


def _number(name: str) -> int:
    return int(name[1:].partition("-")[0])


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in _files(folder):
        with file.open("rb") as opened:
            while block := opened.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _size(folder: Path) -> int:
    """The size of its files, without the facts."""
    return sum(file.stat().st_size for file in _files(folder) if file.name != FACTS)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
