"""Streams that wait until a table is loaded: each row of the stream meets the table as it was at the first start."""

import json
import threading
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable

from rs_assets import MemoryChannel, StreamBuilder, Time
from rs_assets.checkpoint.held import FILE, Hold
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import CheckpointError, RsError, TopologyError
from rs_assets.runtime.run.idle import IdleSides
from rs_assets.testing import PipelineDriver
from tests.crash import Crash

USERS, CLICKS = "id bigint, tier string, since bigint", "user bigint, n bigint, at bigint"
PATIENCE_S = 120


class World:
    """Changes of users in small batches, and clicks, each of which is to meet the newest of its user."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.tiers, self.clicks = {}, []
        for name in ("users", "clicks"):
            self.add(name, [])

    def add(self, name, rows):
        # Whole files do not grow; the order of users is that of one file.
        path = self.folder / name / ("users.jsonl" if name == "users" else f"{len(self.clicks)}.jsonl")
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    def load(self, users):
        """Each user changes three times, far apart in the file."""
        rows = [
            {"id": user, "tier": f"{len(self.tiers)} {change}", "since": change}
            for change in range(3)
            for user in range(users)
        ]
        self.add("users", rows)
        self.tiers |= {row["id"]: row["tier"] for row in rows}

    def click(self, *users):
        rows = [{"user": user, "n": len(self.clicks) + n, "at": 10} for n, user in enumerate(users)]
        self.add("clicks", rows)
        self.clicks += rows

    def sources(self, job="waits", *, whole=False):
        self.shop = shop = StreamBuilder.data_stream("shop", job)
        users = shop.from_file(self.folder / "users", schema=USERS, tail=True, max_rows_per_batch=20, name="users")
        limit = {} if whole else {"max_rows_per_batch": 2}
        clicks = shop.from_file(self.folder / "clicks", schema=CLICKS, tail=not whole, name="clicks", **limit)
        return users, clicks

    def pipeline(self, **options):
        users, clicks = self.sources(**options)
        table = users.filter("tier IS NOT NULL").to_table("id", name="user_table").map_values("tier")
        return clicks.join_table(table, on={"user": "id"}, how="left", wait_for_table=True).to_delta("seen").build()

    @property
    def hold(self):
        """The record of the newest generation."""
        return json.loads(max(self.options.home.job("shop", "waits").glob(f"g*/join_table/{FILE}")).read_text())

    def result(self):
        rows = DeltaTable(self.options.home.table("shop", "seen")).to_pyarrow_table().to_pylist()
        return sorted((row["n"], row["tier"]) for row in rows)

    def expected(self):
        return [(row["n"], self.tiers.get(row["user"])) for row in self.clicks]


@pytest.fixture
def world(options, tmp_path):
    return World(options, tmp_path)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)], ids=["followed", "whole"])
def test_a_first_run_joins_each_row_of_the_stream_with_the_loaded_table(world, whole):
    world.load(30)
    world.click(0, 29, 7, 99)
    report = world.pipeline(whole=whole).run(world.options)
    assert report.batches > 90 // 20
    assert world.result() == world.expected()
    # Batches of 20 rows of 90, and then the clicks.
    assert world.hold == {"stages": 1, "ended": [5]}
    before = dict(world.tiers)
    world.load(30)
    world.click(3)
    world.pipeline(whole=whole).run(world.options)
    # It does not wait a second time: the first batch has 20 of the 90 rows, and the click.
    seen = dict(world.result())
    assert seen[4] != world.tiers[3]
    assert seen[4] != before[3]


def test_a_crash_while_the_table_is_loaded_leaves_the_stream_waiting_and_a_savepoint_of_then_waits_too(
    world, monkeypatch
):
    world.load(20)
    world.click(0, 19)
    with monkeypatch.context() as patched:
        Crash(patched, DeltaWriter, behind=False, skip=1)
        with pytest.raises(RsError, match="crash"):
            world.pipeline().run(world.options)
    assert world.hold == {"stages": 1, "ended": []}
    taken = world.pipeline().savepoint(world.options)
    world.load(20)
    world.pipeline().run(world.options)
    assert world.result() == world.expected()
    assert world.hold["ended"]
    world.pipeline().restore(world.options, savepoint_id=taken.id)
    assert world.result() == []
    world.load(20)
    world.pipeline().run(world.options)
    assert world.result() == world.expected()


def test_a_rewind_to_a_batch_before_the_end_of_the_table_waits_again(world):
    world.load(20)
    world.click(0, 19)
    world.pipeline().run(world.options)
    assert world.hold == {"stages": 1, "ended": [3]}
    world.pipeline().rewind(0, world.options)
    world.load(20)
    world.pipeline().run(world.options)
    assert world.result() == world.expected()
    assert world.hold == {"stages": 1, "ended": [6]}


def test_a_started_stream_waits_for_the_table_says_so_and_goes_on(world):
    world.load(30)
    world.click(0, 29, 7)
    states, seen = [], threading.Event()

    def listen(batch):
        if not states:
            states.extend((each.source, each.state) for each in world.pipeline().lag(world.options))
        if batch.rows_out["seen_table"] and len(world.result()) == len(world.clicks):
            seen.set()

    quick = replace(world.options, interval=timedelta(milliseconds=20), on_progress=listen)
    with world.pipeline().start(quick) as running:
        assert seen.wait(PATIENCE_S)
        assert running.active
        assert "held" not in running.status()["queries"]["join_table"]
        assert world.result() == world.expected()
        seen.clear()
        world.click(5)
        assert seen.wait(PATIENCE_S)
    assert dict(states)["clicks"] == "held"
    assert dict(states)["users"] != "held"
    assert world.result() == world.expected()


@pytest.mark.long
def test_a_stream_that_is_stopped_and_rescaled_while_it_waits_goes_on_waiting(world):
    world.load(30)
    world.click(0, 29, 7)
    begun, go_on = threading.Event(), threading.Event()

    def listen(_):
        begun.set()
        assert go_on.wait(PATIENCE_S)

    running = world.pipeline().start(replace(world.options, interval=timedelta(milliseconds=20), on_progress=listen))
    assert begun.wait(PATIENCE_S)
    assert running.status()["queries"]["join_table"]["held"] == ["clicks"]
    for query in running.session.queries.values():
        query.begin_no_more()
    go_on.set()
    running.stop()
    assert world.hold == {"stages": 1, "ended": []}
    world.load(30)
    # It reads what there is before it moves state.
    world.pipeline().rescale(3, world.options)
    world.pipeline().run(world.options)
    assert world.result() == world.expected()


def test_an_empty_table_does_not_hold_the_stream(world):
    world.click(1, 2)
    world.pipeline().run(world.options)
    assert world.result() == [(0, None), (1, None)]


@pytest.mark.long
def test_a_stream_waits_for_the_versions_of_a_table_and_gets_those_of_its_time(world):
    world.load(30)
    world.click(0, 29, 7)
    users, clicks = world.sources()
    table = users.to_table("id", time_field="since", history=Time.hours(1))
    seen = clicks.with_fields(at="1L").join_table(
        table, on={"user": "id"}, how="left", time_field="at", wait_for_table=True
    )
    seen.to_delta("seen").build().run(world.options)
    assert world.result() == [(0, "0 1"), (1, "0 1"), (2, "0 1")]


def start_shuffled(world, **shuffle):
    """Start the stream with a table of the rows of another query, and stop it when all clicks were seen."""
    users, clicks = world.sources()
    table = users.shuffle(2, keys=["id"], **shuffle).to_table("id", order_by="since", name="user_table")
    seen = clicks.join_table(table.map_values("tier"), on={"user": "id"}, how="left", wait_for_table=True)
    done = threading.Event()

    def listen(batch):
        if batch.rows_out.get("seen_table") and len(world.result()) == len(world.clicks):
            done.set()

    quick = replace(world.options, interval=timedelta(milliseconds=20), on_progress=listen)
    with seen.to_delta("seen").build().start(quick):
        assert done.wait(PATIENCE_S)


@pytest.mark.long
def test_a_started_stream_waits_for_a_table_of_the_rows_of_another_query(world):
    world.load(60)
    world.click(0, 29, 59)
    start_shuffled(world, strategy="delta")
    assert world.result() == world.expected()


@pytest.mark.long
def test_a_join_after_a_stream_that_waits_does_not_take_it_for_idle(world, monkeypatch):
    world.load(5)
    world.click(0, 4)
    world.add("orders", [{"id": 0, "at": 10}, {"id": 4, "at": 12}, {"id": 4, "at": 9000}])
    users, clicks = world.sources()
    orders = world.shop.from_file(world.folder / "orders", schema="id bigint, at bigint", tail=True, name="orders")
    seen = clicks.join_table(users.to_table("id"), on={"user": "id"}, wait_for_table=True)
    both = seen.shuffle(2, strategy="delta", name="parted").join(
        orders, on={"user": "id"}, within=Time.seconds(5), time_field="at", prefix="order_", name="met"
    )
    went_on, looks, done, pairs = threading.Event(), [], threading.Event(), []
    look = IdleSides.look

    def looking(sides):
        look(sides)
        (met,) = [query for query in sides.queries if "orders" in query.plan.sources]
        looks.extend([True] * ("orders" in met.work.heard))
        # Eight looks are twice the timeout.
        if len(looks) == 8:
            went_on.set()

    def listen(batch):
        if "seen_table" in batch.rows_out:
            pairs.extend([True] * batch.rows_out["seen_table"])
            if len(pairs) == 2:
                done.set()
        else:
            assert went_on.wait(PATIENCE_S)

    monkeypatch.setattr(IdleSides, "look", looking)
    quick = replace(
        world.options, interval=timedelta(milliseconds=20), on_progress=listen, idle_timeout=timedelta(seconds=1)
    )
    with both.to_delta("seen").build().start(quick) as running:
        assert done.wait(PATIENCE_S)
        assert running.status()["rows_late"] == 0
    assert world.result() == [(0, "0 2"), (1, "0 2")]


# Without Spark.


def sources(names):
    shop = StreamBuilder.data_stream("test", "stages")
    made = {name: f"id bigint, {name} string" for name in names}
    return [shop.from_file(f"{name}.jsonl", schema=made[name], tail=True, name=name) for name in names]


def held(stream):
    return [tuple(map(set, plan.held)) for plan in plan_queries(stream.to_print().build().topology)]


def test_all_sources_of_a_stream_wait_for_all_sources_of_its_table():
    a, b, c, d = sources("abcd")
    table = a.union(b.select_fields("id").with_fields(a="'x'")).to_table("id")
    stream = c.union(d.select_fields("id").with_fields(c="'x'"))
    assert held(stream.join_table(table, on="id", wait_for_table=True)) == [({"c", "d"},)]
    assert held(c.join_table(table, on="id")) == [()]


def test_a_table_that_needs_a_stream_that_waits_is_loaded_after_it():
    a, b, c = sources("abc")
    first = b.join_table(a.to_table("id", name="one"), on="id", wait_for_table=True, name="first")
    second = c.join_table(first.to_table("id", name="two"), on="id", wait_for_table=True, name="second")
    assert held(second) == [({"b", "c"}, {"c"})]


def test_a_stream_and_a_table_of_one_source_are_refused():
    (a,) = sources("a")
    with pytest.raises(TopologyError, match="waits for its table.*both read from 'a'") as raised:
        a.join_table(a.to_table("id").map_values("a AS b"), on="id", wait_for_table=True).to_print().build()
    assert raised.value.remedy.startswith("read it twice")


def test_a_source_that_is_read_twice_is_a_stream_and_a_table():
    shop = StreamBuilder.data_stream("test", "twice")
    one, two = (shop.from_file("a.jsonl", schema="id bigint, a string", tail=True, name=name) for name in ("x", "y"))
    table = two.to_table("id").map_values("a AS b")
    assert held(one.join_table(table, on="id", wait_for_table=True)) == [({"x"},)]


def test_the_driver_of_tests_does_not_wait(driver):
    world = SimpleNamespace(users=MemoryChannel(schema=USERS), clicks=MemoryChannel(schema=CLICKS))
    shop = StreamBuilder.data_stream("test", "driven")
    table = shop.from_memory(world.users, name="users").to_table("id").map_values("tier")
    clicks = shop.from_memory(world.clicks, name="clicks")
    made = clicks.join_table(table, on={"user": "id"}, wait_for_table=True).to_print().build()
    with PipelineDriver(made, spark=driver) as pipeline:
        pipeline.push([{"id": 1, "tier": "paid", "since": 0}], "users")
        pipeline.push([{"user": 1, "n": 0, "at": 0}], "clicks")
        pipeline.step()
        assert [row["tier"] for row in pipeline.take()] == ["paid"]


class Log:
    """Spark's log of a query, of which only the numbers of its files count."""

    def __init__(self, folder):
        self.log, self.folder = CheckpointLog(folder / "checkpoint"), folder / "checkpoint" / "commits"
        self.folder.mkdir(parents=True)

    def commit(self, *batches):
        for file in self.folder.iterdir():
            file.unlink()
        for batch in batches:
            (self.folder / str(batch)).touch()


STAGES = (frozenset("bc"), frozenset("c"))


def test_stages_end_in_turn_and_come_back_with_an_earlier_batch_only(tmp_path):
    log, hold = Log(tmp_path), Hold(tmp_path, STAGES)
    hold.begin(log.log)
    assert hold.held(log.log) == {"b", "c"}
    log.commit(0, 1)
    assert Hold(tmp_path, STAGES).held(log.log) == {"b", "c"}
    hold.end(log.log)
    assert hold.held(log.log) == {"c"}
    log.commit(0, 1, 2)
    hold.end(log.log)
    assert hold.held(log.log) == set()
    log.commit(0, 1)
    assert hold.held(log.log) == {"c"}
    log.commit(0)
    hold.begin(log.log)
    log.commit(0, 1, 2, 3)
    assert hold.held(log.log) == {"b", "c"}
    hold.end(log.log)
    assert json.loads((tmp_path / FILE).read_text()) == {"stages": 2, "ended": [4]}


def test_a_query_that_was_begun_without_waiting_does_not_begin_to_wait(tmp_path):
    log = Log(tmp_path)
    log.commit(0)
    hold = Hold(tmp_path, STAGES)
    hold.begin(log.log)
    assert hold.held(log.log) == set()
    assert not (tmp_path / FILE).exists()


def test_a_stage_that_another_version_adds_after_the_end_is_none(tmp_path):
    log, hold = Log(tmp_path), Hold(tmp_path, STAGES[1:])
    hold.begin(log.log)
    log.commit(0)
    hold.end(log.log)
    assert Hold(tmp_path, STAGES).held(log.log) == set()


def test_a_damaged_record_is_an_error(tmp_path):
    (tmp_path / FILE).write_text('{"stages": 1')
    with pytest.raises(CheckpointError, match="wait for tables is damaged"):
        Hold(tmp_path, STAGES).held(Log(tmp_path).log)
