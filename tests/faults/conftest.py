"""The fault suite says at its end what each fault led to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

OUTCOME = "outcome of a fault"


@pytest.fixture
def outcome(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Notes what a fault led to, for the table at the end; the report of the test takes it there from a worker."""
    return lambda fault, led_to: request.node.user_properties.append((OUTCOME, (fault, led_to)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = terminalreporter.getreports("passed")
    rows = [noted for report in passed for name, noted in report.user_properties if name == OUTCOME]
    if rows:
        terminalreporter.section("faults and what they led to")
        width = max(len(fault) for fault, _ in rows)
        for fault, led_to in rows:
            terminalreporter.write_line(f"{fault:<{width}}  {led_to}")
