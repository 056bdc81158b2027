"""What a ledger over Kafka must show; it knows neither Kafka nor the library.

Each record names the partition that it was written to, its number there, and the attempt that wrote it: an attempt is
one transaction of the producer, so a number that was written again has another attempt.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# More of a kind would say nothing new.
SHOWN = 5


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A record of the ledger: from which partition, which one there, of what attempt, under which key."""

    partition: int
    number: int
    attempt: str
    key: str


@dataclass(frozen=True, slots=True)
class Seen:
    """An entry as a reader saw it: in which partition of the output, and where there."""

    place: int
    offset: int
    entry: Entry


def faults(committed: Iterable[Entry], seen: Sequence[Seen]) -> list[str]:
    """What is wrong with what was seen in the output, in the order of its offsets; nothing if all is well."""
    wanted, had = Counter(committed), Counter(each.entry for each in seen)
    numbers = {(entry.partition, entry.number) for entry in wanted}
    missing, more = wanted - had, had - wanted
    return [
        *_told("input with holes", _holes(wanted)),
        *_told("lost", sorted(missing)),
        *_told("doubled", sorted(entry for entry in more if entry in wanted)),
        *_told("aborted, and seen", sorted(e for e in more if e not in wanted and (e.partition, e.number) in numbers)),
        *_told("never committed", sorted(e for e in more if (e.partition, e.number) not in numbers)),
        *_told("read again", _back((each.place, each.offset, each) for each in seen)),
        *_told("under two partitions", _parted(seen)),
        *_told("out of order within a key", _back((e.entry.key, e.entry.number, e) for e in seen)),
    ]


def _told(what: str, found: Sequence[object]) -> list[str]:
    if not found:
        return []
    return [f"{len(found)} {what}: {', '.join(map(str, found[:SHOWN]))}"]


def _holes(entries: Iterable[Entry]) -> list[str]:
    """Partitions whose numbers do not count up from 0."""
    numbers: dict[int, list[int]] = defaultdict(list)
    for entry in entries:
        numbers[entry.partition].append(entry.number)
    return [f"partition {p}" for p, found in numbers.items() if sorted(found) != list(range(len(found)))]


def _back(steps: Iterable[tuple[object, int, Seen]]) -> list[Seen]:
    """What does not go on from the one before it of the same name."""
    last: dict[object, int] = {}
    found = []
    for name, number, each in steps:
        if number <= last.get(name, -1):
            found.append(each)
        last[name] = number
    return found


def _parted(seen: Iterable[Seen]) -> list[str]:
    places: dict[str, set[int]] = defaultdict(set)
    for each in seen:
        places[each.entry.key].add(each.place)
    return sorted(key for key, found in places.items() if len(found) > 1)
