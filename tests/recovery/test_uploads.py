"""Uploaded checkpoints: a home that is lost at any moment continues in another one, without a row lost or doubled."""

import importlib
import shutil
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.checkpoint import manifest as manifests
from rs_assets.errors import CheckpointError, ConfigurationError, LeaseLostError, PipelineBusyError
from rs_assets.recovery.savepoints.copy import Copier
from rs_assets.recovery.savepoints.listing import Listed
from rs_assets.recovery.savepoints.store import SavepointStore
from rs_assets.recovery.uploads import UploadId, UploadStore, pipelines_of
from rs_assets.recovery.uploads import uploader as uploading
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.options import SavepointPolicy
from rs_assets.runtime.upkeep import uploads
from rs_assets.runtime.upkeep.uploads import check_uploads
from tests.checkpoint.fabricate import FakeQuery
from tests.recovery.homes import FakeHome

# The package has a function of that name.
restoring = importlib.import_module("rs_assets.recovery.savepoints.restore")
TTL = timedelta(milliseconds=600)


class Killed(BaseException):
    """The driver ends at this point."""


@pytest.fixture
def home(tmp_path):
    (tmp_path / "in").mkdir()
    return FakeHome(tmp_path / "prod", tmp_path / "tables", tmp_path / "store", upload=True)


def lose(home):
    shutil.rmtree(home.root)


def uploads_of(home):
    (pipeline,) = pipelines_of(str(home.store), "shop", "trip")
    return UploadStore(str(home.store), "shop", "trip", pipeline)


def test_a_lost_home_continues_where_it_was(home):
    home.start(3)
    lost = home.manifest
    lose(home)
    home.start(2)
    assert home.rows() == [0, 1, 2, 3, 4]
    assert (home.manifest.pipeline_id, home.manifest.generation) == (lost.pipeline_id, 1)
    assert home.manifest.token > lost.token


def test_a_home_lost_before_its_first_batch_begins_again(home):
    with opened(home.pipeline.topology, home.options):
        lost = home.manifest
    shutil.rmtree(home.folder)
    home.start(2)
    assert home.rows() == [0, 1]
    assert (home.manifest.pipeline_id, home.manifest.generation) == (lost.pipeline_id, 2)


def test_a_lost_home_whose_rows_are_there_and_whose_uploads_are_not_is_refused(home):
    home.start(1)
    shutil.rmtree(home.folder)
    shutil.rmtree(home.store)
    with pytest.raises(CheckpointError, match=r"the checkpoint of shop\.trip is gone; the catalog has generation 1"):
        home.start()
    assert home.rows() == [0]


def test_it_continues_at_another_path(home, tmp_path):
    home.start(2)
    other = replace(home, root=tmp_path / "other")
    other.start(2)
    assert home.rows() == [0, 1, 2, 3]
    with pytest.raises(CheckpointError, match="written to since by a start that is not in the checkpoint"):
        replace(home, upload=False).start()


def test_two_homes_take_turns(home, tmp_path):
    """The first one is outdated when it is started again: it continues from the uploads of the second."""
    other = replace(home, root=tmp_path / "other")
    for turn in range(3):
        home.start(1)
        other.start(1)
        assert home.rows() == [*range(2 * turn + 2)]
    assert home.manifest.pipeline_id == other.manifest.pipeline_id
    assert home.manifest.generation == 1


def test_an_outdated_home_begins_anew_if_that_is_asked_for(home, tmp_path):
    other = replace(home, root=tmp_path / "other")
    home.start(1)
    other.start(1)
    home.start(1, new_generation=True)
    assert home.rows() == [0]
    assert home.manifest.generation == 2


def test_a_lost_checkpoint_folder_continues_too(home):
    home.start(3)
    shutil.rmtree(home.folder)
    home.start()
    assert home.rows() == [0, 1, 2, 3]


@pytest.mark.parametrize("point", ["planned", "uploaded", "half written", "written"])
def test_a_home_lost_within_a_batch_continues_with_that_batch(home, point, monkeypatch):
    """The kill leaves no row of the batch, those of one of two outputs, or all."""
    home = replace(home, sinks=("out", "more"))
    home.start(2)
    _killed_in_batch(home, point, monkeypatch)
    lose(home)
    home.start(2)
    assert home.rows() == home.rows("more") == [0, 1, 2, 3]


def _killed_in_batch(home, point, monkeypatch):
    def one_batch(self, session, query, batch):
        (plan,) = session.plans
        query.plan(batch)
        if point == "planned":
            raise Killed
        upload = session.uploader.of(session.folders[plan.name])
        upload.begin()
        upload.wait()
        written = {"uploaded": (), "half written": ("out",), "written": ("out", "more")}[point]
        for sink in written:
            self.write(session, sink, batch)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(FakeHome, "one_batch", one_batch)
        with pytest.raises(Killed):
            home.start()


def test_a_home_that_lives_is_not_taken_over(home, tmp_path, monkeypatch):
    other = replace(home, root=tmp_path / "other")
    home.start()
    monkeypatch.setattr(uploads, "BEATS", 150)
    alive = opened(home.pipeline.topology, home.options)
    with alive, pytest.raises(PipelineBusyError, match="runs in another home") as refused:
        other.start()
    assert refused.value.facts["home"].endswith(str(home.root))
    other.start()
    assert home.rows() == [0, 1]


def test_a_silent_home_is_fenced_off(home, tmp_path, monkeypatch):
    """It was paused, not lost: its next batch reaches neither the store nor an output."""
    other = replace(home, root=tmp_path / "other")
    home.start()
    monkeypatch.setattr(uploads, "BEATS", 0.001)
    with opened(home.pipeline.topology, replace(home.options, lease_ttl=TTL)) as session:
        (plan,) = session.plans
        query = FakeQuery(session.query_folder(plan), partitions=0, control=False)
        other.start(1, lease_ttl=TTL)
        with pytest.raises(LeaseLostError, match="was continued from its uploads in another home"):
            home.one_batch(session, query, 1)
    assert home.rows() == [0, 1]
    other.start()
    assert home.rows() == [0, 1, 2]


def test_outputs_have_the_fence_before_the_other_home_writes(home, tmp_path, monkeypatch):
    """What is read from the store after that is not behind the outputs."""
    other = replace(home, root=tmp_path / "other")
    home.start(2)
    lost = home.manifest
    fence = f"{lost.pipeline_id}/fence/out"
    fenced = []

    def restored(store, content, *how, **more):
        fenced.append(DeltaTable(str(home.outputs / "out")).transaction_version(fence))
        raise Killed

    monkeypatch.setattr(uploads, "restore_savepoint", restored)
    with pytest.raises(Killed):
        other.start()
    assert fenced[0] > lost.token


class CutOff(ExitStack):
    """A kill undoes nothing."""

    def __exit__(self, *_):
        return False


def test_an_interrupted_recovery_is_repeated_by_the_next_start(home, monkeypatch):
    home.start(2)
    lose(home)
    with monkeypatch.context() as patched:
        patched.setattr(manifests, "save", _killed)
        patched.setattr(restoring, "ExitStack", CutOff)
        with pytest.raises(Killed):
            home.start()
    assert (home.folder / ".restoring").exists()
    home.start()
    assert home.rows() == [0, 1, 2]


def _killed(*_):
    raise Killed


def test_an_interrupted_recovery_without_uploads_is_refused(home):
    home.start()
    (home.folder / ".restoring").write_text("recovery 20261121T004512.123456Z-b000042-0a1b2c")
    with pytest.raises(CheckpointError, match="recovery of the job from its uploads was interrupted") as refused:
        replace(home, upload=False).start()
    assert "RS_UPLOAD=1" in refused.value.remedy
    home.start()
    assert home.rows() == [0, 1]


def test_damaged_content_is_refused(home):
    home.start(2)
    lose(home)
    path = next(path for path in (home.store / "uploads").rglob("*") if "/objects/" in str(path) and path.is_file())
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(CheckpointError, match="wrong digest"):
        home.start()
    assert not home.folder.exists()


def test_only_what_is_needed_stays_in_the_store(home, monkeypatch):
    monkeypatch.setattr(uploading, "TIDY_EVERY", timedelta(0))
    monkeypatch.setattr(uploading, "READ_WITHIN", timedelta(0))
    with opened(home.pipeline.topology, home.options) as session:
        (plan,) = session.plans
        query = FakeQuery(session.query_folder(plan), partitions=2, control=False).begin()
        for batch in range(12):
            home.one_batch(session, query, batch)
            query.change(batch + 1)
            if batch % 5 == 4:
                query.snapshot(batch + 1)
            session.uploader.committed()
    kept = uploads_of(home)
    assert kept.ids()[-1] == UploadId(1, 12)
    assert len(kept.ids()) <= uploading.KEPT + 1
    needed = {file.sha256 for file in kept.newest().content.files}
    stored = {path.rpartition("/")[2] for path in kept.store.objects()}
    assert needed <= stored
    assert len(stored - needed) < 12
    states = [file.path for file in kept.newest().content.files if file.path.endswith(".changelog")]
    assert {path.rpartition("/")[2] for path in states} == {"10.changelog", "11.changelog"}


def test_what_the_upload_before_needs_stays_for_its_readers_however_long_it_was_the_newest(home, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(uploading.time, "monotonic", lambda: clock[0])
    with opened(home.pipeline.topology, home.options) as session:
        (plan,) = session.plans
        query = FakeQuery(session.query_folder(plan), partitions=2, control=False).begin()
        for batch in range(7):
            before = uploads_of(home).newest() if batch else None
            clock[0] += 3_600
            home.one_batch(session, query, batch)
            query.change(batch + 1)
            query.snapshot(batch + 1)
            session.uploader.committed()
            # Waits for its thread.
            session.uploader.begin_again()
            stored = {path.rpartition("/")[2] for path in uploads_of(home).store.objects()}
            assert before is None or {file.sha256 for file in before.content.files} <= stored


def test_the_store_is_tried_again_and_then_the_batch_fails(home, monkeypatch):
    home.start()
    saved, tries = SavepointStore.write, []

    def write(self, path, data):
        if "manifests" in path and path.endswith(".json"):
            tries.append(path)
            if len(tries) == 1:
                raise OSError(5, "store is away")
        saved(self, path, data)

    monkeypatch.setattr(SavepointStore, "write", write)
    home.start()
    assert home.rows() == [0, 1]


def test_a_store_that_stays_away_holds_the_batch(home, monkeypatch):
    home.start()

    def write(self, path, data):
        if "manifests" in path and path.endswith(".json"):
            raise OSError(5, "store is away")

    with monkeypatch.context() as patched:
        patched.setattr(SavepointStore, "write", write)
        with pytest.raises(CheckpointError, match="the checkpoint cannot be uploaded: store is away"):
            home.start(lease_ttl=TTL)
    assert home.rows() == [0]
    home.start()
    assert home.rows() == [0, 1]


def test_a_store_that_cannot_be_listed_holds_the_start(home, monkeypatch):
    """Without it a blank home would begin a pipeline of its own."""
    home.start(2)
    lose(home)

    def away(*_):
        raise OSError(5, "store is away")

    with monkeypatch.context() as patched:
        patched.setattr(uploads, "pipelines_of", away)
        with pytest.raises(CheckpointError, match="the uploads cannot be listed: store is away"):
            home.start()
    home.start()
    assert home.rows() == [0, 1, 2]


def test_a_file_that_vanished_is_copied_by_another_try(tmp_path):
    copier = Copier(SavepointStore(str(tmp_path / "store")), tmp_path, {})
    file, listed = tmp_path / "v1.parquet", Listed("g0001/q/held/v1.parquet", 4, 0)
    with pytest.raises(CheckpointError, match="vanished"):
        copier.one_of(file, listed)
    file.write_bytes(b"rows")
    assert copier.one_of(file, replace(listed, mtime_ns=file.stat().st_mtime_ns)).size_bytes == 4


def test_uploads_of_several_lost_pipelines_are_not_guessed(home, tmp_path):
    home.start()
    dev = replace(home, root=tmp_path / "dev", outputs=tmp_path / "dev_tables", store=tmp_path / "dev_store")
    dev.start()
    shutil.copytree(dev.store, home.store, dirs_exist_ok=True)
    lose(home)
    new = replace(home, outputs=tmp_path / "new_tables")
    with pytest.raises(CheckpointError, match=r"several pipelines were called shop\.trip"):
        new.start()
    home.start()
    assert home.rows() == [0, 1]


def test_outputs_of_several_pipelines_of_one_name_are_moved_away_or_others_are_written(home, tmp_path):
    for sink in ("a", "b"):
        replace(home, root=tmp_path / sink, store=tmp_path / f"{sink} store", sinks=(sink,)).start()
    both = replace(home, sinks=("a", "b"))
    with pytest.raises(CheckpointError, match="written by several pipelines of that name") as refused:
        both.start(new_generation=True)
    assert refused.value.remedy == "move the outputs away, or give this pipeline others"
    others = replace(both, root=tmp_path / "others", store=tmp_path / "store of others", outputs=tmp_path / "other")
    others.start(2, new_generation=True)
    home.outputs.rename(tmp_path / "away")
    both.start(2, new_generation=True)
    assert [each.rows(sink) for each in (both, others) for sink in "ab"] == [[0, 1]] * 4


def test_outputs_that_were_lost_with_the_home_are_not_continued(home):
    home.start(2)
    lose(home)
    shutil.rmtree(home.outputs)
    with pytest.raises(CheckpointError, match="'out' has no batch but had batch 1") as refused:
        home.start()
    assert "--new-generation" in str(refused.value)
    home.start(new_generation=True)
    assert home.rows() == [0]


def test_uploads_that_would_be_lost_with_the_home_are_refused(home):
    with pytest.raises(ConfigurationError, match="would be lost with it") as refused:
        replace(home, store=home.root / "savepoints").start()
    assert "RS_SAVEPOINTS" in refused.value.remedy


def test_an_output_in_the_home_is_reported(home):
    with opened(replace(home, outputs=home.root / "tables").pipeline.topology, home.options) as session:
        assert "the output 'out' is in the home: uploads do not cover it" in session.warnings


def test_uploads_without_storage_are_refused(home):
    policy = SavepointPolicy(uri=str(home.store), upload=True, local_storage_only=True)
    with pytest.raises(ConfigurationError, match="choose one of them"):
        home.start(savepoints=policy)
    home.start(savepoints=replace(policy, local_storage_only=False))
    assert home.rows() == [0]


def test_a_durable_shuffle_is_refused(home):
    rows = StreamBuilder.data_stream("shop", "spread").from_file(
        home.root.parent / "in", schema="n bigint", name="file"
    )

    def pipeline(**how):
        counted = rows.shuffle(1, keys=("n",), name="spread", **how).filter("n > 0")
        return counted.to_delta(str(home.outputs / "out"), name="out").build()

    with pytest.raises(ConfigurationError, match="do not cover a durable shuffle") as refused:
        check_uploads(pipeline(strategy="delta").topology, home.options)
    assert "leave the strategy of the shuffle out" in refused.value.remedy
    assert check_uploads(pipeline().topology, home.options) == ()


@pytest.mark.parametrize(("text", "on"), [("1", True), ("true", True), ("", False), ("0", False)])
def test_the_environment_turns_uploads_on(text, on, monkeypatch):
    monkeypatch.setenv("RS_UPLOAD", text)
    assert SavepointPolicy().upload is on


def test_another_value_of_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("RS_UPLOAD", "perhaps")
    with pytest.raises(ConfigurationError, match="use 1 or 0"):
        SavepointPolicy()
