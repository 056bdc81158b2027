"""Lines of growing files: which file is which, what is new in it, and reading it; knows nothing of Spark.

A *split* is one incarnation of one file. Its identity is device, inode and a hash of the bytes consumed first, so a
renamed file goes on under its split, and a truncated or replaced one begins a new one. A *plan* turns one set of
offsets into the next; a `LineRange` is what lies between two plans in one split; `read_range` gives it as Arrow
batches, or raises if the file is not what was planned.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from resources.errors import CheckpointError, ConfigurationError, DataLossError, SourceReadError

VERSION = 1
# Bytes hashed to know a file again: more than any log's common header line, less than one page to read.
HEAD_BYTES = 1024
# Bytes per read: 10,000 lines of 100 bytes, enough to make numpy's fixed cost per block vanish.
BLOCK_BYTES = 1 << 20
# Archives are scanned in smaller steps, so that "the last good line" of a damaged one is close to the damage.
ARCHIVE_BLOCK_BYTES = 1 << 16
# Rows per Arrow batch, below Spark's own default of 10,000.
BATCH_ROWS = 8192
# A longer line is cut. Ten times what brokers accept as a message, and a value of this size, held up to six times
# (worker, socket, JVM, parser), still fits two cores in a heap of 512 MB.
MAX_LINE_BYTES = 10 << 20
# Ranges above this are read by several tasks.
PART_BYTES = 32 << 20
# Unread bytes, of all splits together, up to which the lag is counted in lines: about 10 ms.
LAG_SCAN_BYTES = 16 << 20
BOM = b"\xef\xbb\xbf"
CODECS = {".gz": "gzip", ".zst": "zstd"}
SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("line", pa.int64()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("value", pa.binary()),
    ]
)

# Files: which is which, and their bytes


class FileKey(NamedTuple):
    """Device and inode: one file, whatever its name."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which file it is: its key, and a hash of its first `head_bytes` bytes.

    >>> Identity.parse("5-7-0-").key
    FileKey(device=5, inode=7)
    """

    key: FileKey
    head_bytes: int
    head_hash: str

    @classmethod
    def of(cls, file: BinaryIO, count: int) -> Identity:
        """The identity of an open file by its first `count` bytes, at most HEAD_BYTES."""
        count = min(count, HEAD_BYTES)
        return cls(key=_key(os.fstat(file.fileno())), head_bytes=count, head_hash=_head_hash(file, count))

    @classmethod
    def parse(cls, text: str) -> Identity:
        """The identity that `str` wrote; CheckpointError for anything else."""
        try:
            device, inode, count, head_hash = text.split("-")
            return cls(key=FileKey(int(device), int(inode)), head_bytes=int(count), head_hash=head_hash)
        except ValueError:
            raise CheckpointError(f"{text!r} is not a file identity") from None

    def __str__(self) -> str:
        return f"{self.key.device}-{self.key.inode}-{self.head_bytes}-{self.head_hash}"

    def fits(self, key: FileKey) -> bool:
        """Whether a file of that key may be this one; after a reboot the same disk may have another device number."""
        return key.inode == self.key.inode and (key.device == self.key.device or self.head_bytes > 0)

    def same_head(self, file: BinaryIO) -> bool:
        """Whether the file still begins with the bytes that were seen."""
        return _head_hash(file, self.head_bytes) == self.head_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A file as it was found: where it really is (links followed), which it is, how long, how old."""

    file: Path
    key: FileKey
    size: int
    mtime_ns: int


class LineCounter:
    r"""Counts lines in blocks of bytes: `line` whole lines end at `byte`, and `seen` bytes were looked at.

    >>> counter = LineCounter(line=0, byte=0, rows=2)
    >>> counter.feed(b"one\ntwo\nthree\n"), counter.line, counter.byte
    (True, 2, 8)
    """

    __slots__ = ("byte", "line", "rows", "seen")

    def __init__(self, *, line: int, byte: int, rows: int | None = None) -> None:
        self.line = line
        self.byte = byte
        self.rows = rows
        self.seen = byte

    def feed(self, block: bytes) -> bool:
        """Count a block; True when the row limit is reached and no more is wanted."""
        newlines = np.frombuffer(block, np.uint8) == ord("\n")
        count = int(np.count_nonzero(newlines))
        if self.rows is not None and count >= self.rows:
            count = self.rows
            last = int(np.flatnonzero(newlines)[count - 1])
        else:
            last = block.rfind(b"\n")
        if count:
            self.line += count
            self.byte = self.seen + last + 1
        self.seen += len(block)
        if self.rows is None:
            return False
        self.rows -= count
        return self.rows == 0

    def end_of_input(self) -> None:
        """There is no more: what follows the last newline is a line too, if the limit allows one more."""
        if self.seen > self.byte and self.rows != 0:
            self.line += 1
            self.byte = self.seen


def _look(file: Path) -> Seen | None:
    """The regular file of that name, None if there is none."""
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(file, error) from error
    if not stat.S_ISREG(status.st_mode):
        return None
    return Seen(file=file.resolve(), key=_key(status), size=status.st_size, mtime_ns=status.st_mtime_ns)


def _files_in(folder: Path) -> list[Seen]:
    return [seen for file in folder.iterdir() if (seen := _look(file))] if folder.is_dir() else []


def _sibling(file: Path, identity: Identity) -> Seen | None:
    """The file in the same directory that may be the one of that identity."""
    if not file.parent.is_dir():
        return None
    with os.scandir(file.parent) as entries:
        names = sorted(entry.path for entry in entries if entry.inode() == identity.key.inode)
    found = [seen for name in names if (seen := _look(Path(name))) and identity.fits(seen.key)]
    return found[0] if found else None


def _key(status: os.stat_result) -> FileKey:
    return FileKey(status.st_dev, status.st_ino)


def _head_hash(file: BinaryIO, count: int) -> str:
    if count == 0:
        return ""
    # Past any buffer: the bytes as they are on disk now.
    return hashlib.blake2b(os.pread(file.fileno(), count, 0), digest_size=8).hexdigest()


def _codec(file: Path) -> str | None:
    return CODECS.get(file.suffix)


def _unreadable(file: Path, error: OSError) -> SourceReadError:
    return SourceReadError(
        f"{file} cannot be read: {error.strerror or error}", remedy="check the file and its permissions", file=str(file)
    )


def _plain_blocks(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """Bytes `start` to `end`, or to where the file ends if that is earlier."""
    file.seek(start)
    left = end - start
    while left > 0 and (block := file.read(min(BLOCK_BYTES, left))):
        left -= len(block)
        yield block


def _archive_blocks(
    file: BinaryIO, path: Path, start: int, end: int | None, step: int, counter: LineCounter
) -> Iterator[bytes]:
    """Decompressed bytes `start` to `end`; what `counter` has counted tells where a damaged archive was still good."""
    if os.fstat(file.fileno()).st_size == 0:
        return
    at = 0
    try:
        # A descriptor of its own, because the stream closes what it was given.
        with os.fdopen(os.dup(file.fileno()), "rb") as raw:
            os.lseek(raw.fileno(), 0, os.SEEK_SET)
            stream = pa.CompressedInputStream(pa.PythonFile(raw, "r"), _codec(path))
            while end is None or at < end:
                block = stream.read(step if end is None else min(step, end - at))
                if not block:
                    return
                at += len(block)
                if at > start:
                    yield block[max(0, start - (at - len(block))) :]
    except OSError as error:
        raise SourceReadError(
            f"{path} is damaged or cut short after line {counter.line} (byte {counter.byte}): {error}",
            remedy="replace the archive by a whole one; move archives in by rename, so that half of one is never seen",
            file=str(path),
            line=counter.line,
            byte=counter.byte,
        ) from error


# Offsets: how far each split is, and the ranges between two of them


class Ended(StrEnum):
    """Why nothing more is expected of a split: its file is GONE, was REPLACED in place, or is an archive, COMPLETE."""

    GONE = "gone"
    REPLACED = "replaced"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Progress in one incarnation: `line` lines and `byte` bytes are consumed; `size` is an archive's size on disk."""

    file: str
    identity: Identity
    line: int
    byte: int
    size: int | None = None
    ended: Ended | None = None


Offsets = Mapping[str, Split]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOffset:
    """How far one split is: `line` lines, which are `byte` bytes of the (decompressed) file."""

    split: str
    file: str
    line: int
    byte: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRange:
    """Bytes `start_byte` to `end_byte` of one split, the first of which begins line `start_line`; None: to the end."""

    file: str
    split: str
    start_line: int = 1
    start_byte: int = 0
    end_byte: int | None = None
    end_line: int | None = None
    identity: Identity | None = None

    def dump(self) -> dict[str, object]:
        """The range as JSON-ready data, as the option `ranges` takes it."""
        return {
            "file": self.file,
            "split": self.split,
            "id": None if self.identity is None else str(self.identity),
            "start_line": self.start_line,
            "start_byte": self.start_byte,
            "end_byte": self.end_byte,
            "end_line": self.end_line,
        }

    @classmethod
    def load(cls, data: Mapping[str, object]) -> LineRange:
        """The range that `dump` gave, or one written by hand, of which only `file` is required.

        >>> LineRange.load({"file": "/logs/a.log"}).split
        'a.log'
        """
        known = {"file", "split", "id", "start_line", "start_byte", "end_byte", "end_line"}
        file = data.get("file")
        numbers = {key: data[key] for key in ("start_line", "start_byte", "end_byte", "end_line") if key in data}
        fits = all(type(value) is int and value >= 0 for value in numbers.values() if value is not None)
        if not isinstance(file, str) or not fits or set(data) - known:
            raise ConfigurationError(
                f"{dict(data)!r} is not a range of lines", remedy=f"use {', '.join(sorted(known))}"
            )
        identity = Identity.parse(str(data["id"])) if data.get("id") else None
        split = str(data.get("split") or Path(file).name)
        return cls(file=file, split=split, identity=identity, **numbers)  # type: ignore[arg-type]


def dump_offsets(offsets: Offsets) -> dict[str, object]:
    """The offsets as JSON-ready data; equal offsets give equal text, splits stay in the order they were found in."""
    splits: dict[str, object] = {}
    for name, split in offsets.items():
        entry: dict[str, object] = {"file": split.file, "id": str(split.identity), "line": split.line}
        entry["byte"] = split.byte
        if split.size is not None:
            entry["size"] = split.size
        if split.ended is not None:
            entry["ended"] = split.ended.value
        splits[name] = entry
    return {"version": VERSION, "splits": splits}


def load_offsets(data: Mapping[str, object] | str | None) -> dict[str, Split]:
    """The offsets that `dump_offsets` gave, as data or JSON text (None: the beginning); else CheckpointError.

    >>> load_offsets('{"version": 9}')
    Traceback (most recent call last):
    resources.errors.CheckpointError: these are not offsets of version 1: {"version": 9}
    """
    if data is None:
        return {}
    try:
        body: Any = json.loads(data) if isinstance(data, str) else data
        if body["version"] == VERSION:
            return {name: _load_split(entry) for name, entry in body["splits"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        # Said below: whatever is wrong with it, it is not ours.
        pass
    text = data if isinstance(data, str) else json.dumps(data, default=str)
    raise CheckpointError(f"these are not offsets of version {VERSION}: {text:.300}")


def _load_split(entry: Mapping[str, object]) -> Split:
    line, byte, size, ended = entry["line"], entry["byte"], entry.get("size"), entry.get("ended")
    if type(line) is not int or type(byte) is not int or not (size is None or type(size) is int):
        raise ValueError(entry)
    return Split(
        file=str(entry["file"]),
        identity=Identity.parse(str(entry["id"])),
        line=line,
        byte=byte,
        size=size,
        ended=None if ended is None else Ended(str(ended)),
    )


def splits_of(data: Mapping[str, object] | str) -> list[SplitOffset]:
    """Every split in the offsets and how far it is.

    >>> splits_of('{"version": 1, "splits": {"a": {"file": "/x/a", "id": "1-2-0-", "line": 3, "byte": 40}}}')
    [SplitOffset(split='a', file='/x/a', line=3, byte=40)]
    """
    return [
        SplitOffset(split=name, file=split.file, line=split.line, byte=split.byte)
        for name, split in load_offsets(data).items()
    ]


def ranges_between(
    start: Mapping[str, object] | str | None, end: Mapping[str, object] | str
) -> list[dict[str, object]]:
    """What was planned between two offsets, as the option `ranges` takes it; start None is the beginning.

    >>> old = '{"version": 1, "splits": {"a": {"file": "/x/a", "id": "1-2-0-", "line": 3, "byte": 40}}}'
    >>> new = '{"version": 1, "splits": {"a": {"file": "/x/a", "id": "1-2-0-", "line": 5, "byte": 60}}}'
    >>> [(r["start_line"], r["start_byte"], r["end_byte"]) for r in ranges_between(old, new)]
    [(4, 40, 60)]
    """
    before = load_offsets(start)
    found = []
    for name, split in load_offsets(end).items():
        line, byte = (before[name].line, before[name].byte) if name in before else (0, 0)
        if split.byte > byte:
            found.append(
                LineRange(
                    file=split.file,
                    split=name,
                    identity=split.identity,
                    start_line=line + 1,
                    start_byte=byte,
                    end_byte=split.byte,
                    end_line=split.line,
                ).dump()
            )
    return found


# Planning: what is new


class FinalLine(StrEnum):
    """What happens to a last line without a newline: WAIT for the rest of it, or DELIVER it as it is."""

    WAIT = "wait"
    DELIVER = "deliver"


class Planner:
    """Finds what is new under a path: a file, a directory (all below it) or a glob.

    Names that begin with a dot or underscore are left alone. A plan depends on its start and on the files alone. Files
    are taken oldest first: known splits in the order in which they were found, new ones by time of change.
    """

    def __init__(self, path: str, *, final_line: FinalLine = FinalLine.WAIT) -> None:
        self.path = path.removeprefix("file://")
        self.final_line = final_line
        self._frozen: dict[FileKey, int] | None = None

    def freeze(self) -> None:
        """From now on plan nothing that is written later."""
        folders = {seen.file.parent for _, seen in self._listed()} | {_fixed_root(self.path)}
        files = [seen for folder in folders for seen in _files_in(folder)] + [seen for _, seen in self._listed()]
        self._frozen = {seen.key: seen.size for seen in files}

    def plan(self, start: Offsets, *, max_rows: int | None = None) -> Offsets:
        """The next offsets, at most `max_rows` lines on; `start` itself if there is nothing new.

        ConfigurationError if nothing was ever read and the file or directory does not exist; SourceReadError if an
        archive is damaged.
        """
        if not start:
            self._check_path()
        left = max_rows

        def advance(split: Split, seen: Seen) -> Split:
            nonlocal left
            if left == 0:
                return split
            size = seen.size if self._frozen is None else min(seen.size, self._frozen.get(seen.key, 0))
            moved = _advanced(split, seen, size, rows=left, final_line=self.final_line)
            left = None if left is None else left - (moved.line - split.line)
            return moved

        return self._walk(start, advance)

    def reach(self, start: Offsets) -> Offsets:
        """How far there is data, to tell the lag; bytes are exact for plain files.

        `line` is a lower bound where more than LAG_SCAN_BYTES lie unread; archives count only what was planned.
        """
        left = LAG_SCAN_BYTES

        def advance(split: Split, seen: Seen) -> Split:
            nonlocal left
            if _codec(seen.file) or seen.size <= split.byte:
                return split
            if seen.size - split.byte > left:
                return replace(split, file=str(seen.file), byte=seen.size)
            left -= seen.size - split.byte
            return _advanced(split, seen, seen.size, rows=None, final_line=self.final_line)

        return self._walk(start, advance)

    def _walk(self, start: Offsets, advance: Callable[[Split, Seen], Split]) -> Offsets:
        """Pair every known split with its file, then take the files that no split owns, and advance each in turn."""
        owners: dict[FileKey, str] = {}
        found: dict[str, Seen | Ended] = {}
        # The newest incarnation has the first claim on a file that was truncated in place.
        for name in reversed(list(start)):
            seen = _found(start[name], owners)
            found[name] = seen
            if isinstance(seen, Seen):
                owners[seen.key] = name
        end: dict[str, Split] = {}
        for name, split in start.items():
            seen = found[name]
            if isinstance(seen, Seen):
                end[name] = advance(split, seen)
            elif split.ended in (Ended.GONE, Ended.REPLACED) and _is_superseded(name, start):
                continue
            else:
                end[name] = replace(split, ended=seen)
        for name, seen in self._listed():
            if seen.key not in owners:
                nothing_read = Identity(key=seen.key, head_bytes=0, head_hash="")
                fresh = Split(file=str(seen.file), identity=nothing_read, line=0, byte=0)
                moved = advance(fresh, seen)
                if moved.byte > 0:
                    end[_fresh_name(name, [*start, *end])] = moved
        # A file that moved, or an old split that can be forgotten, is no reason for a batch of its own.
        news = [name for name in end if name not in start or _news(start[name]) != _news(end[name])]
        return end if news else start

    def _listed(self) -> list[tuple[str, Seen]]:
        """The files under the path, oldest first, each once however many names it has."""
        root = _fixed_root(self.path)
        one = Path(self.path).absolute()
        if one.is_dir():
            # A folder that vanishes during the walk is no error.
            below = [Path(folder, name) for folder, _, names in os.walk(one) for name in names]
            files = [file for file in below if not _is_hidden(file.relative_to(one))]
        elif _is_glob(self.path):
            files = [file for file in root.glob(str(one.relative_to(root))) if not _is_hidden(Path(file.name))]
        else:
            files = [one]
        names: dict[FileKey, tuple[str, Seen]] = {}
        for file in sorted(files):
            seen = _look(file)
            if seen is not None:
                names.setdefault(seen.key, (file.relative_to(root).as_posix(), seen))
        return sorted(names.values(), key=lambda pair: (pair[1].mtime_ns, pair[0]))

    def _check_path(self) -> None:
        if not _is_glob(self.path) and not Path(self.path).exists():
            raise ConfigurationError(
                f"{self.path} does not exist", remedy="name a file or directory that exists, or a glob", path=self.path
            )


def _advanced(split: Split, seen: Seen, size: int, *, rows: int | None, final_line: FinalLine) -> Split:
    """The split after up to `rows` more lines within the first `size` bytes; itself if there is no whole line."""
    archive = _codec(seen.file)
    if size == 0 or (split.size == size if archive else size <= split.byte):
        return split
    try:
        file = seen.file.open("rb")
    except FileNotFoundError:
        return split
    except OSError as error:
        raise _unreadable(seen.file, error) from error
    with file:
        if _key(os.fstat(file.fileno())) != seen.key:
            # Renamed since it was looked at: the next plan finds it.
            return split
        counter = LineCounter(line=split.line, byte=split.byte, rows=rows)
        if archive:
            blocks = _archive_blocks(file, seen.file, split.byte, None, ARCHIVE_BLOCK_BYTES, counter)
        else:
            blocks = _plain_blocks(file, split.byte, size)
        more = any(counter.feed(block) for block in blocks)
        if more and counter.seen == counter.byte:
            more = _has_more(blocks)
        if not more and (archive or final_line is FinalLine.DELIVER):
            counter.end_of_input()
        complete = bool(archive) and not more
        if counter.byte == split.byte and not complete:
            return split
        return Split(
            file=str(seen.file),
            identity=Identity.of(file, size if archive else counter.byte),
            line=counter.line,
            byte=counter.byte,
            size=size if complete else None,
            ended=Ended.COMPLETE if complete else None,
        )


def _has_more(blocks: Iterator[bytes]) -> bool:
    try:
        return next(blocks, None) is not None
    except SourceReadError:
        # What was counted so far is good; the next plan comes upon the damage again.
        return True


def _found(split: Split, owners: Mapping[FileKey, str]) -> Seen | Ended:
    """Where the split's file is now, or why it is no more; a file that a newer split owns was replaced."""
    if split.ended is Ended.REPLACED:
        return Ended.REPLACED
    here = _look(Path(split.file))
    moved = here is None or not split.identity.fits(here.key)
    seen = _sibling(Path(split.file), split.identity) if moved else here
    if seen is None:
        return Ended.GONE
    consumed = split.size if split.size is not None else 0 if _codec(seen.file) else split.byte
    if seen.key not in owners and seen.size >= consumed:
        try:
            with seen.file.open("rb") as file:
                if split.identity.same_head(file):
                    return seen
        except FileNotFoundError:
            return Ended.GONE
        except OSError as error:
            raise _unreadable(seen.file, error) from error
    return Ended.GONE if moved else Ended.REPLACED


def _news(split: Split) -> tuple[int, bool]:
    """What makes a new batch worth while: more data, or a file that is no more."""
    return split.byte, split.ended in (Ended.GONE, Ended.REPLACED)


def _incarnation(name: str) -> tuple[str, int]:
    base, mark, number = name.rpartition("@")
    return (base, int(number)) if mark and number.isdecimal() else (name, 1)


def _fresh_name(name: str, taken: list[str]) -> str:
    numbers = [number for base, number in map(_incarnation, taken) if base == name]
    return f"{name}@{max(numbers) + 1}" if numbers else name


def _is_superseded(name: str, splits: Offsets) -> bool:
    base, number = _incarnation(name)
    return any(other == base and later > number for other, later in map(_incarnation, splits))


def _is_glob(path: str) -> bool:
    return any(mark in path for mark in "*?[") and not Path(path).exists()


def _is_hidden(name: Path) -> bool:
    return any(part.startswith((".", "_")) for part in name.parts)


def _fixed_root(path: str) -> Path:
    """The directory that split names are relative to."""
    whole = Path(path).absolute()
    if whole.is_dir():
        return whole
    if not _is_glob(path):
        return whole.parent
    return Path(*takewhile(lambda part: not any(mark in part for mark in "*?["), whole.parts))


# Reading: a range as Arrow batches, or an error


def cut_range(planned: LineRange, *, part_bytes: int = PART_BYTES) -> list[LineRange]:
    """The range in parts of about `part_bytes`, cut between lines; archives and small ranges stay whole."""
    end_byte = planned.end_byte
    if end_byte is None or _codec(Path(planned.file)) or end_byte - planned.start_byte <= part_bytes:
        return [planned]
    parts = []
    rest = planned
    try:
        with _opened(planned) as file:
            counter = LineCounter(line=planned.start_line - 1, byte=planned.start_byte)
            for block in _plain_blocks(file, planned.start_byte, end_byte):
                counter.feed(block)
                if counter.byte - rest.start_byte >= part_bytes and counter.byte < end_byte:
                    parts.append(replace(rest, end_byte=counter.byte, end_line=counter.line))
                    rest = replace(rest, start_byte=counter.byte, start_line=counter.line + 1)
    except DataLossError:
        # The read finds the same and reports it in the place where such errors are expected.
        return [planned]
    return [*parts, rest]


def read_range(planned: LineRange, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[pa.RecordBatch]:
    """The lines of the range as batches of SCHEMA, none of them empty, memory bounded by one line and one block.

    Empty lines are counted but not delivered; a longer line is cut at `max_line_bytes` and keeps its true `length`.
    `offset` and `length` are those of the value's own bytes, without terminator and byte order mark. DataLossError
    before or after the rows if the file is not, or no longer, what was planned.
    """
    with _opened(planned) as file:
        end = planned.end_byte
        counter = LineCounter(line=planned.start_line - 1, byte=planned.start_byte)
        if _codec(Path(planned.file)):
            blocks = _archive_blocks(file, Path(planned.file), planned.start_byte, end, BLOCK_BYTES, counter)
        else:
            size = os.fstat(file.fileno()).st_size
            blocks = _plain_blocks(file, planned.start_byte, size if end is None else end)
        yield from _batches(_counted(blocks, counter), planned, max_line_bytes)
        counter.end_of_input()
        if end is not None and counter.byte != end:
            raise _loss(planned, f"it ends at byte {counter.byte}")
        if planned.end_line is not None and counter.line != planned.end_line:
            raise _loss(planned, f"its lines have changed, the range ends with line {counter.line}")
        _verify(planned, file)


@contextmanager
def _opened(planned: LineRange) -> Iterator[BinaryIO]:
    """The file of the range, under its name or a later one in the same directory, checked to be what was planned."""
    path = Path(planned.file)
    if planned.identity is not None:
        here = _look(path)
        if here is None or not planned.identity.fits(here.key):
            here = _sibling(path, planned.identity)
        if here is None:
            raise _loss(planned, "it is gone, and no file in its directory is the same one")
        path = here.file
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise _loss(planned, "it is gone") from None
    except OSError as error:
        raise _unreadable(path, error) from error
    with file:
        _verify(planned, file)
        yield file


def _verify(planned: LineRange, file: BinaryIO) -> None:
    status = os.fstat(file.fileno())
    if planned.end_byte is not None and not _codec(Path(planned.file)) and status.st_size < planned.end_byte:
        raise _loss(planned, f"it shrank to {status.st_size} bytes")
    identity = planned.identity
    if identity is not None and not (identity.fits(_key(status)) and identity.same_head(file)):
        raise _loss(planned, "its first bytes have changed, it was written anew")


def _loss(planned: LineRange, why: str) -> DataLossError:
    return DataLossError(
        f"lines that were planned cannot be read from {planned.file}: {why}",
        remedy="put the file back as it was, under its name or another in the same directory, and start again",
        file=planned.file,
        split=planned.split,
        start_byte=planned.start_byte,
        end_byte=planned.end_byte,
        start_line=planned.start_line,
        end_line=planned.end_line,
    )


def _counted(blocks: Iterator[bytes], counter: LineCounter) -> Iterator[bytes]:
    for block in blocks:
        counter.feed(block)
        yield block


class _Partial:
    """A line that goes on in the next block: the first bytes of it, never more than needed, and its true size."""

    __slots__ = ("head", "keep", "last", "size", "start")

    def __init__(self, keep: int, start: int) -> None:
        self.head = bytearray()
        self.keep = keep
        self.start = start
        self.size = 0
        self.last = b""

    def add(self, chunk: bytes) -> None:
        if chunk:
            self.head += chunk[: max(0, self.keep - len(self.head))]
            self.size += len(chunk)
            self.last = chunk[-1:]

    def batch(self, name: str, line: int, cap: int, *, terminated: bool) -> pa.RecordBatch | None:
        """The line as a batch of one row; None if it is empty or nothing but a carriage return."""
        skip = len(BOM) if self.start == 0 and self.head.startswith(BOM) else 0
        length = self.size - skip
        if self.last == b"\r" and (terminated or length == 1):
            length -= 1
        if length <= 0:
            return None
        value = bytes(self.head[skip : skip + min(length, cap)])
        numbers = [pa.array([number], pa.int64()) for number in (line, self.start + skip, length)]
        return pa.RecordBatch.from_arrays(
            [pa.array([name], pa.string()), *numbers, pa.array([value], pa.binary())], schema=SCHEMA
        )


def _batches(blocks: Iterator[bytes], planned: LineRange, cap: int) -> Iterator[pa.RecordBatch]:
    name = planned.split.encode("utf-8", "backslashreplace").decode()
    line, byte = planned.start_line, planned.start_byte
    partial = _Partial(cap + len(BOM), byte)
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if not cut:
            partial.add(block)
            continue
        first = 0
        if partial.size > min(BLOCK_BYTES, partial.keep):
            # Too long to be joined to the block: it goes alone.
            first = block.index(b"\n") + 1
            partial.add(block[: first - 1])
            batch = partial.batch(name, line, cap, terminated=True)
            if batch is not None:
                yield batch
            line, byte = line + 1, byte + partial.size + 1
            buffer = block[first:cut]
        else:
            buffer = bytes(partial.head) + block[:cut]
        if buffer:
            batch, count = _rows(buffer, name, line, byte, cap)
            for row in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(row, BATCH_ROWS)
            line, byte = line + count, byte + len(buffer)
        partial = _Partial(cap + len(BOM), byte)
        partial.add(block[cut:])
    batch = partial.batch(name, line, cap, terminated=False)
    if batch is not None:
        yield batch


def _rows(buffer: bytes, name: str, line: int, byte: int, cap: int) -> tuple[pa.RecordBatch, int]:
    """The lines of a buffer that ends with a newline, and how many there were, empty ones included."""
    data = np.frombuffer(buffer, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    lengths = ends - starts
    # For an empty line the byte before its end is a newline (or the buffer's last byte), never a carriage return.
    returns = data[ends - 1] == ord("\r")
    lengths -= returns
    skip = len(BOM) if byte == 0 and buffer.startswith(BOM) else 0
    starts[0] += skip
    lengths[0] -= skip
    kept = np.minimum(lengths, cap)
    if int(lengths.max()) > cap:
        values = b"".join(buffer[at : at + size] for at, size in zip(starts.tolist(), kept.tolist(), strict=True))
    else:
        # Exact: after the first step every newline that is left ends a line, and a carriage return stays where it is.
        values = buffer[skip:]
        if returns.any():
            values = values.replace(b"\r\n", b"")
        values = values.replace(b"\n", b"")
    full = np.flatnonzero(lengths)
    bounds = np.zeros(len(full) + 1, np.int32)
    np.cumsum(kept[full], out=bounds[1:])
    columns = [
        pa.repeat(pa.scalar(name, pa.string()), len(full)),
        pa.array(full + line),
        pa.array(starts[full] + byte),
        pa.array(lengths[full]),
        pa.Array.from_buffers(pa.binary(), len(full), [None, pa.py_buffer(bounds), pa.py_buffer(values)]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), len(ends)
