"""Recovery is right under every order of starts, stops and kills, and needs each of its rules for that."""

import pytest

from tests.torture.explore_stops import explore
from tests.torture.model_stops import Rules, World


def test_recovery_model_of_two_starts_a_stop_and_a_kill_breaks_no_promise():
    """Explored to its end: no world is left behind the last level."""
    explored = explore(Rules(), 40, World(starts=2, stops=1, kills=1, batches=0))
    assert explored.fault is None, str(explored.fault)
    assert explored.depth < 40
    assert explored.states > 5_000
    assert explored.settled > 1_000


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        ("busy_is_nothing", World(starts=2, stops=1, kills=0, batches=0)),
        ("word", World(starts=1, stops=1, kills=1, batches=0)),
        ("answers", World(starts=2, stops=1, kills=1, batches=0)),
        ("waits", World(starts=2, stops=0, kills=2, batches=0)),
        ("last_ended", World(starts=2, stops=1, kills=1, batches=0)),
    ],
)
def test_recovery_model_without_a_rule_breaks_a_promise(rule, start):
    explored = explore(Rules(**{rule: False}), 12, start)
    assert explored.fault is not None


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("start", "depth"),
    [
        (World(starts=2, stops=1, kills=1), 40),
        (World(starts=2, stops=1, kills=2, batches=0), 40),
        (World(starts=3, stops=2, kills=2, batches=0), 9),
    ],
    ids=["with a batch run", "two kills", "three starts"],
)
def test_recovery_model_explored_deep_breaks_no_promise(start, depth):
    explored = explore(Rules(), depth, start)
    print(f"{explored.states:,} states, {explored.settled:,} of them at rest, depth {explored.depth}")
    assert explored.fault is None, str(explored.fault)
