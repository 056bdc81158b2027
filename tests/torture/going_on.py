"""How a pipeline goes on behind a crash: what was cut short is done again, and the outputs are compared at the end."""

from __future__ import annotations

from collections.abc import Callable

from rs_assets.errors import RsError
from rs_assets.runtime.upkeep import savepoints
from tests.torture.model import Row, all_read, difference
from tests.torture.operations import JOB, ROWS, Operation
from tests.torture.site import Site

Rows = dict[str, list[Row]]


def finish(site: Site, job: str = JOB) -> None:
    """Run to the end of the input and close all windows."""
    site.pipeline(job).run(site.options, finish=True)


def judge_after_crash(
    site: Site, operation: Operation, refused: list[str], *, sealed: bool = False, lost: bool = False
) -> str:
    """As `finish_after_crash`; the outputs are those of all input. Dead letters may have been lost with the home."""
    wrong = finish_after_crash(site, operation, refused, sealed=sealed)
    letters = {} if lost or site.uploaded else {"letters": site.input.letters("a")}
    return wrong or difference(site.held(), {**all_read(site.input.of("a")), **letters})


def finish_after_crash(site: Site, operation: Operation, refused: list[str], *, sealed: bool = False) -> str:
    """Run to the end of the input, which has grown unless it was being ended; what was cut short is done again.

    Says what is wrong with a refusal.
    """
    if not sealed:
        site.grow("a", ROWS)
    before = site.held()
    try:
        finish(site)
    except RsError as error:
        refused.append(told(error))
        changed = difference(site.held(), before)
        if changed or operation.again is None:
            return f"it was refused, and {changed or 'nothing helps'}: {error}"
        operation.again(site)
        finish(site)
    return ""


def refusal(site: Site, deed: Callable[[Site], object], refused: list[str]) -> None:
    """Do what may be refused by now."""
    try:
        deed(site)
    except RsError as error:
        refused.append(told(error))


def told(error: RsError) -> str:
    """An error in a line."""
    return f"{type(error).__name__}: {error}"


def check_savepoints(site: Site) -> None:
    """Every savepoint that is listed is whole; an RsError if one is not."""
    store = savepoints.savepoints_of(site.options)
    for listed in store.savepoints("shop", JOB):
        store.load("shop", JOB, listed.id)
