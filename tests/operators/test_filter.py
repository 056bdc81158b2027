"""filter: SQL, Columns and Python functions keep the same rows."""

import pytest
from pyspark.sql import functions as F

from rs_assets import column
from rs_assets.errors import StepError, UnknownFieldError

SCHEMA = "page string, ms bigint"
ROWS = [{"page": "/a", "ms": 5}, {"page": "/b", "ms": 50}, {"page": None, "ms": 500}, {"page": "/b", "ms": None}]
CONDITIONS = {
    "sql": "page = '/b'",
    "column": column(lambda: F.col("page") == "/b"),
    "python": lambda row: row["page"] == "/b",
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_should_keep_what_is_true_and_drop_false_and_null(source, drive, condition):
    assert [row["ms"] for row in drive(source(SCHEMA).filter(condition), ROWS)] == [50, None]


def test_should_fuse_python_filters_and_keep_the_order(source, compute):
    stream = source(SCHEMA).filter(lambda row: row["ms"] is not None).filter(lambda row: row.get("ms") > 5)
    assert [row["ms"] for row in compute(stream, ROWS)] == [50, 500]


def test_should_take_a_column_that_was_built_before(source, compute, spark):
    assert len(compute(source(SCHEMA).filter(F.col("ms") > 5), ROWS)) == 2


def test_should_name_the_unknown_field(source, compute):
    with pytest.raises(UnknownFieldError, match="page, ms"):
        compute(source(SCHEMA).filter("size > 3"), ROWS)
    with pytest.raises(StepError, match="KeyError: 'size'"):
        compute(source(SCHEMA).filter(lambda row: row["size"] > 3), ROWS)


def test_should_say_how_a_field_is_read(source, compute):
    with pytest.raises(StepError, match=r"did you mean 'ms'\? the record has: page, ms"):
        compute(source(SCHEMA).filter(lambda row: row["mss"] > 3), ROWS)
    with pytest.raises(StepError, match=r"a record is a dict: write row\['ms'\]"):
        compute(source(SCHEMA).filter(lambda row: row.ms > 3), ROWS)
