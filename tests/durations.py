"""How long each test takes, kept in durations.json: it decides what `make test` runs and what workers begin with.

`make test` runs, of each file, every test of less than half a second, and of the longer ones as many as the budget of a
file allows, in the order of the file. A file none of whose longer tests fits runs the shortest of them, unless that
takes more than three seconds, or eight where the file has no shorter tests. Tests marked `canary` are always among
them, those marked `long` never. `make verify` runs everything. A test without a record is run.

`make durations` records, on a machine that does nothing else. Tests that were not run keep their seconds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

RECORD: Final = Path(__file__).with_name("durations.json")
ROOT: Final = RECORD.parents[1]
# Of each file: what a test may take to be run in any case, and what all its longer tests may take together.
SHORT_S: Final = 0.5
BUDGET_S: Final = 1.0
# What one test beyond the budget may take: where the file is kept by shorter ones, and where there are none.
BEYOND_S: Final = 3.0
ALONE_S: Final = 8.0
# Shorter tests are not recorded one by one.
RECORDED_S: Final = 0.5
CANARY, LONG = "canary", "long"

# Seconds by file and test; a test is known by what stands behind `::` in its id.
Durations = Mapping[str, Mapping[str, float]]


def recorded() -> Durations:
    """Seconds by file and test, as they were recorded last."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def file_of(nodeid: str) -> str:
    """The file of a test.

    >>> file_of("tests/sql/test_over.py::test_lag[1]")
    'tests/sql/test_over.py'
    """
    return nodeid.partition("::")[0]


def name_of(nodeid: str) -> str:
    """The name of a test within its file.

    >>> name_of("tests/sql/test_over.py::test_lag[1]")
    'test_lag[1]'
    """
    return nodeid.partition("::")[2]


def within_budget(tests: Sequence[str], seconds: Mapping[str, float], canaries: Iterable[str] = ()) -> set[str]:
    """Which of the tests of one file `make test` runs; `seconds` has those that are known.

    >>> sorted(within_budget(["a", "b", "c", "d"], {"a": 0.5, "b": 5.0, "c": 0.5, "d": 0.1}))
    ['a', 'c', 'd']
    >>> sorted(within_budget(["a", "b"], {"a": 60.0, "b": 7.0})), within_budget(["a"], {"a": 60.0})
    (['b'], set())
    >>> sorted(within_budget(["a", "b"], {"a": 60.0, "b": 20.0}, canaries=["a"]))
    ['a']
    >>> sorted(within_budget(["a", "b", "c"], {"a": 60.0, "b": 20.0, "c": 0.1}))
    ['c']
    """
    chosen = set(canaries)
    longer = [test for test in tests if test not in chosen and seconds.get(test, 0.0) >= SHORT_S]
    left = BUDGET_S - sum(seconds.get(test, 0.0) for test in chosen)
    for test in longer:
        if seconds[test] <= left:
            left -= seconds[test]
            chosen.add(test)
    shorter = set(tests) - set(longer)
    if longer and not chosen:
        shortest = min(longer, key=lambda test: seconds[test])
        if seconds[shortest] <= (BEYOND_S if shorter else ALONE_S):
            chosen.add(shortest)
    return chosen | shorter


def brief(items: Sequence[pytest.Item], durations: Durations) -> list[pytest.Item]:
    """The items that `make test` runs, in their order."""
    by_file: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker(LONG):
            by_file[file_of(item.nodeid)].append(item)
    chosen: set[str] = set()
    for file, its in by_file.items():
        canaries = [name_of(item.nodeid) for item in its if item.get_closest_marker(CANARY)]
        names = [name_of(item.nodeid) for item in its]
        chosen |= {f"{file}::{name}" for name in within_budget(names, durations.get(file, {}), canaries)}
    return [item for item in items if item.nodeid in chosen]


def longest_first(items: Sequence[pytest.Item], durations: Durations) -> list[pytest.Item]:
    """The items, file by file, those with the longest tests first; an unknown test counts as half a second."""
    total: defaultdict[str, float] = defaultdict(float)
    for item in items:
        total[file_of(item.nodeid)] += durations.get(file_of(item.nodeid), {}).get(name_of(item.nodeid), RECORDED_S)
    return sorted(items, key=lambda item: -total[file_of(item.nodeid)])


@dataclass(eq=False, slots=True)
class Recorder:
    """A plugin that sums the phases of each test and writes them at the end of the session."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a test."""
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write what was seen over the record, without files that are gone."""
        known: dict[str, dict[str, float]] = {file: dict(tests) for file, tests in recorded().items()}
        for nodeid, seconds in self.seconds.items():
            tests = known.setdefault(file_of(nodeid), {})
            tests.pop(name_of(nodeid), None)
            if seconds >= RECORDED_S:
                tests[name_of(nodeid)] = round(seconds, 1)
        kept = {file: tests for file, tests in sorted(known.items()) if tests and (ROOT / file).is_file()}
        RECORD.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
