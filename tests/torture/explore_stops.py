"""Explores every order of starts, stops, kills and ticks of recovery."""

from __future__ import annotations

from tests.torture.model_stops import BATCH, NOBODY, Rules, World, steps, told
from tests.torture.search import Explored, Model, search


def explore(rules: Rules, depth: int, start: World | None = None) -> Explored:
    """Visit each world that at most `depth` steps lead to; ends at the first fault."""
    model = Model(
        steps=lambda world: steps(world, rules),
        broken=broken,
        ended=quiet,
        lacking=lambda world: forgotten(world, rules),
    )
    return search(model, start or World(), depth)


def broken(before: World, name: str, after: World) -> str | None:
    """The promise that a step breaks, None if it breaks none."""
    if name.startswith("recovery asks") and not before.wished:
        return "recovery asks for a run of a stream that was stopped"
    begun = [
        number for number, run in enumerate(after.runs) if run.at == "leased" and before.runs[number].at == "begins"
    ]
    if any(after.runs[number].recovers != NOBODY for number in begun) and not before.wished:
        return "a run that recovery asked for begins, and the stream was stopped"
    if sum(run.at in ("leased", "holds", "drains") for run in after.runs) > 1:
        return "two runs hold the lease"
    return None


def quiet(world: World) -> bool:
    """Whether nothing goes on and nothing is about to."""
    busy = world.holder == BATCH or world.asked != NOBODY
    return not busy and all(run.at == "over" for run in world.runs)


def forgotten(world: World, rules: Rules) -> str | None:
    """The promise that is broken where nothing goes on: a killed stream is started again, a stopped one is not.

    And what was refused as busy changes nothing.
    """
    verdict = told(world, rules)
    if world.wished != (verdict.act == "restart"):
        return "the stream is to run on and is not started again" if world.wished else "a stopped stream is started"
    # As if Dagster had never known of them.
    heard = tuple(run._replace(kind="plain") if run.end == "busy" else run for run in world.runs)
    if told(world._replace(runs=heard), rules).act != verdict.act:
        return "a start that was refused changes what is done"
    return None
