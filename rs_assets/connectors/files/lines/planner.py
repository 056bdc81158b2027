"""Plans which new lines under a path to read next."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from itertools import takewhile
from pathlib import Path

from rs_assets.connectors.files.codecs import codec_of
from rs_assets.connectors.files.lines.files import (
    ARCHIVE_BLOCK_BYTES,
    FileKey,
    Identity,
    LineCounter,
    Seen,
    archive_blocks,
    file_key,
    files_in,
    look_at,
    plain_blocks,
    sibling_of,
    unreadable,
)
from rs_assets.connectors.files.lines.offsets import Ended, Offsets, Split
from rs_assets.connectors.files.listing import is_hidden, walked
from rs_assets.errors import ConfigurationError, SourceReadError

# Unread bytes, over all splits, up to which the lag is counted in lines: about 10 ms.
LAG_SCAN_BYTES = 16 << 20
# Parts of patterns of Spark and of shells that match nothing here, or other files.
FOREIGN = re.compile(r"\{[^/]*,[^/]*\}|\[\^|\\[*?\[{]|\*\*$")


class FinalLine(StrEnum):
    """The handling of a last line without a newline: WAIT for the rest of it, or DELIVER it as it is."""

    WAIT = "wait"
    DELIVER = "deliver"


class Planner:
    """Finds new lines under a path: a file, a directory (recursively) or a glob.

    Hidden names (`is_hidden`) are ignored. A plan depends only on its start and the files. Files are taken oldest
    first: known splits in the order of discovery, new ones by modification time.
    """

    def __init__(self, path: str, *, final_line: FinalLine = FinalLine.WAIT) -> None:
        self.path = path.removeprefix("file://")
        self.final_line = final_line
        self._frozen: dict[FileKey, int] | None = None

    def freeze(self) -> None:
        """Ignore everything that is written from now on."""
        folders = {seen.file.parent for _, seen in self._listed()} | {_fixed_root(self.path)}
        files = [seen for folder in folders for seen in files_in(folder)] + [seen for _, seen in self._listed()]
        self._frozen = {seen.key: seen.size for seen in files}

    def plan(self, start: Offsets, *, max_rows: int | None = None) -> Offsets:
        """The next offsets, at most `max_rows` lines further; `start` itself if there is nothing new.

        Files whose lines the limit leaves to a later batch are splits already: a watermark by split waits for them. So
        are files that are followed by name before their first line: they are found again if they are rotated after it.
        ConfigurationError if nothing was ever read and the file or directory does not exist; SourceReadError if an
        archive is damaged.
        """
        if not start:
            self.check_path()
        left = max_rows

        def advance(split: Split, seen: Seen) -> Split:
            nonlocal left
            if left == 0:
                return split
            moved = self._lines_on(split, seen, left)
            left = None if left is None else left - (moved.line - split.line)
            return moved

        def waits(split: Split, seen: Seen) -> bool:
            there = self._frozen is None or seen.key in self._frozen
            return (self._by_name and there) or (left == 0 and self._lines_on(split, seen, 1).byte > 0)

        return self._walk(start, advance, waits)

    @property
    def _by_name(self) -> bool:
        """Whether a rotated file may have a name that the path does not have."""
        return not Path(self.path).is_dir()

    def unread(self, start: Offsets) -> frozenset[str]:
        """The splits of `start` that have a complete line more."""
        after = self._walk(start, lambda split, seen: self._lines_on(split, seen, 1))
        return frozenset(name for name, split in start.items() if name in after and after[name].byte > split.byte)

    def reach(self, start: Offsets) -> Offsets:
        """The end of the available data, for the lag; bytes are exact for plain files.

        `line` is a lower bound if more than LAG_SCAN_BYTES are unread; archives count only planned lines.
        """
        left = LAG_SCAN_BYTES

        def advance(split: Split, seen: Seen) -> Split:
            nonlocal left
            if codec_of(seen.file) or seen.size <= split.byte:
                return split
            if seen.size - split.byte > left:
                return replace(split, file=str(seen.file), byte=seen.size)
            left -= seen.size - split.byte
            return _advanced(split, seen, seen.size, rows=None, final_line=self.final_line)

        return self._walk(start, advance)

    def _lines_on(self, split: Split, seen: Seen, rows: int | None) -> Split:
        """The split after up to `rows` more lines, no further than a run that began with fixed sizes may read."""
        size = seen.size if self._frozen is None else min(seen.size, self._frozen.get(seen.key, 0))
        return _advanced(split, seen, size, rows=rows, final_line=self.final_line)

    def _walk(
        self,
        start: Offsets,
        advance: Callable[[Split, Seen], Split],
        waits: Callable[[Split, Seen], bool] | None = None,
    ) -> Offsets:
        """Match every known split with its file, then take the files without a split, and advance each in turn.

        A file without a split becomes one if it was advanced, or if it `waits`.
        """
        owners: dict[FileKey, str] = {}
        found: dict[str, Seen | Ended] = {}
        listed = dict(self._listed())
        inodes = {seen.key.inode: seen for seen in listed.values()}
        places = {str(seen.file): seen for seen in listed.values()}
        # The newest incarnation has the first claim on a file that was truncated in place.
        for name in reversed(list(start)):
            seen = self._file_of(start[name], owners)
            if seen is Ended.GONE:
                split, named = start[name], listed.get(_incarnation(name)[0])
                there = (inodes.get(split.identity.key.inode), places.get(split.file), named)
                seen = _moved(split, owners, there) or seen
            found[name] = seen
            if isinstance(seen, Seen):
                owners[seen.key] = name
        end: dict[str, Split] = {}
        for name, split in start.items():
            seen = found[name]
            if isinstance(seen, Seen):
                end[name] = advance(_known_as(split, seen), seen)
            elif split.ended in (Ended.GONE, Ended.REPLACED) and _is_superseded(name, start):
                continue
            else:
                end[name] = replace(split, ended=seen)
        for name, seen in listed.items():
            if seen.key not in owners:
                nothing_read = Identity(key=seen.key, size=0, digest="")
                fresh = Split(file=str(seen.file), identity=nothing_read, line=0, byte=0)
                moved = advance(fresh, seen)
                if moved.byte > 0 or (waits is not None and waits(fresh, seen)):
                    end[_fresh_name(name, [*start, *end])] = moved
        # A renamed file, or an old split that can be forgotten, does not justify a batch of its own.
        news = [name for name in end if name not in start or _news(start[name]) != _news(end[name])]
        return end if news else start

    def _file_of(self, split: Split, owners: Mapping[FileKey, str]) -> Seen | Ended:
        """The file of a split, as `_found`.

        While no line of a file is read only its inode is known, which is given to another file once it is removed: so
        the name that is found has to begin like its own.
        """
        seen = _found(split, owners)
        stem = Path(split.file).name.partition(".")[0]
        other = isinstance(seen, Seen) and not split.byte and not seen.file.name.startswith(stem)
        return Ended.GONE if other and self._by_name else seen

    def _listed(self) -> list[tuple[str, Seen]]:
        """The files under the path, oldest first, each once however many names it has."""
        root = _fixed_root(self.path)
        one = Path(self.path).absolute()
        if one.is_dir():
            files = [Path(file) for file in walked(str(one), follow=True)]
        elif _is_glob(self.path):
            files = [file for file in root.glob(str(one.relative_to(root))) if not is_hidden(file.name)]
        else:
            files = [one]
        names: dict[FileKey, tuple[str, Seen]] = {}
        for file in sorted(files):
            seen = look_at(file)
            if seen is not None:
                names.setdefault(seen.key, (file.relative_to(root).as_posix(), seen))
        return sorted(names.values(), key=lambda pair: (pair[1].mtime_ns, pair[0]))

    def check_path(self) -> None:
        """ConfigurationError if the file or directory does not exist; a glob may match nothing yet.

        So is a glob with parts that Spark and shells understand in another way: it would match nothing for ever.
        """
        if not _is_glob(self.path) and not Path(self.path).exists():
            raise ConfigurationError(
                f"{self.path} does not exist", remedy="name a file or directory that exists, or a glob", path=self.path
            )
        if _is_glob(self.path) and (found := FOREIGN.search(self.path)):
            raise ConfigurationError(
                f"the pattern {self.path} has {found[0]}, which is not read as a pattern with tail=True",
                remedy="write [!a] for [^a], [*] for a * in a name, **/* for all files below a folder, and a source for"
                " each of {a,b}",
                path=self.path,
            )


def _advanced(split: Split, seen: Seen, size: int, *, rows: int | None, final_line: FinalLine) -> Split:
    """The split after up to `rows` more lines within the first `size` bytes; itself if there is no complete line."""
    archive = codec_of(seen.file)
    if size == 0 or (split.size == size if archive else size <= split.byte):
        return split
    try:
        file = seen.file.open("rb")
    except FileNotFoundError:
        return split
    except OSError as error:
        raise unreadable(seen.file, error) from error
    with file:
        if file_key(os.fstat(file.fileno())) != seen.key:
            # Renamed since it was listed: the next plan finds it.
            return split
        counter = LineCounter(line=split.line, byte=split.byte, rows=rows)
        if archive:
            blocks = archive_blocks(file, seen.file, split.byte, None, ARCHIVE_BLOCK_BYTES, counter)
        else:
            blocks = plain_blocks(file, split.byte, size)
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
        # The lines counted so far are good; the next plan reaches the damage again.
        return True


def _found(split: Split, owners: Mapping[FileKey, str]) -> Seen | Ended:
    """The current file of a split, or why there is none; a file that a newer split owns was replaced."""
    if split.ended is Ended.REPLACED:
        return Ended.REPLACED
    here = look_at(Path(split.file))
    moved = here is None or not split.identity.fits(here.key)
    seen = sibling_of(Path(split.file), split.identity) if moved else here
    if seen is None:
        return Ended.GONE
    consumed = split.size if split.size is not None else 0 if codec_of(seen.file) else split.byte
    if seen.key not in owners and seen.size >= consumed:
        try:
            with seen.file.open("rb") as file:
                if file_key(os.fstat(file.fileno())) != seen.key:
                    # Renamed since it was looked at: a rotation gives each file the name of another one.
                    return _found(split, owners)
                if split.identity.same_bytes(file):
                    return seen
        except FileNotFoundError:
            return _found(split, owners)
        except OSError as error:
            raise unreadable(seen.file, error) from error
    return Ended.GONE if moved else Ended.REPLACED


def _moved(split: Split, owners: Mapping[FileKey, str], there: Iterable[Seen | None]) -> Seen | None:
    """The file of a split that is gone: the same one in another folder, or a copy with the same name."""
    for seen in there:
        if seen is None or seen.key in owners or not split.identity.size:
            continue
        if str(seen.file) == split.file and not split.identity.copied_to(seen.key):
            continue
        consumed = split.size if split.size is not None else 0 if codec_of(seen.file) else split.byte
        if seen.size < consumed:
            continue
        try:
            with seen.file.open("rb") as file:
                if split.identity.same_bytes(file):
                    return seen
        except OSError:
            # It is gone; reading it reports that.
            continue
    return None


def _known_as(split: Split, seen: Seen) -> Split:
    """The split by the present name and inode of its file: a copy may be renamed before it grows."""
    if (seen.key.inode, str(seen.file)) == (split.identity.key.inode, split.file):
        return split
    return replace(split, file=str(seen.file), identity=replace(split.identity, key=seen.key))


def _news(split: Split) -> tuple[int, int, bool]:
    """The changes that justify a new batch: more data, a copy in the place of a file, or a file that has ended."""
    return split.byte, split.identity.key.inode, split.ended in (Ended.GONE, Ended.REPLACED)


def _incarnation(name: str) -> tuple[str, int]:
    base, mark, number = name.rpartition("@")
    return (base, int(number)) if mark and number.isdecimal() else (name, 1)


def _fresh_name(name: str, taken: list[str]) -> str:
    """The split of the next file called `name`; a file that is called `a@2` is not taken for the second one of `a`."""
    numbers = [number for base, number in map(_incarnation, taken) if base == name]
    first = name if _incarnation(name)[0] == name else f"{name}@1"
    return f"{name}@{max(numbers) + 1}" if numbers else first


def _is_superseded(name: str, splits: Offsets) -> bool:
    base, number = _incarnation(name)
    return any(other == base and later > number for other, later in map(_incarnation, splits))


def _is_glob(path: str) -> bool:
    return any(mark in path for mark in "*?[") and not Path(path).exists()


def _fixed_root(path: str) -> Path:
    """The directory that split names are relative to."""
    whole = Path(path).absolute()
    if whole.is_dir():
        return whole
    if not _is_glob(path):
        return whole.parent
    return Path(*takewhile(lambda part: not any(mark in part for mark in "*?["), whole.parts))
