"""What people do to a pipeline, one function each. Chances are numbers from 0 to 1 that choose what exactly."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from deltalake import DeltaTable

from rs_assets.compile.planner.plan import plan_queries
from rs_assets.dagster.runs.compaction import compact_everything
from rs_assets.runtime.run.rescale import rescale
from rs_assets.runtime.upkeep import savepoints
from tests.torture.act import Act, Chances, pick
from tests.torture.history import EMPTY, Finding, History, Refusal, Saved, forget_state
from tests.torture.model import Copy, Windows, copied
from tests.torture.recorded_actions import backfilling, forgetting, proving, redriving, refusing, trying
from tests.torture.site import COPY, WINDOWS

# What is done; `done` is what must hold afterwards.
Do = Callable[[], object]


# Input.


def grow(history: History, chances: Chances) -> None:
    """Records come."""
    sources = history.site.code.sources
    history.site.grow(sources[pick(chances[0], len(sources))], 3 + pick(chances[1], 12))


# What runs.


def running(history: History, chances: Chances) -> Act:
    """A run to the end of what is there."""
    return Act(history.run, history.caught_up)


def streaming(history: History, chances: Chances) -> Act:
    """A stream: started, fed, stopped."""
    return Act(lambda: history.stream(meanwhile=lambda: grow(history, chances)), history.caught_up)


def rescaling(history: History, chances: Chances) -> Act:
    """Another number of state partitions; all that is there is processed before."""
    number = 1 + pick(chances[0], 3)
    topology = history.site.pipeline().topology

    def done() -> None:
        # It does not tell of its batches.
        for trail in history.trails.values():
            trail[max(trail, default=-1) + 1] = replace(EMPTY[COPY], rows=None, read=None)
        history.caught_up()

    return Act(lambda: rescale(topology, number, history.site.options), done, again=True)


# What goes back.


def saving(history: History, chances: Chances) -> Act:
    """A savepoint."""
    taken = []

    def done() -> None:
        now = {query: replace(known, rows=None) if history.unseen else known for query, known in history.now.items()}
        code = history.site.code
        trails = {query: dict(trail) for query, trail in history.trails.items()}
        history.saved.append(Saved(taken[-1].id, trails, now, code.sources, code.names, history.unseen))
        history.expect({}, "behind a savepoint")

    return Act(
        lambda: taken.append(savepoints.savepoint(history.site.pipeline().topology, history.site.options)), done, True
    )


def restoring(history: History, chances: Chances) -> Act | None:
    """Back, or forward, to a savepoint."""
    if not history.saved:
        return None
    saved = history.saved[pick(chances[0], len(history.saved))]

    def done() -> None:
        history.unseen = saved.unseen
        for query in (COPY, WINDOWS):
            history.went_back(query, saved.now[query], saved.trails[query])

    topology = history.site.pipeline().topology
    return Act(lambda: savepoints.restore(topology, history.site.options, savepoint_id=saved.id), done, again=True)


def rewinding(history: History, chances: Chances) -> Act | None:
    """One query back to a batch."""
    query = COPY if chances[0] < 0.5 else WINDOWS
    batch = int(chances[1] * (max(history.trails[query], default=-1) + 2))
    topology = history.site.pipeline().topology
    plan = next(plan for plan in plan_queries(topology) if (plan.stateful is None) == (query == COPY))
    told: list[str] = []

    def done() -> None:
        # Windows behind a shuffle go back with the query that writes it, if they have read what it takes back.
        window = re.search(rf"\b{re.escape(history.site.code.names['window'])} to batch ([0-9]+)", told[-1])
        for each, at in {query: batch, **({WINDOWS: int(window[1])} if window else {})}.items():
            trail = {number: seen for number, seen in history.trails[each].items() if number <= at}
            history.went_back(each, history.at(each, at), trail)

    step = plan.stateful or plan.name
    return Act(
        lambda: told.append(savepoints.rewind(topology, batch, history.site.options, step=step)), done, again=True
    )


def forking(history: History, chances: Chances) -> Act | None:
    """Another pipeline begins where a savepoint is, and runs."""
    code = history.site.code
    alike = [each for each in history.saved if (each.sources, each.names) == (code.sources, code.names)]
    alike = [
        each for each in alike if None not in (each.now[COPY].read, each.now[WINDOWS].rows, each.now[WINDOWS].read)
    ]
    if not alike:
        return None
    saved = alike[pick(chances[0], len(alike))]
    history.forks += 1
    job = f"fork{history.forks}"
    site, topology = history.site, history.site.pipeline(job).topology

    def do() -> None:
        savepoints.fork(topology, ("shop", "town"), site.options, savepoint_id=saved.id)

    def done() -> None:
        before = site.held()
        site.pipeline(job).run(site.options)
        there, copy, windows = site.input.of(code.sources), saved.now[COPY].read, saved.now[WINDOWS].read
        assert isinstance(copy, Copy)
        assert isinstance(windows, Windows)
        closed = windows.read(there).closed
        wanted = {
            COPY: copied(there - copy.seen),
            WINDOWS: [row for row in closed if row not in (saved.now[WINDOWS].rows or ())],
        }
        held = site.held(job)
        history.expect({query: before[query] for query in (COPY, WINDOWS)}, "behind a fork of it")
        if any(held[query] != wanted[query] for query in wanted):
            raise Finding(f"the fork holds {held}, wanted {wanted}")

    return Act(do, done, again=True)


# What changes in the program.


def renaming(history: History, chances: Chances) -> Act:
    """A sink, a source or the window gets another name."""
    what = (COPY, WINDOWS, "a", "window")[pick(chances[0], 4)]
    history.site.code = history.site.code.rename(what, f"{what}{len(history.site.code.renamed) + 1}")
    return running(history, chances)


def changing_sources(history: History, chances: Chances) -> Act:
    """The second source comes, or goes."""
    code = history.site.code
    history.site.code = replace(code, sources=("a",) if "b" in code.sources else ("a", "b"))
    return running(history, chances)


# What is done to tables and folders.


def compacting(history: History, chances: Chances) -> Act:
    """The nightly compaction."""
    before = history.site.held()
    pipeline, home = history.site.pipeline(), history.site.options.home
    return Act(lambda: compact_everything([pipeline], home), lambda: history.expect(before, "behind a compaction"))


def vacuuming(history: History, chances: Chances) -> None:
    """Somebody vacuums an output, with everything that may be wrong about it."""
    table = history.site.table((COPY, WINDOWS)[pick(chances[0], 2)])
    if DeltaTable.is_deltatable(str(table)):
        DeltaTable(str(table)).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)


def deleting(history: History, chances: Chances) -> None:
    """Somebody deletes an output, and puts it back once a run was refused."""
    with _damaged(history, chances) as table:
        if table is not None:
            shutil.rmtree(table)


def restoring_by_hand(history: History, chances: Chances) -> None:
    """Somebody brings an output back to an older version, and puts it back once a run was refused."""
    with _damaged(history, chances) as table:
        if table is not None:
            newest = DeltaTable(str(table))
            with suppress(Exception):  # a version whose files are gone
                newest.restore(pick(chances[1], newest.version() + 1))


@contextmanager
def _damaged(history: History, chances: Chances) -> Iterator[Path | None]:
    """An output is damaged in the block: then a run is right, or is refused until the output is put back."""
    sink = (COPY, WINDOWS)[pick(chances[0], 2)]
    table, kept = history.site.table(sink), history.site.root / ".kept"
    if not DeltaTable.is_deltatable(str(table)):
        yield None
        return
    shutil.copytree(table, kept)
    try:
        yield table
        with history.refusable() as refused:
            history.run()
        history.say(f"  the run: {refused}")
        if refused:
            shutil.rmtree(table, ignore_errors=True)
            shutil.copytree(kept, table)
            history.run()
        history.caught_up()
    finally:
        shutil.rmtree(kept)


def losing_checkpoints(history: History, chances: Chances) -> None:
    """The checkpoints are lost; the next run recovers, or a new generation is begun."""
    site = history.site
    site.lose(site.options.home.job("shop", "town"))
    _brought_back(history)


def losing_home(history: History, chances: Chances) -> None:
    """The whole home is lost, with the tables in it; what lies elsewhere stays."""
    history.letters_lost = True
    history.site.lose(history.site.home)
    if not history.site.policy.uri:
        history.saved.clear()
    _brought_back(history)


def _brought_back(history: History) -> None:
    """Run; if that is refused restore the newest savepoint; if that helps neither begin anew.

    With uploads the run is right, unless somebody has gone back since the last one.
    """
    forget_state(history.site)
    history.forgotten()
    topology = history.site.pipeline().topology
    attempts: tuple[tuple[str, Do], ...] = (
        ("run", history.run),
        ("restore and run", lambda: (savepoints.restore(topology, history.site.options), history.run())),
        ("new generation", lambda: (history.begun_anew(), history.run(new_generation=True))),
    )
    for name, attempt in attempts:
        with history.refusable() as refused:
            attempt()
        history.say(f"  {name}: {refused}")
        if not refused:
            history.caught_up()
            return
        if history.uploaded:
            raise Finding(f"a lost home did not continue from its uploads: {refused.error}")
    raise Finding("nothing brings the pipeline back")


def moving_home(history: History, chances: Chances) -> None:
    """The home gets another place; a run there is right, or refused, and then it goes back."""
    site = history.site
    if not site.home.exists():
        return
    site.move_home()
    with history.refusable() as refused:
        history.run()
    history.say(f"  the run: {refused}")
    if refused:
        site.move_home()
        history.run()
    history.caught_up()


# How often each is done, beside the others.
ACTS: Mapping[str, tuple[int, Callable[[History, Chances], Act | None]]] = MappingProxyType(
    {
        "run": (6, running),
        "stream": (2, streaming),
        "rescale": (1, rescaling),
        "savepoint": (4, saving),
        "restore": (4, restoring),
        "rewind": (4, rewinding),
        "fork": (1, forking),
        "rename": (1, renaming),
        "change sources": (1, changing_sources),
        "compact": (1, compacting),
        "try": (1, trying),
        "backfill": (1, backfilling),
        "prove": (1, proving),
        "refuse": (1, refusing),
        "redrive": (1, redriving),
        "forget": (1, forgetting),
    }
)
DEEDS: Mapping[str, tuple[int, Callable[[History, Chances], None]]] = MappingProxyType(
    {
        "grow": (8, grow),
        "vacuum": (1, vacuuming),
        "delete table": (1, deleting),
        "restore table by hand": (1, restoring_by_hand),
        "lose checkpoints": (1, losing_checkpoints),
        "lose home": (1, losing_home),
        "move home": (1, moving_home),
    }
)
# May be killed on the way.
KILLED = (
    *("run", "stream", "rescale", "savepoint", "restore", "rewind", "fork", "compact", "rename", "change sources"),
    *("backfill", "prove", "refuse", "redrive", "forget"),
)


def act(history: History, name: str, chances: Chances) -> str:
    """Do one thing and check what must hold afterwards; says what became of it."""
    if name in DEEDS:
        DEEDS[name][1](history, chances)
        return ""
    made = ACTS[name][1](history, chances)
    return "nothing to do" if made is None else _acted(history, name, made)


def _acted(history: History, name: str, made: Act) -> str:
    if history.gate is not None:
        history.gate.open()
    with history.refusable() as refused:
        made.do()
    if history.gate is not None:
        history.changes[name] = max(history.gate.asked, history.changes.get(name, 0))
    if not refused:
        made.done()
        return ""
    return _behind_refusal(history, name, refused)


def _behind_refusal(history: History, name: str, refused: Refusal) -> str:
    """What was refused has changed nothing, so a run must still be right."""
    if name in ("run", "stream"):
        raise Finding(f"a {name} was refused for no reason: {refused.error}")
    with history.refusable() as again:
        history.run()
    if again:
        raise Finding(f"{name} was refused ({refused}), and so is a run now: {again.error}")
    history.caught_up()
    return f"{refused}; a run then is right"


def kill(history: History, name: str, chances: Chances) -> str:
    """Do one thing and stop the disk on the way; what was cut short is done again if it must be."""
    assert history.gate is not None
    made = ACTS[name][1](history, chances)
    if made is None:
        return "nothing to do"
    change = 1 + int(chances[2] * history.changes.get(name, 150))
    history.gate.close_at(change)
    try:
        made.do()
        crashed = False
    except Exception as error:  # noqa: BLE001  whatever a disk that fails leads to
        crashed, how = True, type(error).__name__
    finally:
        asked = history.gate.asked
        history.gate.open()
    if not crashed:
        made.done()
        return (
            f"killed at change {change}: it was done"
            if asked < change
            else f"killed at change {change}, behind its end"
        )
    history.killed()
    said = f"killed at change {change} ({how})"
    if not made.again:
        return said
    return f"{said}, again: {_acted(history, name, made) or 'done'}"
