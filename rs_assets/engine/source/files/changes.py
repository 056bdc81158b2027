"""Files against what was read of them: what Spark would overlook is refused before a run begins."""

from __future__ import annotations

from pathlib import Path

from rs_assets.engine.files import modified_ms
from rs_assets.engine.source.base import BEGIN_ANEW, ENDED, Known, Start
from rs_assets.engine.source.codecs import CODECS
from rs_assets.engine.source.header import check_header
from rs_assets.engine.source.lines.offsets import load_offsets, splits_of
from rs_assets.engine.source.lines.planner import Planner
from rs_assets.engine.source.native import check_name, check_path, existing_files
from rs_assets.engine.source.parse import LineFormat
from rs_assets.errors import DataLossError, SealedError


def check_columns(form: LineFormat, schema: str | None, file: Path) -> None:
    """SourceReadError if the header of a CSV file does not fit the declared schema, or should not be there."""
    if form.format == "csv":
        check_header(file, schema, header=form.header)


def check_whole(name: str, path: str, form: LineFormat, schema: str | None, start: Start) -> None:
    """Raise SealedError or DataLossError if whole files have changed; `Start.known` are their sizes.

    ConfigurationError if there is nothing at the path.
    """
    check_path(path, step=name)
    log, sizes = start.logs[0], start.known
    planned = {str(f.local): f.modified_ms for f in log.files()}
    present = existing_files(path)
    for file in present:
        if str(file) not in planned:
            check_name(file)
            check_columns(form, schema, file)
    changed = [file for file in present if _has_changed(file, sizes, planned)]
    fresh = [file for file in present if str(file) not in sizes and str(file) not in planned]
    if start.sealed and (changed or fresh):
        way = "with tail=True for a file that grows" if changed else "and run without finish=True while files come"
        remedy = f"{BEGIN_ANEW}, {way}"
        raise SealedError(ENDED, remedy=remedy, source=name, file=(changed or fresh)[0])
    if changed:
        before = sizes.get(str(changed[0]))
        raise DataLossError(
            "a file changed after it was read; what was added would be ignored",
            remedy="put new records into new files; for files that grow use tail=True",
            source=name,
            file=changed[0],
            range=f"bytes {before} to {changed[0].stat().st_size}" if before is not None else "unknown",
        )


def _has_changed(file: Path, sizes: Known, planned: Known) -> bool:
    """By size, where a finished run noted it; else by the time that Spark wrote down when it planned the file."""
    facts = file.stat()
    if str(file) in sizes:
        return facts.st_size != sizes[str(file)]
    return str(file) in planned and modified_ms(facts) != planned[str(file)]


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
    # Archives count in unpacked bytes, so only their names tell. Splits know where a link leads.
    longer = [
        f for f in existing_files(path) if f.suffix not in CODECS and f.stat().st_size > read.get(str(f.resolve()), 0)
    ]
    if longer:
        raise SealedError(ENDED, remedy=BEGIN_ANEW, source=name, file=longer[0])
