"""How streams are written: as values, with schemas and Columns as people have them, with habits from elsewhere."""

import sys
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypedDict

import pytest
from pydantic import BaseModel
from pyspark.sql import types as T
from typing_extensions import TypedDict as OtherTypedDict

from rs_assets import F, MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.console.nodes import PrintSink
from rs_assets.errors import SchemaError, TopologyError, UnknownFieldError, UnknownMethodError
from rs_assets.sources import LogSource

SCHEMA = "page string, ms bigint, ts timestamp"
TEN = TumblingWindow.of(Time.seconds(10), "ts")


def begin(schema=SCHEMA):
    return StreamBuilder.data_stream("shop", "job").from_file("in.jsonl", schema=schema)


def steps(pipeline):
    return [node.name for node in pipeline.topology]


@pytest.fixture
def prompt(monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)


def test_a_cell_can_be_run_again():
    stream = begin()

    def cell(least):
        return stream.filter(f"ms > {least}").to_delta("slow").build()

    first, again = cell(1), cell(2)
    assert steps(first) == steps(again) == ["file", "filter_1", "slow_table"]
    assert [p.topology["filter_1"].detail() for p in (first, again)] == ["ms > 1", "ms > 2"]


def test_a_cell_that_failed_can_be_mended():
    stream = begin()
    with pytest.raises(UnknownFieldError):
        stream.filter("mss > 1").to_delta("slow").build()
    assert steps(stream.filter("ms > 1").to_delta("slow").build()) == ["file", "filter_1", "slow_table"]


@pytest.mark.usefixtures("prompt")
def test_at_a_prompt_what_was_given_up_is_left_out():
    stream = begin()
    with pytest.raises(TopologyError, match="must be one of"):
        stream.filter("ms > 1").to_delta("slow", mode="overwrite")
    slow = stream.filter("ms > 2")
    slow = stream.filter("ms > 3")
    slow.to_delta("slow")
    assert steps(slow.to_delta("slow").build()) == ["file", "filter_3", "slow_table"]


@pytest.mark.usefixtures("prompt")
def test_at_a_prompt_a_step_that_is_written_again_replaces_the_one_of_its_name():
    stream = begin()
    stream.window(TEN, name="w").count("old").to_data_stream()
    counts = stream.window(TEN, name="w").count("new").to_data_stream()
    assert counts.to_print().build().topology["w"].aggregates[0].alias == "new"


def test_in_a_program_both_are_mistakes():
    stream = begin()
    stream.filter("ms > 1")
    with pytest.raises(TopologyError, match="'filter_1' go nowhere"):
        stream.to_print().build()
    stream.to_delta("a")
    with pytest.raises(TopologyError, match="two steps called 'a_table'"):
        stream.to_delta("a")


def test_a_stream_keeps_the_steps_it_was_made_of():
    stream = begin().to_delta("raw")
    slow = stream.window(TEN, name="w").count("slow").to_data_stream()
    assert steps(slow.to_print().build()) == ["file", "raw_table", "w", "print"]
    fast = stream.window(TEN, name="w").count("fast").to_data_stream()
    made = [each.to_print().build().topology["w"] for each in (fast, slow)]
    assert [node.aggregates[0].alias for node in made] == ["fast", "slow"]


def test_branches_that_were_written_since_the_last_build_belong_to_the_pipeline():
    stream = begin()
    stream.filter("ms > 1").to_delta("slow")
    assert steps(stream.to_delta("all").build()) == ["file", "filter_1", "slow_table", "all_table"]
    assert steps(stream.to_delta("more").build()) == ["file", "more_table"]


def test_a_sink_that_names_its_step_plainly_belongs_to_it():
    stream = begin().window(TEN, name="w").count().to_data_stream()
    stream.draft.add(PrintSink(name="late", inputs=("w",)))
    assert [steps(stream.to_print().build()) for _ in range(2)] == [["file", "w", "late", "print"]] * 2


def test_a_pipeline_knows_its_steps_by_plain_names():
    topology = begin().shuffle(2, strategy="delta").to_print().build().topology
    held = [*topology["shuffle_1"].follows, *topology["print"].inputs, *topology["shuffle_1_write"].inputs]
    assert (held, {type(name) for name in held}) == (["shuffle_1_write", "shuffle_1", "file"], {str})


def test_the_same_stream_builds_the_same_pipeline_again():
    stream = begin().to_delta("a").filter("ms > 1").to_print()
    assert steps(stream.build()) == steps(stream.build(renamed={"b": "a_table"})) == [
        "file", "a_table", "filter_1", "print",
    ]  # fmt: skip


def test_a_name_on_the_way_here_is_taken_though_its_pipeline_was_built():
    stream = begin().window(TEN, name="w").count().to_data_stream()
    stream.to_print().build()
    with pytest.raises(TopologyError, match="two steps called 'w'"):
        stream.window(TumblingWindow.of(Time.seconds(10), "start_time"), name="w").count("n").to_data_stream()


def test_branches_that_meet_again_and_again_take_no_longer():
    stream = begin()
    for _ in range(40):
        stream = stream.filter("ms > 1").union(stream.filter("ms < 2"))
    assert len(stream.draft.pending) == 121


def test_a_window_stream_hands_on_to_the_stream_of_its_rows():
    stream = begin().window(TEN).group_by("page").count("n").water_mark(Time.seconds(5))
    assert steps(stream.filter("n > 1").to_delta("t").build()) == ["file", "window", "filter_1", "t_table"]
    assert steps(begin().window(TEN).count("n").to_delta("t").build()) == ["file", "window", "t_table"]
    two = begin()
    one, other = (two.window(TEN, name=name).count("n") for name in ("one", "other"))
    assert one.union(other).step.node.inputs == ("one", "other")
    with pytest.raises(TopologyError, match="aggregates nothing"):
        begin().window(TEN).to_delta("t")


HABITS = [
    (lambda: begin().where("ms > 1"), '.filter("'),
    (lambda: begin().filtr("ms > 1"), "did you mean .filter?"),
    (lambda: begin().select("page"), ".map('page'"),
    (lambda: begin().withColumn("s", "ms / 1000"), ".with_fields(seconds='ms / 1000')"),
    (lambda: begin().groupBy("page"), "did you mean .group_by?"),
    (lambda: begin().keyBy("page"), ".window(...).group_by"),
    (lambda: begin().water_mark(Time.seconds(1)), "follows the window"),
    (lambda: begin().withWatermark("ts", "5 seconds"), ".water_mark(Time.seconds(5))"),
    (lambda: begin().with_watermark("ts", "5 seconds"), ".water_mark(Time.seconds(5))"),
    (lambda: begin().window(TEN).count().with_watermark("ts", "5 seconds"), ".water_mark(Time.seconds(5))"),
    (lambda: begin().order_by("page"), "a stream has no order"),
    (lambda: begin().to_pandas(), ".to_print()"),
    (lambda: begin().write_stream, ".to_delta('table')"),
    (lambda: begin().show(), ".to_print()"),
    (lambda: begin().writeStream, ".to_delta('table')"),
    (lambda: begin().run(), ".build().run()"),
    (lambda: begin().name, ".build().run()"),
    (lambda: begin().window(TEN).groupBy("page"), "did you mean .group_by?"),
    (lambda: begin().window(TEN).count().to_deltaa("t"), "did you mean .to_delta?"),
    (lambda: begin().split("page").to_print(), "it has: select"),
    (lambda: StreamBuilder.data_stream("a", "b").read_csv("x"), ".from_file('orders.csv', 'csv'"),
]


@pytest.mark.parametrize(("write", "remedy"), HABITS)
def test_a_habit_from_elsewhere_is_told_what_to_write(write, remedy):
    with pytest.raises(UnknownMethodError) as caught:
        write()
    first, second = str(caught.value).splitlines()
    assert "has no method" in first
    assert remedy in second
    assert isinstance(caught.value, AttributeError)


def test_a_stream_has_no_more_than_its_methods():
    assert not hasattr(begin(), "where")
    assert not hasattr(begin(), "__wrapped__")


class Inner(OtherTypedDict):
    a: int


class Typed(TypedDict):
    page: str
    ms: int | None
    ts: datetime


@dataclass
class Data:
    page: str
    parts: list[Inner]
    counts: dict[str, float]


class Tuple(NamedTuple):
    page: str
    ms: int = 1


class Model(BaseModel):
    page: str
    inner: "Data | None" = None


class Counted(LogSource):
    def ends(self):
        return {"all": 1}

    def read(self, split, start, end):
        return [{"page": "/"}]


STRUCT = T.StructType(
    [
        T.StructField("page", T.StringType(), nullable=False),
        T.StructField("odd `name", T.ArrayType(T.StructType([T.StructField("x", T.DecimalType(5, 1))]))),
        T.StructField("m", T.MapType(T.StringType(), T.TimestampNTZType())),
    ]
)
SCHEMAS = [
    (Typed, "`page` string, `ms` bigint, `ts` timestamp"),
    (Data, "`page` string, `parts` array<struct<`a` bigint>>, `counts` map<string,double>"),
    (Tuple, "`page` string, `ms` bigint"),
    (
        Model,
        "`page` string, `inner` struct<`page` string, `parts` array<struct<`a` bigint>>, `counts` map<string,double>>",
    ),
    (STRUCT, "`page` string NOT NULL, `odd ``name` array<struct<`x` decimal(5,1)>>, `m` map<string,timestamp_ntz>"),
]


@pytest.mark.parametrize(("schema", "ddl"), SCHEMAS)
def test_a_schema_may_be_a_class_or_spark_s(schema, ddl):
    sources = StreamBuilder.data_stream("shop", "job")
    made = [
        sources.from_file("in.jsonl", schema=schema, name="a").step.node,
        sources.from_array([], schema=schema, name="b").step.node,
        sources.from_memory(MemoryChannel(schema=schema), name="c").step.node,
        sources.from_kafka("localhost:9092", "t", schema=schema, name="d").step.node,
        sources.from_sqlite("a.db", "t", schema=schema, name="e").step.node,
        sources.from_source(Counted(), schema=schema).step.node,
        begin().map(dict, schema=schema).step.node.function,
        begin().flat_map(lambda row: [row], schema=schema).step.node.expression,
    ]
    assert {each.schema for each in made} == {ddl}


@pytest.mark.parametrize("schema", [{"page": "string"}, 3, "", int, T.StringType()])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(SchemaError, match="must be DDL text") as caught:
        begin(schema)
    assert "StructType" in caught.value.remedy


def test_a_column_needs_no_spark():
    condition = (F.col("ms") > 1) & ~F.col("page").isin("/", "/a") | F.exists(F.array("ms"), lambda each: each > 2)
    node = begin().filter(condition).step.node
    assert node.detail().startswith("col('ms').__gt__(1).__and__(col('page').isin('/', '/a').__invert__())")
    assert node.identity() == begin().filter(condition).step.node.identity()
    with pytest.raises(UnknownFieldError, match="'mss'"):
        begin().with_fields(s=F.upper(F.col("page")), t=F.lit(2) * F.col("mss")).to_print().build()
    with pytest.raises(TopologyError, match="neither true nor false") as caught:
        _ = (F.col("ms") > 1) and (F.col("ms") < 3)
    assert "&, | and ~" in caught.value.remedy


def test_one_name_may_be_given_as_a_text():
    topics = StreamBuilder.data_stream("shop", "job").from_kafka("broker:9092", topics="clicks", schema=SCHEMA)
    assert topics.to_print().build().topology["kafka"].topics == ("clicks",)
    step = begin().map_batches(lambda table: table, fields="ms", schema="ms bigint", name="batches")
    assert step.to_print().build().topology["batches"].fields == ("ms",)
