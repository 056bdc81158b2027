"""Goes on from what a crash has left, as a user would, and says what is wrong then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from rs_assets.errors import RsError
from rs_assets.runtime.upkeep import savepoints
from tests.torture.history import forget_state
from tests.torture.model import Row, Windows, all_read, difference
from tests.torture.operations import FORK, JOB, OPERATIONS, PROMOTED, ROWS, Operation, promote
from tests.torture.recorder import Crash, Recording
from tests.torture.site import WINDOWS, Code, Site

Rows = dict[str, list[Row]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a crash: `wrong` is empty if the output is right; `refused` are the errors met on the way.

    `points` is how many crash points it stands for: equal trees are gone on from once.
    """

    crash: Crash
    points: int
    wrong: str
    refused: tuple[str, ...] = ()


def distinct(crashes: Iterable[Crash]) -> list[tuple[Crash, int]]:
    """One crash for all that left the same, and how many those are."""
    alike: dict[tuple[str, str], list[Crash]] = {}
    for crash in crashes:
        alike.setdefault((crash.point.operation, crash.digest), []).append(crash)
    return [(each[0], len(each)) for each in alike.values()]


def evenly(chosen: Iterable[tuple[Crash, int]]) -> list[tuple[Crash, int]]:
    """The same in an order of which every beginning is spread evenly over the operations, and over each of them."""
    by_operation: dict[str, list[tuple[Crash, int]]] = {}
    for each in chosen:
        by_operation.setdefault(each[0].point.operation, []).append(each)
    placed = []
    for crashes in by_operation.values():
        halved = sorted(range(len(crashes)), key=_halving)
        placed += [((rank + 0.5) / len(crashes), crashes[index]) for rank, index in enumerate(halved)]
    return [each for _, each in sorted(placed, key=lambda both: both[0])]


def _halving(index: int) -> float:
    """Where a number comes when halves are halved again: those with many twos in them first."""
    return int(f"{index:b}"[::-1], 2) / (1 << index.bit_length()) if index else 0.0


def outcomes(
    site: Site, recording: Recording, chosen: Iterable[tuple[Crash, int]], *, lost: bool = False
) -> Iterator[Outcome]:
    """What becomes of each of the chosen crashes, one after the other in the same folder.

    `lost`: the home is lost with each crash.
    """
    saved: Rows | None = None
    for crash, points in chosen:
        if crash.point.operation == "fork" and saved is None:
            recording.vault.lay_back(recording.bases["savepoint"], site.root)
            saved = site.held()
        recording.vault.lay_back(crash.tree, site.root)
        if lost:
            site.lose(site.home)
        yield outcome(site, crash, points=points, saved=saved, lost=lost)


def outcome(site: Site, crash: Crash, *, points: int = 1, saved: Rows | None = None, lost: bool = False) -> Outcome:
    """What becomes of what lies in the site's folder; `saved` is what the sinks held at the oldest savepoint."""
    forget_state(site)
    site.look()
    refused: list[str] = []
    site.code = Code()
    try:
        if crash.point.operation == "fork":
            wrong = _fork(site, saved or {}, refused)
        elif crash.point.operation == "promote":
            wrong = _promoted(site, refused)
        else:
            sealed = crash.point.operation == "finish"
            wrong = _goes_on(site, OPERATIONS[crash.point.operation], refused, sealed=sealed, lost=lost)
        check_savepoints(site)
    except Exception as error:  # noqa: BLE001  whatever it is, it is told of
        wrong = f"{type(error).__name__}: {error}"
    return Outcome(crash, points, wrong, tuple(refused))


def _goes_on(
    site: Site, operation: Operation, refused: list[str], *, sealed: bool, lost: bool, checked: bool = True
) -> str:
    """Run to the end of the input, which has grown unless it was being ended; what was cut short is done again.

    Dead letters may have been lost with the home. Without `checked` the outputs are not compared at the end.
    """
    if not sealed:
        site.grow("a", ROWS)
    before = site.held()
    try:
        finish(site)
    except RsError as error:
        refused.append(f"{type(error).__name__}: {error}")
        changed = difference(site.held(), before)
        if changed or operation.again is None:
            return f"it was refused, and {changed or 'nothing helps'}: {error}"
        operation.again(site)
        finish(site)
    if not checked:
        return ""
    letters = {} if lost or site.uploaded else {"letters": site.input.letters("a")}
    return difference(site.held(), {**all_read(site.input.of("a")), **letters})


def _promoted(site: Site, refused: list[str]) -> str:
    """The new code goes on, or the former does and is promoted again; at last all rows are those of the new one."""
    site.code = replace(site.code, kept=PROMOTED)
    wrong = _goes_on(site, OPERATIONS["promote"], refused, sealed=False, lost=False, checked=False)
    if not wrong and not refused:
        site.code = Code()
        wrong = _refused(site)
    site.code = replace(site.code, kept=PROMOTED)
    promote(site)
    numbers = site.input.of("a")
    windows = Windows(frozenset(n for n in numbers if n % 7 != 3)).finished().closed
    wanted = {**all_read(numbers), WINDOWS: windows, "letters": site.input.letters("a")}
    return wrong or difference(site.held(), wanted)


def _refused(site: Site) -> str:
    """What is wrong if a start of today's code is not refused, or changes something."""
    before = site.held()
    try:
        finish(site)
    except RsError:
        return difference(site.held(), before)
    return "both codes go on"


def _fork(site: Site, saved: Rows, refused: list[str]) -> str:
    """Fork again, unless it was forked; the fork goes on where the savepoint was, the first pipeline is as it was."""
    before = site.held()
    try:
        OPERATIONS["fork"].deed(site)
    except RsError as error:
        refused.append(f"{type(error).__name__}: {error}")
    finish(site, FORK)
    changed = difference(site.held(), before)
    if changed:
        return f"the pipeline that was forked: {changed}"
    wanted = {
        name: [row for row in rows if row not in saved[name]] for name, rows in all_read(site.input.of("a")).items()
    }
    return difference(site.held(FORK), wanted)


def check_savepoints(site: Site) -> None:
    """Every savepoint that is listed is whole; an RsError if one is not."""
    store = savepoints.savepoints_of(site.options)
    for listed in store.savepoints("shop", JOB):
        store.load("shop", JOB, listed.id)


def finish(site: Site, job: str = JOB) -> None:
    """Run to the end of the input and close all windows."""
    site.pipeline(job).run(site.options, finish=True)
