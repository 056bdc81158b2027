"""Cases that other systems publish: the same rows here, or a refusal or a difference that is written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from rs_assets.errors import SqlError
from rs_assets.spark.driver import SparkDriver
from tests.peers.__main__ import table
from tests.peers.cases import Case, cases

CASES = cases()


def named(case: Case) -> str:
    return f"{case.file}: {case.name}"


# `make test` runs the first of each file, `make verify` all.
FIRST = {case.file: case.name for case in reversed(CASES) if not case.refused}
RUN = [
    pytest.param(case, id=named(case), marks=() if FIRST[case.file] == case.name else pytest.mark.long)
    for case in CASES
    if not case.refused
]


@pytest.mark.parametrize("case", RUN)
def test_should_give_the_rows_of_the_peer(case: Case, driver: SparkDriver) -> None:
    assert case.run(driver) == case.expected


@pytest.mark.parametrize("case", [case for case in CASES if case.refused], ids=named)
def test_should_refuse_what_is_written_down(case: Case) -> None:
    with pytest.raises(SqlError) as error:
        case.pipeline()
    assert case.refused in str(error.value)


def test_the_table_of_the_docs_should_count_the_cases() -> None:
    assert "\n".join(table()) in (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES, ids=named)
def test_each_case_should_say_what_becomes_of_it(case: Case) -> None:
    """Rows, or part of a refusal; with another value here a reason."""
    assert bool(case.refused) != bool(case.expected)
    assert (case.here is not None) == bool(case.because)
    assert case.refused or not case.fair
