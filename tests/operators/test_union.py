"""union: several streams become one."""

import time

import pytest

from rs_assets import MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import TopologyError
from rs_assets.testing import PipelineDriver
from rs_assets.testing.driver import POLL


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
        pytest.raises(TopologyError, match=f"'n' is a bigint after 'a' and a {kind} after 'b'") as refused,
        PipelineDriver(a.union(b).to_print().build(), spark=driver),
    ):
        pass
    # The type that holds both; it is the second stream's, unless that is the narrower one.
    cast = "cast(n as bigint)" if kind == "int" else f"cast(n as {kind})"
    assert cast in refused.value.remedy
    a, b = two(schema=other)
    value = {"string": "7", "double": 7.0, "int": 7}[kind]
    alike = a.union(b.with_fields(n=cast)) if kind == "int" else a.with_fields(n=cast).union(b)
    with PipelineDriver(alike.to_print().build(), spark=driver) as pipeline:
        pipeline.push([{"n": value, "m": 1}], "b")
        pipeline.step()
        assert pipeline.take() == [{"n": value, "m": 1}]


def test_should_refuse_streams_of_different_pipelines():
    other = StreamBuilder.data_stream("test", "other").from_file("a.jsonl", schema="n bigint")
    with pytest.raises(TopologyError, match="streams of one pipeline only"):
        two()[0].union(other)


def test_a_step_gives_the_rows_of_all_sources_to_one_batch(driver, monkeypatch):
    """A stream that polls between two pushes would take the later rows for late ones."""
    put = MemoryChannel.put

    def slowly(channel, *rows):
        put(channel, *rows)
        time.sleep(10 * POLL.total_seconds())

    monkeypatch.setattr(MemoryChannel, "put", slowly)
    job = StreamBuilder.data_stream("test", "together")
    main, other = (job.from_file(f"{name}.jsonl", schema="ts bigint", name=name) for name in ("main", "other"))
    windows = main.union(other).window(TumblingWindow.of(Time.seconds(1), "ts")).count().to_data_stream()
    with PipelineDriver(windows.to_print().build(), spark=driver) as running:
        running.push([{"ts": 10_000}], "main")
        running.push([{"ts": 0}], "other")
        running.step()
        running.finish()
        assert [row["count"] for row in running.take()] == [1, 1]
        assert running.report().rows_late == 0
