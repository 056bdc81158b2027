"""select_fields: some fields, in the order they were named."""

import pytest

from rs_assets.errors import TopologyError, UnknownFieldError

ROWS = [{"a": 1, "b": 2, "c": 3}]


def test_should_keep_only_the_named_fields(source, drive):
    rows = drive(source("a bigint, b bigint, c bigint").select_fields("c", "a"), ROWS)
    assert [list(row.items()) for row in rows] == [[("c", 3), ("a", 1)]]


def test_should_name_the_fields_there_are(source, compute):
    with pytest.raises(UnknownFieldError, match="'z', which does not exist") as caught:
        compute(source("a bigint, b bigint, c bigint").select_fields("z"), ROWS)
    assert caught.value.known == ("a", "b", "c")


@pytest.mark.parametrize("fields", [(), ("a", "a")])
def test_should_refuse_no_field_or_one_twice(source, fields):
    with pytest.raises(TopologyError, match="at least one field and none twice"):
        source("a bigint").select_fields(*fields)
