"""Compares whole files with those that were read: the same, another one, or unknown.

A file that was read is identified by its path, its size and its modification time, small ones also by a digest. So a
project may be moved with its input, while a renamed file is never taken for a new one.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePath
from urllib.parse import quote

from rs_assets.checkpoint.log import PlannedFile
from rs_assets.common.files import modified_ms
from rs_assets.connectors.files.codecs import CODECS
from rs_assets.connectors.source import Known

# For larger files no digest is stored: their changes show in the time alone.
DIGEST_BYTES = 1 << 20
# The manifest stores one number for a file: its size, and in the bits above it a digest, 0 for none.
SIZE_BITS, DIGESTS = 44, (1 << 19) - 1
# The characters that Java leaves unescaped in the path of a URI.
PLAIN = "/_-!.~'()*,;:$&+=@"
USUAL = re.compile(r"[A-Za-z0-9/_.=-]*")


class Same(Enum):
    """The result of comparing two files."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The stored facts about a file that was read.

    >>> FileFacts.of(FileFacts(9, 5).number), FileFacts.of(9)
    (FileFacts(size=9, digest=5), FileFacts(size=9, digest=0))
    """

    size: int
    digest: int = 0

    @property
    def number(self) -> int:
        """Both in one number."""
        return self.size | self.digest << SIZE_BITS

    @classmethod
    def of(cls, number: int) -> FileFacts:
        """The facts in `number`; before there were digests it was the size."""
        return cls(number & (1 << SIZE_BITS) - 1, number >> SIZE_BITS)

    @classmethod
    def read(cls, file: Path) -> FileFacts:
        """The facts to store about an existing file."""
        size = file.stat().st_size
        return cls(size, digest_of(file) if size <= DIGEST_BYTES else 0)


def digest_of(file: Path | str) -> int:
    """A digest of all bytes, never 0."""
    return zlib.crc32(Path(file).read_bytes()) % DIGESTS + 1


def compared(file: Path | str, facts: os.stat_result, planned_ms: int | None, number: int | None) -> Same:
    """Whether `file` is the one that was planned at a time and stored as a number, as far as these are known."""
    noted = FileFacts.of(number) if number is not None else None
    if noted is not None and noted.size != facts.st_size:
        return Same.NO
    if planned_ms is None or modified_ms(facts) == planned_ms:
        return Same.YES
    if noted is None or not noted.digest:
        return Same.UNKNOWN
    return Same.YES if digest_of(file) == noted.digest else Same.NO


class Former:
    """Files that were planned, indexed by attributes that survive renaming or moving."""

    __slots__ = ("_alike", "_by_name", "_known", "_planned")

    def __init__(self, planned: Mapping[str, PlannedFile], known: Known) -> None:
        self._known = dict(known)
        self._planned = dict[str, PlannedFile]()
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._alike: dict[tuple[int, object], list[str]] = defaultdict(list)
        self.add(planned, known)

    def add(self, planned: Mapping[str, PlannedFile], known: Known) -> None:
        """Add more files, and the stored facts about them."""
        self._known.update(known)
        for path, file in planned.items():
            name = PurePath(path).name
            if path not in self._planned:
                self._by_name[name].append(path)
                self._alike[file.modified_ms, _unpacked(name)].append(path)
            if path in known:
                self._alike[file.modified_ms, FileFacts.of(known[path]).size].append(path)
            self._planned[path] = file

    def __len__(self) -> int:
        return len(self._planned)

    def moved(self, file: Path, facts: os.stat_result, below: Path) -> Moved | None:
        """The file that was read elsewhere under the same name relative to `below`; None if there is none."""
        name = file.relative_to(below).as_posix() if file.is_relative_to(below) else file.name
        for path in self._by_name.get(file.name, ()):
            if path.endswith(f"/{name}"):
                same = compared(file, facts, self._planned[path].modified_ms, self._known.get(path))
                if same is not Same.NO:
                    return Moved(self._planned[path], same)
        return None

    def renamed(self, file: Path, facts: os.stat_result, gone: dict[object, list[str]]) -> PlannedFile | None:
        """The missing file that probably became `file`: under a new name, packed or unpacked.

        `gone` is a cache shared by all files that are checked together.
        """
        time = modified_ms(facts)
        for key in ((time, facts.st_size), (time, _unpacked(file.name))):
            if key not in self._alike:
                continue
            if key not in gone:
                gone[key] = [path for path in self._alike[key] if not os.path.exists(path)]  # noqa: PTH110  many files
            found = next((path for path in gone[key] if path != str(file) and self._alike_in(key, path, file)), None)
            if found is not None:
                return self._planned[found]
        return None

    def _alike_in(self, key: tuple[int, object], path: str, file: Path) -> bool:
        """Whether two files of one size have the same digest, as far as known; matching names suffice."""
        if isinstance(key[1], str):
            return PurePath(path).suffix != file.suffix
        digest = FileFacts.of(self._known[path]).digest
        return not digest or digest == digest_of(file)


@dataclass(frozen=True, slots=True)
class Moved:
    """A file that was read elsewhere, and whether it is certainly the same."""

    former: PlannedFile
    same: Same

    def entry(self, file: Path, facts: os.stat_result) -> PlannedFile | None:
        """The entry that Spark would have written for `file`; None if its notation of such a path is unknown."""
        former, here = self.former.place, str(file)
        prefix = self.former.path.removesuffix(as_uri_path(former))
        if self.same is not Same.YES or prefix not in ("file:", "file://"):
            return None
        return PlannedFile(prefix + as_uri_path(here), modified_ms(facts), self.former.batch)


def as_uri_path(path: str) -> str:
    """A path in Java's URI notation.

    >>> as_uri_path("/data/a b%1é.csv")
    '/data/a%20b%251é.csv'
    """
    if USUAL.fullmatch(path):
        return path
    return "".join(c if ord(c) > 127 and c.isprintable() else quote(c, safe=PLAIN) for c in path)


def _unpacked(name: str) -> str:
    return PurePath(name).stem if PurePath(name).suffix in CODECS else name
