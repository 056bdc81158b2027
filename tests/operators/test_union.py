"""union: several streams become one."""

import pytest

from rs_assets import StreamBuilder
from rs_assets.errors import TopologyError
from rs_assets.testing import PipelineDriver


def two(schema="n bigint, m bigint"):
    begin = StreamBuilder.data_stream("test", "union")
    a = begin.from_file("a.jsonl", schema="n bigint, m bigint", name="a")
    return a, begin.from_file("b.jsonl", schema=schema, name="b")


def test_should_keep_duplicates_of_all_sources(driver):
    a, b = two(schema="m bigint, n bigint")
    with PipelineDriver(a.union(b).to_print().build(), spark=driver) as pipeline:
        pipeline.push([{"n": 1, "m": 2}], "a")
        pipeline.push([{"n": 1, "m": 2}, {"n": 3, "m": 4}], "b")
        pipeline.step()
        pipeline.restart()
        pipeline.push([{"n": 5, "m": 6}], "b")
        pipeline.step()
        assert sorted((row["n"], row["m"]) for row in pipeline.take()) == [(1, 2), (1, 2), (3, 4), (5, 6)]
        assert pipeline.report().rows_in == 1


def test_should_refuse_streams_of_different_fields(driver):
    a, b = two(schema="n bigint")
    with (
        pytest.raises(TopologyError, match="different fields: m, n / n"),
        PipelineDriver(a.union(b).to_print().build(), spark=driver),
    ):
        pass


@pytest.mark.parametrize("other", ["n double, m bigint", "n string, m bigint", "n int, m bigint"])
def test_should_refuse_fields_of_different_types(driver, other):
    a, b = two(schema=other)
    kind = other.split()[1].rstrip(",")
    with (
        pytest.raises(TopologyError, match=f"'n' is a bigint behind 'a' and a {kind} behind 'b'") as refused,
        PipelineDriver(a.union(b).to_print().build(), spark=driver),
    ):
        pass
    assert "cast(n as bigint)" in refused.value.remedy
    a, b = two(schema=other)
    cast = a.union(b.with_fields(n="cast(n as bigint)"))
    with PipelineDriver(cast.to_print().build(), spark=driver) as pipeline:
        pipeline.push([{"n": {"string": "7", "double": 7.0, "int": 7}[kind], "m": 1}], "b")
        pipeline.step()
        assert pipeline.take() == [{"n": 7, "m": 1}]


def test_should_refuse_streams_of_different_pipelines():
    other = StreamBuilder.data_stream("test", "other").from_file("a.jsonl", schema="n bigint")
    with pytest.raises(TopologyError, match="streams of one pipeline only"):
        two()[0].union(other)
