"""What must hold behind a crash in an operation that changes more than it adds: all of it is there, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from rs_assets.errors import RsError
from tests.torture.going_on import Rows, finish, finish_after_crash, refusal
from tests.torture.model import WINDOW_S, Numbers, Row, Windows, all_read, copied, difference, of_page, too_strict
from tests.torture.operations import (
    FORGOTTEN,
    FORK,
    FORMER,
    OPERATIONS,
    PROMOTED,
    backfill,
    begin,
    forget,
    promote,
    redrive,
)
from tests.torture.site import COPY, WINDOWS, Site

# The records that the condition `PROMOTED` leaves out.
LEFT_OUT = range(3, 1000, 7)
FIRST_NUMBERS = frozenset(range(WINDOW_S))

# Says what is wrong, and adds what was refused on the way.
Judge = Callable[[Site, list[str]], str]


def forked(site: Site, saved: Rows, refused: list[str]) -> str:
    """Fork again, unless it was forked; the fork goes on where the savepoint was, the first pipeline is as it was."""
    before = site.held()
    refusal(site, OPERATIONS["fork"].deed, refused)
    finish(site, FORK)
    changed = difference(site.held(), before)
    if changed:
        return f"the pipeline that was forked: {changed}"
    wanted = {
        name: [row for row in rows if row not in saved[name]] for name, rows in all_read(site.input.of("a")).items()
    }
    return difference(site.held(FORK), wanted)


def _promoted(site: Site, refused: list[str]) -> str:
    """The new code goes on, or the former does and is promoted again; at last all rows are those of the new one."""
    site.code = replace(FORMER, kept=PROMOTED)
    wrong = finish_after_crash(site, OPERATIONS["promote"], refused)
    if not wrong and not refused:
        site.code = FORMER
        wrong = _refused(site)
    promote(site)
    numbers = site.input.of("a")
    wanted = {**all_read(numbers), WINDOWS: _closed(numbers.difference(LEFT_OUT)), "letters": site.input.letters("a")}
    return wrong or difference(site.held(), wanted)


def _refused(site: Site) -> str:
    """What is wrong if a start of today's code is not refused, or changes something."""
    before = site.held()
    try:
        finish(site)
    except RsError:
        return difference(site.held(), before)
    return "both codes go on"


def _backfilled(site: Site, refused: list[str]) -> str:
    """The first partition was replaced or not; the code of the stream goes on; at last the partition is replaced."""
    wrong = finish_after_crash(site, OPERATIONS["backfill"], refused)
    numbers = site.input.of("a")
    replaced = _with_replaced(numbers)
    wrong = wrong or _either(site, all_read(numbers), replaced)
    backfill(site)
    return wrong or difference(site.held(), {**replaced, "letters": site.input.letters("a")})


def _with_replaced(numbers: Numbers) -> Rows:
    """What both outputs hold at the end with the first partition replaced."""
    return {**all_read(numbers), WINDOWS: _closed(numbers - FIRST_NUMBERS.intersection(LEFT_OUT))}


def _redriven(site: Site, refused: list[str]) -> str:
    """All dead letters of the strict code are rows, or none; at last all are, each once. A backfill was before."""
    since, until = _last_growth(site)
    strict = frozenset(filter(too_strict, range(since, until)))
    wrong = finish_after_crash(site, OPERATIONS["redrive"], refused)
    numbers, bad = site.input.of("a"), site.input.letters("a")
    after = _with_replaced(numbers)
    wrong = wrong or _either(site, {**after, COPY: copied(numbers - strict)}, after)
    redrive(site)
    return wrong or difference(site.held(), {**after, "letters": bad})


def _last_growth(site: Site) -> tuple[int, int]:
    """The numbers of the newest file: from the first to behind the last."""
    newest = max(site.place("a").iterdir()).read_text().splitlines()
    return site.input.count - len(newest) + 1, site.input.count


def _forgotten(site: Site, refused: list[str]) -> str:
    """The records of the page are all there or all gone, and what came since is there; at last all of them are gone."""
    read = site.input.of("a")
    wrong = finish_after_crash(site, OPERATIONS["forget"], refused)
    numbers = site.input.of("a")
    wrong = wrong or _either(site, _without(numbers, frozenset()), _without(numbers, of_page(FORGOTTEN, read)))
    forget(site)
    wanted = {**_without(numbers, of_page(FORGOTTEN, numbers)), "letters": site.input.letters("a")}
    return wrong or difference(site.held(), wanted)


def _begun(site: Site, refused: list[str]) -> str:
    """The rows are those of the generation before, or of what is read now; at last they are the latter."""
    wrong = finish_after_crash(site, OPERATIONS["new generation"], refused)
    numbers = site.input.of("a")
    wrong = wrong or _either(site, all_read(numbers.union(range(min(numbers)))), all_read(numbers))
    begin(site)
    finish(site)
    return wrong or difference(site.held(), {**all_read(numbers), "letters": site.input.letters("a")})


def _without(numbers: Numbers, gone: Numbers) -> Rows:
    """What both outputs hold at the end without the records that were forgotten."""
    return {COPY: copied(numbers - gone), WINDOWS: _closed(numbers - gone)}


def _either(site: Site, one: Rows, other: Rows) -> str:
    """What is wrong if the outputs hold neither of two."""
    held = site.held()
    wrong = difference(held, one)
    return wrong and difference(held, other) and f"neither: {wrong}"


def _closed(numbers: Numbers) -> list[Row]:
    """The rows of all windows, at the end."""
    return Windows(numbers).finished().closed


# Of the operations that are judged by more than the outputs of a run.
JUDGES: Mapping[str, Judge] = MappingProxyType(
    {
        "new generation": _begun,
        "promote": _promoted,
        "backfill": _backfilled,
        "redrive": _redriven,
        "forget": _forgotten,
    }
)
