"""A few of the random statements that `python -m tests.statements` compares with DuckDB."""

from __future__ import annotations

import pytest

from rs_assets.spark.driver import SparkDriver
from tests.statements.running import Outcome, compared, drawn

# What may be refused of that which is drawn.
REFUSED = (
    "GROUP BY does not accept column numbers",
    "is TIMESTAMP, but",
    "duplicate table name",
)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 4, 6])
def test_random_statements_equal_duckdb(seed: int, driver: SparkDriver) -> None:
    assert [each for each in compared(seed, 6, driver) if each.wrong] == []


def test_hardly_any_random_statement_is_refused() -> None:
    reasons = [each.reason for seed in range(12) for each in drawn(seed, 8) if isinstance(each, Outcome)]
    assert [each for each in reasons if not any(part in each for part in REFUSED)] == []
    assert len(reasons) < 10
