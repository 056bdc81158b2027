"""Checks of rules: all can be evaluated, none costs much more than the others, and each matches sometimes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dagster import AssetCheckResult, AssetCheckSeverity

from rs_assets.common.plural import count_of
from rs_assets.dagster.place import Place
from rs_assets.expressions.rules.matched import DAYS, silent
from rs_assets.expressions.rules.rule_set import RuleSet, compiled_of, names_of
from rs_assets.operators.dimension.notes import notes_of
from rs_assets.operators.dimension.versions import VersionStore
from rs_assets.topology.nodes.match import MatchRules
from rs_assets.topology.topology import Topology

Judge = Callable[[Topology, str, Place], AssetCheckResult]
# Patterns that are searched one by one, and alternatives that are tested for each row: each costs every row something.
MOST_SLOW, MOST_WITHOUT_INDEX = 20, 50
# Rules that the text of a check names.
SHOWN = 5
NOT_LOADED = AssetCheckResult(passed=True, description="no run has loaded the rules yet")


def no_rule_is_left_out(topology: Topology, step: str, place: Place) -> AssetCheckResult:
    """Every rule of the newest version can be evaluated."""
    found = _newest(topology, step, place)
    if found is None:
        return NOT_LOADED
    version, rules = found
    faults = [f"{name}: {why.splitlines()[0]}" for name, why in rules.faults.items()]
    return _result(faults, version, rules)


def rules_are_found_by_an_index(topology: Topology, step: str, place: Place) -> AssetCheckResult:
    """At most 20 patterns are searched one by one, and at most 50 alternatives are tested for each row."""
    found = _newest(topology, step, place)
    if found is None:
        return NOT_LOADED
    version, rules = found
    slow, always = rules.compiled.slow, len(rules.compiled.always)
    problems = [f"{count_of(slow, 'pattern')} searched one by one: install rs-assets[rules], or write them otherwise"]
    problems *= slow > MOST_SLOW
    problems += [f"{always} alternatives only say what must not be: add what must"] * (always > MOST_WITHOUT_INDEX)
    return _result(problems, version, rules, slow_patterns=slow, without_index=always)


def every_rule_matches_sometimes(topology: Topology, step: str, place: Place) -> AssetCheckResult:
    """Each rule has matched on one of the last 30 days with rows, or is newer than these."""
    found = _newest(topology, step, place)
    if found is None:
        return NOT_LOADED
    version, rules = found
    root = place.home.dimension(topology.namespace, topology.job, step)
    never = silent(root, names_of(root, version, rules))
    problems = [
        f"{name}: no match on the last {DAYS} days with rows; in use since {day}" for name, day in never.items()
    ]
    return _result(problems, version, rules, without_match=len(never))


RULE_CHECKS: Mapping[str, Judge] = {
    "no_rule_is_left_out": no_rule_is_left_out,
    "rules_are_found_by_an_index": rules_are_found_by_an_index,
    "every_rule_matches_sometimes": every_rule_matches_sometimes,
}


def checked_rules(topology: Topology) -> Iterator[tuple[str, Mapping[str, Judge]]]:
    """The steps with these checks, which are named after them: several steps may use one table of rules."""
    for node in topology:
        if isinstance(node, MatchRules):
            where = f"{topology.namespace}_{topology.job}_{node.name}"
            yield node.name, {f"{name}_in_{where}": judge for name, judge in RULE_CHECKS.items()}


def _newest(topology: Topology, step: str, place: Place) -> tuple[str, RuleSet] | None:
    """The version that batches have used last, and its compiled rules."""
    used = [noted.of(2**62).get(step) for noted in notes_of(place.job(topology))]
    root = place.home.dimension(topology.namespace, topology.job, step)
    versions = [each for name in used if name is not None and (each := VersionStore(root).named(name)) is not None]
    newest = max(versions, key=lambda each: each.number, default=None)
    rules = compiled_of(root, newest.name) if newest is not None else None
    return None if newest is None or rules is None else (newest.name, rules)


def _result(problems: list[str], version: str, rules: RuleSet, **facts: int) -> AssetCheckResult:
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return AssetCheckResult(
        passed=not problems,
        severity=AssetCheckSeverity.WARN,
        description="; ".join(problems[:SHOWN]) + more or None,
        metadata={"version": version, "rules": len(rules), "left_out": len(rules.faults), **facts},
    )
