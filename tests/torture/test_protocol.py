"""The commit protocol keeps its promises under every interleaving, and needs each of its rules for that."""

import pytest

from tests.torture.explore import explore, ran
from tests.torture.model_protocol import Rules, World

# An exactly-once topic: what it has cannot be taken back.
SECOND_SINK = 0b10


@pytest.mark.parametrize("start", [World(), ran()], ids=["from nothing", "from a run that has ended"])
def test_should_break_no_promise(start):
    explored = explore(Rules(), 12, start)
    assert explored.fault is None, str(explored.fault)
    assert explored.states > 2_000
    assert explored.settled > 100


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        ("marker", World()),
        ("fence", ran()._replace(kills=0)),
        ("stands", World(kills=0)),
        ("sinks_first", World()),
        ("asked_first", ran()._replace(frozen=SECOND_SINK)),
        ("lineage", ran()._replace(naps=0)),
        ("preflight", ran()._replace(kills=0)),
        ("raises", ran()._replace(kills=0)),
    ],
)
def test_should_break_one_without(rule, start):
    explored = explore(Rules(**{rule: False}), 15, start)
    assert explored.fault is not None


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("start", "depth"), [(World(), 28), (ran(), 22)], ids=["from nothing", "from an ended run"])
def test_should_break_no_promise_deep(start, depth):
    explored = explore(Rules(), depth, start)
    print(f"{explored.states:,} states, {explored.settled:,} of them at rest, depth {explored.depth}")
    assert explored.fault is None, str(explored.fault)
