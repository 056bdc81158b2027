"""Remedies of SQL, followed to the letter: then the statement is taken. No Spark.

followed_statements.txt has a statement that is refused, below it words of the remedy, and the statement that these make
of it; the tables are those of the wrong statements.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rs_assets import MemoryChannel, pipeline_from_sql
from tests.sql.test_wrong_statements import TABLES, refused

LINES = Path(__file__).with_name("followed_statements.txt").read_text(encoding="utf-8").splitlines()
FOLLOWED = list(zip(LINES[::3], map(str.strip, LINES[1::3]), LINES[2::3], strict=True))


@pytest.mark.parametrize(
    ("wrong", "words", "right"), FOLLOWED, ids=[f"{wrong} {words}" for wrong, words, _ in FOLLOWED]
)
def test_a_remedy_of_sql_that_is_followed_to_the_letter_is_taken(wrong: str, words: str, right: str) -> None:
    assert words in refused(wrong).remedy
    assert pipeline_from_sql(TABLES + right)


def test_a_table_without_rows_or_a_channel_gets_those_that_its_remedy_passes() -> None:
    tables = "CREATE TABLE t (a BIGINT) WITH ('connector' = 'memory'); "
    read, write = tables + "INSERT INTO out1 SELECT 'a', a FROM t", tables + "INSERT INTO t SELECT ms FROM plain"
    assert refused(read).remedy == "pipeline_from_sql(..., tables={'t': rows})"
    assert pipeline_from_sql(TABLES + read, tables={"t": [{"a": 1}]})
    assert refused(write).remedy == "pipeline_from_sql(..., tables={'t': MemoryChannel(...)})"
    assert pipeline_from_sql(TABLES + write, tables={"t": MemoryChannel()})
