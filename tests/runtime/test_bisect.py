"""Bisecting finds what fails, all of it and nothing else, and does not try more than it must."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rs_assets.runtime.replay.bisect import culprits


def halves(numbers):
    middle = len(numbers) // 2
    return (numbers[:middle], numbers[middle:]) if middle else None


class Batch:
    def __init__(self, bad, *, forgets):
        self.bad, self.forgets, self.trials = set(bad), forgets, 0

    def fails(self, part):
        self.trials += 1
        return f"fails on {len(part)}" if self.bad & set(part) else None

    def search(self, size):
        found = []
        for part, error in culprits(range(size), self.fails, halves):
            assert error
            found.append(part[0])
            if self.forgets:
                self.bad -= set(part)
        return found


@given(st.integers(1, 300), st.sets(st.integers(0, 299), max_size=12), st.booleans())
def test_all_culprits_are_found_in_order_with_few_trials(size, places, forgets):
    bad = sorted(place for place in places if place < size)
    batch = Batch(bad, forgets=forgets)
    assert batch.search(size) == bad
    depth = math.ceil(math.log2(size)) + 1
    assert batch.trials <= 1 + len(bad) * (2 * depth + 2)


def test_one_culprit_among_many_costs_the_logarithm():
    batch = Batch([77_777], forgets=True)
    assert batch.search(100_000) == [77_777]
    assert batch.trials <= 20


def test_a_whole_that_fails_without_a_failing_piece_has_no_culprit():
    assert list(culprits(range(8), lambda part: "too much" if len(part) > 3 else None, halves)) == []
