"""Remedies of SQL, followed to the letter: then the statement is taken. No Spark.

followed_statements.txt has a statement that is refused, below it words of the remedy, and the statement that these make
of it; the tables are those of the wrong statements.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rs_assets import pipeline_from_sql
from tests.sql.test_wrong_statements import TABLES, refused

LINES = Path(__file__).with_name("followed_statements.txt").read_text(encoding="utf-8").splitlines()
FOLLOWED = list(zip(LINES[::3], map(str.strip, LINES[1::3]), LINES[2::3], strict=True))


@pytest.mark.parametrize(
    ("wrong", "words", "right"), FOLLOWED, ids=[f"{wrong} {words}" for wrong, words, _ in FOLLOWED]
)
def test_a_remedy_of_sql_that_is_followed_to_the_letter_is_taken(wrong: str, words: str, right: str) -> None:
    assert words in refused(wrong).remedy
    assert pipeline_from_sql(TABLES + right)
