"""A savepoint is taken while a query runs: it is whole or it is refused."""

from __future__ import annotations

import errno
import json
import os
import random
from datetime import timedelta
from pathlib import Path

import pytest

from rs_assets.checkpoint import manifest as manifests
from rs_assets.errors import CheckpointError
from rs_assets.recovery.rewinding import rewindable
from rs_assets.recovery.savepoints import Savepoint, SavepointStore, restore, take, verify
from rs_assets.recovery.savepoints import store as store_module
from tests.checkpoint.fabricate import (
    START,
    SUBJECT,
    damage,
    fake_job,
    noise,
    remove,
    save,
    write,
)

HOUR = timedelta(hours=1)


def paths(savepoint: Savepoint) -> set[str]:
    return {file.path for file in savepoint.files}


class Meddling(SavepointStore):
    """A store during whose work, once, something happens to the job."""

    def meddle(self, before: int, act) -> None:
        self.before, self.act = before, act

    def put(self, stream):
        self.before -= 1
        if self.before == 0:
            self.act()
        return super().put(stream)


def test_a_savepoint_says_what_it_is_of_and_is_found_again(store, job):
    taken = save(job, store, now=START)
    assert taken.id.startswith("20261121T004512.123456Z-b000003-")
    assert (taken.namespace, taken.job, taken.fingerprint) == ("shop", "clicks", "f1")
    assert (taken.note, taken.run_id, taken.created_at) == ("before the change", "r1", START)
    assert taken.pipeline_id == job.manifest.pipeline_id
    assert taken.batches == {"window": 3, "rows": 3}
    assert taken.bytes_total == sum(f.size_bytes for f in taken.files)
    assert taken.bytes_new == sum({f.sha256: f.size_bytes for f in taken.files}.values())
    assert store.load("shop", "clicks", taken.id) == taken
    assert verify(store, taken) == []


def test_savepoints_are_listed_newest_first(store, job):
    taken = [save(job, store, now=START + n * HOUR) for n in (1, 0, 2)]
    assert [s.id for s in store.savepoints("shop", "clicks")] == [taken[n].id for n in (2, 0, 1)]
    assert store.savepoints("shop", "other") == ()


def test_every_file_is_saved_but_what_is_not_committed_and_what_is_temporary(local, job):
    expected = {path for path in job.files() if path != "manifest.json"}
    window = job.queries["window"]
    window.plan(4)
    window.change(5)
    window.change(6)
    window.snapshot(6)
    for name in ("offsets/.5.0a1b.tmp", "offsets/..5.0a1b.tmp.crc", "state/0/0/.7.changelog.0a1b.tmp", "commits/9.tmp"):
        (window.checkpoint / name).write_text("half")
    (window.folder / "control" / ".0a1b").write_text("half")
    taken = save(job, local)
    extra = {path for path in paths(taken) - expected if "/SSTs/" not in path}
    assert expected <= paths(taken)
    assert extra == {f"g0001/window/checkpoint/sources/file/{name}" for name in ("4", ".4.crc")}


def test_only_the_queries_and_generations_that_the_manifest_goes_on_with_are_saved(local, job):
    fresh = job.reset("window")
    fresh.batch(0)
    taken = save(job, local)
    assert {path.rsplit("/checkpoint")[0] for path in paths(taken)} == {"g0001/rows", "g0002/window"}
    assert taken.batches == {"window": 0, "rows": 3}


def test_progress_is_told_to_the_end(local, job):
    told = []
    taken = save(job, local, on_progress=told.append)
    ends = [p for p in told if p.files == p.files_total]
    assert [p.query for p in ends] == ["rows", "window"]
    assert sum(p.bytes for p in ends) == sum(p.bytes_total for p in ends) == taken.bytes_total
    assert sum(p.files_total for p in ends) == len(taken.files)


def test_a_second_savepoint_copies_and_reads_only_what_is_new(store, job):
    window = job.queries["window"]
    window.snapshot(3, table_bytes=400_000)
    first = save(job, store)
    before = job.files()
    job.batches(4)
    new = {path: data for path, data in job.files().items() if path not in before}
    read = []
    put = store.put
    store.put = lambda stream: read.append(stream.name) or put(stream)
    second = save(job, store)
    assert second.bytes_new == sum(map(len, set(new.values())))
    assert second.bytes_new < first.bytes_new / 100
    # Nothing of the old state was opened again.
    assert {Path(name).name for name in read if "/state/" in name} == {"5.changelog", ".5.changelog.crc"}
    assert verify(store, second) == []


def test_state_that_was_rewritten_is_read_again_though_name_and_size_are_the_same(local, job):
    save(job, local)
    window = job.queries["window"]
    window.life = "another/"
    window.change(4)
    taken = save(job, local)
    restored = restore(local, taken, job.folder.parent / "copy")
    data = (job.folder.parent / "copy/g0001/window/checkpoint/state/0/0/4.changelog").read_bytes()
    assert restored == job.manifest
    assert data == noise("another/checkpoint/state/0/0/4", 200)


def test_an_object_that_is_gone_or_cut_off_is_written_again(store, job):
    first = save(job, store)
    lost = {f.sha256: f.size_bytes for f in first.files if f.path.endswith(("2.changelog", "offsets/1"))}
    for number, sha256 in enumerate(lost):
        damage(store, store.object_path(sha256), ("gone", "short")[number % 2])
    assert len(verify(store, first)) == 4
    second = save(job, store)
    assert verify(store, second) == verify(store, first) == []
    assert second.bytes_new == sum(lost.values())


def test_large_files_are_copied_in_pieces(store, job, monkeypatch):
    monkeypatch.setattr(store_module, "CHUNK_BYTES", 64)
    taken = save(job, store)
    assert verify(store, taken) == []
    assert save(job, store).bytes_new == 0
    assert not list(store.leftovers())
    before = job.files()
    restore(store, taken, job.folder)
    assert job.files() == before


@pytest.mark.parametrize("at", range(1, 60, 4))
def test_what_spark_cleans_up_meanwhile_does_not_matter(tmp_path, job, at):
    window, rows = job.queries["window"], job.queries["rows"]
    job.batches(4, 5, 6)
    window.snapshot(4)

    def clean() -> None:
        for query in (window, rows):
            query.clean(4)
            query.compact(6)
            query.batch(7)

    store = Meddling(str(tmp_path / "store"))
    store.meddle(at, clean)
    taken = save(job, store, threads=1)
    copy = tmp_path / "copy"
    restore(store, taken, copy)
    for name, last in taken.batches.items():
        assert last in (6, 7)
        checkpoint = copy / "g0001" / name / "checkpoint"
        assert last in rewindable(checkpoint)
        assert not (checkpoint / f"offsets/{last + 1}").exists()
        assert planned(checkpoint) >= set(range(last + 1))


def planned(checkpoint: Path) -> set[int]:
    """The batches that the log of the file source speaks of."""
    lines = [
        line
        for log in (checkpoint / "sources/file").glob("[0-9]*")
        for line in log.read_text().splitlines()
        if line.startswith("{")
    ]
    return {json.loads(line)["batchId"] for line in lines}


@pytest.mark.parametrize("seed", range(12))
def test_a_query_that_runs_and_cleans_up_all_the_while_is_saved_at_a_batch_that_it_had(tmp_path, job, seed):
    """Between any two files that are copied the query does its next step; the copy can always be started from."""
    window = job.queries["window"]
    chance, steps = random.Random(seed), iter(range(4, 1000))
    window.snapshot(2)

    class Busy(SavepointStore):
        def put(self, stream):
            if chance.random() < 0.06:
                batch = next(steps)
                window.batch(batch)
                if batch % 3 == 0:
                    window.snapshot(batch)
                    window.clean(batch - 12)
            return super().put(stream)

    store = Busy(str(tmp_path / "store"))
    taken = save(job, store, threads=1)
    restore(store, taken, tmp_path / "copy")
    checkpoint = tmp_path / "copy/g0001/window/checkpoint"
    last = taken.batches["window"]
    assert last == rewindable(checkpoint)[-1] == max(int(p.name) for p in (checkpoint / "offsets").glob("[0-9]*"))
    versions = {int(p.name.partition(".")[0]) for p in (checkpoint / "state/0/0").glob("[0-9]*.*")}
    assert max(versions) == last + 1


def test_a_file_that_is_replaced_while_it_is_copied_is_copied_anew(tmp_path, job):
    plan = job.queries["rows"].checkpoint / "offsets/3"

    def pin() -> None:
        plan.with_name(".3.crc").unlink()
        plan.write_text(plan.read_text().replace('"2"', '"200"'))

    store = Meddling(str(tmp_path / "store"))
    store.meddle(12, pin)
    taken = save(job, store, threads=1)
    restore(store, taken, tmp_path / "copy")
    copy = tmp_path / "copy/g0001/rows/checkpoint/offsets"
    assert (copy / "3").read_bytes() == plan.read_bytes()
    assert not (copy / ".3.crc").exists()


@pytest.mark.parametrize(
    "name", ["metadata", "commits/3", "offsets/3", "offsets/2", "state/0/1/4.changelog", "state/0/0/1.changelog"]
)
def test_a_file_that_is_needed_and_gone_is_an_error_that_names_it(local, job, name):
    remove(job.queries["window"].checkpoint / name)
    if name == "commits/3":
        # Then batch 2 was the last one, and its state is there.
        assert save(job, local).batches["window"] == 2
        return
    with pytest.raises(CheckpointError, match="the query window cannot be saved") as refused:
        save(job, local)
    place = name.removesuffix(".changelog")
    assert (place in str(refused.value)) or "lacks version" in str(refused.value)
    assert local.ids("shop", "clicks") == ()


def test_state_that_is_gone_altogether_is_an_error(local, job):
    for file in sorted((job.queries["window"].checkpoint / "state").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    with pytest.raises(CheckpointError, match="state is missing"):
        save(job, local)


def test_a_checkpoint_that_is_gone_is_an_error(local, job):
    job.queries["window"].folder.rename(job.folder / "elsewhere")
    with pytest.raises(CheckpointError, match="checkpoint of the query window is missing"):
        save(job, local)


def test_a_file_that_vanishes_for_good_while_it_is_copied_is_an_error(tmp_path, job):
    store = Meddling(str(tmp_path / "store"))
    store.meddle(3, lambda: remove(job.queries["window"].checkpoint / "metadata"))
    with pytest.raises(CheckpointError, match=r"window cannot be saved: .*metadata is missing"):
        save(job, store, threads=1)


def test_nothing_committed_is_an_error_and_a_query_that_only_begins_is_not(local, tmp_path):
    made = fake_job(tmp_path / "young", batches=0)
    with pytest.raises(CheckpointError, match="no batch of the job is committed"):
        save(made, local)
    made.queries["rows"].batch(0)
    made.queries["window"].plan(0)
    taken = save(made, local)
    assert taken.batches == {"rows": 0, "window": -1}
    assert "g0001/window/checkpoint/offsets/0" not in paths(taken)
    made.queries["window"].plan(1)
    with pytest.raises(CheckpointError, match="batch 1 is planned, but none is committed"):
        save(made, local)


@pytest.mark.parametrize("folder", ["nothing", "empty"])
def test_a_job_that_never_ran_is_an_error(local, tmp_path, folder):
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="no checkpoint to save"):
        take(tmp_path / folder, manifests.Manifest.new(), store=local, subject=SUBJECT)


def test_links_and_names_that_cannot_be_kept_are_refused(local, job):
    checkpoint = job.queries["rows"].checkpoint
    (checkpoint / "sources/link").symlink_to("/etc")
    with pytest.raises(CheckpointError, match="'link', which a savepoint cannot store"):
        save(job, local)
    (checkpoint / "sources/link").unlink()
    Path(os.fsdecode(os.fsencode(checkpoint / "sources") + b"/\xff")).write_text("x")
    with pytest.raises(CheckpointError, match="which a savepoint cannot store"):
        save(job, local)


def test_a_full_store_is_an_error_and_leaves_no_savepoint(local, job, monkeypatch):
    def full(stream):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local, "put", full)
    with pytest.raises(CheckpointError, match="cannot be stored: No space left"):
        save(job, local)
    assert local.ids("shop", "clicks") == ()
    assert not local.at_work("taking", within=HOUR)


def test_many_threads_may_store_the_same_content(store, job):
    for number in range(40):
        write(job.queries["rows"].checkpoint / f"sources/same/{number}", noise("same", 5000))
    taken = save(job, store, threads=8)
    assert verify(store, taken) == []
    contents = {f.sha256: f.size_bytes for f in taken.files}
    assert taken.bytes_new == sum(contents.values())
    assert len(store.objects()) == len(contents)


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_savepoint_is_taken_behind_a_rescale(local, job, partitions):
    window = job.queries["window"]
    window.rescale(4, partitions)
    window.batch(5)
    taken = save(job, local)
    assert taken.batches == {"window": 5, "rows": 3}
    assert verify(local, taken) == []
    (window.checkpoint / f"state/0/{partitions - 1}/6.changelog").unlink()
    with pytest.raises(CheckpointError, match=f"state/0/{partitions - 1} lacks version 6"):
        save(job, local)
