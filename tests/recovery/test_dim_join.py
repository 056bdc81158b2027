"""Which version of a dimension a batch sees: after a crash, a rewind, a reload."""

import _thread
import json
import logging
import shutil
import signal
import threading
from dataclasses import replace
from threading import Event

import pytest
from deltalake import DeltaTable

from rs_assets import Dimension, MemoryChannel, StreamBuilder, Time
from rs_assets.catalog.catalog import Catalog
from rs_assets.common.background import LOG
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import CheckpointError, RsError, SourceReadError
from rs_assets.runtime.batch import dimension_load
from rs_assets.runtime.batch.dimensions import BatchVersions
from rs_assets.testing import PipelineDriver
from tests.crash import Crash


class World:
    """`run(n)` adds n rows, all of the key "a"; `tier(name)` changes what is found for it."""

    def __init__(self, options, folder):
        self.options, self.rows, self.folder = options, 0, folder
        self.schema = "k string, tier string"
        self.log, self.users = folder / "in.jsonl", folder / "users.jsonl"
        self.log.write_text("")

    def tier(self, *names):
        fresh = self.folder / "users.new"
        fresh.write_text("".join(json.dumps({"k": "a", "tier": name}) + "\n" for name in names))
        fresh.rename(self.users)

    def pipeline(self):
        users = Dimension.from_file(self.users, schema=self.schema)
        job = StreamBuilder.data_stream("shop", "dim")
        stream = job.from_file(self.log, schema="k string, v bigint", tail=True, bad_records="quarantine")
        joined = stream.dim_join(users, on="k", name="users")
        return joined.to_delta("one").to_delta("two").build()

    def grow(self, rows):
        with self.log.open("a") as log:
            for _ in range(rows):
                log.write(json.dumps({"k": "a", "v": self.rows}) + "\n")
                self.rows += 1

    def run(self, rows=0):
        self.grow(rows)
        return self.pipeline().run(self.options)

    def cut_short(self, monkeypatch, *, behind, name):
        """A run of one row that ends before or behind the commit of a sink."""
        with monkeypatch.context() as patched:
            Crash(patched, DeltaWriter, behind=behind, name=name)
            with pytest.raises(RsError, match="crash"):
                self.run(1)

    def result(self, table="one"):
        rows = DeltaTable(self.options.home.table("shop", table)).to_pyarrow_table().to_pylist()
        return sorted((row["v"], row["tier"]) for row in rows)

    @property
    def versions(self):
        return sorted(path.name for path in self.options.home.dimension("shop", "dim", "users").iterdir())


@pytest.fixture
def world(options, tmp_path):
    return World(options, tmp_path)


def test_a_batch_that_was_cut_short_sees_the_version_it_saw(world, monkeypatch):
    """One sink has the batch, the other has not: both must have the same rows in the end."""
    world.tier("old")
    world.run(1)
    for behind in (False, True):
        world.cut_short(monkeypatch, behind=behind, name="two_table")
        assert len(world.versions) == 1 + behind
        world.tier("new")
        world.run()
    world.run(1)
    assert world.result() == world.result("two") == [(0, "old"), (1, "old"), (2, "new"), (3, "new")]


def test_a_version_that_is_gone_is_not_replaced_for_a_batch_that_has_used_it(world, monkeypatch):
    world.tier("old")
    world.cut_short(monkeypatch, behind=True, name="one_table")
    world.tier("new")
    [version] = world.versions
    place = world.options.home.dimension("shop", "dim", "users") / version
    place.rename(place.with_name("away"))
    with pytest.raises(CheckpointError, match=f"(?s)version {version} .* is gone.*put its folder back, or begin a new"):
        world.run()
    place.with_name("away").rename(place)
    world.run()
    assert world.result() == world.result("two") == [(0, "old")]


def test_a_batch_cut_short_is_not_looked_up_in_other_fields(world, monkeypatch):
    """One sink has the batch: the other must not get rows of another version because the schema was changed."""
    world.tier("old")
    world.cut_short(monkeypatch, behind=True, name="one_table")
    world.tier("new")
    with monkeypatch.context() as patched:
        patched.setattr(world, "schema", "k string, tier string, more string")
        with pytest.raises(CheckpointError, match="(?s)of other fields.*as before"):
            world.run()
    world.run()
    assert world.result() == world.result("two") == [(0, "old")]


def test_a_rewound_batch_sees_the_version_it_saw_and_what_comes_behind_the_newest(world):
    for tier in ("first", "second", "third"):
        world.tier(tier)
        world.run(1)
    expected = [(0, "first"), (1, "second"), (2, "third")]
    assert world.result() == expected
    world.tier("fourth")
    world.pipeline().rewind(0, world.options)
    # All that is there would come in one batch now; each row is looked up where it was, and new ones in what is there.
    world.run(1)
    assert world.result() == world.result("two") == [*expected, (3, "fourth")]
    world.run(1)
    assert world.result() == world.result("two") == [*expected, (3, "fourth"), (4, "fourth")]


def test_rewound_batches_see_the_versions_they_saw_if_a_lookup_was_added(world, monkeypatch):
    """The first of them notes a version of the added one; the others were looked up in what the first one had seen."""
    for tier in ("first", "second", "third"):
        world.tier(tier)
        world.run(1)
    expected = world.result()
    more = Dimension.from_loader(lambda: [{"k": "a", "more": "x"}], schema="k string, more string")
    world.pipeline().rewind(0, world.options)

    def changed():
        users = Dimension.from_file(world.users, schema=world.schema)
        job = StreamBuilder.data_stream("shop", "dim")
        stream = job.from_file(world.log, schema="k string, v bigint", tail=True, bad_records="quarantine")
        joined = stream.dim_join(users, on="k", name="users").to_delta("one").to_delta("two")
        return joined.dim_join(more, on="k", name="more").to_memory(MemoryChannel()).build()

    monkeypatch.setattr(world, "pipeline", changed)
    world.tier("fourth")
    world.run()
    assert world.result() == world.result("two") == expected


@pytest.mark.parametrize("rewound", [False, True])
def test_a_batch_that_is_killed_before_a_row_was_looked_up_sees_the_version_of_its_start(world, monkeypatch, rewound):
    """Spark has planned it, and no version is recorded for it yet."""
    world.tier("old")
    world.run(1)
    if rewound:
        world.tier("older")
        world.run(1)
        world.pipeline().rewind(0, world.options)
    world.tier("new")
    last, pin = int(rewound), BatchVersions.pin

    def killed(versions, batch_id, **asked):
        if batch_id > last:
            raise SourceReadError("killed", remedy="start again")
        return pin(versions, batch_id, **asked)

    with monkeypatch.context() as patched:
        patched.setattr(BatchVersions, "pin", killed)
        with pytest.raises(SourceReadError, match="killed"):
            world.run(1)
    world.run()
    assert world.result() == world.result("two") == [*[(0, "old"), (1, "older")][: 1 + last], (1 + last, "new")]


def test_a_batch_of_a_stream_that_is_killed_before_a_row_was_looked_up_sees_the_version_taken_up(world, monkeypatch):
    """That of the running stream, and neither the one of the batch before nor the one of the next start."""
    world.tier("old")
    pin, read = BatchVersions.pin, Event()

    def pinned(versions, batch_id, **asked):
        if batch_id:
            raise SourceReadError("killed", remedy="start again")
        return pin(versions, batch_id, **asked)

    monkeypatch.setattr(BatchVersions, "pin", pinned)
    world.grow(1)
    live = replace(world.options, interval=Time.milliseconds(20), on_progress=lambda _: read.set())
    with world.pipeline().start(live) as stream:
        assert read.wait(100)
        world.tier("new")
        stream.session.dimensions.reload("users")
        world.grow(1)
        with pytest.raises(SourceReadError, match="killed"):
            stream.await_termination()
    monkeypatch.undo()
    world.tier("newest")
    world.run()
    assert world.result() == world.result("two") == [(0, "old"), (1, "new")]


def test_a_rewound_batch_whose_version_is_gone_says_so(world):
    for tier in ("first", "second"):
        world.tier(tier)
        world.run(1)
    world.tier("third")
    world.pipeline().rewind(0, world.options)
    [second] = [name for name in world.versions if name.startswith("v000002")]
    shutil.rmtree(world.options.home.dimension("shop", "dim", "users") / second)
    report = world.run()
    assert world.result() == [(0, "first"), (1, "third")]
    assert [text for text in report.warnings if f"version {second}, which they used before, is gone" in text]


def test_the_catalog_tells_which_batch_began_to_use_which_version(world):
    world.tier("old")
    world.run(1)
    world.run(1)
    world.tier("new", "newer")
    world.run(1)
    rows = Catalog(world.options.home.catalog).rows("dimensions", pipeline="shop.dim")
    assert [(row["step"], row["batch_id"], row["rows"]) for row in rows] == [("users", 0, 1), ("users", 2, 2)]
    assert [row["version"] for row in rows] == world.versions
    assert rows[0]["origin"] == f"json {world.users}"


def test_a_start_goes_on_with_the_version_before_if_the_load_fails_and_says_so(world):
    with pytest.raises(SourceReadError, match="(?s)cannot be found.*create it"):
        world.run(1)
    world.tier()
    with pytest.raises(SourceReadError, match="(?s)has no rows.*may_be_empty=True"):
        world.run()
    world.tier("old")
    assert world.run().warnings == ()
    world.users.write_text('{"k": "a", "tier": "new"}\nno json\n')
    report = world.run(1)
    assert any("users" in warning and "as old as its last load" in warning for warning in report.warnings)
    world.users.unlink()
    assert any("cannot be found" in warning for warning in world.run(1).warnings)
    world.tier("new")
    assert world.run(1).warnings == ()
    assert world.result() == [(0, "old"), (1, "old"), (2, "old"), (3, "new")]


def test_versions_that_no_batch_can_ask_for_go(world):
    """Spark keeps the plans of the last batches: as long as one is there its version is."""
    for tier in ("a", "b", "c", "d"):
        world.tier(tier)
        world.run(1)
    assert len(world.versions) == 4
    [checkpoint] = world.options.home.job("shop", "dim").glob("g*/*/checkpoint")
    for log in ("offsets", "commits"):
        for name in ("0", ".0.crc", "1", ".1.crc"):
            (checkpoint / log / name).unlink(missing_ok=True)
    world.tier("e")
    world.run(1)
    world.run(1)
    assert [name[:7] for name in world.versions] == ["v000003", "v000004", "v000005"]
    assert [tier for _, tier in world.result()] == ["a", "b", "c", "d", "e", "e"]


def test_a_load_that_hangs_holds_no_end_up_and_is_not_taken_up_behind_it(options):
    release, hanging, ended, loading = Event(), Event(), Event(), []

    def users():
        if threading.current_thread().name != "rs-dimension":
            return [{"k": "a", "tier": "old"}]
        loading.append(threading.current_thread())
        hanging.set()
        release.wait(100)
        ended.set()
        return [{"k": "a", "tier": "new"}]

    dimension = Dimension.from_loader(users, schema="k string, tier string", every=Time.milliseconds(10))
    stream = StreamBuilder.data_stream("shop", "hang").from_memory(MemoryChannel(schema="k string"))
    pipeline = stream.dim_join(dimension, on="k", name="users").to_memory(MemoryChannel()).build()
    with pipeline.start(options):
        assert hanging.wait(100)
    assert not ended.is_set()
    release.set()
    loading[0].join(100)
    assert [path.name[:7] for path in options.home.dimension("shop", "hang", "users").iterdir()] == ["v000001"]


def test_a_reload_beside_the_batches_stops_none_and_is_taken_up(options, tmp_path):
    """Each batch brings about the next one; after some the loader gives other rows."""
    channel, out, taken = MemoryChannel(schema="k string, v bigint"), MemoryChannel(), Event()
    users = [{"k": "a", "tier": 0}]
    dimension = Dimension.from_loader(lambda: list(users), schema="k string, tier bigint", every=Time.milliseconds(20))
    job = StreamBuilder.data_stream("shop", "live")
    pipeline = job.from_memory(channel).dim_join(dimension, on="k", name="users").to_memory(out).build()

    def listen(batch):
        users[0] = {"k": "a", "tier": out.rows()[-1]["tier"] + 1}
        if users[0]["tier"] > 3:
            taken.set()
        channel.put({"k": "a", "v": batch.batch_id + 1})

    channel.put({"k": "a", "v": 0})
    quick = replace(options, interval=Time.milliseconds(20), on_progress=listen)
    with pipeline.start(quick):
        assert taken.wait(100), "no reload was taken up"
    tiers = [row["tier"] for row in out.take()]
    assert tiers == sorted(tiers)
    assert set(tiers) >= {0, 1, 2, 3}


def test_steps_of_one_dimension_share_each_load(options):
    loads = []

    def users():
        loads.append(len(loads))
        return [{"k": "a", "tier": len(loads), "other": "b"}, {"k": "b", "tier": -len(loads), "other": "a"}]

    dimension = Dimension.from_loader(users)
    stream = StreamBuilder.data_stream("shop", "twice").from_file("in.jsonl", schema="k string")
    once = stream.dim_join(dimension, on="k", prefix="one_", name="one")
    pipeline = once.dim_join(dimension, on={"k": "other"}, prefix="two_", name="two").to_print().build()
    with PipelineDriver(pipeline, spark=options.driver) as running:
        for tier in (1, 2):
            running.push([{"k": "a"}])
            running.step()
            assert [(row["one_tier"], row["two_tier"]) for row in running.take()] == [(tier, -tier)]
            running.reload("two")
    assert loads == [0, 1, 2]


def test_versions_of_a_step_that_is_gone_go_when_no_batch_can_ask_for_them(world):
    world.tier("old")
    world.run(1)
    folder = world.options.home.dimension("shop", "dim", "users")
    unused = folder.with_name("before")
    shutil.copytree(folder, unused)
    narrow = StreamBuilder.data_stream("shop", "dim").from_file(world.log, schema="k string, v bigint", tail=True)
    narrow.to_delta("one").to_delta("two").build().run(world.options)
    assert (folder.exists(), unused.exists()) == (True, False)


def test_a_first_load_that_hangs_is_told_of_and_can_be_interrupted(options, monkeypatch):
    """The warning itself brings the interrupt about; the driver is free for another run at once."""
    told, release = [], Event()

    class Interrupting(logging.Handler):
        def emit(self, record):
            if "waits for its dimension" in record.getMessage():
                told.append(record.getMessage())
                _thread.interrupt_main()

    def users():
        release.wait(100)
        return [{"k": "a", "tier": "late"}]

    monkeypatch.setattr(dimension_load, "SLOW", Time.milliseconds(100))
    dimension = Dimension.from_loader(users, schema="k string, tier string")
    stream = StreamBuilder.data_stream("shop", "hang").from_array([{"k": "a"}])
    pipeline = stream.dim_join(dimension, on="k", name="users").to_memory(MemoryChannel()).build()
    handler = Interrupting()
    LOG.addHandler(handler)
    # Tests that run in the background may be deaf to it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            pipeline.run(options)
    finally:
        signal.signal(signal.SIGINT, before)
        LOG.removeHandler(handler)
    assert "step 'users' waits for its dimension, users(): the load has been running for 0.1 s" in told[0]
    out = MemoryChannel()
    StreamBuilder.data_stream("shop", "free").from_array([{"k": "a"}]).to_memory(out).build().run(options)
    assert out.take() == [{"k": "a"}]
    release.set()
