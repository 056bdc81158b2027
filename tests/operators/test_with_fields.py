"""with_fields: new fields beside the old ones."""

import pytest

from rs_assets.errors import TopologyError, UnknownFieldError


def test_should_add_and_replace_from_the_record_as_it_came(source, drive):
    rows = drive(source("n bigint").with_fields(n="n + 1", double="n * 2"), [{"n": 5}])
    assert rows == [{"n": 6, "double": 10}]


def test_should_name_the_unknown_field(source, compute):
    with pytest.raises(UnknownFieldError, match="use one of: n"):
        compute(source("n bigint").with_fields(m="k + 1"), [{"n": 5}])


def test_should_refuse_no_field(source):
    with pytest.raises(TopologyError, match="adds no field"):
        source("n bigint").with_fields()
