"""What is written about savepoints can be trusted, and what nobody names any more goes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from traceback import format_exception

import fsspec.core
import orjson
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from rs_assets.checkpoint import manifest as manifests
from rs_assets.errors import CheckpointError, ConfigurationError, TopologyError
from rs_assets.recovery.savepoints import SavepointStore, collect_garbage, fork, model, retention, take, verify
from tests.checkpoint.fabricate import (
    START,
    SUBJECT,
    damage,
    fake_job,
    manifest_path,
    save,
)

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> bytes:
    job = fake_job(tmp_path_factory.mktemp("m") / "job", batches=1)
    store = SavepointStore(f"memory://{uuid.uuid4().hex}")
    return store.fs.cat_file(manifest_path(store, save(job, store)))


@given(data=st.data())
def test_a_manifest_with_any_bit_turned_or_cut_anywhere_is_refused_and_named(written, data):
    at = data.draw(st.integers(0, len(written) - 1))
    bit = data.draw(st.integers(0, 8))
    changed = written[:at] if bit == 8 else written[:at] + bytes([written[at] ^ (1 << bit)]) + written[at + 1 :]
    with pytest.raises(CheckpointError) as refused:
        model.decode(changed, "the-file")
    assert refused.value.facts["file"] == "the-file"
    assert refused.value.remedy


def test_a_manifest_whose_time_is_written_in_another_way_is_refused(written):
    at = written.index(b'"created_at":"') + len(b'"created_at":"2026-11-26')
    with pytest.raises(CheckpointError, match="damaged"):
        model.decode(written[:at] + b" " + written[at + 1 :], "f")


@pytest.mark.parametrize(
    "junk", [b"", b"{}", b"[]", b"null", b"7", b'{"version":1}', b"\xff\xfe", b'{"version":1,"savepoint":[]}']
)
def test_junk_is_no_manifest(junk):
    with pytest.raises(CheckpointError, match="damaged"):
        model.decode(junk, "f")


def test_another_version_is_refused(written):
    changed = orjson.dumps({**orjson.loads(written), "version": 2})
    with pytest.raises(CheckpointError, match="version 2, this release reads 1") as refused:
        model.decode(changed, "f")
    assert "release that took it" in refused.value.remedy


@pytest.mark.parametrize(
    "path",
    ["../../etc/x", "g0001/../../x", "/etc/x", "g0001//x", "g0001/./x", "g0001", "x/y", "g0001/a\0b", "g1/x", ""],
)
def test_no_manifest_leads_out_of_the_job(written, path):
    body = orjson.loads(written)["savepoint"]
    body["files"][0][0] = path
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    with pytest.raises(CheckpointError, match="damaged"):
        model.decode(orjson.dumps({"version": 1, "sha256": digest, "savepoint": body}), "f")


@pytest.mark.parametrize(
    "changes",
    [{"bytes_new": "1"}, {"batches": [1]}, {"batches": {"q": True}}, {"created_at": 5}, {"files": [[1]]}, {"more": 1},
     {"files": [["g0001/x", "../x", 1, 1]]}, {"files": [["g0001/x", "a" * 64, -1, 1]]}, {"note": None}],
)  # fmt: skip
def test_no_manifest_has_odd_content(written, changes):
    body = {**orjson.loads(written)["savepoint"], **changes}
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()
    with pytest.raises(CheckpointError, match="damaged"):
        model.decode(orjson.dumps({"version": 1, "sha256": digest, "savepoint": body}), "f")


@pytest.mark.parametrize(
    "hostile",
    [
        "../x",
        "a/b",
        "",
        ".",
        "20261121T004512.123456Z-b000003-0a1b2c/..",
        "x" * 300,
        "20261121T004512.123456Z-b000003-0a1b2c\n",
    ],
)
def test_ids_with_path_characters_are_refused(store, hostile):
    with pytest.raises(ConfigurationError, match="not the id of a savepoint"):
        store.load("shop", "clicks", hostile)
    with pytest.raises(TopologyError):
        store.ids(hostile, "clicks")
    with pytest.raises(TopologyError):
        store.ids("shop", hostile)


def test_an_id_that_is_not_there_is_an_error_that_says_so(store):
    with pytest.raises(CheckpointError, match=r"no savepoint .* of shop\.clicks"):
        store.load("shop", "clicks", "20261121T004512.123456Z-b000003-0a1b2c")


def test_a_manifest_under_another_id_or_job_is_refused(local, job):
    taken = save(job, local)
    data = local.fs.cat_file(manifest_path(local, taken))
    for other in (replace(taken, id=taken.id[:-6] + "000000"), replace(taken, job="other")):
        path = Path(manifest_path(local, other))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match="damaged"):
            local.load(other.namespace, other.job, other.id)
    (Path(manifest_path(local, taken)).parent / "notes.json").write_text("mine")
    assert len(local.ids("shop", "clicks")) == 2


def test_a_damaged_savepoint_does_not_keep_from_taking_the_next(store, job):
    first = save(job, store, now=START)
    damage(store, manifest_path(store, first), "short")
    second = save(job, store, now=START + HOUR)
    assert second.bytes_new == 0
    assert verify(store, second) == []
    with pytest.raises(CheckpointError, match="damaged"):
        store.savepoints("shop", "clicks")


@pytest.mark.parametrize("uri", ["", "  ", "nosuch://key:secret@bucket/x"])
def test_an_address_that_cannot_be_used_is_refused_without_its_secrets(uri):
    with pytest.raises(ConfigurationError) as refused:
        SavepointStore(uri)
    assert "secret" not in str(refused.value)


def test_nothing_of_a_password_is_in_the_traces_of_an_address_that_cannot_be_used():
    uri = "github://me:repository@host:s3cret/points"
    with pytest.raises(ConfigurationError) as refused:
        SavepointStore(uri)
    assert "s3cret" not in "".join(format_exception(refused.value))


def test_a_server_that_does_not_answer_is_named_without_who_logs_in(monkeypatch):
    def away(*_, **__):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(fsspec.core, "url_to_fs", away)
    uri = "ftp://me:s3cret@host/points"
    with pytest.raises(CheckpointError, match="cannot be reached: Connection refused") as refused:
        SavepointStore(uri)
    assert refused.value.facts["address"] == "ftp://***@host/points"
    assert "s3cret" not in "".join(format_exception(refused.value))


def test_the_newest_are_kept_by_number_and_by_age(store, job):
    taken = [save(job, store, now=START + n * HOUR) for n in range(6)]
    now = START + 6 * HOUR
    gone = retention(store, "shop", "clicks", keep=4, now=now)
    assert gone.savepoints == (taken[1].id, taken[0].id)
    gone = retention(store, "shop", "clicks", keep=4, max_age=2.5 * HOUR, now=now)
    assert gone.savepoints == (taken[3].id, taken[2].id)
    gone = retention(store, "shop", "clicks", keep=1, max_age=timedelta(0), now=now + 1000 * HOUR)
    assert gone.savepoints == (taken[4].id,)
    assert store.savepoints("shop", "clicks") == (taken[5],)
    with pytest.raises(ConfigurationError, match="at least one"):
        retention(store, "shop", "clicks", keep=0)


def test_the_one_just_taken_is_the_newest_although_the_clock_was_set_back(store, job):
    older = [save(job, store, now=START + n * HOUR) for n in range(3)]
    job.batches(4)
    taken = save(job, store, now=START - HOUR)
    assert store.savepoints("shop", "clicks")[0] == taken
    gone = retention(store, "shop", "clicks", keep=3, taken=taken)
    assert gone.savepoints == (older[0].id,)
    again = save(job, store, now=START - 2 * HOUR)
    assert again.id not in retention(store, "shop", "clicks", keep=1, taken=again).savepoints
    assert again in store.savepoints("shop", "clicks"), "it is as far as the one before, and the clock says it is older"


def test_a_generation_is_later_than_all_before_it(store, job):
    before = save(job, store, now=START + HOUR)
    fresh = job.reset("window")
    fresh.batch(0)
    behind = save(job, store, now=START)
    assert behind.batches["window"] < before.batches["window"]
    assert store.savepoints("shop", "clicks") == (behind, before)


def test_each_pipeline_of_a_name_keeps_its_own_savepoints(store, job, tmp_path):
    prod = save(job, store, now=START)
    other = fake_job(tmp_path / "dev" / "clicks")
    dev = [save(other, store, now=START + n * HOUR) for n in range(1, 4)]
    gone = retention(store, "shop", "clicks", keep=2, taken=dev[-1])
    assert gone.savepoints == (dev[0].id,)
    assert set(store.ids("shop", "clicks")) == {prod.id, dev[1].id, dev[2].id}
    assert retention(store, "shop", "clicks", keep=1).savepoints == (dev[1].id,)
    assert set(store.ids("shop", "clicks")) == {prod.id, dev[2].id}


def test_objects_stay_as_long_as_any_savepoint_of_any_job_names_them(store, job, tmp_path):
    first = save(job, store, now=START)
    job.batches(4)
    second = save(job, store, now=START + HOUR)
    fork(store, first, tmp_path / "forked")
    other = replace(SUBJECT, job="forked")
    forked = take(tmp_path / "forked", manifests.load(tmp_path / "forked"), store=store, subject=other)
    assert retention(store, "shop", "clicks", keep=1).savepoints == (first.id,)
    later = datetime.now(UTC) + 2 * HOUR
    named = {f.sha256 for s in (second, forked) for f in s.files}
    only_first = {f.sha256: f.size_bytes for f in first.files if f.sha256 not in named}
    removed = collect_garbage(store, now=later)
    assert (removed.objects, removed.bytes) == (len(only_first), sum(only_first.values()))
    assert verify(store, second) == verify(store, forked) == []
    store.remove(forked)
    assert collect_garbage(store, now=later).objects > 0
    assert verify(store, second) == []
    assert {path.rpartition("/")[2] for path in store.objects()} == {f.sha256 for f in second.files}


def test_young_objects_and_files_being_written_are_left_alone(store, job):
    taken = save(job, store)
    store.fs.pipe_file(f"{store.path}/incoming/0a1b", b"half")
    store.remove(taken)
    assert collect_garbage(store).objects == 0
    assert len(store.objects()) > 10
    assert collect_garbage(store, now=datetime.now(UTC) + 2 * HOUR).objects == len({f.sha256 for f in taken.files}) + 1
    assert store.objects() == {}
    assert not list(store.leftovers())


def test_nothing_is_collected_while_a_savepoint_is_taken(store, job):
    taken = save(job, store)
    store.remove(taken)
    with store.announced("taking"):
        assert collect_garbage(store, now=datetime.now(UTC) + 2 * HOUR).postponed
    assert len(store.objects()) > 10


def test_no_savepoint_is_taken_while_objects_are_removed(store, job, monkeypatch):
    monkeypatch.setattr("rs_assets.recovery.savepoints.copy.PATIENCE", timedelta(seconds=0.2))
    with store.announced("collecting"), pytest.raises(CheckpointError, match="being removed") as refused:
        save(job, store)
    assert "try again" in refused.value.remedy
    assert save(job, store).bytes_new > 0


def test_who_was_killed_at_work_is_not_waited_for(local, job):
    (marker,) = [Path(local.path) / "work" / "collecting-0a1b"]
    marker.parent.mkdir(parents=True)
    marker.touch()
    os.utime(marker, (0, 0))
    save(job, local)


def test_work_of_a_process_that_is_gone_is_not_waited_for(local, job):
    taken = save(job, local)
    local.remove(taken)
    program = f"""
import os
from rs_assets.recovery.savepoints import SavepointStore
with SavepointStore({local.path!r}).announced("taking"):
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    assert len(list(Path(local.path, "work").iterdir())) == 1
    done = collect_garbage(local, now=datetime.now(UTC) + 2 * HOUR)
    assert not done.postponed
    assert done.objects > 10


def test_nothing_is_removed_when_a_savepoint_cannot_be_read(store, job):
    first = save(job, store, now=START)
    job.batches(4)
    second = save(job, store, now=START + HOUR)
    damage(store, manifest_path(store, second), "flipped")
    objects = store.objects()
    with pytest.raises(CheckpointError, match="damaged"):
        retention(store, "shop", "clicks", keep=1)
    with pytest.raises(CheckpointError, match="damaged"):
        collect_garbage(store, now=datetime.now(UTC) + 2 * HOUR)
    assert store.objects() == objects
    assert verify(store, first) == []


def test_a_store_without_times_collects_nothing(job, monkeypatch):
    store = SavepointStore(f"memory://{uuid.uuid4().hex}")
    taken = save(job, store)
    store.remove(taken)

    def unknown(self, path):
        raise NotImplementedError

    monkeypatch.setattr(MemoryFileSystem, "modified", unknown)
    with pytest.raises(ConfigurationError, match="does not report the age"):
        collect_garbage(store)
