"""The two tiers: `make test` fits a quarter of an hour on two cores, and leaves no file out."""

import re
from pathlib import Path

import pytest

from tests.durations import BUDGET_S, SHORT_S, Durations, recorded, within_budget

ROOT = Path(__file__).parents[2]
WORKERS = 2
# A quarter of an hour, without what starts and collects, and tests that are too short to be recorded.
TIER_S = 10 * 60
# What the only test of a file may take: a browser, a cluster, a killed process.
ALONE_S = 90.0


# The line of a file of which `make test` runs nothing.
ALL_LONG = re.compile(r"^pytestmark = .*pytest\.mark\.long\b", re.MULTILINE)


@pytest.fixture(scope="module")
def durations() -> Durations:
    """The durations of the files of which `make test` runs something."""
    return {file: tests for file, tests in recorded().items() if not ALL_LONG.search((ROOT / file).read_text())}


def test_tier_of_tests_fits_its_time(durations):
    tier = {file: within_budget([*tests], tests) for file, tests in durations.items()}
    assert sum(durations[file][test] for file, chosen in tier.items() for test in chosen) < TIER_S * WORKERS


def test_tier_of_each_file_stays_within_its_budget(durations):
    for file, tests in durations.items():
        longer = [tests[test] for test in within_budget([*tests], tests) if tests[test] >= SHORT_S]
        assert round(sum(longer), 1) <= BUDGET_S or (len(longer) == 1 and longer[0] <= ALONE_S), (
            f"{file}: {sum(longer):.0f} s"
        )
