"""Goes on from the crash points of a recording, evenly over all operations, and writes down what became of each."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path

from rs_assets.spark.driver import SparkDriver
from tests.torture.operations import OPERATIONS, PARTED, SHUFFLED, UPLOADED
from tests.torture.recorder import Crash, Recording, record
from tests.torture.recover import Outcome, distinct, evenly, outcomes
from tests.torture.site import SMALL, Site

Chosen = list[tuple[Crash, int]]


@dataclass(frozen=True, slots=True)
class Told:
    """What is kept of an outcome: the name of the point, how many points it stands for, and what was met."""

    point: str
    points: int
    wrong: str
    refused: tuple[str, ...]

    @property
    def operation(self) -> str:
        """What was cut short."""
        return self.point.partition("|")[0]


class Outcomes:
    """The outcomes of one recording, in a file: what was right is not gone on from again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        lines = file.read_text().splitlines() if file.exists() else []
        self.known = {told.point: told for told in (Told(**json.loads(line)) for line in lines)}

    def lacking(self, chosen: Chosen) -> Chosen:
        """Those of which nothing is known, or that it was wrong."""
        return [each for each in chosen if self._wrong(str(each[0].point))]

    def _wrong(self, point: str) -> bool:
        return point not in self.known or bool(self.known[point].wrong)

    def keep(self, outcome: Outcome) -> None:
        """Write one down."""
        told = Told(str(outcome.crash.point), outcome.points, outcome.wrong, outcome.refused)
        self.known[told.point] = told
        with self.file.open("a") as file:
            file.write(f"{json.dumps(asdict(told))}\n")

    def table(self, trees: Chosen) -> Iterator[str]:
        """Lines for people: for each operation how many trees there are, and what became of those gone on from."""
        yield f"{'operation':14} {'trees':>6} {'gone on':>8} {'refused first':>14} {'wrong':>6}"
        for operation in (*OPERATIONS, ""):
            of = [told for told in self.known.values() if operation in (told.operation, "")]
            there = sum(operation in (crash.point.operation, "") for crash, _ in trees)
            refused, wrong = sum(bool(told.refused) for told in of), sum(bool(told.wrong) for told in of)
            yield f"{operation or 'all':14} {there:6} {len(of):8} {refused:14} {wrong:6}"


def crashes(
    folder: Path,
    operations: list[str],
    *,
    every: int,
    point: str | None,
    minutes: float,
    shuffled: bool = False,
    uploaded: bool = False,
    parted: bool = False,
    part: tuple[int, int] = (1, 1),
) -> int:
    """Record, go on from every crash that differs, and say what became of them; how many came out wrong.

    With a `point`, only from there: its name, or its number in this recording. A folder that has a recording goes on
    where it was left; none is begun once the minutes are over. `shuffled`: of a pipeline with a durable shuffle;
    `uploaded`: of one that loses its home with each crash; `parted`: of one whose windows are partitions. `part` 2, 5:
    the second fifth, each spread as evenly.
    """
    written = folder / "recording.json"
    if not written.exists():
        how = {SHUFFLED: shuffled, UPLOADED: uploaded, PARTED: parted}
        record(folder, *(name for name, wanted in how.items() if wanted)).save(written)
    recording, kept = Recording.load(written), Outcomes(folder / "outcomes.jsonl")
    trees = distinct(recording.of(*operations))
    some = evenly(trees)[: -(-len(trees) // every)][part[0] - 1 :: part[1]]
    chosen = kept.lacking(some) if point is None else _named(recording, point)
    print(f"{len(recording.of(*operations))} crash points, {len(trees)} trees, {len(chosen)} to go on from", flush=True)
    until = time.monotonic() + 60 * minutes
    timely = takewhile(lambda _: time.monotonic() < until, chosen)
    site = Site(recording.root, SparkDriver.shared(SMALL), shuffled=shuffled, uploaded=uploaded, parted=parted)
    wrong = _gone_on(site, recording, timely, kept, told=point is not None)
    print("\n".join(kept.table(trees)), flush=True)
    return wrong


def _named(recording: Recording, point: str) -> Chosen:
    chosen = [(each, 1) for number, each in enumerate(recording.crashes) if point in (str(number), str(each.point))]
    if not chosen:
        sys.exit(f"error: no crash point {point!r}; there are {len(recording.crashes)}, counted from 0")
    return chosen


def _gone_on(
    site: Site, recording: Recording, chosen: Iterable[tuple[Crash, int]], kept: Outcomes, *, told: bool
) -> int:
    began, wrong = time.monotonic(), 0
    for number, each in enumerate(outcomes(site, recording, chosen, lost=site.uploaded), 1):
        kept.keep(each)
        wrong += bool(each.wrong)
        if each.wrong:
            print(f"WRONG {each.crash.point}\n  {each.wrong}\n  refused: {each.refused}", flush=True)
        elif each.refused or number % 20 == 0 or told:
            said = " ".join(each.refused)[:150].replace("\n", " ")
            print(f"{number} {time.monotonic() - began:.0f} s {each.crash.point} {said}", flush=True)
    return wrong
