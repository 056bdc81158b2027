"""Functions with state on the ways that state takes: a kill within a batch, savepoints, rewinds, rescales, as rows."""

import json
import random
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
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


class World:
    """A followed file of clicks, and a table with a row for each change of a user's number of clicks."""

    def __init__(self, options, folder):
        self.options = options
        self.file = folder / "clicks.jsonl"
        self.file.write_text("")
        self.counts = Counter()
        self.batch = False

    def pipeline(self):
        clicks = StreamBuilder.data_stream("shop", "clicks").from_file(self.file, schema="user string", tail=True)
        how = {"keys": "user", "state": "n bigint", "schema": "user string, first bigint, last bigint", "name": "count"}
        counted = clicks.process_batch(counts, **how) if self.batch else clicks.process_values(count, **how)
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


@pytest.mark.parametrize("behind", [True, False])
def test_a_crash_in_a_batch_leaves_its_changes_once(world, monkeypatch, behind):
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
    world.batch = True
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
