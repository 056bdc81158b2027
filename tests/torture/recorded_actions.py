"""What people do with recorded batches: try, backfill, prove, redrive, and forget."""

from __future__ import annotations

from dataclasses import replace

from rs_assets.runtime.recorded.difference import Difference
from tests.torture.act import Act, Chances, pick
from tests.torture.history import Finding, History
from tests.torture.model import PAGES, STRICT, Copy
from tests.torture.site import COPY, REFUSED, WINDOWS, Code


def trying(history: History, chances: Chances) -> Act:
    """The current code over the recorded batches: its rows are those of the table, but for those that it refused.

    Or over those since a savepoint, with its state, as long as each table holds what its query has read.
    """
    sink = (COPY, WINDOWS)[pick(chances[0], 2)]
    before, tried = history.site.held(), list[Difference]()
    saved = history.saved if chances[1] < 0.5 and not history.mixed else []
    since = saved[pick(chances[2], len(saved))].id if saved else None

    def done() -> None:
        history.expect(before, "behind a try")
        found, known = tried[-1], history.now[sink].read
        more = len(known.refused) if isinstance(known, Copy) and history.site.code.usual != STRICT else 0
        if found.only_before or found.changed or (known is not None and found.only_after != more):
            raise Finding(f"a try of the same code, since {since}, and {more} refused records, differs: {found}")

    pipeline, name = history.site.pipeline(), history.site.code.names[sink]
    return Act(lambda: tried.append(pipeline.compare(history.site.options, sink=name, savepoint_id=since)), done)


def backfilling(history: History, chances: Chances) -> Act | None:
    """A closed partition is computed again, which changes no row."""
    site = history.site
    pipeline, name = site.pipeline(), site.code.names[WINDOWS]
    closed = pipeline.partitions(site.options, sink=name).closed if site.parted else ()
    if not closed:
        return None
    key, before = closed[pick(chances[0], len(closed))].key, site.held()
    return Act(
        lambda: pipeline.backfill(key, site.options, sink=name, judge="as_then"),
        lambda: history.expect(before, f"behind a backfill of {key}"),
        again=True,
    )


def proving(history: History, chances: Chances) -> Act | None:
    """The rows of the closed partitions are those of one batch, and each record is accounted for."""
    site = history.site
    if not site.parted:
        return None
    before, proofs = site.held(), []

    def done() -> None:
        history.expect(before, "behind a proof")
        broken = [proof for proof in proofs if not proof.holds]
        if broken:
            raise Finding(f"not proven: {'; '.join(map(str, broken))}")

    name = site.code.names[WINDOWS]
    return Act(lambda: proofs.extend(site.pipeline().prove(site.options, sink=name)), done)


def refusing(history: History, chances: Chances) -> Act | None:
    """A run of code that is too strict, so that records become dead letters; corrected code is there for the next."""
    site = history.site
    if not site.parted or not history.settled():
        return None
    site.grow("a", 3 + pick(chances[0], 12))
    history.mixed = True
    site.code = replace(site.code, usual=STRICT)

    def done() -> None:
        history.caught_up()
        site.code = replace(site.code, usual=Code().usual)

    return Act(history.run, done, again=True)


def redriving(history: History, chances: Chances) -> Act | None:
    """The dead letters of the strict code become rows, each once."""
    site = history.site
    if not site.parted or history.letters_lost or not history.settled():
        return None
    site.code = replace(site.code, usual=Code().usual)
    return Act(lambda: site.pipeline().redrive(site.options, where=REFUSED), history.redriven, again=True)


def forgetting(history: History, chances: Chances) -> Act | None:
    """The records of a page that were read go out of everything."""
    if not history.settled():
        return None
    page, site = f"p{pick(chances[0], PAGES)}", history.site

    def do() -> None:
        done = site.pipeline().forget({"page": [page]}, site.options, savepoints="remove")
        if not done.complete:
            raise Finding(f"not all was forgotten: {done}")

    return Act(do, lambda: history.forgot(page), again=True)
