"""What was staged is committed whole or not at all, and what a table held it must hold: absence is never believed."""

import os
import shutil
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rs_assets.catalog.catalog import compact_table
from rs_assets.connectors.delta.files.staging import clear_staging, staging_of
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import SinkError
from tests.sinks.frames import mark, numbers, write


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "t ä")


def read(path):
    return sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist())


def vacuum(path, hours=0):
    DeltaTable(path).vacuum(hours, dry_run=False, full=True, enforce_retention_duration=False)


def test_a_full_vacuum_leaves_a_staged_batch_alone(path):
    writer = DeltaWriter("rows", path)
    write(writer, numbers(1, 2), mark(0))
    assert not writer.committed(mark(1))
    staged = writer.stage(numbers(3, 4), mark(1))
    vacuum(path)
    assert staged.commit() == 2
    assert read(path) == [1, 2, 3, 4]
    vacuum(path)
    assert read(path) == [1, 2, 3, 4]


@pytest.mark.parametrize("which", ["all", "one", "cut"])
def test_staged_files_that_are_gone_are_an_error(path, which):
    writer = DeltaWriter("rows", path)
    write(writer, numbers(1, 2), mark(0))
    assert not writer.committed(mark(1))
    staged = writer.stage(numbers(3, 4), mark(1))
    files = sorted(Path(path).rglob("_rs_staged/**/*.parquet"))
    if which == "cut":
        os.truncate(files[0], 10)
    for file in files if which == "all" else files[:1] if which == "one" else ():
        file.unlink()
    with pytest.raises(SinkError, match="has removed or changed . of . staged files?") as caught:
        staged.commit()
    assert "start again" in caught.value.remedy
    assert read(path) == [1, 2]
    assert write(writer, numbers(3, 4), mark(1)) == 2
    assert read(path) == [1, 2, 3, 4]


def test_what_a_copy_of_the_home_has_staged_goes_at_once(path, monkeypatch):
    """A folder whose files go one by one is, for a moment, a batch without rows."""
    staged = DeltaWriter("rows", path).stage(numbers(3, 4), mark(1))
    folder = staging_of(Path(path), mark(1))
    there = []

    def removed(tree, **settings):
        there.append(folder.exists())
        real(tree, **settings)

    real = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", removed)
    clear_staging(Path(path), mark(1))
    assert there == [False]
    assert not [*folder.parent.iterdir()]
    with pytest.raises(SinkError, match="has removed or changed"):
        staged.commit()


def test_a_batch_without_rows_commits_nothing(path):
    writer = DeltaWriter("rows", path)
    assert write(writer, numbers(), mark(0)) == 0
    assert not DeltaTable.is_deltatable(path)
    assert write(writer, numbers(1), mark(1)) == 1
    assert not list(Path(path).rglob("_rs_staged/**/*.parquet"))


@pytest.mark.parametrize("mode", ["append", "upsert", "complete"])
def test_a_table_that_vanishes_is_refused_until_it_is_back(path, mode):
    keys = ("n",) if mode == "upsert" else ()
    writer = DeltaWriter("rows", path, mode, keys)
    write(writer, numbers(1), mark(0))
    Path(path).rename(f"{path}.away")
    with pytest.raises(SinkError, match="holds no batch of this pipeline and had batch 0") as caught:
        writer.committed(mark(1))
    assert "put it back" in caught.value.remedy
    Path(f"{path}.away").rename(path)
    assert write(writer, numbers(2), mark(1)) == 1
    assert read(path) == ([2] if mode == "complete" else [1, 2])


@pytest.mark.parametrize("mode", ["append", "upsert", "complete"])
def test_a_table_that_vanishes_between_staging_and_commit_is_refused(path, mode):
    keys = ("n",) if mode == "upsert" else ()
    writer = DeltaWriter("rows", path, mode, keys)
    write(writer, numbers(1), mark(0))
    assert not writer.committed(mark(1))
    staged = writer.stage(numbers(2), mark(1))
    Path(path).rename(f"{path}.away")
    with pytest.raises(SinkError):
        staged.commit()
    assert not DeltaTable.is_deltatable(path)


@pytest.mark.parametrize("others", [0, 9], ids=["as old", "more versions"])
def test_an_older_copy_of_a_table_is_refused(path, others):
    writer = DeltaWriter("rows", path)
    write(writer, numbers(1), mark(0))
    shutil.copytree(path, f"{path}.old")
    write(writer, numbers(2), mark(1))
    write(writer, numbers(3), mark(2))
    for _ in range(others):
        write_deltalake(f"{path}.old", pa.table({"n": [0]}), mode="append")
    shutil.rmtree(path)
    Path(f"{path}.old").rename(path)
    with pytest.raises(SinkError, match="ends at batch 0 of this pipeline and had batch 2"):
        writer.committed(mark(3))


def test_what_the_start_has_seen_counts_too(path):
    write(DeltaWriter("rows", path), numbers(1), mark(0))
    writer = DeltaWriter("rows", path)
    assert writer.last_committed(mark(0)) == 0
    shutil.rmtree(path)
    with pytest.raises(SinkError, match="had batch 0"):
        writer.committed(mark(1))


def test_what_crashed_runs_staged_goes_with_the_next_start(path):
    for _ in range(3):
        writer = DeltaWriter("rows", path)
        writer.committed(mark(0))
        writer.stage(numbers(1, 2), mark(0))
    writer = DeltaWriter("rows", path)
    assert write(writer, numbers(1, 2), mark(0)) == 2
    assert len(list(Path(path).rglob("*.parquet"))) == len(DeltaTable(path).file_uris()) == 2


def test_other_sinks_of_the_table_keep_what_they_staged(path):
    mine, theirs = DeltaWriter("rows", path), DeltaWriter("rows", path)
    at = mark(0, pipeline="p2")
    theirs.committed(at)
    staged = theirs.stage(numbers(1), at)
    write(mine, numbers(2), mark(0))
    assert staged.commit() == 1
    assert read(path) == [1, 2]


def aged(path, hours):
    old = time.time() - hours * 3600
    for file in [*Path(path).rglob("*"), Path(path)]:
        os.utime(file, (old, old))


def test_compaction_removes_orphans_and_empty_folders_of_some_age(path):
    writer = DeltaWriter("rows", path)
    for batch in range(3):
        write(writer, numbers(batch), mark(batch))
    # As an earlier release, or another writer, left them.
    for folder in ("g0001-b000000000007-0a1b2c3d", "page=%2F"):
        numbers(7).parquet(f"{path}/{folder}")
    numbers(8).parquet(f"{path}/_rs_staged/p9-rows/g0001-b000000000001-0a1b2c3d")
    aged(path, 200)
    for folder in ("g0001-b000000000009-0a1b2c3d", "_rs_staged/p9-rows/g0001-b000000000002-0a1b2c3d"):
        numbers(9).parquet(f"{path}/{folder}")
    done = compact_table(DeltaTable(path), retention=timedelta(days=7))
    assert done["files_removed"] >= 4
    left = {str(f.relative_to(path)).split("/")[0] for f in Path(path).rglob("*") if f.is_dir()}
    assert left == {"_delta_log", "_rs_staged", "g0001-b000000000009-0a1b2c3d"}
    assert [f.name for f in Path(path, "_rs_staged/p9-rows").iterdir()] == ["g0001-b000000000002-0a1b2c3d"]
    assert read(path) == [0, 1, 2]


def test_compaction_without_retention_leaves_a_running_batch_alone(path):
    writer = DeltaWriter("rows", path)
    for batch in range(3):
        write(writer, numbers(batch), mark(batch))
    assert not writer.committed(mark(3))
    staged = writer.stage(numbers(3), mark(3))
    compact_table(DeltaTable(path), retention=timedelta(0))
    assert staged.commit() == 1
    assert read(path) == [0, 1, 2, 3]
    assert len(list(Path(path).glob("*.parquet"))) == len(DeltaTable(path).file_uris()) == 2
