"""On which days each rule matched: what a check needs to find rules that never do.

Each worker appends the names of rules to a file of its own, a rule at most once a day and version. Days on which no row
was judged do not count, so a stream that was stopped makes no rule suspicious.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import orjson

from rs_assets.common.files import write_atomically
from rs_assets.expressions.rules.batch import Ints

FOLDER, SINCE = ".matched", "since.json"
# The days with judged rows that are kept, and that a rule may be without a match.
DAYS = 30
# What this process has noted, by step: the day, the version and how many rules it has, and which of them. Over other
# fields of the stream a version has other rules.
_noted: dict[Path, tuple[tuple[str, str, int], np.ndarray[Any, np.dtype[np.bool_]]]] = {}
_me = f"{os.getpid()}-{uuid4().hex[:8]}"


def today() -> str:
    """The day, in UTC."""
    return datetime.now(UTC).date().isoformat()


def note_matches(root: Path, version: str, rules: int, held: Ints, name_of: Callable[[int], str]) -> None:
    """Note that rows were judged by a version with so many `rules`, and that the rules `held` matched some of them.

    A disk that cannot be written stops nothing: the notes are for people.
    """
    now = (today(), version, rules)
    known, fresh = _noted.get(root), np.unique(held)
    if known is None or known[0] != now:
        known = _noted[root] = now, np.zeros(rules, np.bool_)
    else:
        fresh = fresh[~known[1][fresh]]
        if not len(fresh):
            return
    lines = b"".join(orjson.dumps(name_of(number)) + b"\n" for number in fresh.tolist())
    with suppress(OSError):
        _append(root / FOLDER / now[0] / _me, lines)
        known[1][fresh] = True


def note_rules(root: Path, names: Iterable[str]) -> None:
    """Note which rules are in use from today on, and forget the others; and days that are not needed any more."""
    since = _since(root)
    kept = {name: since.get(name, today()) for name in names}
    if kept != since:
        (root / FOLDER).mkdir(parents=True, exist_ok=True, mode=0o750)
        write_atomically(root / FOLDER / SINCE, orjson.dumps(kept))
    for folder in _days(root)[:-DAYS]:
        shutil.rmtree(folder, ignore_errors=True)


def silent(root: Path, names: Iterable[str]) -> Mapping[str, str]:
    """The rules that have matched nothing on the last 30 days with judged rows, and since when each is in use."""
    days, since = _days(root)[-DAYS:], _since(root)
    matched = {name for folder in days for name in _names(folder)}
    found = {}
    for name in names:
        begun = since.get(name)
        if name not in matched and begun is not None and sum(folder.name >= begun for folder in days) >= DAYS:
            found[name] = begun
    return found


def _append(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    if data:
        with path.open("ab") as file:
            file.write(data)


def _days(root: Path) -> Sequence[Path]:
    """The days with judged rows, in their order."""
    return sorted(path for path in (root / FOLDER).glob("????-??-??") if path.is_dir())


def _names(day: Path) -> Iterable[str]:
    for file in day.iterdir():
        for line in file.read_bytes().splitlines():
            # A worker that was killed may have left half a line.
            with suppress(ValueError):
                yield orjson.loads(line)


def _since(root: Path) -> dict[str, str]:
    try:
        return dict(orjson.loads((root / FOLDER / SINCE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}
