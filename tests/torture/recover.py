"""Goes on from what a crash has left, as a user would, and says what is wrong then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.torture.going_on import Rows, check_savepoints, judge_after_crash
from tests.torture.history import forget_state
from tests.torture.judges import JUDGES, forked
from tests.torture.operations import OPERATIONS
from tests.torture.recorder import Crash, Recording
from tests.torture.site import Code, Site


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
        wrong = _judged(site, crash.point.operation, refused, saved=saved or {}, lost=lost)
        check_savepoints(site)
    except Exception as error:  # noqa: BLE001  whatever it is, it is told of
        wrong = f"{type(error).__name__}: {error}"
    return Outcome(crash, points, wrong, tuple(refused))


def _judged(site: Site, operation: str, refused: list[str], *, saved: Rows, lost: bool) -> str:
    if operation == "fork":
        return forked(site, saved, refused)
    if operation in JUDGES:
        return JUDGES[operation](site, refused)
    return judge_after_crash(site, OPERATIONS[operation], refused, sealed=operation == "finish", lost=lost)
