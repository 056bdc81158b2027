"""Recovery is right under every order of starts, stops and kills, and needs each of its rules for that."""

import pytest

from tests.torture.explore_stops import explore
from tests.torture.model_stops import Rules, World


def test_recovery_model_explored_to_eight_steps_breaks_no_promise():
    explored = explore(Rules(), 8)
    assert explored.fault is None, str(explored.fault)
    assert explored.states > 5_000
    assert explored.settled > 500


@pytest.mark.parametrize("rule", ["busy_is_nothing", "word", "answers", "waits", "last_ended"])
def test_recovery_model_without_a_rule_breaks_a_promise(rule):
    explored = explore(Rules(**{rule: False}), 12, World(batches=0))
    assert explored.fault is not None


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_recovery_model_explored_deep_breaks_no_promise():
    explored = explore(Rules(), 14)
    print(f"{explored.states:,} states, {explored.settled:,} of them at rest, depth {explored.depth}")
    assert explored.fault is None, str(explored.fault)
