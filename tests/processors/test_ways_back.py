"""Functions with state on the ways that state takes: a kill within a batch, savepoints, rewinds, rescales, as rows."""

import json
import random
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from rs_assets import Processor, StreamBuilder, Time, ValueStore
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import RsError
from rs_assets.runtime.upkeep.state import snapshot_state, state_path
from tests.crash import Crash


def count(key, state, rows):
    """By value."""
    now = {"n": (state["n"] if state else 0) + len(rows)}
    return now, [{"user": key["user"], "first": now["n"] - len(rows), "last": now["n"]}]


def counts(state, rows):
    """The same by batch."""
    new = pa.table({"user": rows["user"], "n": pa.repeat(1, rows.num_rows)})
    now = pa.concat_tables([state, new]).group_by("user").aggregate([("n", "sum")]).rename_columns({"n_sum": "n"})
    before = dict(zip(state["user"].to_pylist(), state["n"].to_pylist(), strict=True))
    first = [before.get(user, 0) for user in now["user"].to_pylist()]
    return now, pa.table({"user": now["user"], "first": first, "last": now["n"]})


class Count(Processor):
    """The same by a processor."""

    seen = ValueStore("n bigint")

    def process(self, key, row, context):
        n = (context.seen.get() or {"n": 0})["n"]
        context.seen.put({"n": n + 1})
        context.forward({"user": key["user"], "first": n, "last": n + 1})


class World:
    """A followed file of clicks, and a table with a row for each change of a user's number of clicks."""

    def __init__(self, options, folder):
        self.options = options
        self.file = folder / "clicks.jsonl"
        self.file.write_text("")
        self.counts = Counter()
        self.form = "values"

    def pipeline(self):
        clicks = StreamBuilder.data_stream("shop", "clicks").from_file(self.file, schema="user string", tail=True)
        how = {"keys": "user", "schema": "user string, first bigint, last bigint", "name": "count"}
        counted = {
            "values": lambda: clicks.process_values(count, **how, state="n bigint"),
            "batch": lambda: clicks.process_batch(counts, **how, state="n bigint"),
            "processor": lambda: clicks.process(Count, **how),
        }[self.form]()
        return counted.to_delta("changes").build()

    def run(self, users=()):
        with self.file.open("a") as file:
            file.writelines(json.dumps({"user": user}) + "\n" for user in users)
        self.counts.update(users)
        return self.pipeline().run(self.options)

    def result(self):
        """The counts, by adding up changes that fit together."""
        found = Counter()
        rows = DeltaTable(self.options.home.table("shop", "changes")).to_pyarrow_table().to_pylist()
        for row in sorted(rows, key=lambda row: row["first"]):
            assert found[row["user"]] == row["first"], row
            found[row["user"]] = row["last"]
        return found


@pytest.fixture
def world(options, tmp_path):
    return World(options, tmp_path)


def users(seed):
    rng = random.Random(seed)
    return [f"user {int(rng.expovariate(0.1))}" for _ in range(200)]


@pytest.mark.parametrize(("form", "behind"), [("values", True), ("values", False), ("processor", True)])
def test_a_crash_in_a_batch_leaves_its_changes_once(world, monkeypatch, form, behind):
    world.form = form
    world.run(users(1))
    with monkeypatch.context() as patched:
        Crash(patched, DeltaWriter, behind=behind)
        with pytest.raises(RsError, match="crash"):
            world.run(users(2))
    world.run()
    assert world.result() == world.counts


@pytest.mark.long
def test_savepoints_rewinds_and_rescales_take_the_state_along_and_it_is_shown_as_rows(world):
    world.run(users(3))
    first = world.counts.copy()
    taken = world.pipeline().savepoint(world.options)
    world.form = "batch"
    world.run(users(4))
    assert world.result() == world.counts
    world.pipeline().rewind(0, world.options)
    world.run()
    assert world.result() == world.counts
    world.pipeline().rescale(3, world.options)
    world.run(users(5))
    assert world.result() == world.counts
    topology = world.pipeline().topology
    snapshot_state(topology, world.options)
    state = DeltaTable(state_path(topology, "count", world.options.home)).to_pyarrow_table().to_pylist()
    assert {row["key"]: row["value"] for row in state} == {
        json.dumps({"user": user}, separators=(",", ":")): json.dumps({"n": n}, separators=(",", ":"))
        for user, n in world.counts.items()
    }
    world.pipeline().restore(world.options, savepoint_id=taken.id)
    assert world.result() == first
    world.run()
    assert world.result() == world.counts


class Silence(Processor):
    """Tells of a user who was not seen for a minute."""

    seen = ValueStore("n bigint")

    def process(self, key, row, context):
        context.seen.put({"n": (context.seen.get() or {"n": 0})["n"] + 1})
        context.schedule_at(context.time + Time.minutes(1), self.silent)

    def silent(self, key, at, context):
        context.forward({"user": key["user"], "n": context.seen.get()["n"], "at": at})
        context.seen.delete()


class Watch(World):
    """A followed file of times, and a table of silences."""

    def pipeline(self):
        schema = "user string, ts timestamp"
        clicks = StreamBuilder.data_stream("shop", "silences").from_file(self.file, schema=schema, tail=True)
        silences = clicks.process(
            Silence, keys="user", schema="user string, n bigint, at timestamp", time_field="ts", name="silence"
        )
        return silences.to_delta("silences").build()

    def run(self, *clicks):
        with self.file.open("a") as file:
            file.writelines(json.dumps({"user": user, "ts": f"2026-01-05T10:{at}Z"}) + "\n" for user, at in clicks)
        self.pipeline().run(self.options)
        return self.result()

    def result(self):
        table = self.options.home.table("shop", "silences")
        rows = DeltaTable(table).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(table) else []
        return sorted((row["user"], row["n"], f"{row['at']:%M:%S}") for row in rows)


@pytest.mark.long
def test_timers_outlast_savepoints_rewinds_and_rescales(options, tmp_path):
    world = Watch(options, tmp_path)
    assert world.run(("ann", "00:00"), ("bo", "00:10"), ("ann", "00:20")) == []
    taken = world.pipeline().savepoint(options)
    world.pipeline().rescale(3, options)
    assert world.run(("cy", "01:15")) == [("bo", 1, "01:10")]
    assert world.run(("cy", "01:30")) == (last := [("ann", 2, "01:20"), ("bo", 1, "01:10")])
    world.pipeline().rewind(0, options)
    assert world.run() == last
    world.pipeline().restore(options, savepoint_id=taken.id)
    assert world.result() == []
    world.pipeline().rescale(2, options)
    assert world.run(("", "05:00")) == [*last, ("cy", 2, "02:30")]
