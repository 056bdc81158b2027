"""The commit protocol as a small model: Spark's log, two sinks, the lease, savepoints and the ways back.

Every step of a driver that can be seen from outside is a step of its own; between two steps anything may happen: the
other driver goes on, this one is killed, or it sleeps while the lease is taken from it. `steps` gives every world that
may follow. The records of the input are numbers, so the content of a table says by itself what was lost or doubled.

The rules are those of `rs_assets`; `Rules` switches one off to show that the exploration would notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

RECORDS = 3
SINKS = 2
DRIVERS = 2
NOBODY = -1


@dataclass(frozen=True, slots=True)
class Rules:
    """What the protocol holds to; all of it by default."""

    marker: bool = True  # a batch that a sink has is not written again
    fence: bool = True  # a sink refuses a token older than one it has seen
    stands: bool = True  # a commit stands on the version at which the marker was read
    sinks_first: bool = True  # a batch is committed in the sinks before Spark notes it
    asked_first: bool = True  # all sinks are asked before the first goes back
    lineage: bool = True  # a sink goes to the version whose content the checkpoint stands for
    preflight: bool = True  # a start compares what the sinks remember with Spark's log
    raises: bool = True  # who takes a lease that was not given back lets all sinks know before anything else


class Version(NamedTuple):
    """A version of a table: its rows, the last batch of each generation, the greatest token, and who made it."""

    rows: tuple[int, ...] = ()
    markers: tuple[tuple[int, int], ...] = ()
    fence: int = 0
    made_by: tuple[int, int] | None = None

    def marker(self, generation: int) -> int:
        """The last batch of a generation, -1 for none."""
        return dict(self.markers).get(generation, -1)

    def marked(self, generation: int, batch: int) -> tuple[tuple[int, int], ...]:
        """The markers with another one."""
        return tuple(sorted({**dict(self.markers), generation: batch}.items()))


class Log(NamedTuple):
    """Spark's log of one generation: where each planned batch ends, and how many are committed."""

    plans: tuple[int, ...] = ()
    commits: int = 0


class Driver(NamedTuple):
    """A process. `bases` has, for each sink, the version at which it read the marker, or HAS."""

    job: str = ""  # "", run, back
    at: str = ""
    token: int = 0
    generation: int = 0
    batch: int = 0
    target: tuple[int, Log] | None = None
    bases: tuple[int, ...] = ()
    first: str = ""  # where its job begins, once all sinks know its token


HAS = -2
IDLE = Driver()
DONE = "saves the manifest"
REFUSED_HALF_WAY = "is refused half-way"


class World(NamedTuple):
    """Everything that outlives a process, the processes, and how much may still happen."""

    logs: tuple[Log, ...] = (Log(),)
    manifest: int = 1
    tables: tuple[tuple[Version, ...], ...] = ((Version(),),) * SINKS
    token: int = 0
    holder: int = NOBODY
    drivers: tuple[Driver, ...] = (IDLE,) * DRIVERS
    saved: tuple[tuple[int, Log], ...] = ()
    frozen: int = 0  # sinks that cannot go back, as an exactly-once topic: bit by bit
    kills: int = 2
    naps: int = 1
    returns: int = 2

    def with_driver(self, number: int, driver: Driver) -> World:
        """This world with another state of a driver."""
        return self._replace(drivers=_put(self.drivers, number, driver))

    def with_table(self, sink: int, version: Version) -> World:
        """This world with a new version of a sink's table."""
        return self._replace(tables=_put(self.tables, sink, (*self.tables[sink], version)))

    def with_log(self, generation: int, log: Log) -> World:
        """This world with another log of a generation."""
        return self._replace(logs=_put(self.logs, generation - 1, log))


Step = tuple[str, World]


def steps(world: World, rules: Rules) -> Iterator[Step]:
    """Every step that may be next, by a name that says who does what."""
    for number, driver in enumerate(world.drivers):
        if driver == IDLE:
            yield from _begin(world, number)
        else:
            for name, after in PROGRAMS[driver.job][driver.at](world, number, driver, rules):
                yield f"{number}:{driver.job}:{name}", after
            if world.kills:
                yield f"{number}:killed", world.with_driver(number, IDLE)._replace(kills=world.kills - 1)


def _begin(world: World, number: int) -> Iterator[Step]:
    """A process takes the lease: of nobody, of a dead one, or of one that sleeps."""
    sleeping = world.holder != NOBODY and world.drivers[world.holder].token == world.token
    if sleeping and (not world.naps or world.holder == number):
        return
    taken = world._replace(token=world.token + 1, holder=number, naps=world.naps - sleeping)
    log = world.logs[world.manifest - 1]
    how = " over a sleeper" if sleeping else ""
    # The row of the lease does not tell whether its holder is dead, asleep, or died after it had overtaken a sleeper.
    overtakes = world.holder != NOBODY
    yield f"{number}:begins to run{how}", taken.with_driver(number, _driver(taken, "run", overtakes=overtakes))
    if not world.returns:
        return
    back = taken._replace(returns=world.returns - 1)
    for batch in range(log.commits):
        kept = (world.manifest, Log(log.plans[: batch + 1], batch + 1))
        driver = _driver(back, "back", kept, overtakes=overtakes)
        yield f"{number}:begins to rewind to {batch}{how}", back.with_driver(number, driver)
    for place, kept in enumerate(world.saved):
        driver = _driver(back, "back", kept, overtakes=overtakes)
        yield f"{number}:begins to restore {place}{how}", back.with_driver(number, driver)


def _driver(world: World, job: str, target: tuple[int, Log] | None = None, *, overtakes: bool) -> Driver:
    first = "check" if job == "run" else "ask"
    at = "raise0" if overtakes else first
    return Driver(job=job, at=at, first=first, token=world.token, target=target)


def _raise(world: World, number: int, driver: Driver, rules: Rules) -> Iterator[Step]:
    """Tell the next sink the token, so that the sleeper is refused there when it wakes."""
    sink = int(driver.at[-1])
    onward = driver._replace(at=f"raise{sink + 1}" if sink + 1 < SINKS else driver.first)
    newest = world.tables[sink][-1]
    if not rules.raises:
        yield "goes on", world.with_driver(number, driver._replace(at=driver.first))
    elif newest.fence > driver.token:
        yield "is refused: fenced", _ended(world, number)
    else:
        raised = newest._replace(fence=driver.token if rules.fence else 0, made_by=None)
        yield f"raises the fence of {sink}", world.with_table(sink, raised).with_driver(number, onward)


# A run.


def _check(world: World, number: int, driver: Driver, rules: Rules) -> Iterator[Step]:
    log = world.logs[world.manifest - 1]
    markers = [table[-1].marker(world.manifest) for table in world.tables]
    away = max(markers) >= len(log.plans) or min(markers) < log.commits - 1
    # A return that has changed a sink, and was cut short, is known by its generation.
    if rules.preflight and (away or _seen(world) > world.manifest):
        yield "is refused: the sinks are elsewhere", _ended(world, number)
        return
    begun = driver._replace(at="plan", generation=world.manifest, batch=log.commits)
    yield "passes the checks", world.with_driver(number, begun)


def _seen(world: World) -> int:
    """The greatest generation that a sink has seen."""
    return max((generation for table in world.tables for generation, _ in table[-1].markers), default=0)


def _plan(world: World, number: int, driver: Driver, _: Rules) -> Iterator[Step]:
    log, batch = world.logs[driver.generation - 1], driver.batch
    marking = driver._replace(at="mark", bases=())
    if len(log.plans) > batch:
        # A batch that was planned before is computed again; that it was planned meanwhile, Spark's log tells.
        again = log.commits == batch
        yield (
            ("finds its plan", world.with_driver(number, marking))
            if again
            else ("is refused: the log has the batch", _ended(world, number))
        )
        return
    start = log.plans[-1] if log.plans else 0
    if start == RECORDS:
        yield "has read everything", world.with_driver(number, driver._replace(at="save"))
        return
    for end in sorted({start + 1, RECORDS}):
        planned = world.with_log(driver.generation, log._replace(plans=(*log.plans, end)))
        yield f"plans {start} to {end}", planned.with_driver(number, marking)


def _mark(world: World, number: int, driver: Driver, rules: Rules) -> Iterator[Step]:
    """Read the marker of the next sink."""
    sink = len(driver.bases)
    newest = world.tables[sink][-1]
    if rules.fence and newest.fence > driver.token:
        yield "is refused: fenced", _ended(world, number)
        return
    has = rules.marker and newest.marker(driver.generation) >= driver.batch
    bases = (*driver.bases, HAS if has else len(world.tables[sink]))
    following = "commit0" if rules.sinks_first else "log"
    at = "mark" if len(bases) < SINKS else following
    yield f"marks {sink}", world.with_driver(number, driver._replace(bases=bases, at=at))


def _commit(world: World, number: int, driver: Driver, rules: Rules) -> Iterator[Step]:
    sink = int(driver.at[-1])
    last = "log" if rules.sinks_first else "plan"
    onward = driver._replace(at=f"commit{sink + 1}" if sink + 1 < SINKS else last)
    if not rules.sinks_first and onward.at == "plan":
        onward = onward._replace(batch=driver.batch + 1)
    base, table = driver.bases[sink], world.tables[sink]
    if base == HAS:
        yield f"skips {sink}", world.with_driver(number, onward)
        return
    # The token, too, is compared in the transaction only by what has been committed since the marker was read.
    if rules.stands and _rivals(table, base, driver):
        yield f"is refused at {sink}", _ended(world, number)
        return
    plans = world.logs[driver.generation - 1].plans
    start = plans[driver.batch - 1] if driver.batch else 0
    newest = table[-1]
    version = Version(
        rows=(*newest.rows, *range(start, plans[driver.batch])),
        markers=newest.marked(driver.generation, driver.batch),
        fence=max(driver.token, newest.fence) if rules.fence else 0,
        made_by=(driver.generation, driver.batch),
    )
    yield f"commits to {sink}", world.with_table(sink, version).with_driver(number, onward)


def _rivals(table: tuple[Version, ...], base: int, driver: Driver) -> bool:
    """Whether the same writer, or a newer token, has committed since the marker was read."""
    return any(
        later.fence > driver.token or later.marker(driver.generation) != table[base - 1].marker(driver.generation)
        for later in table[base:]
    )


def _log(world: World, number: int, driver: Driver, rules: Rules) -> Iterator[Step]:
    log = world.logs[driver.generation - 1]
    noted = world.with_log(driver.generation, log._replace(commits=max(log.commits, driver.batch + 1)))
    onward = driver._replace(at="plan", batch=driver.batch + 1) if rules.sinks_first else driver._replace(at="commit0")
    yield "notes the batch", noted.with_driver(number, onward)
    if rules.sinks_first and len(world.saved) < 1:
        # A savepoint copies what is committed, at any moment, without a lease.
        after = noted.logs[driver.generation - 1]
        copy = (driver.generation, Log(after.plans[: after.commits], after.commits))
        yield "notes the batch and is saved", noted._replace(saved=(copy,)).with_driver(number, onward)


# The ways back.


def _ask(world: World, number: int, driver: Driver, rules: Rules) -> Iterator[Step]:
    assert driver.target is not None
    # Above all that a sink has seen: a return that fell asleep may still write the folder of its own generation.
    acting = driver._replace(at="act0", generation=1 + max(world.manifest, _seen(world)))
    refused = any(_version(world, sink, driver.target, rules) is None for sink in range(SINKS))
    if rules.asked_first and refused:
        yield "is refused by a sink", _ended(world, number)
    else:
        yield "has asked all sinks", world.with_driver(number, acting)


def _act(world: World, number: int, driver: Driver, rules: Rules) -> Iterator[Step]:
    assert driver.target is not None
    sink = int(driver.at[-1])
    newest = world.tables[sink][-1]
    version = _version(world, sink, driver.target, rules)
    if rules.fence and newest.fence > driver.token:
        yield f"is refused at {sink}", _ended(world, number)
        return
    if version is None:
        yield REFUSED_HALF_WAY, _ended(world, number)
        return
    onward = driver._replace(at=f"act{sink + 1}" if sink + 1 < SINKS else "copy")
    generation, log = driver.target
    markers = version._replace(markers=newest.marked(generation, min(newest.marker(generation), log.commits - 1)))
    back = Version(version.rows, markers.marked(driver.generation, log.commits - 1), max(driver.token, newest.fence))
    yield f"takes {sink} back", world.with_table(sink, back).with_driver(number, onward)


def _version(world: World, sink: int, target: tuple[int, Log], rules: Rules) -> Version | None:
    """The version of a sink that a checkpoint stands for, None for a refusal."""
    (generation, log), table = target, world.tables[sink]
    wanted = tuple(range(log.plans[-1])) if log.plans else ()
    if world.frozen >> sink & 1:
        return table[-1] if table[-1].rows == wanted else None
    if rules.lineage:
        return next((version for version in reversed(table) if version.rows == wanted), None)
    point = (generation, log.commits - 1)
    undone = [place for place, version in enumerate(table) if (version.made_by or point) > point]
    return table[undone[0] - 1] if undone else table[-1]


def _copy(world: World, number: int, driver: Driver, _: Rules) -> Iterator[Step]:
    assert driver.target is not None
    # What a return that was cut short has left there goes; one that never copied has left a gap.
    gap = (Log(),) * (driver.generation - len(world.logs))
    copied = world._replace(logs=(*world.logs, *gap)).with_log(driver.generation, driver.target[1])
    yield "copies the checkpoint", copied.with_driver(number, driver._replace(at="save"))


def _save(world: World, number: int, driver: Driver, _: Rules) -> Iterator[Step]:
    """Ask for the lease; a driver that falls asleep behind the answer renames the manifest all the same."""
    if world.token == driver.token:
        yield "still has the lease", world.with_driver(number, driver._replace(at="rename"))
    else:
        yield "is refused: the lease is lost", _ended(world, number)


def _rename(world: World, number: int, driver: Driver, _: Rules) -> Iterator[Step]:
    yield DONE, _ended(world._replace(manifest=driver.generation), number)


def _ended(world: World, number: int) -> World:
    held = world.holder == number and world.drivers[number].token == world.token
    return world.with_driver(number, IDLE)._replace(holder=NOBODY if held else world.holder)


def _put(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


Program = Callable[[World, int, Driver, Rules], Iterator[Step]]
PROGRAMS: dict[str, dict[str, Program]] = {
    "run": {
        "raise0": _raise,
        "raise1": _raise,
        "check": _check,
        "plan": _plan,
        "mark": _mark,
        "commit0": _commit,
        "commit1": _commit,
        "log": _log,
        "save": _save,
        "rename": _rename,
    },
    "back": {
        "raise0": _raise,
        "raise1": _raise,
        "ask": _ask,
        "act0": _act,
        "act1": _act,
        "copy": _copy,
        "save": _save,
        "rename": _rename,
    },
}
