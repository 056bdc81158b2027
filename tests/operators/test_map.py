"""map: SQL, Columns and Python functions."""

from dataclasses import dataclass
from typing import TypedDict

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from rs_assets import column
from rs_assets.compile.python.python_step import apply_python, python_step
from rs_assets.errors import SchemaError, StepError, TopologyError, UnknownFieldError

SCHEMA = "page string, ms bigint"
ROWS = [{"page": "/a", "ms": 1500}, {"page": "/b", "ms": 20}]


class Timed(TypedDict):
    page: str
    seconds: float | None


@dataclass
class Named:
    page: str
    tags: list[str]


def timed(row: dict) -> Timed:
    return {"page": row["page"], "seconds": row["ms"] / 1000}


def named(row: dict) -> Named:
    return Named(row["page"], [row["page"], str(row["ms"])])


def test_should_select_in_sql_and_columns(source, compute):
    stream = source(SCHEMA).map("upper(page) AS page", column(lambda: (F.col("ms") * 2).alias("twice")))
    assert compute(stream, ROWS) == [{"page": "/A", "twice": 3000}, {"page": "/B", "twice": 40}]


def test_should_take_the_schema_from_a_typed_dict(source, drive):
    assert drive(source(SCHEMA).map(timed), ROWS) == [{"page": "/a", "seconds": 1.5}, {"page": "/b", "seconds": 0.02}]


def test_should_take_the_schema_from_a_dataclass_and_fuse_steps(source, compute):
    stream = (
        source(SCHEMA).filter(lambda row: row["ms"] > 100).map(named).map(lambda row: row, schema="tags array<string>")
    )
    with pytest.raises(StepError, match="returned a record that does not fit"):
        compute(stream, ROWS)
    stream = source(SCHEMA).filter(lambda row: row["ms"] > 100).map(named)
    assert compute(stream, ROWS) == [{"page": "/a", "tags": ["/a", "1500"]}]


def test_should_name_step_record_and_place_of_a_function_that_raises(source, drive):
    stream = source(SCHEMA).map(
        lambda row: {"page": row["page"], "ms": 1 // (row["ms"] - 20)}, schema=SCHEMA, name="divide"
    )
    with pytest.raises(StepError, match="step 'divide' raised ZeroDivisionError") as caught:
        drive(stream, ROWS)
    assert (caught.value.facts["step"], caught.value.facts["line"]) == ("divide", 2)
    assert "'/b'" in caught.value.facts["record"]


def test_should_name_the_fields_there_are(source, compute):
    with pytest.raises(UnknownFieldError, match="use one of: page, ms") as caught:
        compute(source(SCHEMA).map("pgae", name="typo"), ROWS)
    assert (caught.value.field, caught.value.facts["step"]) == ("pgae", "typo")


def test_should_refuse_a_function_without_a_schema(source):
    with pytest.raises(SchemaError, match="has no schema"):
        source(SCHEMA).map(lambda row: row)


def test_should_refuse_a_result_that_is_no_record(source, compute):
    with pytest.raises(StepError, match="must return a dict or a dataclass, not int"):
        compute(source(SCHEMA).map(lambda row: 3, schema="n bigint"), ROWS)


def test_should_refuse_what_is_no_expression(source):
    with pytest.raises(TopologyError, match="takes SQL text or a Spark Column, not int"):
        source(SCHEMA).map(3)


def test_should_refuse_a_schema_that_does_not_parse(source, drive):
    with pytest.raises(SchemaError, match="does not parse"):
        drive(source(SCHEMA).map(lambda row: row, schema="page strin g,,"), ROWS)


TWICE = StructType().add("twice", LongType())
FROM_PAGE = python_step("filter", "from_page", lambda row: row["page"] != "/none")
FROM_MS = python_step("map", "from_ms", lambda row: {"twice": row["ms"] * 2}, TWICE)
FROM_ALL = python_step("map", "from_all", lambda row: {"twice": len(row)}, TWICE)
FROM_TWICE = python_step("filter", "from_twice", lambda row: row["twice"] > 0)
FROM_NOTHING = python_step("map", "from_nothing", lambda row: {"twice": 1}, TWICE)
MISSPELT = python_step("map", "misspelt", lambda row: {"twice": row.get("sm", 9)}, TWICE)
ALL = {"page", "ms", "a b"}


@pytest.mark.parametrize(
    ("steps", "crossing", "made"),
    [
        ([FROM_MS], {"ms"}, 6),
        ([FROM_PAGE, FROM_MS, FROM_TWICE], {"page", "ms"}, 6),
        ([FROM_MS, FROM_ALL], {"ms"}, 1),
        ([FROM_PAGE, FROM_ALL], ALL, 3),
        ([FROM_NOTHING], set(), 1),
        ([MISSPELT], ALL, 9),
        ([FROM_PAGE], ALL, None),
    ],
    ids=lambda value: "-".join(step.name for step in value) if isinstance(value, list) else "",
)
def test_only_what_is_read_should_cross_to_python(driver, steps, crossing, made):
    def crossed_and_made(session):
        frame = session.sql("SELECT '/a' AS page, 3L AS ms, 5 AS `a b`, 7L AS _rs_line")
        out = apply_python(frame, steps)
        fields = out._jdf.queryExecution().analyzed().children().head().output()
        return {fields.apply(n).name() for n in range(fields.size())}, out.collect()[0].asDict()

    names, row = driver.call(crossed_and_made)
    assert names == crossing | {"_rs_line"}
    assert row == ({"twice": made, "_rs_line": 7} if made else {"page": "/a", "ms": 3, "a b": 5, "_rs_line": 7})


@pytest.mark.parametrize("odd", ["http.status", "a`b", "a.`b`"])
def test_python_should_get_fields_with_dots_and_backticks(source, compute, odd):
    quoted = f"`{odd.replace('`', '``')}`"
    schema = f"page string, {quoted} bigint"
    rows = [{"page": "/a", odd: 1}, {"page": "/b", odd: 2}]

    def kept():
        return source(schema).filter(lambda row: hash(row["page"]) != 5, trace=False)

    def titled(row):
        return {"page": row["page"] if row["page"] == "/a" else row["page"].title()}

    assert compute(kept(), rows) == rows
    assert compute(kept().map(titled, schema="page string"), rows) == [{"page": "/a"}, {"page": "/B"}]
    assert compute(source(schema).map(titled, schema="page string"), rows) == [{"page": "/a"}, {"page": "/B"}]
    counted = source(schema).map(lambda row: {"n": row[odd] + len(row)}, schema="n bigint")
    assert compute(counted, rows) == [{"n": 3}, {"n": 4}]
