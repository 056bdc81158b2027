"""map: SQL, Columns and Python functions."""

from dataclasses import dataclass
from typing import TypedDict

import pytest
from pyspark.sql import functions as F

from rs_assets import column
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


def test_should_select_in_sql_and_columns(source, drive):
    stream = source(SCHEMA).map("upper(page) AS page", column(lambda: (F.col("ms") * 2).alias("twice")))
    assert drive(stream, ROWS) == [{"page": "/A", "twice": 3000}, {"page": "/B", "twice": 40}]


def test_should_take_the_schema_from_a_typed_dict(source, drive):
    assert drive(source(SCHEMA).map(timed), ROWS) == [{"page": "/a", "seconds": 1.5}, {"page": "/b", "seconds": 0.02}]


def test_should_take_the_schema_from_a_dataclass_and_fuse_steps(source, drive):
    stream = (
        source(SCHEMA).filter(lambda row: row["ms"] > 100).map(named).map(lambda row: row, schema="tags array<string>")
    )
    with pytest.raises(StepError, match="returned a record that does not fit"):
        drive(stream, ROWS)
    stream = source(SCHEMA).filter(lambda row: row["ms"] > 100).map(named)
    assert drive(stream, ROWS) == [{"page": "/a", "tags": ["/a", "1500"]}]


def test_should_name_step_record_and_place_of_a_function_that_raises(source, drive):
    stream = source(SCHEMA).map(
        lambda row: {"page": row["page"], "ms": 1 // (row["ms"] - 20)}, schema=SCHEMA, name="divide"
    )
    with pytest.raises(StepError, match="step 'divide' raised ZeroDivisionError") as caught:
        drive(stream, ROWS)
    assert (caught.value.facts["step"], caught.value.facts["line"]) == ("divide", 2)
    assert "'/b'" in caught.value.facts["record"]


def test_should_name_the_fields_there_are(source, drive):
    with pytest.raises(UnknownFieldError, match="use one of: page, ms") as caught:
        drive(source(SCHEMA).map("pgae", name="typo"), ROWS)
    assert (caught.value.field, caught.value.facts["step"]) == ("pgae", "typo")


def test_should_refuse_a_function_without_a_schema(source):
    with pytest.raises(SchemaError, match="has no schema"):
        source(SCHEMA).map(lambda row: row)


def test_should_refuse_a_result_that_is_no_record(source, drive):
    with pytest.raises(StepError, match="must return a dict or a dataclass, not int"):
        drive(source(SCHEMA).map(lambda row: 3, schema="n bigint"), ROWS)


def test_should_refuse_what_is_no_expression(source):
    with pytest.raises(TopologyError, match="takes SQL text or a Spark Column, not int"):
        source(SCHEMA).map(3)


def test_should_refuse_a_schema_that_does_not_parse(source, drive):
    with pytest.raises(SchemaError, match="does not parse"):
        drive(source(SCHEMA).map(lambda row: row, schema="page strin g,,"), ROWS)
