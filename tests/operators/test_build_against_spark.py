"""What is refused when a pipeline is built Spark refuses too, and what is known there is so in Spark."""

import random
import re

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.compile.planner.context import parse_ddl
from rs_assets.errors import RsError, SchemaError
from rs_assets.records.fields import Fields
from rs_assets.records.types import DdlError, fields_in
from rs_assets.topology.check.sql import Item, check_sql
from tests.topology.spark_sql import CONDITIONS, FIELDS, SELECTED, VALUES

KNOWN = Fields(fields_in(FIELDS))
CORPUS = (*CONDITIONS, *VALUES, *(part for parts in SELECTED for part in parts if "one" not in part))
TOKEN = re.compile(r"`[^`]*`|'(?:[^'\\]|\\.)*'|\w+|->|=>|<=>|>=|<=|<>|!=|==|::|\|\||>>>|>>|<<|\S")
# A last word that Spark takes for the name of what comes out, as in `a > 1 and`: nobody means that.
NAMED = re.compile(r"(?i)\b(and|or|not|like|rlike|ilike|regexp|in|is|between|escape|as|when|then|else|case|div)$")
SPOILT = 150
SCHEMAS = (
    "a int, b string NOT NULL COMMENT 'x', `c d` double",
    "a: int, b: struct<c: int, d: array<string>>, e map<string, struct<f int>>",
    "struct<a:int,b:string>", "int", "array<int>", "order int, select string, from date, 1a int",
    "a decimal, b decimal(5), c dec(5,1), d numeric(3)",
    "a integer, b long, c short, d byte, e real, f timestamp_ltz, g variant, h binary",
    "a varchar(5), b char(3), c string collate utf8_lcase, d interval day to second, e time(3), f int",
    "a struct<>", "a int -- b\n, c int", "a geometry(4326)", "a timestamp with local time zone", "a void",
    "a int, b", "a", "a strin", "a datetime", "a array", "a array<>", "a map<int>", "a int,", ", a int",
    "a decimal(40,2)", "a decimal(5,7)", "a array<int", "a array<int>>", "a text, b number",
)  # fmt: skip


def accepted(frame, text):
    """The frame with the column `text`, or None."""
    try:
        return frame.select(F.expr(text))
    except PySparkException:
        return None


def refused(text):
    try:
        return not isinstance(check_sql(text, KNOWN, step="s"), Item)
    except RsError:
        return True


def spoilt(chance):
    """An expression that somebody has mistyped."""
    tokens = TOKEN.findall(chance.choice(CORPUS))
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(len(tokens) or 1)
        other = chance.choice(TOKEN.findall(chance.choice(CORPUS)))
        # One is gone, stands there twice, is another one, or another stands before it.
        tokens[at : at + 1] = chance.choice(([], tokens[at : at + 1] * 2, [other], [other, *tokens[at : at + 1]]))
    return " ".join(tokens)


@pytest.fixture(scope="module")
def frame(driver):
    return driver.call(lambda spark: spark.createDataFrame([], StructType.fromDDL(FIELDS)))


def test_what_builds_without_spark_is_what_spark_accepts(driver, frame):
    def look(_spark):
        for text in CORPUS:
            made, item = accepted(frame, text), check_sql(text, KNOWN, step="s")
            assert made is not None, text
            if item.type is not None:
                assert made.schema[0].dataType.simpleString() == item.type.text, text
            if item.fields is not None:
                assert made.columns == list(item.fields), text

    driver.call(look)


def test_what_is_refused_spark_refuses_too(driver, frame):
    chance = random.Random(14)
    texts = [spoilt(chance) for _ in range(SPOILT)]
    wrong = [text for text in texts if refused(text) and not NAMED.search(text)]
    assert len(wrong) > SPOILT // 3
    assert driver.call(lambda _: [text for text in wrong if accepted(frame, text) is not None]) == []


@pytest.mark.parametrize("ddl", SCHEMAS)
def test_a_schema_is_read_as_spark_reads_it(driver, ddl):
    def by_spark(spark):
        try:
            made = parse_ddl(spark, ddl, step="s")
        except SchemaError:
            return None
        return {field.name: field.dataType.simpleString() for field in made.fields}

    found = driver.call(by_spark)
    try:
        known = fields_in(ddl)
    except DdlError:
        assert found is None
    else:
        assert found is not None
        assert known is None or [*known] == [*found]
        assert known is None or all(kind is None or kind.text == found[name] for name, kind in known.items())
