"""Whether a run has little to do is guessed by the sizes of its input and its state, before Java starts."""

import gzip
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rs_assets import Dimension, StreamBuilder, Time, TumblingWindow
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import PlannedFile
from rs_assets.common.home import Home
from rs_assets.connectors.files.lines.offsets import dump_offsets
from rs_assets.connectors.files.lines.planner import Planner
from rs_assets.connectors.files.unread import unread_sizes
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.runtime.job import small
from rs_assets.runtime.job.small import seems_small
from rs_assets.runtime.options import RunOptions
from rs_assets.spark.settings import SMALL_COLLECTOR, SMALL_JAVA, small_java

SCHEMA = "n bigint"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"n": 1}\n')
    return tmp_path


def source(place, **reading):
    return StreamBuilder.data_stream("shop", "small").from_file(place / "in", schema=SCHEMA, **reading)


def is_small(stream, home):
    return seems_small(stream.to_delta("t").build().topology, Home(home))


def sized(file, size):
    """A file of that size, which takes no room."""
    with file.open("wb") as made:
        made.truncate(size)


@pytest.mark.parametrize("tail", [False, True])
def test_a_first_run_goes_by_the_size_of_its_files(place, tail):
    assert is_small(source(place, tail=tail), place / "home")
    sized(place / "in" / "b.jsonl", small.SMALL_BYTES)
    assert not is_small(source(place, tail=tail), place / "home")


def test_an_archive_counts_as_if_unpacked(place):
    archive = place / "in" / "b.jsonl.gz"
    sized(archive, small.SMALL_BYTES // 10 + 1)
    assert not is_small(source(place), place / "home")
    archive.write_bytes(gzip.compress(b'{"n": 2}\n'))
    assert is_small(source(place), place / "home")


def test_many_files_are_not_small(place, monkeypatch):
    monkeypatch.setattr(small, "SMALL_FILES", 2)
    (place / "in" / "b.jsonl").write_text("")
    assert is_small(source(place), place / "home")
    (place / "in" / "c.jsonl").write_text("")
    assert not is_small(source(place), place / "home")


def test_rows_of_the_program_are_few_and_what_cannot_be_seen_is_not_small(place):
    builder = StreamBuilder.data_stream("shop", "small")
    assert is_small(builder.from_array([{"n": 1}], schema=SCHEMA), place)
    assert not is_small(builder.from_memory(MemoryChannel(schema=SCHEMA)), place)
    assert not is_small(builder.from_kafka("127.0.0.1:1", "topic", schema=SCHEMA), place)


def test_a_dimension_is_not_small(place):
    (place / "names.csv").write_text("n,name\n1,one\n")
    names = Dimension.from_file(place / "names.csv", format="csv", schema="n bigint, name string")
    assert not is_small(source(place).dim_join(names, on="n"), place / "home")


def test_what_was_read_line_by_line_does_not_count(place):
    log = place / "in" / "a.jsonl"
    node = source(place, tail=True).to_delta("t").build().topology.sources[0]
    offsets = json.dumps(dump_offsets(Planner(str(place / "in")).plan({})))
    with log.open("a") as file:
        file.write('{"n": 22}\n')
    assert list(unread_sizes(node, SimpleNamespace(committed=offsets))) == [len('{"n": 22}\n')]
    assert list(unread_sizes(node, None)) == [log.stat().st_size]


def test_whole_files_that_were_planned_do_not_count(place):
    node = source(place).to_delta("t").build().topology.sources[0]
    (place / "in" / "b.jsonl").write_text('{"n": 22}\n')
    planned = [PlannedFile(f"file://{place / 'in' / 'a.jsonl'}", 1, 0), PlannedFile("file:///gone.jsonl", 1, 0)]
    log = SimpleNamespace(source_offset=lambda *_: 0, last_committed=lambda: 0)
    sizes = unread_sizes(node, SimpleNamespace(files=lambda: planned, log=log, source="files"))
    assert sorted(sizes) == [0, len('{"n": 22}\n')]


def test_a_run_with_a_line_more_is_small_and_one_that_reads_all_again_is_not(place, driver, monkeypatch):
    log = place / "log.jsonl"
    log.write_text("".join(f'{{"n": {n}, "ts": "2024-01-01 00:00:{n:02d}"}}\n' for n in range(50)))
    stream = StreamBuilder.data_stream("shop", "more").from_file(log, schema="n bigint, ts timestamp", tail=True)
    window = stream.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("n").count("rows")
    job, home = window.to_data_stream().to_delta("t").build(), Home(place / "home")
    assert job.run(RunOptions(home=home, driver=driver)).rows_in == 50
    monkeypatch.setattr(small, "SMALL_BYTES", 500)
    with log.open("a") as file:
        file.write('{"n": 1, "ts": "2024-01-01 00:00:59"}\n')
    assert seems_small(job.topology, home)
    assert not seems_small(job.topology, home, anew=True)
    folder = home.job("shop", "more")
    stored = manifests.load(folder)
    kept = {name: replace(facts, rows_open=small.SMALL_ROWS + 1) for name, facts in stored.queries.items()}
    manifests.save(folder, replace(stored, queries=kept))
    assert not seems_small(job.topology, home)


def test_nothing_is_raised_for_input_that_a_start_refuses(tmp_path):
    assert is_small(source(tmp_path), tmp_path / "home")
    (tmp_path / "in").symlink_to(tmp_path)
    (tmp_path / "home").mkdir()
    assert not is_small(source(tmp_path / "in"), tmp_path / "home")


def test_a_collector_that_the_environment_chooses_holds():
    assert small_java({"JAVA_TOOL_OPTIONS": "-Xmx2g"}) == f"{SMALL_JAVA} {SMALL_COLLECTOR}"
    assert small_java({"_JAVA_OPTIONS": "-XX:+UseZGC"}) == SMALL_JAVA


def test_the_first_compiler_alone_has_the_room_for_code_that_both_have():
    assert "-XX:ReservedCodeCacheSize=240m" in small_java({}).split()
