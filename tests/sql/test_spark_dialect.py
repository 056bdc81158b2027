"""Statements in Spark's words, against Spark itself over the same rows at once."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rs_assets import StreamBuilder, pipeline_from_sql
from rs_assets.cli.main import main
from rs_assets.errors import ConfigurationError, SqlError
from rs_assets.spark.driver import SparkDriver
from rs_assets.sql.plan.session import Session
from rs_assets.sql.spark.functions import SPARK_FUNCTIONS

BEGIN = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
COLUMNS = """page STRING, ms BIGINT, price DECIMAL(8, 2), d DOUBLE, ok BOOLEAN, tags ARRAY<STRING>,
    pairs MAP<STRING, INT>, who STRUCT<id: BIGINT, name: STRING>, ts TIMESTAMP"""
TABLE = f"CREATE TABLE clicks ({COLUMNS}) USING memory;"
LATE = "clicks WATERMARK ts DELAY OF INTERVAL 60 SECONDS"
ROWS: list[dict[str, Any]] = [
    {
        "page": page, "ms": ms, "price": None if ms is None else Decimal(f"{ms}.25"),
        "d": None if ms is None else ms / 4,
        "ok": None if ms == 2 else ms == 1, "tags": tags, "pairs": {"a": 1, "b": None} if ms else None,
        "who": {"id": ms, "name": page} if ms else None, "ts": BEGIN + timedelta(seconds=37 * n, milliseconds=n),
    }
    for n, (page, ms, tags) in enumerate(
        [("/a1", 1, ["x", "y"]), ("it's", 2, []), (None, 3, None), ("", None, ["z"]), ("a\\d\tb%", 5, [None, "w"]),
         ("/A2", 7, ["x"]), ("/a1", 12, ["x-y"]), ("/a1", 40, ["q"])]
    )
]  # fmt: skip
# What streaming SQL has another meaning, or none, for, and what both have.
EXPRESSIONS = (
    "ms / 2",
    "ms / 5 * 2",
    "price / 3",
    "d / 2",
    "-ms % 3",
    "ms * price",
    "CAST(ok AS STRING)",
    "CAST(ts AS STRING)",
    "CAST(d AS INT)",
    "try_cast(page AS INT)",
    "CAST(price AS DOUBLE) + 1",
    "regexp_extract(page, '(\\\\d+)', 1)",
    "regexp_extract(page, '/([a-z])')",
    r"regexp_extract(page, r'\d', 0)",
    "regexp_replace(page, 'a(\\\\d)', '<$1>')",
    r"page RLIKE '^/\\w'",
    "page LIKE '/_1'",
    r"page LIKE '%\%'",
    "concat(\"<\", page, '>')",
    "page || '''' || \"\\\"\"",
    r"'\d\n\t\u0041\101\\'",
    r"r'\d'",
    "page <=> NULL",
    "ms <=> 3",
    "greatest(ms, 4)",
    "least(d, 1.5)",
    "nvl(page, '-')",
    "coalesce(ok, false)",
    "if(ms > 2, 'more', 'less')",
    "CASE WHEN ms IS NULL THEN 0 WHEN ok THEN 1 ELSE 2 END",
    "try_element_at(tags, 1)",
    "pairs['a']",
    "who.name",
    "size(tags)",
    "array_contains(tags, 'x')",
    "array_join(tags, '+')",
    "substring(page, 2, 3)",
    "substr(page, -2)",
    "left(page, 2)",
    "instr(page, 'a')",
    "length(page)",
    "lpad(page, 6, '*')",
    "split_part(page, '/', 2)",
    "initcap(page)",
    "trim(page)",
    "translate(page, 'a', 'b')",
    "floor(d)",
    "ceil(d)",
    "round(d, 1)",
    "pmod(-ms, 3)",
    "pow(ms, 2)",
    "sqrt(ms)",
    "date_trunc('minute', ts)",
    "date_format(ts, 'HH:mm:ss.SSS')",
    "year(ts) + hour(ts)",
    "CAST(ts AS DATE)",
    "unix_millis(ts)",
    "ts + INTERVAL 10 MINUTES",
    "ts - INTERVAL '1' DAY",
    "datediff(CAST(ts AS DATE), DATE '2026-01-01')",
    "EXTRACT(SECOND FROM ts)",
    "weekday(ts)",
    "md5(page)",
    "xxhash64(ms)",
    "ms BETWEEN 2 AND 5",
    "ms IN (1, 7)",
    "NOT ok",
    "page NOT LIKE '%a%'",
    "page NOT ILIKE '%A%'",
    "page NOT RLIKE '[a-c]'",
    "page NOT LIKE 'a!%' ESCAPE '!'",
    "page ILIKE '%A!_%' ESCAPE '!'",
    "page NOT ILIKE 'A%' ESCAPE '!'",
    "CASE WHEN page NOT LIKE 'a%' THEN 1 ELSE 0 END",
    "ts + INTERVAL -'1' DAY",
    "page = ''",
    "isnull(page)",
    "upper(page)",
    "timestamp_millis(ms)",
    "get_json_object('{\"a\": 3}', '$.a')",
    # Each other function that is known by name.
    "power(ms, 2) + exp(0) + ln(ms) + log10(ms) + log2(ms) + log(2, ms) + cbrt(ms)",
    "ln(d - 100)",
    "sin(d) + cos(d) + tan(d) + atan2(d, 2)",
    "sign(-price)",
    "abs(-price)",
    "mod(-ms, 4)",
    "ceiling(price)",
    "bround(d, 0)",
    "nanvl(d, 0)",
    "lower(page)",
    "reverse(page)",
    "char_length(page) + character_length(page) + len(page) + ascii(page)",
    "replace(page, '', 'x')",
    "concat_ws('-', page, try_element_at(tags, 1))",
    "right(page, 2)",
    "ltrim(page) || rtrim(page)",
    "rpad(page, 6, '*')",
    "repeat(page, 2)",
    "locate('a', page, 0)",
    "try_element_at(split(page, '[a-z]', -1), 2)",
    "substring_index(page, '/', -1)",
    "regexp_like(page, 'a') OR startswith(page, '/') OR endswith(page, '1') OR contains(page, 's')",
    "sha1(page) || sha2(page, 256) || base64(page)",
    "hash(ms, page) + crc32(page)",
    "to_json(who)",
    "parse_url('http://h.com/p?q=1', 'QUERY', 'q')",
    "quarter(ts) + month(ts) + dayofyear(ts) + dayofmonth(ts) + dayofweek(ts) + day(ts) + minute(ts) + second(ts)",
    "weekofyear(ts)",
    "from_unixtime(ms, 'yyyy-MM-dd HH:mm')",
    "unix_timestamp('2026-01-05', 'yyyy-MM-dd')",
    "now() IS NOT NULL",
    "ifnull(ms, 0)",
    "nullif(ms, 2)",
    "nvl2(ms, 'a', 'b')",
    "isnotnull(page)",
    "cardinality(tags)",
    "trunc(ts, 'MM')",
    "to_timestamp('2026-01-05 10:00', 'yyyy-MM-dd HH:mm')",
    "try_to_timestamp(page)",
    "to_date('05.01.2026', 'dd.MM.yyyy')",
    "date_add(CAST(ts AS DATE), 30)",
    "date_sub(CAST(ts AS DATE), 30)",
    "add_months(CAST(ts AS DATE), 1)",
    "last_day(CAST(ts AS DATE))",
    "date_diff(CAST(ts AS DATE), DATE '2025-01-01')",
    "months_between(ts, TIMESTAMP '2025-12-31 00:00:00')",
    "unix_seconds(ts) + unix_micros(ts)",
    "timestamp_seconds(ms)",
    "timestamp_micros(ms)",
    "element_at(pairs, 'a')",
    "try_element_at(sort_array(array_distinct(tags)), 1)",
    # Digits of decimals, and what a FLOAT becomes.
    "price * price",
    "ms / price",
    "price + 0.1",
    "price % 3",
    "0.1 / 3",
    "CAST(1.1 AS FLOAT) + 1",
    "CAST(price AS INT)",
    "CASE WHEN ms > 2 THEN 1 ELSE 2.5 END",
    "coalesce(price, ms)",
)
QUERIES = {
    "tumbling": (
        f"""SELECT page, window.start, window.end, count(*), sum(ms), avg(ms), max(price) FROM {LATE}
        GROUP BY page, window(ts, '1 minute')""",
        7,
    ),
    "hopping": (
        f"SELECT window.start, count(ms), min(page) FROM {LATE} GROUP BY window(ts, '2 minutes', '1 minute')",
        3,
    ),
    "offset": (
        f"SELECT window.start, count(*) FROM {LATE} GROUP BY window(ts, '1 minute', '1 minute', '10 seconds')",
        2,
    ),
    "sessions": (
        f"SELECT page, session_window.end, count(*) FROM {LATE} GROUP BY page, session_window(ts, '1 minute')",
        3,
    ),
    "having": (
        f"""SELECT n, s FROM (SELECT window.start AS s, count(*) AS n FROM {LATE} GROUP BY window(ts, '3 minutes')) t
        WHERE n > 2""",
        2,
    ),
    "exploded": ("SELECT page, tag FROM clicks LATERAL VIEW explode(tags) t AS tag WHERE tag <> 'y'", 2),
    "kept": ("SELECT page, tag FROM clicks LATERAL VIEW OUTER explode(tags) t AS tag", 2),
    "pairs": ("SELECT k, v FROM clicks LATERAL VIEW explode(pairs) t AS k, v", 2),
    "united": (
        "SELECT page, ms FROM clicks WHERE ms > 3 UNION ALL SELECT tags[0], 1 FROM clicks WHERE size(tags) > 0",
        2,
    ),
    "with": (
        "WITH some AS (SELECT page AS p, ms + 1 AS more FROM clicks WHERE ms IS NOT NULL) SELECT p, more FROM some",
        2,
    ),
}


def in_spark(driver: SparkDriver, query: str) -> list[tuple[Any, ...]]:
    """What Spark gives for the query over all rows at once."""

    def asked(session: Any) -> list[tuple[Any, ...]]:
        session.createDataFrame(ROWS, schema=COLUMNS).createOrReplaceTempView("clicks")
        try:
            return [tuple(row) for row in session.sql(query.replace(LATE, "clicks")).collect()]
        finally:
            session.catalog.dropTempView("clicks")

    return driver.call(asked)


def test_should_mean_what_spark_means(driver: SparkDriver) -> None:
    """Each value as a text, of all rows, and each query."""
    listed = ", ".join(f"CAST({each} AS STRING) AS c{n}" for n, each in enumerate(EXPRESSIONS))
    text = f"{TABLE} CREATE TABLE made ({', '.join(f'c{n} STRING' for n in range(len(EXPRESSIONS)))}) USING console;"
    text += f"INSERT INTO made SELECT {listed} FROM clicks;"
    for name, (query, width) in QUERIES.items():
        letters = "abcdefg"[:width]
        outer = ", ".join(f"CAST({letter} AS STRING)" for letter in letters)
        text += f"CREATE TABLE {name} ({', '.join(f'{each} STRING' for each in letters)}) USING console;"
        text += f"CREATE TEMPORARY VIEW {name}_view ({', '.join(letters)}) AS {query};"
        text += f"INSERT INTO {name} SELECT {outer} FROM {name}_view;"
    pipeline = pipeline_from_sql(text, tables={"clicks": []}, dialect="spark")
    found = pipeline.try_({source.name: ROWS for source in pipeline.topology.origins}, spark=driver)
    expected = in_spark(driver, f"SELECT {listed} FROM clicks")
    made = [tuple(row[f"c{n}"] for n in range(len(EXPRESSIONS))) for row in found["made"]]
    for n, each in enumerate(EXPRESSIONS):
        assert [row[n] for row in made] == [row[n] for row in expected], each
    for name, (query, width) in QUERIES.items():
        letters = "abcdefg"[:width]
        outer = ", ".join(f"CAST({letter} AS STRING)" for letter in letters)
        wanted = in_spark(driver, f"SELECT {outer} FROM ({query}) AS t ({', '.join(letters)})")
        rows = [tuple(row[letter] for letter in letters) for row in found[name]]
        assert sorted(rows, key=str) == sorted(wanted, key=str), name


def test_functions_of_spark_each_is_among_the_expressions() -> None:
    asked = {name.upper() for each in EXPRESSIONS for name in re.findall(r"(\w+)\(", each)}
    assert set(SPARK_FUNCTIONS) - asked == {"CURRENT_TIMESTAMP", "CURRENT_DATE"}


TABLES = """\
CREATE TABLE clicks (page STRING, ms BIGINT, tags ARRAY<STRING>, ts TIMESTAMP) USING json OPTIONS (path '/in/clicks');
CREATE TEMP VIEW slow AS SELECT * FROM clicks WHERE ms > 100;
CREATE TABLE out1 (page STRING, n BIGINT) USING console;
"""
LINES = Path(__file__).with_name("wrong_statements_of_spark.txt").read_text(encoding="utf-8").splitlines()
WRONG = [(statement, *said.strip().split(": ", 1)) for statement, said in zip(LINES[::2], LINES[1::2], strict=True)]


@pytest.mark.parametrize(("statement", "column", "what"), WRONG, ids=[statement for statement, _, _ in WRONG])
def test_should_say_where_and_what(statement: str, column: str, what: str) -> None:
    end = "" if "INSERT" in statement else "; INSERT INTO out1 SELECT page, ms FROM clicks"
    with pytest.raises(SqlError) as error:
        pipeline_from_sql(TABLES + statement + end, dialect="spark")
    assert (error.value.line, error.value.column, error.value.what) == (TABLES.count("\n") + 1, int(column), what)


def test_should_leave_the_sql_of_steps_as_it_is() -> None:
    """sqlglot has one dialect of each name."""
    pipeline_from_sql(f"{TABLES}INSERT INTO out1 SELECT page, ms FROM clicks", dialect="spark")
    stream = StreamBuilder.data_stream("test", "steps").from_file("in.jsonl", schema="ts timestamp, a tinyint")
    assert stream.with_fields(b="timestampadd(SECOND, 5, ts)", c="a + 1Y").to_print().build()


def test_should_be_a_dialect_of_the_terminal_and_of_sessions(tmp_path: Path) -> None:
    file = tmp_path / "slow.sql"
    insert = 'INSERT INTO TABLE out1 SELECT page, avg(ms) FROM clicks WHERE page <> "a;" GROUP BY page'
    file.write_text(f"{TABLES}{insert}")
    found = CliRunner().invoke(main, ["sql", str(file), "--explain", "--dialect", "spark"])
    assert found.exit_code == 0
    assert "print_sink" in found.output
    session = Session(dialect="spark")
    session.keep("CREATE TABLE t (a BIGINT, ts TIMESTAMP) USING json LOCATION '/in'")
    session.keep("CREATE TEMP VIEW v AS SELECT a / 2 AS b FROM t WATERMARK ts DELAY OF INTERVAL 1 SECOND")
    assert session.columns("v") == {"b": "double"}
    with pytest.raises(ConfigurationError, match="unknown dialect 'hive'"):
        pipeline_from_sql(file, dialect="hive")  # type: ignore[arg-type]
