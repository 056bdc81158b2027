"""Expressions and functions with Flink's meaning, where Spark has another: all of them in one run on Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.spark.driver import SparkDriver
from rs_assets.sql.expressions.flink_times import SHOWN

ROW = {
    "s": "a1b22", "e": "", "n": 5, "m": 2, "neg": -7, "big": 2**40, "d": 2.5, "p": Decimal("1.25"), "yes": True,
    "nothing": None, "none": None, "unknown": None, "ts": datetime(2026, 1, 5, 23, 59, 40, 123000, tzinfo=UTC),
    "parts": ["x", "y"], "pairs": {"k": 1}, "who": {"id": 7, "name": "Ada"}, "path": "/a/b.c/d", "slash": "a\\d",
    "i": 1, "k": {"k": 2}, "v": {"j": 3},
}  # fmt: skip
COLUMNS = """s STRING, e STRING, n BIGINT, m INT, neg INT, big BIGINT, d DOUBLE, p DECIMAL(10, 2), yes BOOLEAN,
    nothing STRING, `none` BIGINT, unknown BOOLEAN, ts TIMESTAMP(3), parts ARRAY<STRING>, pairs MAP<STRING, BIGINT>,
    who ROW<id BIGINT, name STRING>, path STRING, slash STRING, i INT,
    k MAP<STRING, BIGINT>, v MAP<STRING, BIGINT>"""

# An expression, the type of its column, and the value that it has in Flink.
CASES = [
    # A backslash is a letter of a text, and an escape in patterns.
    (r"REGEXP_REPLACE(s, '\d+', '-')", "STRING", "a-b-"),
    (r"REGEXP_EXTRACT(s, 'b(\d+)', 1)", "STRING", "22"),
    (r"'\n'", "STRING", r"\n"),
    ("'it''s'", "STRING", "it's"),
    (r"slash LIKE 'a\d'", "BOOLEAN", True),
    ("'50%' LIKE '50!%' ESCAPE '!'", "BOOLEAN", True),
    ("'505' LIKE '50!%' ESCAPE '!'", "BOOLEAN", False),
    ("s NOT LIKE 'a%'", "BOOLEAN", False),
    ("s NOT LIKE 'b%'", "BOOLEAN", True),
    ("nothing NOT LIKE 'b%'", "BOOLEAN", None),
    ("'50%' NOT LIKE '50!%' ESCAPE '!'", "BOOLEAN", False),
    ("'505' NOT LIKE '50!%' ESCAPE '!'", "BOOLEAN", True),
    ("CASE WHEN s NOT LIKE 'a%' THEN 'other' ELSE 'a' END", "STRING", "a"),
    ("n BETWEEN SYMMETRIC 9 AND 1", "BOOLEAN", True),
    ("n NOT BETWEEN SYMMETRIC 9 AND 1", "BOOLEAN", False),
    ("n BETWEEN SYMMETRIC `none` AND 1", "BOOLEAN", None),
    ("n BETWEEN SYMMETRIC 1 AND 3", "BOOLEAN", False),
    # No match is null, not an empty text.
    ("REGEXP_EXTRACT(s, 'z(.)', 1)", "STRING", None),
    (r"REGEXP(s, '^a\d')", "BOOLEAN", True),
    (r"REGEXP_REPLACE(s, '(\d)', '<$1\>')", "STRING", r"a<$1\>b<$1\><$1\>"),
    ("REGEXP_REPLACE(s, e, '')", "STRING", "a1b22"),
    ("REGEXP_REPLACE('x', 'x', CONCAT(slash, '$'))", "STRING", "a\\d$"),
    ("SPLIT_INDEX(e, '/', 0)", "STRING", None),
    ("SPLIT_INDEX(path, '/', 0)", "STRING", ""),
    ("SPLIT_INDEX(path, '/', 1)", "STRING", "a"),
    ("SPLIT_INDEX(path, '/', 9)", "STRING", None),
    ("SPLIT_INDEX(path, '.', 1)", "STRING", "c/d"),
    # Whole numbers stay whole.
    ("n / m", "BIGINT", 2),
    ("neg / m", "BIGINT", -3),
    ("n / 2.0", "DOUBLE", 2.5),
    ("d / m", "DOUBLE", 1.25),
    ("MOD(neg, 3)", "INT", -1),
    ("neg % 3", "INT", -1),
    ("ABS(neg)", "INT", 7),
    ("0.908 * n", "DECIMAL(23, 3)", Decimal("4.540")),
    ("CEIL(d)", "DOUBLE", 3),
    ("FLOOR(d)", "DOUBLE", 2),
    ("CAST(FLOOR(d) AS DOUBLE) / 4", "DOUBLE", 0.5),
    ("CAST(CAST(ts AS DATE) + INTERVAL '1' DAY AS STRING)", "STRING", "2026-01-06"),
    ("CAST(ts AS DATE) - INTERVAL '1' MONTH", "DATE", date(2025, 12, 5)),
    ("CAST(CAST(ts AS DATE) + INTERVAL '1' HOUR AS STRING)", "STRING", "2026-01-05 01:00:00.000"),
    ("ROUND(p, 1)", "DECIMAL(10, 1)", Decimal("1.3")),
    ("POWER(m, 3)", "DOUBLE", 8.0),
    ("-n + 2 * m", "BIGINT", -1),
    # Null is neither true nor false.
    ("`none` = 1", "BOOLEAN", None),
    ("`none` IS NOT DISTINCT FROM NULL", "BOOLEAN", True),
    ("n IS DISTINCT FROM `none`", "BOOLEAN", True),
    ("FALSE AND unknown", "BOOLEAN", False),
    ("TRUE AND unknown", "BOOLEAN", None),
    ("unknown IS UNKNOWN", "BOOLEAN", True),
    ("unknown IS NOT TRUE", "BOOLEAN", True),
    ("yes IS TRUE", "BOOLEAN", True),
    ("n IN (1, NULL)", "BOOLEAN", None),
    ("n NOT IN (1, NULL)", "BOOLEAN", None),
    ("n BETWEEN 5 AND 6", "BOOLEAN", True),
    ("n NOT BETWEEN 5 AND 6", "BOOLEAN", False),
    ("GREATEST(n, `none`)", "BIGINT", None),
    ("LEAST(n, 3)", "BIGINT", 3),
    ("COALESCE(nothing, 'x')", "STRING", "x"),
    ("IFNULL(`none`, 3)", "BIGINT", 3),
    ("NULLIF(n, 5)", "BIGINT", None),
    ("IF(n > 3, 'more', 'less')", "STRING", "more"),
    ("CASE WHEN n > 9 THEN 'a' WHEN unknown THEN 'b' ELSE 'c' END", "STRING", "c"),
    ("CASE m WHEN 1 THEN 'one' WHEN 2 THEN 'two' END", "STRING", "two"),
    # Texts.
    ("s || '!' || e", "STRING", "a1b22!"),
    ("s || nothing", "STRING", None),
    ("CONCAT(s, nothing)", "STRING", None),
    ("CONCAT_WS('-', s, nothing, 'z')", "STRING", "a1b22-z"),
    ("UPPER(s)", "STRING", "A1B22"),
    ("CHAR_LENGTH(s)", "INT", 5),
    ("SUBSTRING(s, 2)", "STRING", "1b22"),
    ("SUBSTRING(s FROM 2 FOR 2)", "STRING", "1b"),
    ("SUBSTRING(s, 0, 1)", "STRING", "a"),
    ("TRIM(BOTH 'a' FROM 'aba')", "STRING", "b"),
    ("TRIM('  x ')", "STRING", "x"),
    ("POSITION('b' IN s)", "INT", 3),
    ("REPLACE(s, '2', '')", "STRING", "a1b"),
    ("LPAD('ab', 5, '')", "STRING", None),
    ("LPAD('ab', 5, 'x')", "STRING", "xxxab"),
    ("LEFT(s, 2)", "STRING", "a1"),
    ("RIGHT(s, 2)", "STRING", "22"),
    ("REPEAT('ab', 2)", "STRING", "abab"),
    ("REVERSE('ab')", "STRING", "ba"),
    ("COUNT_CHAR('abcabc', 'c')", "BIGINT", 2),
    ("PARSE_URL('http://h/p?axb=1&a.b=2', 'QUERY', 'a.b')", "STRING", "2"),
    ("PARSE_URL('http://h/p?q=1', 'QUERY', '(')", "STRING", None),
    ("PARSE_URL('http://u@my_shop:80/p', 'HOST')", "STRING", "my_shop"),
    ("PARSE_URL('http://u@my_shop:80/p', 'USERINFO')", "STRING", "u"),
    ("PARSE_URL('http://u@/p', 'HOST')", "STRING", None),
    ("CHAR_LENGTH(TO_BASE64(REPEAT('a', 100)))", "INT", 136),
    # Casts.
    ("CAST(n AS STRING)", "STRING", "5"),
    ("CAST(yes AS STRING)", "STRING", "TRUE"),
    ("CAST(ts AS STRING)", "STRING", "2026-01-05 23:59:40.123"),
    ("CAST('12' AS BIGINT)", "BIGINT", 12),
    ("TRY_CAST('a' AS BIGINT)", "BIGINT", None),
    ("CAST(d AS DECIMAL(5, 1))", "DECIMAL(5, 1)", Decimal("2.5")),
    ("DATE '2026-01-05'", "DATE", date(2026, 1, 5)),
    # Times.
    ("DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm')", "STRING", "2026-01-05 23:59"),
    ("FLOOR(ts TO HOUR)", "TIMESTAMP(3)", datetime(2026, 1, 5, 23, tzinfo=UTC)),
    ("ts + INTERVAL '1:30' MINUTE TO SECOND", "TIMESTAMP(3)", datetime(2026, 1, 6, 0, 1, 10, 123000, tzinfo=UTC)),
    ("ts + INTERVAL -'1' DAY", "TIMESTAMP(3)", datetime(2026, 1, 4, 23, 59, 40, 123000, tzinfo=UTC)),
    ("ts - INTERVAL -'1:30' MINUTE TO SECOND", "TIMESTAMP(3)", datetime(2026, 1, 6, 0, 1, 10, 123000, tzinfo=UTC)),
    ("ts + INTERVAL -'-1' MONTH", "TIMESTAMP(3)", datetime(2026, 2, 5, 23, 59, 40, 123000, tzinfo=UTC)),
    ("ts - INTERVAL '1' MONTH", "TIMESTAMP(3)", datetime(2025, 12, 5, 23, 59, 40, 123000, tzinfo=UTC)),
    ("HOUR(ts)", "INT", 23),
    ("EXTRACT(MINUTE FROM ts)", "INT", 59),
    ("TO_TIMESTAMP('2026-01-05 01:02:03')", "TIMESTAMP(3)", datetime(2026, 1, 5, 1, 2, 3, tzinfo=UTC)),
    ("TO_TIMESTAMP('no')", "TIMESTAMP(3)", None),
    ("TO_TIMESTAMP_LTZ(1000, 3)", "TIMESTAMP(3)", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ("TO_TIMESTAMP_LTZ(1000, 0)", "TIMESTAMP(3)", datetime(1970, 1, 1, 0, 16, 40, tzinfo=UTC)),
    # Of fractions what is left of seconds and milliseconds is dropped, of a DOUBLE of seconds what is left of millis.
    ("TO_TIMESTAMP_LTZ(d * 1000, 3)", "TIMESTAMP(3)", datetime(1970, 1, 1, 0, 0, 2, 500000, tzinfo=UTC)),
    ("TO_TIMESTAMP_LTZ(d, 3)", "TIMESTAMP(3)", datetime(1970, 1, 1, 0, 0, 0, 2000, tzinfo=UTC)),
    ("TO_TIMESTAMP_LTZ(d, 0)", "TIMESTAMP(3)", datetime(1970, 1, 1, 0, 0, 2, 500000, tzinfo=UTC)),
    ("TO_TIMESTAMP_LTZ(-d)", "TIMESTAMP(3)", datetime(1969, 12, 31, 23, 59, 59, 998000, tzinfo=UTC)),
    ("TO_TIMESTAMP_LTZ(p * 2, 0)", "TIMESTAMP(3)", datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)),
    ("TO_TIMESTAMP_LTZ(p * 2, 3)", "TIMESTAMP(3)", datetime(1970, 1, 1, 0, 0, 0, 2000, tzinfo=UTC)),
    # And beyond the years 0 to 9999 there is none.
    ("TO_TIMESTAMP_LTZ(9223372036854775807, 3)", "TIMESTAMP(3)", None),
    ("TO_TIMESTAMP_LTZ(CAST(big AS DOUBLE) * big, 0)", "TIMESTAMP(3)", None),
    ("TO_TIMESTAMP_LTZ(253402300799, 0)", "TIMESTAMP(3)", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ("TO_TIMESTAMP_LTZ(253402300800, 0)", "TIMESTAMP(3)", None),
    ("TO_TIMESTAMP_LTZ(CAST('NaN' AS DOUBLE), 3)", "TIMESTAMP(3)", None),
    # To go by the zone of a text, as its refusal says.
    (
        f"TO_TIMESTAMP(DATE_FORMAT('2026-01-05 01:02:03.004+01:30', '{SHOWN}XXX', '{SHOWN}'))",
        "TIMESTAMP(3)",
        datetime(2026, 1, 4, 23, 32, 3, 4000, tzinfo=UTC),
    ),
    (
        "TO_TIMESTAMP('2026-01-05T01:02:03Z', 'yyyy-MM-dd''T''HH:mm:ss''Z''')",
        "TIMESTAMP(3)",
        datetime(2026, 1, 5, 1, 2, 3, tzinfo=UTC),
    ),
    ("TO_DATE('2026-01-05')", "DATE", date(2026, 1, 5)),
    ("TO_DATE('2026-01-05 12:30:00')", "DATE", date(2026, 1, 5)),
    ("TO_DATE('12:30:00')", "DATE", None),
    ("TO_DATE(CONCAT(CHR(9), '12:30'))", "DATE", None),
    ("FROM_UNIXTIME(1505404800)", "STRING", "2017-09-14 16:00:00"),
    ("UNIX_TIMESTAMP('2026-01-05 00:00:00')", "BIGINT", 1767571200),
    ("TIMESTAMPADD(DAY, 1, ts)", "TIMESTAMP(3)", datetime(2026, 1, 6, 23, 59, 40, 123000, tzinfo=UTC)),
    ("TIMESTAMPDIFF(HOUR, TIMESTAMP '2026-01-05 00:00:00', ts)", "BIGINT", 23),
    ("QUARTER(ts)", "INT", 1),
    # What is inside others.
    ("parts[1]", "STRING", "x"),
    ("parts[3]", "STRING", None),
    ("pairs['k']", "BIGINT", 1),
    ("who.name", "STRING", "Ada"),
    ("CARDINALITY(parts)", "INT", 2),
    # Columns with short names are no variables of these functions.
    ("ARRAY_CONTAINS(parts, e)", "BOOLEAN", False),
    ("CARDINALITY(ARRAY_REMOVE(parts, e))", "INT", 2),
    ("ARRAY_JOIN(ARRAY_SLICE(parts, i, i), ',')", "STRING", "x"),
    ("MAP_UNION(pairs, k)['k']", "BIGINT", 2),
    ("CARDINALITY(MAP_UNION(pairs, v))", "INT", 2),
    ("JSON_VALUE('{\"a\": {\"b\": 1}}', '$.a.b')", "STRING", "1"),
    (f"JSON_VALUE('{{\"a\": {'9' * 38}}}', '$.a')", "STRING", "9" * 38),
    (f"JSON_VALUE('{{\"a\": {'9' * 37}.5}}', '$.a')", "STRING", f"{'9' * 37}.5"),
    # Flink keeps these as they are written: docs/sql.md declares the difference.
    (f"JSON_VALUE('{{\"a\": {'9' * 39}}}', '$.a')", "STRING", "1.0E39"),
    ("JSON_VALUE('{\"a\": 1e3}', '$.a')", "STRING", "1000.0"),
    ("JSON_VALUE('{\"a\": 1e400}', '$.a')", "STRING", "Infinity"),
]


@pytest.fixture(scope="module")
def found(driver: SparkDriver) -> dict[str, object]:
    """The values of all cases, by their places."""
    sink = ", ".join(f"c{n} {kind}" for n, (_, kind, _) in enumerate(CASES))
    text = f"""
        CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'memory');
        CREATE TABLE made ({sink}) WITH ('connector' = 'print');
        INSERT INTO made SELECT {", ".join(expression for expression, _, _ in CASES)} FROM t
    """
    pipeline = pipeline_from_sql(text, tables={"t": []})
    return pipeline.try_([ROW], spark=driver)["made"][0]


@pytest.mark.parametrize("place", range(len(CASES)), ids=[expression for expression, _, _ in CASES])
def test_should_have_the_value_of_flink(place: int, found: dict[str, object]) -> None:
    assert found[f"c{place}"] == CASES[place][2]
