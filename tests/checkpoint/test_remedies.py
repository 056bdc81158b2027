"""What errors of checkpoints and savepoints advise, done to the letter: then they are sound, or another one is used."""

from __future__ import annotations

import re
import shutil

import pytest
from fsspec import AbstractFileSystem

from rs_assets.errors import ConfigurationError, RsError
from rs_assets.recovery.rewinding import rewind
from rs_assets.recovery.savepoints import fork, restore
from tests.checkpoint.broken import errors, free_bytes, look, made, offsets_text, only
from tests.checkpoint.fabricate import FakeQuery, damage, fake_job, manifest_path, save


def refused(call, *arguments):
    with pytest.raises(RsError) as error:
        call(*arguments)
    return error.value


def test_a_batch_within_the_span_that_is_named_is_gone_back_to(tmp_path):
    query = FakeQuery(tmp_path / "q").begin()
    for batch in range(8):
        query.batch(batch)
    query.snapshot(5)
    query.clean(4)
    remedy = refused(rewind, query.checkpoint, 1).remedy
    first, last = map(int, re.search(r"reach back to the batches (\d+) to (\d+); restore a savepoint", remedy).groups())
    assert rewind(query.checkpoint, last) == ()
    assert rewind(query.checkpoint, first) == tuple(range(last, first, -1))


def test_a_savepoint_is_taken_after_the_first_batch(local, tmp_path):
    job = fake_job(tmp_path / "rs" / "shop" / "clicks", batches=0)
    assert refused(save, job, local).remedy == "take it after the first batch"
    job.batches(0)
    assert save(job, local).batches == {"window": 0, "rows": 0}


def test_another_savepoint_is_used_when_the_file_of_a_damaged_one_is_removed(local, job):
    older = save(job, local)
    job.batches(4)
    newer = save(job, local)
    damage(local, manifest_path(local, newer), "bit")
    error = refused(local.load, newer.namespace, newer.job, newer.id)
    assert error.remedy == "use another savepoint, and remove this file"
    assert newer.id in str(error.facts["file"])
    local.remove_file(manifest_path(local, newer))
    assert local.savepoints("shop", "clicks") == (older,)
    assert restore(local, older, job.folder)


def test_a_savepoint_of_another_pipeline_is_forked_into_a_job_that_has_not_run(local, job, tmp_path):
    taken, other = save(job, local), fake_job(tmp_path / "other")
    assert refused(restore, local, taken, other.folder).remedy == "fork the savepoint into a job of its own"
    remedy = refused(fork, local, taken, other.folder).remedy
    assert remedy == "fork into a job that has not run, or move its folder away"
    assert fork(local, taken, tmp_path / "new").pipeline_id != taken.pipeline_id
    other.folder.rename(tmp_path / "away")
    assert fork(local, taken, other.folder).generation == 1


@pytest.mark.parametrize("how", ["gone", "bit", "short"])
def test_a_spoilt_object_is_brought_back_or_another_savepoint_is_restored(local, job, how):
    older = save(job, local)
    job.batches(4)
    newer = save(job, local)
    known = {file.sha256 for file in older.files}
    sha256 = next(file.sha256 for file in newer.files if file.sha256 not in known)
    whole = f"{local.path}/objects/{sha256[:2]}/{sha256}"
    content = local.fs.cat_file(whole)
    damage(local, whole, how)
    error = refused(restore, local, newer, job.folder)
    assert error.remedy == "restore another savepoint, or bring the object back"
    assert restore(local, older, job.folder)
    local.fs.pipe_file(whole, content)
    assert restore(local, newer, job.folder)


class Timeless(AbstractFileSystem):
    """A file system that has no times, as some have."""

    protocol = "timeless"


def test_the_age_of_files_is_known_on_a_disk(local, monkeypatch):
    path = f"{local.path}/a"
    local.fs.makedirs(local.path)
    local.fs.pipe_file(path, b"x")
    monkeypatch.setattr(local, "fs", Timeless())
    error = refused(local.modified, path)
    assert (type(error), error.remedy) == (ConfigurationError, "keep savepoints on a disk or in an object store")
    monkeypatch.undo()
    assert local.modified(path) is not None


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    free_bytes(monkeypatch)
    return made(tmp_path / "c", pending=True)


def lose_a_source(checkpoint):
    checkpoint.write("offsets/4", offsets_text(4, {"file": '{"logOffset":4}'}))


def lose_batches(checkpoint):
    checkpoint.remove("commits/3")
    for batch in (3, 4):
        checkpoint.remove(f"offsets/{batch}")


def lose_state(checkpoint):
    checkpoint.remove(f"{checkpoint.place(0)}/2.changelog")


def lose_nothing(checkpoint):
    checkpoint.expect(sinks={"table": 9}, sinks_seen={"table": 3})


@pytest.mark.parametrize(
    ("lose", "words"),
    [
        (lose_a_source, "restore it from a copy of the checkpoint"),
        (lose_batches, "restore the checkpoint or a savepoint"),
        (lose_state, "restore the state from a copy of the checkpoint"),
    ],
)
def test_a_checkpoint_is_sound_that_is_restored_from_a_copy(checkpoint, tmp_path, lose, words):
    shutil.copytree(checkpoint.folder, tmp_path / "copy")
    lose(checkpoint)
    assert any(words in finding.remedy for finding in look(checkpoint))
    shutil.rmtree(checkpoint.folder)
    (tmp_path / "copy").rename(checkpoint.folder)
    assert look(checkpoint) == ()


@pytest.mark.parametrize("lose", [lose_a_source, lose_batches, lose_state])
def test_a_checkpoint_that_is_lost_is_sound_as_a_new_generation(checkpoint, tmp_path, lose):
    lose(checkpoint)
    assert all("--new-generation" in finding.remedy for finding in look(checkpoint))
    anew = made(tmp_path / "anew", batches=0)
    anew.expect(sinks={"table": -1}, sinks_seen={}, generation=2)
    assert look(anew) == ()


def test_a_source_that_was_added_again_has_another_name(checkpoint):
    """Batch 3 has no line of `feed`, which is there again: as `feed2` nothing of it was read."""
    checkpoint.write("offsets/4", offsets_text(4, {"file": '{"logOffset":4}'}))
    assert "a source that was removed and added again needs another name" in only(checkpoint).remedy
    checkpoint.expect(sources=("file", "feed2"))
    assert errors(checkpoint) == []


def test_a_pipeline_writes_to_a_location_of_its_own_where_another_one_has_written(checkpoint):
    lose_nothing(checkpoint)
    assert "if another pipeline wrote there, write to a location of its own" in only(checkpoint).remedy
    checkpoint.expect(sinks={"table": 3}, sinks_seen={"table": 3})
    assert look(checkpoint) == ()
