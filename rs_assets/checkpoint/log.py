"""Spark's log of batches: offsets, watermarks and planned files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import orjson

from rs_assets.checkpoint.shortened import COMPACT, shorten
from rs_assets.common.files import lines_from_end, write_atomically
from rs_assets.errors import CheckpointError

PARTITIONS = "spark.sql.shuffle.partitions"
# The entry of a source that Spark has not read yet.
NOTHING_READ = "-"
# The scheme of a local file, as Java writes it.
LOCAL = re.compile(r"^file:(?://)?(?=/)")


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that Spark's file source planned for a batch, as it was at that time."""

    path: str
    modified_ms: int
    batch: int

    @property
    def local(self) -> Path:
        """The path without its scheme."""
        return Path(self.place)

    @property
    def place(self) -> str:
        """The same as text; for many files, since a `Path` costs ten times as much."""
        plain = LOCAL.sub("", self.path)
        if plain.startswith("/") and "%" not in plain:
            return plain
        return str(Path(unquote(urlparse(self.path).path)))


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """One entry of Spark's offset log: the end offset of each named source, the watermark and the batch's clock."""

    batch_id: int
    watermark: datetime
    started: datetime
    sources: dict[str, str]


class CheckpointLog:
    """Reads the checkpoint folder of one query. Files are read on each call.

    `aliases` maps renamed sources to their names in the log; all methods take and return the new names.
    """

    def __init__(self, folder: Path, aliases: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.aliases: Mapping[str, str] = aliases or {}

    @property
    def stored_name(self) -> str:
        """The name of the query when its checkpoint was begun: that of the parent folder, which does not change."""
        return self.folder.parent.name

    def offsets(self, batch_id: int) -> BatchOffsets | None:
        """The planned end of a batch; None if it was never planned. CheckpointError if the file is damaged."""
        path = self.folder / "offsets" / str(batch_id)
        try:
            facts = path.stat()
        except FileNotFoundError:
            return None
        planned = _offsets(path, facts.st_ino, facts.st_mtime_ns)
        current = {stored: name for name, stored in self.aliases.items()}
        return replace(planned, sources={current.get(name, name): end for name, end in planned.sources.items()})

    def last_committed(self) -> int:
        """The id of the last batch that Spark has committed, -1 for none."""
        return max(_numbers(self.folder / "commits"), default=-1)

    def committed_at(self, batch_id: int) -> datetime | None:
        """When Spark has committed a batch, by the time of its file; None if the log does not have it."""
        try:
            return datetime.fromtimestamp((self.folder / "commits" / str(batch_id)).stat().st_mtime, UTC)
        except FileNotFoundError:
            return None

    def through(self, batch_id: int) -> CheckpointLog:
        """This log as it will be once a batch that is planned, the last one, is committed."""
        return _LogThrough(self, batch_id)

    @property
    def watermark_waits(self) -> bool:
        """Whether the last committed batch has moved the watermark, and no batch that uses it is planned yet."""
        last = self.last_committed()
        planned = self.offsets(last)
        if planned is None or self.offsets(last + 1) is not None:
            return False
        return _next_watermark(self.folder / "commits" / str(last)) > planned.watermark

    @property
    def watermark(self) -> datetime | None:
        """The watermark after the last committed batch; None before the first."""
        last = self.last_committed()
        return _next_watermark(self.folder / "commits" / str(last)) if last >= 0 else None

    @property
    def begun(self) -> bool:
        """Whether a batch was ever planned; Spark removes the first files of a long log."""
        return self.last_committed() >= 0 or self.offsets(0) is not None

    def committed_batches(self) -> list[int]:
        """The ids of the committed batches that the log still holds, in order."""
        return sorted(_numbers(self.folder / "commits"))

    def planned_batches(self) -> list[int]:
        """The ids of the planned batches that the log still holds, in order."""
        return sorted(_numbers(self.folder / "offsets"))

    @property
    def query_id(self) -> str | None:
        """Spark's id of this checkpoint, None before the first start; CheckpointError if the file is damaged."""
        path = self.folder / "metadata"
        if not path.exists():
            return None
        try:
            return str(orjson.loads(path.read_bytes())["id"])
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise _damaged(path) from error

    def clear_cut_writes(self) -> None:
        """Remove incomplete files of interrupted writes to the log, and state without a log; the query must be stopped.

        Spark 4.2.0 begins batch 0 only in an empty log and without state (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY).
        So every start after a kill in its very first write would be refused, and every start after a first batch whose
        plan was withdrawn. State that no batch has committed is not used by any.
        """
        for folder in (self.folder / "offsets", self.folder / "commits"):
            for file in (*folder.glob(".*.tmp"), *folder.glob(".*.tmp.crc")):
                file.unlink(missing_ok=True)
        if not self.begun:
            with suppress(FileNotFoundError):
                shutil.rmtree(self.folder / "state")

    def pin_partitions(self, partitions: int) -> None:
        """Write the number of state partitions into the offset files that lack it; the query must be stopped.

        Spark 4.2.0 leaves it out of the named offset log and then cannot restart from a batch that was planned but not
        committed (`None.get` in OfflineStateRepartitionUtils), which is what a crash leaves. A file with the number
        passes it on to the next batches, so this writes only after the first run of a query.
        """
        for batch_id in _numbers(self.folder / "offsets"):
            version, metadata, *lines = (self.folder / "offsets" / str(batch_id)).read_text().split("\n")
            content = _parsed(metadata, self.folder / "offsets" / str(batch_id))
            if PARTITIONS not in content["conf"]:
                content["conf"][PARTITIONS] = str(partitions)
                self._rewrite(batch_id, [version, orjson.dumps(content).decode(), *lines])

    def partitions(self, batch_id: int) -> int:
        """The number of state partitions that a batch was planned with, 0 if its file lacks it."""
        path = self.folder / "offsets" / str(batch_id)
        if not path.exists():
            return 0
        return int(_parsed(path.read_text().split("\n")[1], path)["conf"].get(PARTITIONS, 0))

    def planned_with(self, batch_id: int, settings: Mapping[str, str]) -> bytes:
        """The plan of a batch, as the content of its file, with some of Spark's `settings` replaced."""
        path = self.folder / "offsets" / str(batch_id)
        version, metadata, *lines = path.read_text().split("\n")
        content = _parsed(metadata, path)
        content["conf"] |= settings
        return "\n".join([version, orjson.dumps(content).decode(), *lines]).encode()

    def plan(self, batch_id: int, content: bytes) -> None:
        """Write the plan of a batch, as `planned_with` returns one; the query must be stopped."""
        self._replace("offsets", batch_id, content)

    def begin_rewrite(self, partitions: int) -> int:
        """Plan a batch that reads nothing and only rewrites the state, in `partitions` partitions; returns its number.

        The query must be stopped, and its last planned batch committed. Until `end_rewrite` Spark refuses to start it.
        """
        last = self.last_committed()
        self.plan(last + 1, self.planned_with(last, {PARTITIONS: str(partitions)}))
        return last + 1

    def end_rewrite(self, batch_id: int) -> None:
        """Commit a batch that `begin_rewrite` has planned."""
        self._replace("commits", batch_id, (self.folder / "commits" / str(batch_id - 1)).read_bytes())

    def take_back(self, source: str, offset: str) -> None:
        """Let a removed source resume at `offset`; the query must be stopped.

        Without it Spark would read the source from its beginning again: it forgets the offsets of sources that are not
        in the last batch.
        """
        name = self.aliases.get(source, source)
        last = self.last_committed()
        for batch_id in _numbers(self.folder / "offsets"):
            lines = (self.folder / "offsets" / str(batch_id)).read_text().split("\n")
            if batch_id >= last and not any(line.startswith(f"{name}:") for line in lines[2:]):
                self._rewrite(batch_id, [*(line for line in lines if line), f"{name}:{offset}"])

    def go_on_at(self, source: str, offset: str) -> None:
        """Move a source to another offset after the last committed batch; the query must be stopped, with no plan."""
        name, last = self.aliases.get(source, source), self.last_committed()
        lines = (self.folder / "offsets" / str(last)).read_text().split("\n")
        self._rewrite(last, [f"{name}:{offset}" if line.startswith(f"{name}:") else line for line in lines])

    def forget_sources(self) -> None:
        """Let the next start read all sources from their beginning, with state and watermark; it must be stopped."""
        for batch_id in self.planned_batches():
            lines = (self.folder / "offsets" / str(batch_id)).read_text().split("\n")
            read = (line.partition(":")[0] for line in lines[2:] if ":" in line)
            self._rewrite(batch_id, [*lines[:2], *(f"{name}:{NOTHING_READ}" for name in read)])

    def plan_as(self, batch_id: int, ends: Mapping[str, str]) -> bool:
        """Let a planned batch end at `ends`, by stored source name; returns whether that changes its plan.

        The query must end without having computed the batch. Sources that are not in both keep their planned end.
        """
        lines = (self.folder / "offsets" / str(batch_id)).read_text().split("\n")
        head, planned = lines[:2], [line.split(":", 1) for line in lines[2:] if ":" in line]
        now = [f"{name}:{ends.get(name, end)}" for name, end in planned]
        if now == [f"{name}:{end}" for name, end in planned]:
            return False
        self._rewrite(batch_id, [*head, *now])
        return True

    def _rewrite(self, batch_id: int, lines: list[str]) -> None:
        self._replace("offsets", batch_id, "\n".join(lines).encode())

    def _replace(self, log: str, batch_id: int, content: bytes) -> None:
        folder = self.folder / log
        # A checksum of the old text would make Spark refuse the new one; without one it does not check.
        (folder / f".{batch_id}.crc").unlink(missing_ok=True)
        write_atomically(folder / str(batch_id), content)

    def withdraw(self, batch_id: int) -> None:
        """Remove the plan of the last batch, so that the next start plans it again; none of it may be committed."""
        folder = self.folder / "offsets"
        (folder / f".{batch_id}.crc").unlink(missing_ok=True)
        (folder / str(batch_id)).unlink(missing_ok=True)

    def planned_files(self, source: str, batch_id: int | None = None) -> list[PlannedFile]:
        """The files that the file source `source` planned for a batch, or for all batches still in its log.

        For one batch, only the log entries of that batch are read.
        """
        if batch_id is None:
            entries = self._source_log(source, first=0, last=None)
        else:
            first, last = self.source_offset(source, batch_id - 1) + 1, self.source_offset(source, batch_id)
            entries = self._source_log(source, first=first, last=last)
        return list({file.path: file for file in entries}.values())

    def rewrite_files(self, source: str, changed: Mapping[str, PlannedFile | None]) -> None:
        """Replace entries that a file source planned, by path; None removes one.

        The query must be stopped. An interrupted call is repeated by the next start.
        """
        folder = self.folder / "sources" / self.aliases.get(source, source)
        for path in sorted(folder.iterdir()) if changed and folder.is_dir() else ():
            if not (path.name.isdigit() or path.name.endswith(COMPACT)):
                continue
            lines = path.read_bytes().splitlines()
            made = [new for line in lines if (new := _rewritten(line, changed)) is not None]
            if made != lines:
                (folder / f".{path.name}.crc").unlink(missing_ok=True)
                write_atomically(path, b"\n".join(made))

    def forget_files(self, source: str, planned: Collection[PlannedFile]) -> None:
        """Remove entries of a file source's log that no planned batch has; the query must be stopped."""
        self.rewrite_files(source, {file.path: None for file in planned})
        folder = self.folder / "sources" / self.aliases.get(source, source)
        for number in sorted({file.batch for file in planned}, reverse=True):
            # Spark would count an entry without files as a batch, and a log that ends so looks damaged.
            if self._source_log_is_empty(folder / str(number)):
                (folder / f".{number}.crc").unlink(missing_ok=True)
                (folder / str(number)).unlink()

    def forget_after(self, source: str, batch_id: int) -> None:
        """Remove all entries of a file source's log after a batch; the query must be stopped."""
        folder = self.folder / "sources" / self.aliases.get(source, source)
        if folder.is_dir():
            shorten(folder, self.source_offset(source, batch_id))

    @staticmethod
    def _source_log_is_empty(path: Path) -> bool:
        last = path.is_file() and not path.with_name(str(int(path.name) + 1)).exists()
        return last and b"\n" not in path.read_bytes()

    def source_offset(self, source: str, batch_id: int) -> int:
        """A file source's own counter at the end of a batch, -1 before its first."""
        offsets = self.offsets(batch_id) if batch_id >= 0 else None
        text = offsets.sources.get(source, NOTHING_READ) if offsets else NOTHING_READ
        return -1 if text == NOTHING_READ else int(orjson.loads(text)["logOffset"])

    def _source_log(self, source: str, *, first: int, last: int | None) -> Iterator[PlannedFile]:
        """The entries from number `first` to `last` (None: to the newest) of the log of a file source."""
        folder = self.folder / "sources" / self.aliases.get(source, source)
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        for name, numbers in _log_files(names, first, last):
            yield from _planned(folder / name, numbers)


class _LogThrough(CheckpointLog):
    """A log that takes a planned batch for committed."""

    def __init__(self, log: CheckpointLog, batch_id: int) -> None:
        super().__init__(log.folder, log.aliases)
        self._last = batch_id

    def last_committed(self) -> int:
        """The batch."""
        return self._last


@lru_cache(maxsize=64)
def _offsets(path: Path, _inode: int, _written_ns: int) -> BatchOffsets:  # they identify the content
    """The content of an offset file, with stored names; cached, since each batch asks for it often."""
    try:
        version, metadata, *lines = path.read_text(encoding="utf-8").splitlines()
    except ValueError as error:
        raise _damaged(path) from error
    meta = _parsed(metadata, path)
    if version != "v2":
        raise CheckpointError(f"offset log of version {version}, this release reads v2", file=path)
    sources = dict(line.split(":", 1) for line in lines if ":" in line)
    return BatchOffsets(int(path.name), _instant(meta["batchWatermarkMs"]), _instant(meta["batchTimestampMs"]), sources)


def _log_files(names: Collection[str], first: int, last: int | None) -> Iterator[tuple[str, range]]:
    """The files of a source's log with the entries from `first` to `last`, and the entries in each.

    Each entry has a file of its own, until Spark joins it with all earlier ones in a file that ends in `.compact`.

    >>> list(_log_files({"9.compact", "10", "11"}, 8, 10))
    [('9.compact', range(8, 10)), ('10', range(10, 11))]
    """
    single = {int(name) for name in names if name.isdigit()}
    joined = sorted(int(name.removesuffix(COMPACT)) for name in names if name.endswith(COMPACT))
    if last is None:
        # The newest joined file has the most entries.
        last = max([*single, *joined], default=-1)
        single = {number for number in single if not joined or number > joined[-1]}
        joined = joined[-1:]
    number = first
    while number <= last:
        around = next((end for end in joined if end >= number), number)
        if number in single:
            yield str(number), range(number, number + 1)
            number += 1
        else:
            if around in joined:
                yield f"{around}{COMPACT}", range(number, min(around, last) + 1)
            number = around + 1


def _planned(path: Path, numbers: range) -> list[PlannedFile]:
    """The entries in a file of a source's log with these numbers; they are in order, and the history may be long."""
    found = []
    for line in lines_from_end(path):
        if not line.startswith(b"{"):
            # The first line is the version of the log.
            break
        entry = orjson.loads(line)
        number = int(entry["batchId"])
        if number < numbers.start:
            break
        if number in numbers:
            found.append(PlannedFile(entry["path"], int(entry["timestamp"]), number))
    return found[::-1]


def _rewritten(line: bytes, changed: Mapping[str, PlannedFile | None]) -> bytes | None:
    """The replacement of a line of a source's log; None if the line is removed."""
    if not line.startswith(b"{"):
        return line
    entry = orjson.loads(line)
    if entry["path"] not in changed:
        return line
    file = changed[entry["path"]]
    return None if file is None else orjson.dumps({**entry, "path": file.path, "timestamp": file.modified_ms})


def _parsed(metadata: str, path: Path) -> dict[str, Any]:
    """The second line of an offset file."""
    try:
        content: dict[str, Any] = orjson.loads(metadata)
        content["conf"], content["batchWatermarkMs"], content["batchTimestampMs"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise _damaged(path) from error
    return content


def _next_watermark(path: Path) -> datetime:
    """The watermark after a committed batch."""
    try:
        return _instant(orjson.loads(path.read_bytes().partition(b"\n")[2])["nextBatchWatermarkMs"])
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise CheckpointError(
            "a commit file is damaged", remedy="restore it from a copy of the checkpoint", file=path
        ) from error


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError("an offset file is damaged", remedy="restore it from a copy of the checkpoint", file=path)


def _numbers(folder: Path) -> list[int]:
    return [int(p.name) for p in folder.iterdir() if p.name.isdigit()] if folder.is_dir() else []


def _instant(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC)
