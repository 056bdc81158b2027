"""Each function that Flink documents is known with Flink's meaning, or refused: none is taken from scripts."""

from __future__ import annotations

import pytest

from rs_assets import pipeline_from_sql
from rs_assets.errors import SqlError
from rs_assets.sql.expressions.aggregates import AGGREGATES
from rs_assets.sql.expressions.functions import NOT_HERE, SQL_FUNCTIONS
from rs_assets.sql.plan.groups import over
from rs_assets.sql.read.lexer import STOCK

# The names of Apache Flink 2.x (docs/data/sql_functions.yml), family by family.
NAMES = """
POWER ABS SQRT LN LOG10 LOG2 LOG EXP CEIL CEILING FLOOR SIN SINH COS TAN TANH COT ASIN ACOS ATAN ATAN2 COSH DEGREES
RADIANS SIGN ROUND PI E RAND RAND_INTEGER UUID BIN HEX UNHEX TRUNCATE PERCENTILE MOD
CHAR_LENGTH CHARACTER_LENGTH UPPER LOWER POSITION PRINTF TRIM LTRIM RTRIM BTRIM REPEAT REGEXP_REPLACE OVERLAY
STARTSWITH ENDSWITH SUBSTRING REPLACE REGEXP_COUNT REGEXP_EXTRACT REGEXP_EXTRACT_ALL REGEXP_INSTR REGEXP_SUBSTR
TRANSLATE INITCAP CONCAT CONCAT_WS LPAD RPAD FROM_BASE64 TO_BASE64 ASCII CHR DECODE ENCODE INSTR LEFT RIGHT LOCATE
URL_DECODE URL_ENCODE PARSE_URL REGEXP REVERSE SPLIT_INDEX STR_TO_MAP SUBSTR JSON_QUOTE JSON_UNQUOTE ELT
LOCALTIME LOCALTIMESTAMP CURRENT_TIME NOW CURRENT_ROW_TIMESTAMP EXTRACT YEAR QUARTER MONTH WEEK DAYOFYEAR DAYOFMONTH
DAYOFWEEK HOUR MINUTE SECOND OVERLAPS DATE_FORMAT TIMESTAMPADD TIMESTAMPDIFF CONVERT_TZ FROM_UNIXTIME UNIX_TIMESTAMP
TO_DATE TO_TIMESTAMP_LTZ TO_TIMESTAMP CURRENT_WATERMARK
NULLIF COALESCE IF IFNULL IS_ALPHA IS_DECIMAL IS_DIGIT GREATEST LEAST CAST TRY_CAST TYPEOF
CARDINALITY ELEMENT ARRAY_APPEND ARRAY_CONTAINS ARRAY_DISTINCT ARRAY_POSITION ARRAY_PREPEND ARRAY_REMOVE ARRAY_REVERSE
ARRAY_SLICE ARRAY_SORT ARRAY_UNION ARRAY_CONCAT ARRAY_EXCEPT ARRAY_INTERSECT ARRAY_MAX ARRAY_JOIN ARRAY_MIN MAP_KEYS
MAP_UNION MAP_VALUES MAP_ENTRIES MAP_FROM_ARRAYS SPLIT
JSON_EXISTS JSON_STRING JSON_VALUE JSON_QUERY JSON_OBJECT JSON_ARRAY
GROUP_ID GROUPING GROUPING_ID MD5 SHA1 SHA224 SHA256 SHA384 SHA512 SHA2
COUNT AVG SUM MAX MIN STDDEV_POP STDDEV_SAMP VAR_POP VAR_SAMP COLLECT VARIANCE RANK DENSE_RANK ROW_NUMBER LEAD LAG
FIRST_VALUE LAST_VALUE LISTAGG CUME_DIST PERCENT_RANK NTILE ARRAY_AGG JSON_OBJECTAGG JSON_ARRAYAGG CURRENT_DATABASE
""".split()  # noqa: SIM905  a list of lines would be long
TABLES = """CREATE TABLE t (a STRING, n INT, ts TIMESTAMP(3)) WITH ('connector' = 'memory');
CREATE TABLE made (a STRING) WITH ('connector' = 'print');
"""


def test_names_of_flink_each_is_known_or_refused() -> None:
    known = {*SQL_FUNCTIONS, *AGGREGATES, *NOT_HERE, *STOCK, *over.ROWS, *over.REFUSED}
    assert [name for name in NAMES if name not in known] == []
    assert set(NOT_HERE).isdisjoint({*SQL_FUNCTIONS, *AGGREGATES})


@pytest.mark.parametrize("name", sorted(set(NOT_HERE) - {"OVERLAPS", "GROUPING"}))
def test_function_that_is_not_here_is_refused_at_its_place(name: str) -> None:
    with pytest.raises(SqlError) as error:
        pipeline_from_sql(f"{TABLES}INSERT INTO made SELECT {name}(a) FROM t", tables={"t": []})
    assert (error.value.facts["line"], error.value.facts["column"]) == (3, len("INSERT INTO made SELECT ") + 1)
    assert error.value.remedy


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("CAST(TO_TIMESTAMP_LTZ(n, 2) AS STRING)", "TO_TIMESTAMP_LTZ: its second argument must be a known precision"),
        ("JSON_VALUE(a, '$.a[*]')", "JSON_VALUE: its path must be a literal that selects one value"),
        ("JSON_VALUE(a, a)", "JSON_VALUE: its path must be a literal that selects one value"),
        ("DATE_FORMAT(ts, 'YYYY')", "DATE_FORMAT: the format 'YYYY' has 'Y', which is not supported"),
        (
            "TO_TIMESTAMP(a, 'yyyy-MM-dd''T''HH:mm:ssXXX')",
            "TO_TIMESTAMP: the format \"yyyy-MM-dd'T'HH:mm:ssXXX\" has 'X': Flink would ignore the zone of the text",
        ),
        ("FROM_UNIXTIME(n, 'u')", "FROM_UNIXTIME: the format 'u' has 'u', which is not supported"),
        ("CONCAT(a, n)", "CONCAT: its argument 2 is INT, not a text"),
        ("SPLIT_INDEX(a, '', 0)", "SPLIT_INDEX: invalid separator"),
        ("CAST(ROUND(1.5, n) AS STRING)", "ROUND: its second argument must be an integer literal"),
        ("HEX(1.5)", "HEX: its argument is DECIMAL(2,1)"),
    ],
)
def test_argument_without_flinks_meaning_is_refused(expression: str, what: str) -> None:
    with pytest.raises(SqlError) as error:
        pipeline_from_sql(f"{TABLES}INSERT INTO made SELECT {expression} FROM t", tables={"t": []})
    assert (error.value.what, bool(error.value.remedy)) == (what, True)
