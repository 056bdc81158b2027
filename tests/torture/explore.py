"""Explores every interleaving of the protocol model up to a depth."""

from __future__ import annotations

from tests.torture.model_protocol import DONE, IDLE, RECORDS, REFUSED_HALF_WAY, Rules, World, steps
from tests.torture.search import Explored, Model, search

EVERYTHING = tuple(range(RECORDS))


def explore(rules: Rules, depth: int, start: World | None = None) -> Explored:
    """Visit each world that at most `depth` steps lead to; ends at the first fault."""
    model = Model(
        steps=lambda world: steps(world, rules),
        broken=broken,
        ended=lambda world: all(driver == IDLE for driver in world.drivers),
        lacking=lambda world: None if settles(world, rules) else "cannot go on",
    )
    return search(model, start or World(), depth)


def broken(before: World, name: str, after: World) -> str | None:
    """The promise that a step breaks, None if it breaks none."""
    for sink, table in enumerate(after.tables):
        rows = table[-1].rows
        if rows != EVERYTHING[: len(rows)]:
            return f"sink {sink} has the rows {list(rows)}"
    if name.endswith(REFUSED_HALF_WAY):
        return "a return was refused after it had changed a sink"
    number = int(name[0])
    driver = before.drivers[number]
    whole = all(table[-1].rows == EVERYTHING for table in after.tables)
    if driver.job == "run" and name.endswith(DONE) and before.token == driver.token and not whole:
        return "a run has ended well, and rows are missing"
    return None


def ran() -> World:
    """The world after a first run that read everything, one record a batch."""
    rules = Rules()
    begun = next(after for name, after in steps(World(), rules) if name == "0:begins to run")
    return _to_end(begun, rules)[0]


def settles(world: World, rules: Rules) -> bool:
    """Whether a person who follows the remedies gets everything: run; if refused, go back as far as it must be."""
    quiet = world._replace(kills=0, naps=0, returns=0)
    if _runs(quiet, rules):
        return True
    for name, after in steps(quiet._replace(returns=1), rules):
        if "begins to re" in name and name.startswith("0:"):
            back, done = _to_end(after, rules)
            if done and _runs(back._replace(returns=0), rules):
                return True
    return False


def _runs(world: World, rules: Rules) -> bool:
    begun = next(after for name, after in steps(world, rules) if name == "0:begins to run")
    after, done = _to_end(begun, rules)
    return done and all(table[-1].rows == EVERYTHING for table in after.tables)


def _to_end(world: World, rules: Rules) -> tuple[World, bool]:
    """The world behind the driver's last step, if nothing else happens, and whether it ended well."""
    name = ""
    while world.drivers[0] != IDLE:
        name, world = next((name, after) for name, after in steps(world, rules) if name.startswith("0:"))
    return world, name.endswith(DONE)
