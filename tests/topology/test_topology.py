"""Topologies: names, fingerprints, queries and pictures. No Spark."""

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import SchemaError, TopologyError

TEN = TumblingWindow.of(Time.seconds(10), "ts")


def begin(job="job"):
    return StreamBuilder.data_stream("shop", job).from_file("in.jsonl", schema="page string, ts timestamp")


def windowed(stream, name, **delta):
    return stream.window(TEN, name=name).group_by("page").count("n").to_data_stream().to_delta(f"{name}_rows", **delta)


@pytest.mark.parametrize("name", ["", "Shop", "1shop", "a-b", "../x", "a" * 64, "naïve", "a\0", None, 3])
def test_should_refuse_an_illegal_name(name):
    with pytest.raises(TopologyError, match="is not a legal name"):
        StreamBuilder.data_stream(name, "job")
    with pytest.raises(TopologyError, match="is not a legal name"):
        StreamBuilder.data_stream("shop", name)


def test_should_refuse_two_steps_of_one_name():
    with pytest.raises(TopologyError, match="two steps called 'twice'"):
        begin().filter("true", name="twice").filter("true", name="twice")


@pytest.mark.parametrize("schema", ["", "  ", 3, ["page"]])
def test_should_refuse_a_schema_that_is_no_text(schema):
    with pytest.raises(SchemaError, match="must be DDL text"):
        StreamBuilder.data_stream("shop", "job").from_file("in.jsonl", schema=schema)


@pytest.mark.parametrize("rows", [[3], ["text"], [None]])
def test_should_refuse_rows_that_are_none(rows):
    with pytest.raises(SchemaError, match="a row must be a dict"):
        StreamBuilder.data_stream("shop", "job").from_array(rows)


def test_should_not_change_the_fingerprint_by_what_state_does_not_depend_on():
    plain = windowed(begin().filter("page <> '/'"), "w").build().topology
    same = windowed(begin().filter("page   <>  '/'"), "w").filter("n > 1").to_print().build().topology
    assert plain.fingerprint == same.fingerprint


@pytest.mark.parametrize(
    "other",
    [
        windowed(begin().filter("page <> '/a'"), "w"),
        windowed(begin().filter(lambda row: row["page"] != "/"), "w"),
        windowed(begin(), "w"),
        windowed(begin().filter("page <> '/'"), "v"),
        begin().filter("page <> '/'").window(TEN, name="w").group_by("page").max("ts", "n").to_data_stream().to_print(),
    ],
)
def test_should_change_the_fingerprint_by_what_state_depends_on(other):
    plain = windowed(begin().filter("page <> '/'"), "w").build().topology
    assert plain.fingerprint != other.build().topology.fingerprint


def test_should_share_one_query_between_sinks_of_one_state_and_part_other_states():
    stream = begin().filter("true")
    first = windowed(stream, "a")
    first.filter("n > 1").to_print()
    windowed(stream, "b")
    stream.to_memory(MemoryChannel())
    plans = {plan.name: plan for plan in plan_queries(first.build().topology)}
    assert {name: (plan.streaming_output, plan.sinks, plan.counted_sources) for name, plan in plans.items()} == {
        "a": ("a", ("a_rows_table", "print"), ("file",)),
        "b": ("b", ("b_rows_table",), ()),
        "file": ("filter_1", ("collect",), ()),
    }


def test_should_give_a_complete_sink_a_query_of_its_own():
    stream = begin().window(TEN, name="w").count("n").to_data_stream().to_delta("final")
    topology = stream.to_delta("now", mode="complete").build().topology
    assert [(plan.name, plan.output_mode) for plan in plan_queries(topology)] == [
        ("w", "append"),
        ("w_complete", "complete"),
    ]


def test_should_describe_itself_as_text_and_as_a_graph():
    pipeline = windowed(begin().filter("page <> '/'"), "w").build()
    text = pipeline.describe()
    assert "* w " in text
    assert "filter_1      filter <- file  [page <> '/']" in text
    assert pipeline.describe(mermaid=True).splitlines()[:3] == [
        "flowchart LR",
        '    file(["file<br/>json in.jsonl"])',
        "    filter_1[\"filter_1<br/>page <> '/'\"]",
    ]


@pytest.mark.parametrize(("read", "written"), [("in", "in"), ("in", "in/out"), ("./in/", "in/../in/out")])
def test_should_refuse_to_write_where_it_reads(read, written, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    stream = StreamBuilder.data_stream("shop", "loop").from_file(tmp_path / read, schema="n bigint")
    with pytest.raises(TopologyError, match="reads: each run would read"):
        stream.to_file(tmp_path / written).build()
    assert stream.to_file(tmp_path / "in_other", name="beside").build()
