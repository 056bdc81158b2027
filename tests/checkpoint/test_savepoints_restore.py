"""A savepoint comes back byte by byte, or nothing is touched; a fork is a pipeline of its own."""

from __future__ import annotations

import errno
import json
import shutil
import uuid
from importlib import import_module
from pathlib import Path

import pytest

from rs_assets.checkpoint import manifest as manifests
from rs_assets.errors import CheckpointError
from rs_assets.recovery.restore_marker import refuse as refuse_unfinished
from rs_assets.recovery.rewinding import rewindable
from rs_assets.recovery.savepoints import fork, restore, verify
from tests.checkpoint.fabricate import (
    START,
    damage,
    fake_job,
    save,
)

# The package has a function of this name.
restoring = import_module("rs_assets.recovery.savepoints.restore")


def test_restoring_brings_back_every_byte_and_moves_the_present_aside(store, job):
    before = job.files()
    taken = save(job, store)
    saved_manifest = job.manifest
    times = {f.path: (job.folder / f.path).stat().st_mtime_ns for f in taken.files}
    job.batches(4, 5)
    later = job.files()
    fresh = job.reset("window")
    fresh.batch(0)
    assert restore(store, taken, job.folder, now=START) == saved_manifest
    assert job.files() == before
    assert {f.path: (job.folder / f.path).stat().st_mtime_ns for f in taken.files} == times
    trash = sorted(p.name for p in job.folder.glob(".trash*"))
    assert trash == [f".trash-20261121T004512.123456Z-g000{n}" for n in (1, 2)]
    aside = job.folder / trash[0]
    assert all((aside / path[6:]).read_bytes() == data for path, data in later.items() if path.startswith("g0001/"))
    assert (aside / "manifest.json").exists()
    refuse_unfinished(job.folder)


def test_after_restoring_the_next_savepoint_has_nothing_to_copy(store, job):
    taken = save(job, store)
    restore(store, taken, job.folder)
    assert save(job, store).bytes_new == 0


def test_a_job_that_is_gone_is_restored_and_so_is_one_whose_manifest_is_damaged(store, job):
    taken, before = save(job, store), job.files()
    job.folder.rename(job.folder.with_name("gone"))
    restore(store, taken, job.folder)
    assert job.files() == before
    (job.folder / "manifest.json").write_text("{")
    restore(store, taken, job.folder)
    assert job.files() == before


def test_a_job_of_another_pipeline_is_not_overwritten(store, job, tmp_path):
    other = fake_job(tmp_path / "other")
    before, taken = other.files(), save(job, store)
    with pytest.raises(CheckpointError, match="other is not the pipeline"):
        restore(store, taken, other.folder)
    with pytest.raises(CheckpointError, match="other has run already"):
        fork(store, taken, other.folder)
    assert other.files() == before


def test_restored_elsewhere_spark_knows_the_control_rows_again(store, job, tmp_path):
    window = job.queries["window"]
    window.control_row(0, "control-ä b%1.json")
    taken = save(job, store)
    place = tmp_path / "an other ü" / "clicks"
    restore(store, taken, place)
    log = place / "g0001/window/checkpoint/sources/rs_control/0"
    entry = json.loads(log.read_text().splitlines()[1])
    prefix = str(place).replace(" ", "%20")
    assert entry["path"] == f"file://{prefix}/g0001/window/control/control-ä%20b%251.json"
    assert (entry["timestamp"], entry["batchId"]) == (1795224219715, 0)
    assert log.read_text().startswith("v1\n")
    assert not log.with_name(".0.crc").exists()
    assert (place / "g0001/window/control/control-ä b%1.json").exists()
    # What lies elsewhere is still where it was.
    same = "g0001/window/checkpoint/sources/file/0"
    assert (place / same).read_bytes() == (job.folder / same).read_bytes()
    assert (place / "g0001/window/checkpoint/sources/file/.0.crc").exists()


def test_a_fork_is_a_pipeline_of_its_own_in_its_first_generation(store, job, tmp_path):
    job.reset("window").batch(0)
    job.queries["window"].control_row(0)
    taken, before = save(job, store), job.files()
    place = tmp_path / "forked"
    forked = fork(store, taken, place)
    assert forked == manifests.load(place)
    assert forked.pipeline_id != job.manifest.pipeline_id
    assert sorted(p.name for p in place.iterdir()) == ["g0001", "manifest.json"]
    for name, query in job.queries.items():
        checkpoint = place / "g0001" / name / "checkpoint"
        query_id = json.loads((checkpoint / "metadata").read_text())["id"]
        assert str(uuid.UUID(query_id)) == query_id != query.query_id
        assert not (checkpoint / ".metadata.crc").exists()
        facts = forked.queries[name]
        assert (facts.generation, facts.query_id) == (1, query_id)
        # A query without state is found again by the names of its sinks; they have nothing of it yet.
        assert facts.sinks == dict.fromkeys(job.manifest.queries[name].sinks, -1)
        assert facts.catalogued == taken.batches[name] == rewindable(checkpoint)[-1]
    log = place / "g0001/window/checkpoint/sources/rs_control/0"
    assert f"{place}/g0001/window/control/control-1.json" in log.read_text()
    assert job.files() == before
    assert fork(store, taken, tmp_path / "twin").pipeline_id != forked.pipeline_id


@pytest.mark.parametrize("how", ["gone", "empty", "short", "long", "flipped"])
def test_damage_to_any_file_of_a_savepoint_is_refused_and_nothing_is_touched(store, tmp_path, how):
    job = fake_job(tmp_path / "job", batches=2)
    taken = save(job, store)
    job.batches(2)
    before = job.files()
    contents = {f.sha256: f for f in taken.files}
    for sha256, file in contents.items():
        path = store.object_path(sha256)
        sound = store.fs.cat_file(path)
        damage(store, path, how)
        problems = verify(store, taken)
        assert any(file.path in line for line in problems)
        assert len(problems) == sum(f.sha256 == sha256 for f in taken.files)
        with pytest.raises(CheckpointError, match="an object of the savepoint") as refused:
            restore(store, taken, job.folder)
        assert refused.value.facts["file"] in {f.path for f in taken.files if f.sha256 == sha256}
        assert "restore another savepoint" in refused.value.remedy
        store.fs.pipe_file(path, sound)
    damage(store, store.object_path(taken.files[-1].sha256), how)
    with pytest.raises(CheckpointError, match="an object of the savepoint"):
        fork(store, taken, tmp_path / "fork")
    assert not (tmp_path / "fork").exists()
    assert job.files() == before
    assert not list(job.folder.glob(".*"))


@pytest.mark.parametrize("step", range(1, 6))
def test_folders_that_cannot_be_exchanged_are_put_back(local, job, monkeypatch, step):
    job.reset("window").batch(0)
    taken = save(job, local)
    job.batches(4)
    before, rename, left = job.files(), Path.rename, [step]

    def stuck(path, target):
        left[0] -= 1
        if left[0] == 0 and step < 5:
            raise OSError(errno.EACCES, "Permission denied")
        return rename(path, target)

    def full(folder, manifest):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", stuck)
        if step == 5:
            patched.setattr(manifests, "save", full)
        with pytest.raises(CheckpointError, match="cannot be written to"):
            restore(local, taken, job.folder)
    assert job.files() == before
    assert not list(job.folder.glob(".*"))
    restore(local, taken, job.folder)


def test_a_fork_that_fails_when_it_was_cut_off_before_leaves_it_cut_off(local, job, tmp_path, monkeypatch):
    taken, place = save(job, local), tmp_path / "fork"
    # As a kill after the move of the copied folders leaves it.
    shutil.copytree(job.folder / "g0001", place / "g0001")
    (place / ".restoring").write_text(f"fork {taken.id}")

    def full(folder, manifest):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(manifests, "save", full)
        with pytest.raises(CheckpointError, match="cannot be written to"):
            fork(local, taken, place)
    with pytest.raises(CheckpointError, match="the last fork of the job was interrupted"):
        refuse_unfinished(place)


def test_an_exchange_that_was_cut_off_is_noticed_and_a_restore_ends_it(local, job):
    taken, before = save(job, local), job.files()
    # As a kill between the two moves leaves it.
    (job.folder / ".restoring").write_text(taken.id)
    (job.folder / ".staging-0a1b" / "g0001").mkdir(parents=True)
    (job.folder / "g0001").rename(job.folder / ".trash-20261121T004512.123456Z-g0001")
    with pytest.raises(CheckpointError, match="was interrupted") as refused:
        refuse_unfinished(job.folder)
    assert taken.id in refused.value.remedy
    restore(local, taken, job.folder)
    refuse_unfinished(job.folder)
    assert job.files() == before


@pytest.mark.parametrize("moment", ["copying", "before", "behind"])
def test_a_fork_that_was_cut_off_is_noticed_and_a_fork_ends_it(local, job, tmp_path, monkeypatch, moment):
    taken, saved, fetch = save(job, local), manifests.save, restoring._fetch

    def fetched(store, file, staging, renamed):
        if not (tmp_path / "copying").exists():
            shutil.copytree(staging.parent, tmp_path / "copying")
        fetch(store, file, staging, renamed)

    def seen(folder, manifest):
        shutil.copytree(folder, tmp_path / "before")
        saved(folder, manifest)
        shutil.copytree(folder, tmp_path / "behind")

    with monkeypatch.context() as patched:
        patched.setattr(manifests, "save", seen)
        patched.setattr(restoring, "_fetch", fetched)
        whole = fork(local, taken, tmp_path / "whole", threads=1)
    # As a kill there leaves it.
    place = tmp_path / moment
    with pytest.raises(CheckpointError, match="the last fork of the job was interrupted") as refused:
        refuse_unfinished(place)
    assert refused.value.remedy == f"fork the savepoint again: {taken.id}"
    forked = fork(local, taken, place)
    refuse_unfinished(place)
    assert forked == manifests.load(place)
    assert forked.queries.keys() == whole.queries.keys()
    assert sorted(p.name for p in place.iterdir() if not p.name.startswith(".")) == ["g0001", "manifest.json"]
    with pytest.raises(CheckpointError, match="has run already"):
        fork(local, taken, place)
