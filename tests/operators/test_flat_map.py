"""flat_map: one record becomes any number of others."""

import pytest

from rs_assets.errors import StepError

SCHEMA = "user string, items array<string>"
ROWS = [{"user": "u1", "items": ["a", "b"]}, {"user": "u2", "items": []}, {"user": "u3", "items": ["c"]}]


def test_should_explode_in_sql(source, compute):
    assert compute(source(SCHEMA).flat_map("explode(items) AS item"), ROWS) == [{"item": i} for i in "abc"]


def test_should_flatten_the_lists_of_a_function(source, drive):
    def items(row):
        return [{"user": row["user"], "item": item} for item in row["items"]] or None

    rows = drive(source(SCHEMA).flat_map(items, schema="user string, item string"), ROWS)
    assert [(row["user"], row["item"]) for row in rows] == [("u1", "a"), ("u1", "b"), ("u3", "c")]


def test_should_name_a_function_that_returns_no_list(source, compute):
    with pytest.raises(StepError, match="step 'odd' raised TypeError"):
        compute(source(SCHEMA).flat_map(lambda row: 7, schema="n bigint", name="odd"), ROWS)
