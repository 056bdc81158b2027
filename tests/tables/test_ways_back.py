"""Tables on the ways that state takes: runs, snapshots, savepoints, rewinds, rescales; and a kill within a batch."""

import json
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import ConfigurationError, RsError, TopologyChangedError
from rs_assets.runtime.upkeep.savepoints import fork
from rs_assets.runtime.upkeep.state import snapshot_state, state_path
from tests.crash import Crash
from tests.tables.test_table_join import LEFT, RIGHT, after, by_foreign_key, histories


class World:
    """Two followed files of changes; orders joined with users, by tier, in two Delta tables."""

    def __init__(self, options, folder):
        self.options = options
        self.files = {name: folder / f"{name}.jsonl" for name in ("orders", "users")}
        self.tables = ({}, {})
        for file in self.files.values():
            file.write_text("")

    def pipeline(self):
        shop = StreamBuilder.data_stream("shop", "tables")
        orders, users = (
            shop.from_file(self.files[name], schema=schema, tail=True, name=name)
            for name, schema in (("orders", LEFT), ("users", RIGHT))
        )
        orders = orders.to_table("id", deletes="gone", name="left").map_values("user", "ms")
        users = users.to_table("uid", deletes="left", name="right").map_values("tier")
        rich = orders.join(users, on={"user": "uid"}, how="inner", name="rich")
        return (
            rich.group_by("tier")
            .count("n")
            .sum("ms")
            .max("ms", "most")
            .to_table(name="tiers")
            .to_delta("tiers")
            .build()
        )

    def run(self, batch=None):
        for name, rows in (batch or {}).items():
            with self.files[name].open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        self.tables = after(self.tables, batch) if batch else self.tables
        return self.pipeline().run(self.options)

    def result(self):
        rows = DeltaTable(self.options.home.table("shop", "tiers")).to_pyarrow_table().to_pylist()
        return sorted((row["tier"], row["n"], row["ms"], row["most"]) for row in rows)

    def expected(self):
        groups = {}
        # A row without a tier is in no group.
        for row in by_foreign_key(*self.tables, "inner").values():
            if row["tier"] is not None:
                groups.setdefault(row["tier"], []).append(row["ms"])
        return sorted((tier, len(values), sum(values), max(values)) for tier, values in groups.items())


@pytest.fixture
def world(options, tmp_path):
    return World(options, tmp_path)


@pytest.mark.parametrize("behind", [True, False])
def test_tables_after_a_crash_in_a_batch_have_its_changes_once(world, monkeypatch, behind):
    batches = histories(13, batches=2)
    world.run(batches[0])
    with monkeypatch.context() as patched:
        Crash(patched, DeltaWriter, behind=behind)
        with pytest.raises(RsError, match="crash"):
            world.run(batches[1])
    world.run()
    assert world.result() == world.expected()


def test_tables_after_a_savepoint_a_rewind_and_a_rescale_have_the_same_rows(world):
    batches = histories(11, batches=4)
    world.run(batches[0])
    assert world.result() == world.expected()
    first = world.expected()
    taken = world.pipeline().savepoint(world.options)
    world.run(batches[1])
    second = world.expected()
    assert world.result() == second
    world.pipeline().rewind(0, world.options)
    world.run()
    assert world.result() == second
    world.pipeline().rescale(3, world.options)
    world.run(batches[2])
    assert world.result() == world.expected()
    topology = world.pipeline().topology
    paths = {taken.path for taken in snapshot_state(topology, world.options)}
    assert paths == {state_path(topology, name, world.options.home) for name in ("left", "right", "rich", "tiers")}
    world.pipeline().restore(world.options, savepoint_id=taken.id)
    assert world.result() == first
    world.run()
    assert world.result() == world.expected()


def test_a_stream_whose_first_file_comes_after_the_table_is_joined_with_it(options, tmp_path):
    """State began with a key that is never null, since one side had no rows: the next start was refused by Spark."""
    users, folder = tmp_path / "users.jsonl", tmp_path / "clicks"
    folder.mkdir()
    users.write_text('{"uid": 1, "tier": "paid", "left": false}\n')
    for line in ("", '{"user": 1, "page": "/a"}\n'):
        if line:
            (folder / "a.jsonl").write_text(line)
        shop = StreamBuilder.data_stream("shop", "late")
        table = shop.from_file(users, schema=RIGHT, tail=True, name="users").to_table("uid").map_values("tier")
        clicks = shop.from_file(folder, schema="user bigint, page string", name="clicks")
        clicks.join_table(table, on={"user": "uid"}).to_delta("seen").build().run(options)
    rows = DeltaTable(options.home.table("shop", "seen")).to_pyarrow_table().to_pylist()
    assert rows == [{"user": 1, "page": "/a", "tier": "paid"}]


def test_another_filter_over_a_table_is_refused_or_begins_again(options, tmp_path):
    """Without that a row that passed the former filter, and goes, would stay: it does not pass the new one."""
    path = tmp_path / "orders.jsonl"

    def ran(least, **more):
        orders = StreamBuilder.data_stream("shop", "dear").from_file(path, schema="id int, ms int", tail=True)
        orders.to_table("id").filter(f"ms >= {least}").to_delta("dear").build().run(replace(options, **more))
        rows = DeltaTable(options.home.table("shop", "dear")).to_pyarrow_table().to_pylist()
        return {row["id"]: row["ms"] for row in rows}

    path.write_text("".join(f'{{"id": {number}, "ms": {number}}}\n' for number in range(4)))
    assert ran(2) == {2: 2, 3: 3}
    with path.open("a") as lines:
        lines.write('{"id": 2, "ms": 0}\n')
    with pytest.raises(TopologyChangedError, match="have rows for which ms >= 3, but has rows"):
        ran(3)
    assert ran(3, new_generation=True) == {3: 3}
    assert ran(1, keep_state=True) == {3: 3}


def test_an_output_of_current_rows_that_was_not_there_is_refused_and_whole_once_the_remedy_is_followed(
    options, tmp_path
):
    log = tmp_path / "users.jsonl"

    def pipeline(*outputs):
        rows = StreamBuilder.data_stream("shop", "later").from_file(log, schema="id bigint, v bigint", tail=True)
        table = rows.to_table("id", name="users")
        for output in outputs:
            table = table.to_delta(output, name=output)
        return table.to_stream().to_file(tmp_path / "changes", name="changes").build()

    def run(rows, *outputs, **how):
        with log.open("a") as file:
            file.writelines(json.dumps({"id": number, "v": value}) + "\n" for number, value in rows)
        pipeline(*outputs).run(replace(options, **how))

    def held(name):
        found = DeltaTable(options.home.table("shop", name)).to_pyarrow_table().to_pylist()
        return sorted((row["id"], row["v"]) for row in found)

    run([(1, 1), (2, 1)], "first", "second")
    run([(1, 2)], "first")
    for outputs in (("first", "second"), ("first", "third")):
        with pytest.raises(TopologyChangedError, match="would have the changes of 'users' from now on") as refused:
            run([], *outputs)
        assert "--reset-step users" in refused.value.remedy
    run([(2, 3)], "first", "second", reset_steps=("users",))
    assert held("first") == held("second") == [(1, 2), (2, 3)]
    run([(3, 3)], "first", "second", "third", keep_state=True)
    assert held("third") == [(3, 3)]


def test_a_fork_of_current_rows_is_refused_and_both_ways_that_it_names_are_taken(options, tmp_path):
    log = tmp_path / "users.jsonl"

    def pipeline(job, *, changes=False):
        rows = StreamBuilder.data_stream("shop", job).from_file(log, schema="id bigint, v bigint", tail=True)
        table = rows.to_table("id", name="users")
        made = table.to_stream().to_delta(f"{job}_changes", name="out") if changes else table.to_delta(job, name="out")
        return made.build()

    def held(name):
        found = DeltaTable(options.home.table("shop", name)).to_pyarrow_table().to_pylist()
        return sorted((row["id"], row["v"]) for row in found)

    log.write_text('{"id": 1, "v": 1}\n{"id": 2, "v": 1}\n')
    pipeline("now").run(options)
    pipeline("now").savepoint(options)
    with pytest.raises(ConfigurationError, match="has the current rows of 'users'") as refused:
        fork(pipeline("copy").topology, ("shop", "now"), options)
    assert "without a fork" in refused.value.remedy
    fork(pipeline("other", changes=True).topology, ("shop", "now"), options)
    with log.open("a") as file:
        file.write('{"id": 1, "v": 2}\n')
    pipeline("copy").run(options)
    pipeline("other", changes=True).run(options)
    assert held("copy") == [(1, 2), (2, 1)]
    assert held("other_changes") == [(1, 1), (1, 2)]
