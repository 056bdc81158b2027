"""How long each test file takes, kept in durations.json: workers begin with the longest, and a budget holds.

`make durations` records it, on a machine that does nothing else. Files that were not run keep their seconds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

RECORD = Path(__file__).with_name("durations.json")
ROOT = RECORD.parents[1]
# The tiers: what `make test` runs, and what `make verify` runs beside it.
TEST, LONG = "test", "long"

Durations = Mapping[str, Mapping[str, float]]


def recorded() -> Durations:
    """Seconds by file and tier, as they were recorded last."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def seconds_of(file: str, durations: Durations) -> float:
    """The seconds of all tests of `file`; a file without a record counts as a long one, so that it begins early."""
    return sum(durations[file].values()) if file in durations else 60.0


@dataclass(slots=True)
class Recorder:
    """A plugin that sums what tests take, set-up and tear-down included, and writes it at the end of the session."""

    seconds: defaultdict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a test to its file."""
        file = report.nodeid.partition("::")[0]
        tier = LONG if LONG in report.keywords else TEST
        self.seconds[file][tier] = self.seconds[file].get(tier, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """Write what was seen over the record, without files that are gone."""
        known = {**recorded(), **{file: rounded(tiers) for file, tiers in self.seconds.items()}}
        kept = {file: known[file] for file in sorted(known) if (ROOT / file).is_file()}
        RECORD.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def rounded(tiers: Mapping[str, float]) -> dict[str, float]:
    """The seconds to a tenth."""
    return {tier: round(tiers[tier], 1) for tier in sorted(tiers)}
