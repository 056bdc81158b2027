"""What is wrong with a mirror, a history and a log of changes: they are compared with the table and its journal.

It knows neither databases nor the library. The journal is what triggers of the table wrote in the same transactions: so
it has no change that was rolled back, and the changes of each key are in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

LIVING = ("snapshot", "insert", "update")
# How many findings of a kind are printed.
SHOWN = 5


class Change(NamedTuple):
    """A change of a key; TRUNCATE has neither key nor values. `at` is the time of its commit, None if unknown."""

    op: str
    key: int | None
    values: tuple[Any, ...] = ()
    at: datetime | None = None


class Version(NamedTuple):
    """A row of a history."""

    key: int
    values: tuple[Any, ...]
    since: datetime | None
    until: datetime | None
    current: bool


Rows = Mapping[int, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a campaign has left. `changes` are in the order of `places`, which are their positions in the log."""

    changes: Sequence[Change]
    places: Sequence[tuple[int, int]]
    journal: Sequence[Change]
    table: Rows
    mirror: Rows
    history: Sequence[Version]


def faults(seen: Seen) -> list[str]:
    """All that is wrong, a line each; empty if all is well."""
    folded, own = by_key(seen.changes)
    noted, odd = by_key(seen.journal)
    left = {key: events[-1].values for key, events in folded.items() if events[-1].op in LIVING}
    parts: Mapping[str, Iterable[str]] = {
        "a place has two changes": (str(place) for place, count in Counter(seen.places).items() if count > 1),
        "the changes are not in order": own,
        "the journal is not in order": odd,
        "the changes of a key are not those of the journal": _differing(folded, noted),
        "the changes do not lead to the table": _apart(left.items(), seen.table.items()),
        "the mirror is not the table": _apart(seen.mirror.items(), seen.table.items()),
        "the history is not that of the changes": _apart(seen.history, versions(seen.changes)),
    }
    return [line for what, found in parts.items() for line in _shown(what, [*found])]


def by_key(changes: Iterable[Change]) -> tuple[dict[int, list[Change]], list[str]]:
    """The changes of each key, and those that its row did not allow; a TRUNCATE is one of each row that was there."""
    found: dict[int, list[Change]] = {}
    alive: set[int] = set()
    odd = []
    for change in changes:
        if change.key is None:
            for key in alive:
                found[key].append(change._replace(key=key))
            alive.clear()
            continue
        if (change.key in alive) != (change.op in ("update", "delete")):
            odd.append(f"{change.op} of {change.key} at {change.at}")
        (alive.discard if change.op == "delete" else alive.add)(change.key)
        found.setdefault(change.key, []).append(change)
    return found, odd


def versions(changes: Iterable[Change]) -> Iterator[Version]:
    """The history that changes make; of a key's changes of one time the last one counts."""
    kept: dict[int, list[Change]] = {}
    for change in changes:
        if change.key is not None:
            kept.setdefault(change.key, []).append(change)
    for key, events in kept.items():
        last = [[*group][-1] for _, group in groupby(events, lambda change: change.at)]
        for change, after in zip(last, [*last[1:], None], strict=True):
            if change.op in LIVING:
                yield Version(key, change.values, change.at, after and after.at, after is None)


def _differing(folded: Mapping[int, Sequence[Change]], noted: Mapping[int, Sequence[Change]]) -> Iterator[str]:
    """A key's changes are the end of those in the journal; what came before them is in the snapshot."""
    for key in sorted({*folded, *noted}):
        events, journal = folded.get(key, ()), noted.get(key, ())
        first = [change for change in events if change.op == "snapshot"]
        rest = events[len(first) :]
        before = journal[: max(len(journal) - len(rest), 0)]
        base = [before[-1].values] if before and before[-1].op in LIVING else []
        if [change.values for change in first] != base:
            yield f"{key} began with {[change.values for change in first]}, and was {base}"
        if len(rest) > len(journal):
            yield f"{key} has {len(rest)} changes, of {len(journal)}"
        for change, note in zip(rest, journal[len(before) :], strict=False):
            if change[:3] != note[:3] or (note.at is not None and change.at != note.at):
                yield f"{key}: {change}, and was {note}"


def _apart(found: Iterable[Hashable], expected: Iterable[Hashable]) -> Iterator[str]:
    """What only one of the two has."""
    there, wanted = Counter(found), Counter(expected)
    yield from (f"too much: {row}" for row in (there - wanted).elements())
    yield from (f"missing: {row}" for row in (wanted - there).elements())


def _shown(what: str, found: Sequence[str]) -> list[str]:
    return [f"{what} ({len(found)}): {line}" for line in found[:SHOWN]]
