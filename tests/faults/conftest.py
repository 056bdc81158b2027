"""The fault suite says at its end what each fault led to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

OUTCOMES = pytest.StashKey[list[tuple[str, str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OUTCOMES] = []


@pytest.fixture
def outcome(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Notes what a fault led to, for the table at the end."""
    return lambda fault, led_to: request.config.stash[OUTCOMES].append((fault, led_to))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash[OUTCOMES]
    if rows:
        terminalreporter.section("faults and what they led to")
        width = max(len(fault) for fault, _ in rows)
        for fault, led_to in rows:
            terminalreporter.write_line(f"{fault:<{width}}  {led_to}")
