"""Compares files with what was read of them: changes that Spark would overlook are refused before a run begins."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from rs_assets.checkpoint.log import PlannedFile
from rs_assets.checkpoint.source_log import SourceBatch, SourceLog
from rs_assets.common.files import modified_ms
from rs_assets.connectors.files.codecs import CODECS
from rs_assets.connectors.files.header import check_header
from rs_assets.connectors.files.lines.offsets import load_offsets, splits_of
from rs_assets.connectors.files.lines.planner import Planner
from rs_assets.connectors.files.listing import existing_files, files_below, fixed_root, is_hidden
from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.files.whole.known_files import FileFacts, Former, Same, compared
from rs_assets.connectors.files.whole.spark_files import check_name, check_path, check_whole_frames
from rs_assets.connectors.source import Known, Start, sealed_error
from rs_assets.errors import DataLossError, SourceReadError

# The suffix of a file that Hadoop is still copying; Spark ignores it.
COPYING = "._COPYING_"
# Names that Spark lists although they begin with an underscore.
SUMMARIES = ("_metadata", "_common_metadata")
# Parts of a glob that mean something else to Hadoop.
AMBIGUOUS = re.compile(r"[\[\]{}\\]|\*\*")


def check_columns(form: LineFormat, schema: str | None, file: Path) -> None:
    """SourceReadError if the header of a CSV file does not fit the declared schema, or should not exist."""
    if form.format == "csv":
        check_header(file, schema, header=form.header, delimiter=form.delimiter)


def check_whole(name: str, path: str, form: LineFormat, schema: str | None, start: Start) -> Known:
    """The current facts about the files; SealedError or DataLossError if whole files have changed since they were read.

    `Start.known` has the number of `FileFacts` of each. Files that were moved, with the source's folder or within it,
    keep their identity. ConfigurationError if there is nothing at the path.
    """
    check_path(path, step=name)
    present = {str(file): file.stat() for file in existing_files(path)}
    _refuse_deeper(name, path, present)
    known = start.known
    planned: dict[str, PlannedFile] = {}
    for log in reversed(start.logs):
        _mend_plan(log, known, present)
        _forget_withdrawn(log, known, present)
        known, planned = _follow_moves(name, path, log, known, present)
    fresh = [Path(file) for file in present if file not in planned]
    for file in fresh:
        check_name(file)
        check_whole_frames(file)
        check_columns(form, schema, file)
    unread = {file.place for log in start.logs if log.planned for file in _beyond(log)} - known.keys()
    changed = [
        Path(file)
        for file, facts in present.items()
        if file not in unread
        and (file in planned or file in known)
        and compared(file, facts, planned[file].modified_ms if file in planned else None, known.get(file))
        is not Same.YES
    ]
    fresh = [file for file in fresh if str(file) not in known]
    if start.sealed:
        fresh += _unread_by_some(start, present)
    if start.sealed and (changed or fresh):
        way = "with tail=True for a file that grows" if changed else "and run without finish=True while files come"
        raise sealed_error(name, how=f", {way}", file=(changed or fresh)[0])
    if changed:
        raise _changed(name, changed[0], known.get(str(changed[0])))
    return known


def _refuse_deeper(name: str, path: str, present: Iterable[str]) -> None:
    """SourceReadError for a file that Spark does not list, because `**` is one folder for it."""
    if "**/" not in path or Path(path).exists():
        return
    listed = {str(file) for file in existing_files(path.replace("**/", "*/"))}
    passed = next((file for file in present if file not in listed), None)
    if passed is not None:
        raise SourceReadError(
            f"the pattern {path} would not read a file, because ** is one folder in it",
            remedy="name the folder, to read all files below it; or make a source for each depth; or use tail=True",
            source=name,
            file=passed,
        )


def _unread_by_some(start: Start, present: Iterable[str]) -> list[Path]:
    """Files that one of several queries has read, and another, whose input has ended as well, has not."""
    read = [{file.place for file in log.files()} for log in start.logs if log.log.begun]
    return [Path(file) for file in present if len({file in places for places in read}) > 1]


def check_as_read(name: str, batch: SourceBatch, known: Known) -> None:
    """DataLossError for a file of a batch that has changed since it was read. A file that is gone is not reported."""
    for file in batch.files:
        place = file.local
        if place.exists() and compared(place, place.stat(), file.modified_ms, known.get(file.place)) is not Same.YES:
            raise DataLossError(
                f"a file changed after batch {batch.id} had read it, so that the batch cannot be computed again",
                remedy="put the file back as it was; or take partitions without its records",
                source=name,
                file=place,
            )


def check_all_read(name: str, path: str, log: SourceLog, before_ms: int) -> None:
    """SourceReadError for a file that existed at a time, in milliseconds since 1970, and was never planned."""
    planned = {file.place for file in log.files()}
    for file in existing_files(path):
        hidden = is_hidden(file.name) or file.name.endswith(COPYING)
        if str(file) in planned or hidden or not file.exists():
            continue
        facts = file.stat()
        if facts.st_size and max(modified_ms(facts), facts.st_ctime_ns // 1_000_000) < before_ms:
            raise SourceReadError(
                "Spark did not list a file: it was not read",
                remedy="give it another name, or move it directly into the folder of the source; then run again",
                source=name,
                file=file,
            )


def has_unread(path: str, log: SourceLog) -> bool:
    """Whether Spark's file source would plan a batch: of a file that it has not planned, or that no batch has.

    True for a pattern that Spark may read in another way than we do.
    """
    files, end = log.files(), log.log.source_offset(log.source, log.log.last_committed())
    if any(file.batch > end for file in files) or (AMBIGUOUS.search(path) and not Path(path).exists()):
        return True
    planned = {file.place for file in files}
    return any(str(file) not in planned for file in files_below(path, hidden=_unlisted))


def _unlisted(name: str) -> bool:
    """Whether Spark's listing leaves out a file or folder of this name."""
    return is_hidden(name) and not name.startswith(SUMMARIES)


def _changed(name: str, file: Path, number: int | None) -> DataLossError:
    before, now = FileFacts.of(number).size if number is not None else None, file.stat().st_size
    return DataLossError(
        "a file changed after it was read; what was added or replaced would be ignored",
        remedy="put new records into new files; for files that grow use tail=True",
        source=name,
        file=file,
        range="unknown" if before is None else f"bytes {before} to {now}" if before != now else "the whole file",
    )


def _mend_plan(log: SourceLog, known: Known, present: Mapping[str, os.stat_result]) -> None:
    """Remove a file from a planned, uncommitted batch if it was refused as renamed and has its name back."""
    if not log.planned:
        return
    files = [(file.place, file) for file in log.files()]
    committed = log.log.source_offset(log.source, log.log.last_committed())
    times = {file.modified_ms for path, file in files if file.batch <= committed and path in present}
    gone = [file for path, file in files if file.batch > committed and path not in present and path not in known]
    log.log.rewrite_files(log.source, {file.path: None for file in gone if file.modified_ms in times})


def _forget_withdrawn(log: SourceLog, known: Known, present: Mapping[str, os.stat_result]) -> None:
    """Remove the files of plans that were withdrawn or undone, so that Spark plans them again, within the limits.

    If one of those that were read has changed or is gone, only those that were not are removed, so that Spark or the
    caller refuses the other one.
    """
    if log.planned or log.repeated:
        return
    beyond = _beyond(log)
    other = [
        file for file in beyond if (facts := present.get(file.place)) is None or modified_ms(facts) != file.modified_ms
    ]
    unread = [file for file in other if file.place not in known]
    if beyond and len(unread) == len(other):
        log.log.forget_after(log.source, log.log.last_committed())
    else:
        log.log.forget_files(log.source, unread)


def _beyond(log: SourceLog) -> list[PlannedFile]:
    """The files that were planned and are in no committed batch."""
    committed = log.log.source_offset(log.source, log.log.last_committed())
    return [file for file in log.files() if file.batch > committed]


def _follow_moves(
    name: str, path: str, log: SourceLog, known: Known, present: Mapping[str, os.stat_result]
) -> tuple[Known, dict[str, PlannedFile]]:
    """Let moved files keep their identity: the facts about the files, and the planned files, by path.

    DataLossError for a file that may be read twice.
    """
    planned = {file.place: file for file in log.files()}
    former = Former({path: file for path, file in planned.items() if path not in present}, known)
    fresh = ((Path(file), facts) for file, facts in present.items() if file not in planned)
    below, moves, noted = Path(fixed_root(path)), dict[str, PlannedFile | None](), dict(known)
    gone = dict[object, list[str]]()
    for file, facts in fresh if len(former) else ():
        moved = former.moved(file, facts, below)
        entry = moved.entry(file, facts) if moved is not None else None
        if moved is None or entry is None:
            again = moved.former if moved is not None else former.renamed(file, facts, gone)
            if again is not None:
                raise read_twice(name, file, again)
            continue
        moves[moved.former.path] = entry
        before = moved.former.place
        if before in noted:
            noted[str(file)] = noted.pop(before)
    log.log.rewrite_files(log.source, moves)
    for entry in filter(None, moves.values()):
        planned[entry.place] = entry
    return noted, planned


def read_twice(name: str, file: Path, former: PlannedFile, *, touch: bool = True) -> DataLossError:
    """The error for a file that was probably read under another name.

    With `touch` the remedy may also be to make it a new file, which a batch that has planned it does not allow.
    """
    other = f"; or run `touch {shlex.quote(str(file))}` if it is another file, whose records were not read"
    return DataLossError(
        f"a file that was read as {former.local} seems to have another name now, and would be read again",
        remedy=f"rename it back: {former.local}{other if touch else ''}",
        source=name,
        file=file,
    )


def check_followed(name: str, path: str, start: Start) -> None:
    """A followed file may grow, unless the windows over it were ended on purpose: SealedError.

    ConfigurationError if there is nothing at the path, and nothing was ever read there.
    """
    if not start.sealed and not all(log.planned or load_offsets(log.committed) for log in start.logs):
        Planner(path).check_path()
    text = start.logs[0].committed if start.sealed else None
    if text is None:
        return
    read = {split.file: split.byte for split in splits_of(text)}
    # Archives count in unpacked bytes, so only their names are compared. Splits store the target of a link.
    files = [file for file in existing_files(path, follow=True) if file.suffix not in CODECS]
    longer = [file for file in files if file.stat().st_size > read.get(str(file.resolve()), 0)]
    if longer:
        raise sealed_error(name, file=longer[0])
