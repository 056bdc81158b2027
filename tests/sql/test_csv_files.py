"""Files of CSV in SQL: they have no header unless the table says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.errors import SourceReadError
from rs_assets.spark.driver import SparkDriver
from rs_assets.sql.plan.session import Session

TABLES = {
    "flink": "CREATE TABLE t (a STRING, b BIGINT) WITH ('connector' = 'file', 'path' = '{}', 'format' = 'csv'{});",
    "spark": "CREATE TABLE t (a STRING, b BIGINT) USING csv OPTIONS (path '{}'{});",
}
HEADER = {"flink": ", 'csv.header' = 'true'", "spark": ", header 'true'"}


def rows(path: Path, dialect: str, driver: SparkDriver, option: str = "") -> list[tuple[str, int]]:
    session = Session(dialect=dialect)
    session.keep(TABLES[dialect].format(path, option))
    found = session.stream("SELECT a, b FROM t").preview(records=10, spark=driver)
    return [(row["a"], row["b"]) for row in found]


@pytest.mark.parametrize("dialect", ["flink", "spark"])
def test_csv_header_is_read_as_a_record_unless_it_is_declared(
    tmp_path: Path, driver: SparkDriver, dialect: str
) -> None:
    bare, headed = tmp_path / "bare.csv", tmp_path / "headed.csv"
    bare.write_text("x,1\ny,2\n")
    headed.write_text("b,a\n3,z\n")
    assert rows(bare, dialect, driver) == [("x", 1), ("y", 2)]
    assert rows(headed, dialect, driver, HEADER[dialect]) == [("z", 3)]
    with pytest.raises(SourceReadError, match="the first line is not a header"):
        rows(bare, dialect, driver, HEADER[dialect])


def test_csv_dimension_without_a_header_keeps_its_first_row(tmp_path: Path, driver: SparkDriver) -> None:
    side = tmp_path / "side.csv"
    side.write_text("1,one\n2,two\n")
    sql = f"""
        CREATE TABLE s (k BIGINT, p AS PROCTIME()) WITH ('connector' = 'memory');
        CREATE TABLE d (k BIGINT, word STRING)
            WITH ('connector' = 'filesystem', 'path' = '{side}', 'format' = 'csv');
        CREATE TABLE o (k BIGINT, word STRING) WITH ('connector' = 'print');
        INSERT INTO o SELECT s.k, d.word FROM s JOIN d FOR SYSTEM_TIME AS OF s.p ON s.k = d.k;
    """
    found = pipeline_from_sql(sql, tables={"s": []}).try_({"s": [{"k": 1}, {"k": 2}]}, spark=driver)
    assert sorted((row["k"], row["word"]) for row in found["o"]) == [(1, "one"), (2, "two")]
