"""Pipelines over tables, savepoints and dead letters in S3, against what one batch would have written."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rs_assets import Dimension, StreamBuilder
from rs_assets.common.home import Home
from rs_assets.common.storage import storage_options
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.dagster.runs.compaction import compact_pipeline
from rs_assets.errors import RsError, SinkError
from rs_assets.runtime.options import SavepointPolicy
from rs_assets.stream.pipeline import Pipeline
from tests.crash import Crash
from tests.faults.processes import started, wait_for
from tests.s3.rows import numbers_in, table

PAGES = ["home", "a b", "a=b/c%20d", "", None, "é"]
SCHEMA = "n bigint, page string, price decimal(10,2), at timestamp, tags array<string>"


def record(n: int) -> dict:
    return {
        "n": n,
        "page": PAGES[n % len(PAGES)],
        "price": f"{n}.25",
        "at": f"2026-01-0{n % 9 + 1}T00:00:00.123456Z",
        "tags": [str(n), None],
    }


class World:
    """A folder of input and what was written into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "in"
        self.folder.mkdir()
        self.rows: list[dict] = []

    def add(self, count: int = 10, text: str = "") -> None:
        rows = [record(n) for n in range(len(self.rows), len(self.rows) + count)]
        self.rows += rows
        file = self.folder / f"{len(self.rows):06d}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows) + text)

    @property
    def numbers(self) -> list[int]:
        return [row["n"] for row in self.rows]

    def pipeline(self, address: str, job: str = "copy", **sink: object) -> Pipeline:
        source = StreamBuilder.data_stream("shop", job).from_file(self.folder, schema=SCHEMA, bad_records="dead_letter")
        return source.to_delta(address, **sink).build()


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.add()
    return made


@pytest.mark.canary
def test_crashes_before_and_behind_a_commit_write_each_row_once(bucket, options, world, monkeypatch):
    pipeline = world.pipeline(f"{bucket}/t", partition_by=["page"])
    for behind in (False, True):
        with monkeypatch.context() as patch:
            Crash(patch, DeltaWriter, behind=behind)
            with pytest.raises(SinkError, match="crash"):
                pipeline.run(options)
        pipeline.run(options)
        assert numbers_in(f"{bucket}/t") == world.numbers
        world.add()
    assert pipeline.run(options).table("t").num_rows == len(world.rows)
    found = table(f"{bucket}/t")
    assert found.metadata().partition_columns == ["page"]
    # Delta has no empty text in a partition column: it is a null.
    want = Counter(row["page"] or None for row in world.rows)
    assert Counter(found.to_pyarrow_table()["page"].to_pylist()) == want
    (first,) = found.to_pyarrow_table(filters=[("n", "=", 1)]).to_pylist()
    assert (str(first["price"]), first["tags"]) == ("1.25", ["1", None])
    assert first["at"].isoformat() == "2026-01-02T00:00:00.123456+00:00"
    # Delta skips files by them.
    statistics = pa.table(found.get_add_actions(flatten=True))
    assert sum(statistics["num_records"].to_pylist()) == len(world.rows)
    assert min(statistics["min.n"].to_pylist()) == 0


def test_another_home_is_refused(bucket, options, world, tmp_path):
    pipeline = world.pipeline(f"{bucket}/t")
    pipeline.run(options)
    other = replace(options, home=Home(tmp_path / "other"))
    with pytest.raises(RsError, match="home"):
        pipeline.run(other)
    world.add()
    pipeline.run(options)
    assert numbers_in(f"{bucket}/t") == world.numbers


def test_a_savepoint_in_s3_brings_the_pipeline_and_its_table_back(bucket, options, world, tmp_path):
    options = replace(options, savepoints=SavepointPolicy(uri=f"{bucket}/savepoints"))
    pipeline = world.pipeline(f"{bucket}/t")
    pipeline.run(options)
    pipeline.savepoint(options)
    world.add()
    pipeline.run(options)
    pipeline.restore(options)
    assert numbers_in(f"{bucket}/t") == world.numbers[:10]
    world.add()
    pipeline.run(options)
    assert numbers_in(f"{bucket}/t") == world.numbers
    # A machine that was lost with its disk.
    elsewhere = replace(options, home=Home(tmp_path / "elsewhere"))
    pipeline.restore(elsewhere)
    pipeline.run(elsewhere)
    assert numbers_in(f"{bucket}/t") == world.numbers


@pytest.mark.parametrize("behind", [False, True])
def test_a_blank_machine_continues_from_uploads_in_s3(bucket, options, world, monkeypatch, behind):
    options = replace(options, savepoints=SavepointPolicy(uri=f"{bucket}/store", upload=True))
    pipeline = world.pipeline(f"{bucket}/t")
    pipeline.run(options)
    world.add()
    with monkeypatch.context() as patch:
        Crash(patch, DeltaWriter, behind=behind)
        with pytest.raises(SinkError, match="crash"):
            pipeline.run(options)
    before = table(f"{bucket}/t").version()
    shutil.rmtree(options.home.root)
    world.add()
    assert pipeline.run(options).recovered_from.startswith("upload")
    assert numbers_in(f"{bucket}/t") == world.numbers
    # The table has not gone back.
    assert not any("RESTORE" in entry["operation"] for entry in table(f"{bucket}/t").history())
    assert table(f"{bucket}/t").version() > before


def test_a_table_in_s3_is_a_dimension_and_dead_letters_go_there(bucket, options, world, monkeypatch):
    monkeypatch.setenv("RS_DEAD_LETTERS", f"{bucket}/letters")
    pages = pa.table({"page": [page for page in PAGES if page], "title": [page.upper() for page in PAGES if page]})
    write_deltalake(f"{bucket}/pages", pages, storage_options=storage_options(bucket))
    world.add(4, "not JSON\n")
    stream = StreamBuilder.data_stream("shop", "joined").from_file(
        world.folder, schema=SCHEMA, bad_records="dead_letter"
    )
    dimension = Dimension.from_delta(f"{bucket}/pages", schema="page string, title string")
    report = (
        stream.dim_join(dimension, on="page").select_fields("n", "title").to_delta(f"{bucket}/t").build().run(options)
    )
    assert report.rows_dead == 1
    got = {(row["n"], row["title"]) for row in table(f"{bucket}/t").to_pyarrow_table().to_pylist()}
    assert got == {(row["n"], row["page"].upper()) for row in world.rows if row["page"]}
    (letter,) = dead_letters_of(f"{bucket}/letters", "shop", "joined").to_pylist()
    assert letter["record"] == "not JSON"


@pytest.mark.parametrize("changes", [False, True])
def test_a_table_in_s3_is_read_once_across_restarts(bucket, options, world, s3_jars, changes):
    first = world.pipeline(f"{bucket}/t")
    first.run(options)
    if changes:
        table(f"{bucket}/t").alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    source = {"changes": True, "starting_version": 2} if changes else {}
    stream = StreamBuilder.data_stream("shop", "second").from_delta(f"{bucket}/t", **source)
    second = stream.filter("n % 2 = 0").to_delta(f"{bucket}/even").build()
    for _ in range(3):
        world.add()
        first.run(options)
        second.run(options)
    want = [n for n in world.numbers[10 if changes else 0 :] if n % 2 == 0]
    assert numbers_in(f"{bucket}/even") == want


def test_a_compaction_joins_files_and_removes_none_of_this_machine(bucket, options, world):
    pipeline = world.pipeline(f"{bucket}/t")
    for _ in range(3):
        world.add()
        pipeline.run(options)
    (done,) = compact_pipeline(pipeline.topology, options.home).values()
    assert (done["files_added"], done["files_removed"]) == (1, 0)
    world.add()
    pipeline.run(options)
    assert numbers_in(f"{bucket}/t") == world.numbers


PROGRAM = """
import sys, threading
from pathlib import Path
from rs_assets import StreamBuilder
from rs_assets.common.home import Home
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.runtime.options import RunOptions

folder, address, home, point, reached, schema = sys.argv[1:]

def stop_behind(kind, method):
    original = getattr(kind, method)
    def stopping(*args, **how):
        result = original(*args, **how)
        Path(reached).touch()
        threading.Event().wait()
        return result
    setattr(kind, method, stopping)

if point:
    stop_behind(DeltaWriter, point)
source = StreamBuilder.data_stream("shop", "killed").from_file(folder, schema=schema)
source.to_delta(address).build().run(RunOptions(home=Home(Path(home))))
"""


@pytest.mark.faults
@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_with_files_written_and_with_a_commit_it_writes_each_row_once(bucket, s3, world, tmp_path, monkeypatch):
    for name, value in s3.options.items():
        monkeypatch.setenv(name, value)
    home = tmp_path / "home"
    for point in ("stage", "_add", ""):
        reached = tmp_path / f"reached-{point}"
        with started(PROGRAM, world.folder, f"{bucket}/t", home, point, reached, SCHEMA) as process:
            if point:
                wait_for(reached, process)
            else:
                assert process.wait(120) == 0
        world.add()
    with started(PROGRAM, world.folder, f"{bucket}/t", home, "", tmp_path / "x", SCHEMA) as process:
        assert process.wait(120) == 0
    assert numbers_in(f"{bucket}/t") == world.numbers
