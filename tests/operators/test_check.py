"""pipeline.check(): Spark analyses everything, and nothing is read, written or asked."""

import json
import sys

import pytest
from click.testing import CliRunner

from rs_assets import Dimension, StreamBuilder, Time, TumblingWindow
from rs_assets.cli.main import main
from rs_assets.errors import SchemaError, TopologyError, UnknownFieldError
from rs_assets.spark.driver import SparkDriver
from rs_assets.topology.check.build import check_fields

SCHEMA = "page string, ms bigint, tags array<string>, ts timestamp"
TEN = TumblingWindow.of(Time.seconds(10), "ts")


def begin(schema=SCHEMA):
    return StreamBuilder.data_stream("shop", "job").from_file("none/here", schema=schema)


def everything():
    """A pipeline with a step of every kind, over input and brokers that are not there."""
    builder = StreamBuilder.data_stream("shop", "job")
    hits = builder.from_file("none/here", schema=SCHEMA)
    others = builder.from_kafka("localhost:1", "t", schema=SCHEMA, metadata=["key"])
    array = builder.from_array([{"page": "/", "ms": 1, "ts": None}], schema=SCHEMA)
    united = hits.union(others.select_fields("page", "ms", "tags", "ts"), array)
    labelled = united.distinct("page", "ms", within=Time.minutes(1), time_field="ts").split("if(ms > 1, 'a', 'b')")
    shuffled = labelled.select("a").shuffle(2, keys=["page"], strategy="kafka", bootstrap_servers="localhost:1")
    counts = shuffled.window(TEN).group_by("page").count("n").sum("ms").collect("tags", "all").avg("ms", "mean")
    rows = counts.with_fields(more="n + 1").filter("n > 1").map("page", "n", "all", "mean", "more AS one", "end_time")
    often = array.window(TEN, name="often").group_by("page").sum("ms").min("ms", "least").max("ms", "most")
    often.emit_before(Time.seconds(2)).avg("ms", "mean").count().to_print(name="seen")
    clicks, pays = (builder.from_file(f"none/{name}", schema=SCHEMA, name=name) for name in ("clicks", "pays"))
    clicks.join(pays, on="page", within=Time.minutes(1), time_field="ts", how="left", prefix="p_").to_print(name="near")
    views = builder.from_file("none/views", schema="page string, ts timestamp, seen int", name="views")
    asked = builder.from_file("none/asked", schema="ts timestamp, page string, more double", name="asked")
    views.join(asked, on="page", within=TEN, name="in_window").to_print(name="windows")
    pages = Dimension.from_file("none/pages.json", schema="page string, n int, owner struct<name: string>")
    asked.dim_join(pages, on="page", condition="left.more > right.n").to_print(name="owners")
    asked.dim_left_join(pages, on="page", prefix="p_", name="known").to_print(name="all_owners")
    rows.flat_map("explode(all) AS tags").to_kafka("localhost:1", "out")
    return rows.map(lambda row: row, schema="page string, n bigint").to_delta("t", mode="upsert", keys=["page"]).build()


def test_spark_knows_the_fields_of_each_step(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipeline = everything()
    found = pipeline.check(options)
    assert set(found) == {node.name for node in pipeline.topology}
    assert found["map_1"] == (
        "page string, n bigint, all array<array<string>>, mean double, one bigint, end_time timestamp"
    )
    # What is known without Spark is what Spark finds.
    for name, fields in check_fields(pipeline.topology).items():
        if fields.whole:
            spark = dict(part.split(" ", 1) for part in found[name].split(", "))
            assert list(spark) == list(fields.types), name
            assert all(kind is None or kind.text == spark[field] for field, kind in fields.types.items()), name
    assert not list(tmp_path.iterdir())
    assert not options.home.root.exists()


MISTAKES = [
    (lambda: begin().filter("length(ms, 1) > 1"), TopologyError, "'filter_1'"),
    (lambda: begin().filter("no_such_function(ms)"), TopologyError, "'filter_1'"),
    (lambda: begin().with_fields(x="tags + 1"), TopologyError, "'with_fields_1'"),
    (lambda: begin().map("upper(page)").filter("whatever > 1"), UnknownFieldError, "'whatever'"),
    (lambda: begin(None), SchemaError, "'file'"),
]


@pytest.mark.parametrize(("write", "error", "what"), MISTAKES)
def test_what_only_spark_can_refuse_is_refused_without_input(options, write, error, what):
    pipeline = write().to_print().build()
    with pytest.raises(error) as caught:
        pipeline.check(options)
    assert what in str(caught.value).splitlines()[0]


def test_the_command_tells_of_all_pipelines(driver, tmp_path, monkeypatch):
    text = "from rs_assets import StreamBuilder\nbuilder = StreamBuilder.data_stream('shop', 'NAME')\n"
    text += "NAME = builder.from_array([{'ms': 1}]).filter('CONDITION').to_print().build()\n"
    good, bad = text.replace("CONDITION", "ms > 1"), text.replace("CONDITION", "length(ms, 2) > 1")
    (tmp_path / "looked_at.py").write_text(good.replace("NAME", "good") + bad.replace("NAME", "bad"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(SparkDriver, "shared", lambda *_: driver)
    done = CliRunner().invoke(main, ["check", "-m", "looked_at"])
    assert done.exit_code == 1
    assert done.output.splitlines()[0] == "ok  shop.good  3 steps"
    assert "no  shop.bad  Spark does not accept step 'filter_1'" in done.output
    done = CliRunner().invoke(main, ["check", "good", "-m", "looked_at", "--json"])
    assert (done.exit_code, json.loads(done.output)[0]["fields"]["filter_1"]) == (0, "ms bigint")


def test_rows_can_be_tried(driver, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    builder = StreamBuilder.data_stream("shop", "job")
    hits = builder.from_file("none/here", schema=SCHEMA, name="hits")
    both = hits.union(builder.from_kafka("localhost:1", "t", schema=SCHEMA, name="more"))
    both.filter("ms > 10").to_kafka("localhost:1", "out", name="slow")
    spread = both.shuffle(2, keys=["page"], strategy="kafka", bootstrap_servers="localhost:1")
    counts = spread.window(TEN).group_by("page").count("n")
    pipeline = counts.to_delta("t", mode="upsert", keys=["page"], name="counts").build()
    row = {"page": "/", "ms": 20, "tags": [], "ts": "2026-01-05 10:00:00"}
    got = pipeline.try_({"hits": [row, {**row, "ms": 1}], "more": [{**row, "page": "/a"}]}, spark=driver)
    assert sorted(each["page"] for each in got["slow"]) == ["/", "/a"]
    assert {each["page"]: each["n"] for each in got["counts"]} == {"/": 2, "/a": 1}
    assert not list(tmp_path.iterdir())
    with pytest.raises(TopologyError, match="several sources: hits, more"):
        pipeline.try_([row], spark=driver)
    with pytest.raises(TopologyError, match="no source 'mor'"):
        pipeline.try_({"mor": [row]}, spark=driver)
