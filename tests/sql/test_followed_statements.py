"""Remedies of SQL, followed to the letter: then the statement is taken. No Spark.

followed_statements.txt has a statement that is refused, below it words of the remedy, and the statement that these make
of it; the tables are those of the wrong statements. followed_spark_statements.txt is the same in Spark's words.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from rs_assets import MemoryChannel, pipeline_from_sql
from rs_assets.errors import RsError
from rs_assets.sql.plan.session import Session
from tests.functions import library
from tests.project.raised import unraised
from tests.sql.test_wrong_statements import TABLES, refused

SPARK_TABLES = """\
CREATE TABLE clicks (page STRING, ms BIGINT, tags ARRAY<STRING>, ts TIMESTAMP) USING json OPTIONS (path '/in/clicks');
CREATE TABLE out1 (page STRING, n BIGINT) USING delta LOCATION '/out';
"""


def triples(file: str) -> list[tuple[str, str, str]]:
    """What is refused, words of its remedy, and what they make of it."""
    lines = Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    return list(zip(lines[::3], map(str.strip, lines[1::3]), lines[2::3], strict=True))


THIS = "sql/test_followed_statements.py::test_a_remedy_of_sql_that_is_followed_to_the_letter_is_taken"
FOLLOWED = triples("followed_statements.txt")
SPARK = triples("followed_spark_statements.txt")
# Statements call its functions.
assert library
DEEP_TYPE = f"CREATE TABLE deep (a {'ARRAY<' * 3000}BIGINT{'>' * 3000}) WITH ('connector' = 'print')"
# Its remedy is followed in functions/test_java_functions.py, which makes a jar.
JAVA = "CREATE FUNCTION f AS 'a.B' USING JAR '/nowhere/b.jar'; INSERT INTO out1 SELECT page, ms FROM plain"
DEEP = "INSERT INTO out1 SELECT page, " + "(" * 2000 + "ms" + ")" * 2000 + " FROM clicks"


@pytest.mark.parametrize(
    ("wrong", "words", "right"), FOLLOWED, ids=[f"{wrong} {words}" for wrong, words, _ in FOLLOWED]
)
def test_a_remedy_of_sql_that_is_followed_to_the_letter_is_taken(wrong: str, words: str, right: str) -> None:
    assert words in refused(wrong).remedy
    assert pipeline_from_sql(TABLES + right)


@pytest.mark.parametrize(("wrong", "words", "right"), SPARK, ids=[f"{wrong} {words}" for wrong, words, _ in SPARK])
def test_a_remedy_in_sparks_words_that_is_followed_to_the_letter_is_taken(wrong: str, words: str, right: str) -> None:
    with pytest.raises(RsError) as error:
        pipeline_from_sql(SPARK_TABLES + wrong, dialect="spark")
    assert words in error.value.remedy
    assert pipeline_from_sql(SPARK_TABLES + right, dialect="spark")


def test_a_file_that_cannot_be_read_is_refused_until_it_is_as_its_remedy_says(tmp_path: Path) -> None:
    good = TABLES + "INSERT INTO out1 SELECT page, ms FROM clicks"
    with pytest.raises(RsError, match="name a file"):
        pipeline_from_sql(tmp_path)
    (tmp_path / "a.sql").write_bytes(b"\xff\xfe")
    with pytest.raises(RsError, match="save it in UTF-8"):
        pipeline_from_sql(tmp_path / "a.sql")
    (tmp_path / "a.sql").write_text(good, encoding="utf-8")
    assert pipeline_from_sql(tmp_path / "a.sql")
    with pytest.raises(RsError, match="use one of: 'flink', 'spark'"):
        pipeline_from_sql(good, dialect="hive")  # type: ignore[arg-type]
    assert pipeline_from_sql(good, dialect="flink")


def test_a_table_without_rows_or_a_channel_gets_those_that_its_remedy_passes() -> None:
    tables = "CREATE TABLE t (a BIGINT) WITH ('connector' = 'memory'); "
    read, write = tables + "INSERT INTO out1 SELECT 'a', a FROM t", tables + "INSERT INTO t SELECT ms FROM plain"
    assert refused(read).remedy == "pipeline_from_sql(..., tables={'t': rows})"
    assert pipeline_from_sql(TABLES + read, tables={"t": [{"a": 1}]})
    assert refused(write).remedy == "pipeline_from_sql(..., tables={'t': MemoryChannel(...)})"
    assert pipeline_from_sql(TABLES + write, tables={"t": MemoryChannel()})


def kept(connector: str) -> Session:
    made = Session()
    made.keep(f"CREATE TABLE t (a BIGINT) WITH ('connector' = '{connector}', 'path' = '/in', 'format' = 'json')")
    return made


def test_a_table_of_a_session_has_the_connector_and_the_name_that_its_remedies_say() -> None:
    with pytest.raises(RsError, match="did you mean 'filesystem'?"):
        kept("filesystm")
    session = kept("filesystem")
    with pytest.raises(RsError, match="use one of: t"):
        session.columns("clicks")
    assert session.columns("t") == {"a": "bigint"}
    with pytest.raises(RsError, match="CREATE TABLE"):
        Session().columns("t")


def programs() -> Iterator[Callable[[], object]]:
    """All that is refused here."""
    yield from (partial(pipeline_from_sql, TABLES + wrong) for wrong, _, _ in FOLLOWED)
    yield from (partial(pipeline_from_sql, SPARK_TABLES + wrong, dialect="spark") for wrong, _, _ in SPARK)
    yield partial(pipeline_from_sql, TABLES, dialect="hive")
    yield partial(pipeline_from_sql, TABLES + DEEP_TYPE)
    yield partial(pipeline_from_sql, TABLES + JAVA)
    yield partial(kept, "filesystm")
    yield partial(Session().columns, "t")
    yield from (partial(pipeline_from_sql, Path(each)) for each in (__file__ + "/none.sql", sys.executable))
    yield from (partial(pipeline_from_sql, TABLES + each) for each in (DEEP, DEEP.replace("(", "").replace(")", "+ms")))


def test_each_remedy_of_the_files_that_these_statements_claim_is_printed_by_one() -> None:
    assert unraised(THIS, programs()) == []
