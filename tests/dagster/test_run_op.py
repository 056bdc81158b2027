"""`run_op`: one op of a pipeline of each family, run by Dagster over given rows."""

from __future__ import annotations

import json

import pytest

from rs_assets import Processor, StreamBuilder, Time, TumblingWindow, ValueStore
from rs_assets.errors import StepError, TopologyError
from rs_assets.testing import PipelineDriver, run_op
from rs_assets.topology.cut import cut_out, rows_before

FIELDS = "user string, amount int, at timestamp"
AT = "2026-01-05 10:00:0"


class Twice(Processor):
    """Passes a user on at the second row."""

    seen = ValueStore("n bigint")

    def process(self, key, row, context):
        n = (context.seen.get() or {"n": 0})["n"] + 1
        context.seen.put({"n": n})
        if n == 2:
            context.forward({"user": key["user"]}, to="twice")
        context.forward({"user": key["user"], "n": n})


@pytest.fixture
def pipeline(tmp_path):
    (tmp_path / "orders.jsonl").write_text(json.dumps({"user": "ann", "amount": 5, "at": f"{AT}1"}) + "\n")
    job = StreamBuilder.data_stream("shop", "all")
    orders = job.from_file(tmp_path / "orders.jsonl", schema=FIELDS, name="orders", bad_records="dead_letter")
    large = orders.filter("amount > 1", name="large").shuffle(2, keys=["user"], name="spread")
    window = TumblingWindow.of(Time.seconds(10), "at")
    large.window(window, name="sums").group_by("user").sum("amount", "total").to_data_stream().to_delta("sums")
    other = job.from_array([{"user": "bob", "tier": "free"}], name="tiers")
    large.join(other, on="user", within=None, name="tiered").to_delta("tiered")
    tiers = other.to_table("user", name="now")
    tiers.group_by("tier").count("n").to_table(name="per_tier").to_delta("per_tier")
    made = large.process(
        Twice, keys="user", schema="user string, n bigint", outputs={"twice": "user string"}, name="by"
    )
    made.output("twice").to_print(name="shown")
    kinds = made.split("CASE WHEN n > 1 THEN 'more' ELSE 'first' END", name="kinds")
    kinds.select("more").to_print(name="shown_more")
    return kinds.select("first").to_print(name="shown_first").build()


def order(user, amount, second=1):
    return {"user": user, "amount": amount, "at": f"{AT}{second}"}


@pytest.mark.long
def test_the_op_of_each_family(pipeline, driver):
    two = [order("ann", 1), order("ann", 3), order("ann", 4)]
    source = run_op(pipeline, "orders")
    assert [row["user"] for row in source.rows] == ["ann"]
    assert source.metadata["rows_in"] == 1

    assert [row["amount"] for row in run_op(pipeline, "large", two).rows] == [3, 4]
    assert len(run_op(pipeline, "spread", two).rows) == 3

    sums = run_op(pipeline, "sums", two)
    assert [(row["user"], row["total"]) for row in sums.rows] == [("ann", 8)]
    assert sums.metadata["dagster/row_count"] == 0
    # From further upstream, the filter between is run as well.
    assert [row["total"] for row in run_op(pipeline, "sums", {"orders": two}).rows] == [7]

    joined = run_op(pipeline, "tiered", {"spread": two, "tiers": [{"user": "ann", "tier": "paid"}]})
    assert sorted(row["amount"] for row in joined.rows) == [1, 3, 4]
    assert {row["tier"] for row in joined.rows} == {"paid"}

    changes = [{"user": "ann", "tier": "free"}, {"user": "bob", "tier": "free"}, {"user": "ann", "tier": "paid"}]
    assert sorted(row["user"] for row in run_op(pipeline, "now", changes).rows) == ["ann", "bob"]
    per_tier = run_op(pipeline, "per_tier", changes).rows
    assert sorted((row["tier"], row["n"]) for row in per_tier) == [("free", 1), ("paid", 1)]

    by = run_op(pipeline, "by", two)
    assert [row["n"] for row in by.rows] == [1, 2, 3]
    assert by.outputs["twice"] == [{"user": "ann"}]

    written = run_op(pipeline, "sums_table", [{"user": "ann", "total": 8}])
    assert (written.rows_out, written.rows[0]["total"]) == (1, 8)


def test_rows_that_are_dead_and_rows_that_are_late_are_counted(pipeline, driver):
    dead = run_op(pipeline, "sums", [order("ann", 3), {**order("ann", 3), "at": None}])
    assert (dead.rows_in, dead.rows_dead, [row["total"] for row in dead.rows]) == (2, 1, [3])


def test_a_field_may_begin_with_an_underscore(driver):
    hits = StreamBuilder.data_stream("shop", "under").from_array([{"_n": 1}])
    pipeline = hits.with_fields(m="_n + 1", name="more").filter("_n > 1", name="kept").to_print().build()
    assert run_op(pipeline, "kept", [{"_n": 1, "m": 2}, {"_n": 2, "m": 3}]).rows == [{"_n": 2, "m": 3}]


def test_an_error_of_a_function_is_that_of_a_run(driver):
    def fails(row):
        raise ValueError("no")

    hits = StreamBuilder.data_stream("shop", "bad").from_array([{"n": 1}])
    pipeline = hits.map(fails, schema="n int", trace=False, name="bad").to_print().build()
    with pytest.raises(StepError, match="bad"):
        run_op(pipeline, "bad", [{"n": 1}])


def cut(pipeline, step, *given):
    from rs_assets.connectors.console.nodes import PrintSink
    from rs_assets.connectors.memory.nodes import ArraySource

    made = cut_out(
        pipeline.topology,
        step,
        given,
        stand=lambda node: ArraySource(name=node.name, rows=({"user": "ann"},)),
        end=lambda name: PrintSink(name=f"{name}_rows", inputs=(name,)),
    )
    return [node.name for node in made]


def test_the_rows_before_a_step(pipeline):
    before = {node.name: rows_before(pipeline.topology, node.name) for node in pipeline.topology}
    assert before["orders"] == ()
    assert before["sums"] == ("spread",)
    assert before["tiered"] == ("spread", "tiers")
    # A table cannot be given, nor can the rows of all outputs together.
    assert before["per_tier"] == ("tiers",)
    assert before["per_tier_table"] == ("tiers",)
    assert before["by_main"] == ("spread",)


def test_what_lies_between_is_kept(pipeline):
    assert cut(pipeline, "sums", "spread") == ["spread", "sums", "sums_rows"]
    assert cut(pipeline, "sums", "orders") == ["orders", "large", "spread", "sums", "sums_rows"]
    assert cut(pipeline, "now", "tiers") == ["tiers", "now", "changes_out", "changes_out_rows"]
    assert cut(pipeline, "per_tier_table", "tiers") == ["tiers", "now", "per_tier", "per_tier_table"]
    assert cut(pipeline, "kinds", "by_main")[:3] == ["by_main", "kinds", "select_1"]


def test_a_step_that_is_not_upstream_is_refused(pipeline, driver):
    with pytest.raises(TopologyError, match=r"(?s)'tiers' is not upstream of step 'sums'.*rows for: spread"):
        run_op(pipeline, "sums", {"tiers": []})
    assert [row["total"] for row in run_op(pipeline, "sums", {"spread": [order("ann", 2)]}).rows] == [2]


def test_a_source_that_is_given_no_rows_is_not_read_in_their_place(pipeline, driver):
    with pytest.raises(TopologyError, match=r"(?s)needs the rows of: spread, tiers; no rows .* source 'orders'"):
        run_op(pipeline, "tiered", {"tiers": []})
    with pytest.raises(TopologyError, match=r"(?s)no rows are given for the source 'orders'.*'spread': \[...\]"):
        run_op(pipeline, "sums", {})


def test_the_sides_of_a_join_with_itself_can_be_given(driver):
    rows = [{"id": n, "at": f"{AT}{n}"} for n in range(4)]
    orders = StreamBuilder.data_stream("shop", "self").from_array([], schema="id int, at timestamp", name="orders")
    few, many = orders.filter("id < 2", name="few"), orders.filter("id > 0", name="many")
    pipeline = few.join(many, on="id", within=Time.seconds(5), time_field="at", prefix="b_", name="pairs").to_print()
    for given in ({"orders": rows}, {"few": rows[:2], "many": rows[1:]}):
        assert [row["id"] for row in run_op(pipeline.build(), "pairs", given).rows] == [1]


def test_a_durable_shuffle_never_uses_the_topic_of_the_pipeline(driver):
    """A live pipeline reads that topic: rows of a test must not get there."""
    orders = StreamBuilder.data_stream("shop", "topics").from_array([{"id": 1}], name="orders")
    spread = orders.shuffle(1, strategy="kafka", bootstrap_servers="127.0.0.1:1", name="spread")
    assert run_op(spread.to_print().build(), "spread", [{"id": 5}]).rows == [{"id": 5}]


def test_late_rows_need_several_batches(driver):
    orders = StreamBuilder.data_stream("shop", "late").from_array([], schema=FIELDS, name="orders")
    window = TumblingWindow.of(Time.seconds(10), "at")
    pipeline = orders.window(window, name="sums").count("n").late_to("late").to_data_stream().to_print().build()
    with pytest.raises(TopologyError, match=r"(?s)'late_table' writes the late rows of 'sums'.*PipelineDriver"):
        run_op(pipeline, "late_table", [order("ann", 1)])
    with PipelineDriver(pipeline) as driven:
        for second in (1, 9):
            driven.push([order("ann", 1, second), {**order("ann", 1), "at": "2026-01-05 10:01:00"}])
            driven.step()
        driven.finish()
        assert sorted(row["n"] for row in driven.take("print")) == [1, 2]


def test_rows_that_are_missing_are_named(pipeline, driver):
    with pytest.raises(TopologyError, match=r"(?s)needs the rows of: spread, tiers.*'spread': \[...\]"):
        run_op(pipeline, "tiered", [order("ann", 1)])
    assert run_op(pipeline, "tiered", {"spread": [], "tiers": []}).rows == []
    with pytest.raises(TopologyError, match=r"(?s)step 'orders' is a source.*leave inputs= out"):
        run_op(pipeline, "orders", [order("ann", 1)])
    assert len(run_op(pipeline, "orders").rows) == 1
    with pytest.raises(TopologyError, match="there is no step 'summs'"):
        run_op(pipeline, "summs", [])
