"""Checks of the sources: the logs of file sources, and the current names of the pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import orjson

from rs_assets.recovery.preflight.facts import Facts, Read, read
from rs_assets.recovery.preflight.files import NUMBER, file_names, gaps
from rs_assets.recovery.preflight.finding import Finding
from rs_assets.recovery.preflight.logs import COPY
from rs_assets.recovery.preflight.parse import check_source_log

COMPACT = ".compact"
# A larger log (some 300,000 files) is left to Spark, which reads it in any case.
MOST_BYTES = 64 << 20
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")


def check_file_sources(facts: Facts) -> Iterator[Finding]:
    """`source_log`: the log of each file source reaches from its newest compaction to the planned offset."""
    sources = facts.newest.sources if facts.newest else {}
    for name, offset in sources.items():
        reached = _log_offset(offset)
        if reached >= 0 and _PLAIN_NAME.fullmatch(name):
            yield from _source_log(facts.folder / "sources" / name, name, reached)


def _log_offset(offset: bytes) -> int:
    """The log offset of a file source; -1 for none, and for other kinds of sources."""
    content = orjson.loads(offset) if offset != b"-" else None
    reached = content.get("logOffset") if isinstance(content, dict) else None
    return reached if type(reached) is int else -1


def _source_log(folder: Path, name: str, reached: int) -> Iterator[Finding]:
    files = _log_files(folder)
    start = max((number for number, file in files.items() if file.suffix == COMPACT), default=0)
    kept = sorted(number for number in files if number >= start)
    # After a rewind the log has more than is planned, and its compaction may be of later entries.
    holes = gaps(sorted({start - 1, *kept, max(reached + 1, start)}))
    if holes:
        low, high = holes[0]
        entries = f"entry {low}" if low == high else f"entries {low} to {high}"
        meaning = f"lacks {entries} of the source {name!r}, which is planned up to {reached}"
        yield _lost(folder / str(low) if files else folder, f"is missing: the log {meaning}")
    for number in kept:
        found = _read_log(files[number])
        if found.state == "foreign":
            remedy = "run it with the release that wrote it"
            yield Finding(code="unreadable", severity="error", file=found.file, meaning=found.problem, remedy=remedy)
        elif found.state != "sound":
            yield _lost(found.file, f"{found.problem}: it says which files the source {name!r} has planned")


def _read_log(file: Path) -> Read[None]:
    try:
        large = file.stat().st_size > MOST_BYTES
    except OSError as error:
        return Read(file=file, state="unreadable", problem=f"cannot be read: {error.strerror}")
    return Read(file=file) if large else read(file, check_source_log)


def _log_files(folder: Path) -> dict[int, Path]:
    """The entries of a file source's log; a compacted one replaces all earlier ones."""
    found: dict[int, Path] = {}
    for name in sorted(file_names(folder)):
        stem = name.removesuffix(COMPACT)
        if NUMBER.fullmatch(stem):
            found[int(stem)] = folder / name
    return found


def _lost(file: Path, meaning: str) -> Finding:
    return Finding(code="source_log", severity="error", file=file, meaning=meaning, remedy=COPY)


def check_names(facts: Facts) -> Iterator[Finding]:
    """Sources may be added and removed, with a warning."""
    plan = facts.newest
    if plan is None:
        return
    file = facts.plans[facts.last_plan].file
    now = set(facts.expected.sources)
    # A source without rows yet has no offset; a file source has a folder from its first day.
    folders = {name for name in now if _PLAIN_NAME.fullmatch(name) and (facts.folder / "sources" / name).is_dir()}
    before = facts.plans.get(facts.last_plan - 1)
    known = plan.sources.keys() | folders | (before.content.sources.keys() if before and before.content else set())
    for name in sorted(plan.sources.keys() - facts.expected.names):
        meaning = f"has the source {name!r}, which the pipeline no longer has: it is not read any further"
        yield _changed(file, meaning, "add it again under that name if it was removed by mistake")
    for name in sorted(now - known):
        meaning = f"does not know the source {name!r}: it is read from its beginning"
        yield _changed(file, meaning, "nothing, if it is new; a renamed source needs its old name")


def _changed(file: Path, meaning: str, remedy: str) -> Finding:
    return Finding(code="sources", severity="warning", file=file, meaning=meaning, remedy=remedy)
