"""Uploads and savepoints beside a rescale of a running stream: each of them can be continued from."""

import json
import shutil
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from rs_assets import Home, MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.checkpoint import manifest as manifests
from rs_assets.errors import CheckpointError
from rs_assets.runtime.options import SavepointPolicy
from rs_assets.runtime.run import live_rescale
from rs_assets.runtime.upkeep import savepoints
from tests.recovery.test_rescale import PARTS, SCHEMA, WINDOWS, folder, pipeline
from tests.recovery.test_rescale import rows as rows_of
from tests.torture.history import process_all


class World:
    """A machine whose home may be lost; its inputs, tables and uploads are elsewhere."""

    def __init__(self, options, root, sources=("a",)):
        self.root, self.sources, self.written = root, sources, dict.fromkeys(sources, 0)
        self.options = replace(options, interval=timedelta(milliseconds=20), lease_ttl=timedelta(milliseconds=600))
        for source in sources:
            (root / "in" / source).mkdir(parents=True)

    def of(self, machine, shared="shared"):
        """The options of a machine, over what is shared."""
        home = Home(self.root / machine, tables_of=Home(self.root / shared / "tables"))
        policy = SavepointPolicy(uri=str(self.root / shared / "store"), upload=True)
        return replace(self.options, home=home, savepoints=policy, run_id=machine)

    def pipeline(self):
        builder, ends = StreamBuilder.data_stream("shop", "far"), []
        for source in self.sources:
            read = builder.from_file(self.root / "in" / source, schema="key string, ts timestamp", name=source)
            window = read.window(TumblingWindow.of(Time.seconds(10), "ts"), name=f"windows_{source}")
            counted = window.group_by("key").count("n").water_mark(Time.seconds(60)).to_data_stream()
            ends.append(counted.to_delta(f"out_{source}"))
        return ends[-1].build()

    def put(self, source):
        number = self.written[source]
        lines = (json.dumps({"key": f"k{n % 7}", "ts": f"2026-01-01T00:0{number}:{n:02}"}) for n in range(40))
        hidden = self.root / ".new"
        hidden.write_text("\n".join(lines))
        hidden.rename(self.root / "in" / source / f"{number}.jsonl")
        self.written[source] += 1

    def copied(self, name):
        """What is shared, as it is at this moment."""
        shutil.copytree(self.root / "shared", self.root / name)

    def counts(self, shared):
        tables = (DeltaTable(self.of("any", shared).home.table("shop", f"out_{source}")) for source in self.sources)
        return {name: sum(t.to_pyarrow_table()["n"].to_pylist()) for name, t in zip(self.sources, tables, strict=True)}

    def partitions(self, machine):
        return manifests.load(self.of(machine).home.job("shop", "far")).partitions


def test_blank_machine_goes_on_from_uploads_before_in_and_after_a_live_rescale(options, tmp_path, monkeypatch):
    world, go_on = World(options, tmp_path), live_rescale._go_on

    def copied(session):
        world.copied("swapped")
        go_on(session)

    monkeypatch.setattr(live_rescale, "_go_on", copied)
    world.put("a")
    with world.pipeline().start(world.of("first")) as running:
        process_all(running)
        world.put("a")
        process_all(running)
        assert running.rescale(5).after == 5
        world.copied("before the next batch")
        world.put("a")
        process_all(running)
        world.copied("after it")
        world.put("a")
        process_all(running)
        world.copied("after another")
    partitions = {"swapped": 2, "before the next batch": 2, "after it": 5, "after another": 5}
    for shared, known in partitions.items():
        blank = f"blank {shared}"
        report = world.pipeline().run(world.of(blank, shared), finish=True)
        assert report.recovered_from.startswith("upload")
        assert (world.counts(shared), world.partitions(blank)) == ({"a": 160}, known), shared


def test_upload_after_a_live_rescale_has_all_queries_in_the_new_number_of_partitions(options, tmp_path):
    """A query without a batch since was uploaded as it was before, with the number that the manifest has now."""
    world = World(options, tmp_path, ("a", "b"))
    world.put("a")
    world.put("b")
    with world.pipeline().start(world.of("first")) as running:
        assert len(running.session.plans) == 2
        process_all(running)
        assert running.rescale(5).after == 5
        world.put("a")
        process_all(running)
        world.copied("after a batch of one query")
    world.put("b")
    report = world.pipeline().run(world.of("blank", "after a batch of one query"), finish=True)
    assert report.recovered_from.startswith("upload")
    assert world.counts("after a batch of one query") == {"a": 80, "b": 80}
    assert world.partitions("blank") == 5


def test_savepoint_that_a_live_rescale_has_overtaken_is_taken_again(options, monkeypatch):
    channel, load = MemoryChannel(schema=SCHEMA), manifests.load
    quick = replace(options, interval=timedelta(milliseconds=20))
    job = pipeline(channel, WINDOWS["tumbling"])
    with job.start(quick) as running:
        channel.put(*PARTS[0])
        process_all(running)
        rescales = [5, 0]

        def loaded(place):
            found, number = load(place), rescales.pop() if rescales else 0
            if number:
                running.rescale(number)
            return found

        monkeypatch.setattr(savepoints.manifests, "load", loaded)
        taken = savepoints.savepoint(job.topology, quick)
        assert taken.manifest["partitions"] == 5
        channel.put(*PARTS[1])
        process_all(running)
    job.restore(quick, savepoint_id=taken.id)
    job.run(quick, finish=True)
    assert manifests.load(folder(quick)).partitions == 5
    assert sum(row["rows"] for row in rows_of(quick)) == 80


def test_savepoint_that_is_overtaken_each_time_is_refused(options, monkeypatch):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["tumbling"])
    channel.put(*PARTS[0])
    job.run(options)
    manifest, number = manifests.load(folder(options)), iter(range(2, 100))
    monkeypatch.setattr(savepoints.manifests, "load", lambda _: replace(manifest, partitions=next(number)))
    with pytest.raises(CheckpointError, match="was rescaled while the savepoint was taken") as refused:
        savepoints.savepoint(job.topology, options)
    assert refused.value.remedy == "take it again"
    monkeypatch.undo()
    assert savepoints.savepoint(job.topology, options).manifest["partitions"] == 2
