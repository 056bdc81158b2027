"""Writes Nexmark's events as JSON lines: the same bytes on every machine for the same settings.

python -m pipelines.nexmark.generator [FOLDER] [EVENTS]

Of 50 events one is a person, three are auctions and 46 are bids. Half of the bids are on a hot auction; three in four
auctions are by a hot seller, and three in four bids by a hot bidder. Some bids and auctions name auctions and persons
that come later, or never, as if events were out of order.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import numpy as np

from pipelines.nexmark.chance import Numbers
from pipelines.nexmark.events import AUCTIONS, OF, PERSONS, auction_lines, bid_lines, person_lines
from pipelines.nexmark.schemas import SIDE_INPUT, Kind

EVENTS = 200_000
SEED = 20_261_122
START = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
FILES = 8
# The average number of open auctions.
OPEN_AUCTIONS = 100
# Neighbours in a group are permuted by steps of this prime.
STRIDE = 953
SIDE_ROWS = 10_000

LINES: Mapping[Kind, Callable[..., Iterator[str]]] = MappingProxyType(
    {"persons": person_lines, "auctions": auction_lines, "bids": bid_lines}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings: `events` in all, `rate` per second of event time from `start` on, in `files` of each kind.

    Events are in order of time except within groups of `disorder`, which are shuffled; 1: all in order. Files with the
    same number hold events of the same period.
    """

    events: int = EVENTS
    rate: int = 1_000
    files: int = FILES
    disorder: int = 1
    seed: int = SEED
    start: datetime = START

    def __post_init__(self) -> None:
        """Refuse settings without events."""
        if min(self.events, self.rate, self.files, self.disorder) < 1:
            raise ValueError(f"events, rate, files and disorder are positive: {self}")

    @property
    def horizon(self) -> timedelta:
        """The average time that an auction is open: until OPEN_AUCTIONS others have begun."""
        return timedelta(milliseconds=OPEN_AUCTIONS * OF // AUCTIONS * 1000 // self.rate)

    @property
    def longest_auction(self) -> timedelta:
        """The longest time that an auction is open."""
        return 2 * self.horizon + timedelta(milliseconds=1)

    @property
    def span(self) -> timedelta:
        """The time from the first event until after the last one."""
        return timedelta(milliseconds=-(-self.events * 1000 // self.rate))


def write(folder: Path, settings: Settings = Settings()) -> Path:
    """Write the events below `folder`, by a rename, so that no reader sees half of them; FileExistsError if it exists.

    `persons`, `auctions` and `bids` have a folder each, with `settings.files` files; q13 looks up `side_input.csv`.
    """
    if folder.exists():
        raise FileExistsError(f"{folder} exists already")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".nexmark-") as hidden:
        made = Path(hidden) / folder.name
        for kind in LINES:
            (made / kind).mkdir(parents=True)
            for number in range(settings.files):
                with (made / kind / f"part-{number:05}.jsonl").open("w", encoding="ascii", newline="\n") as file:
                    file.writelines(lines(kind, number, settings))
        side = (f"{key},value-{key}\n" for key in range(SIDE_ROWS))
        (made / SIDE_INPUT).write_text("key,value\n" + "".join(side), encoding="ascii", newline="\n")
        shutil.move(made, folder)
    return folder


def lines(kind: Kind, file: int, settings: Settings) -> Iterator[str]:
    """The lines, with their newlines, of one file."""
    first, last = (settings.events * number // settings.files for number in (file, file + 1))
    events = _in_arrival_order(np.arange(first, last, dtype=np.int64), settings)
    place = events % OF
    low, high = {"persons": (0, PERSONS), "auctions": (PERSONS, PERSONS + AUCTIONS), "bids": (PERSONS + AUCTIONS, OF)}[
        kind
    ]
    chosen = events[(place >= low) & (place < high)]
    begin = int(settings.start.timestamp() * 1000)
    times = begin + chosen * 1000 // settings.rate
    return LINES[kind](settings.seed, chosen, times, settings.horizon // timedelta(milliseconds=1))


def _in_arrival_order(numbers: Numbers, settings: Settings) -> Numbers:
    """The events at the positions `numbers`; an incomplete last group stays in order."""
    size = settings.disorder
    base = numbers // size * size
    whole = base + size <= settings.events
    return np.where(whole, base + numbers * STRIDE % size, numbers)


def main() -> None:
    """Write the events unless they exist."""
    from pipelines.nexmark.sources import default_folder

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default_folder()
    if not folder.exists():
        write(folder, Settings(events=int(sys.argv[2]) if len(sys.argv) > 2 else EVENTS))


if __name__ == "__main__":
    main()
