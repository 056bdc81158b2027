"""Homes that continue one pipeline by its uploads: the last one that began rules, whatever its sinks know."""

import shutil
from dataclasses import replace
from datetime import timedelta

import pytest

from rs_assets.errors import LeaseLostError, PipelineBusyError
from rs_assets.recovery.uploads import RunMark, UploadStore, pipelines_of, uploader
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.upkeep import uploads
from tests.checkpoint.fabricate import FakeQuery
from tests.recovery.homes import FakeHome

TTL = timedelta(milliseconds=600)


@pytest.fixture
def home(tmp_path):
    (tmp_path / "in").mkdir()
    return FakeHome(tmp_path / "prod", tmp_path / "tables", tmp_path / "store", upload=True)


@pytest.fixture
def other(home, tmp_path):
    return replace(home, root=tmp_path / "other")


def uploads_of(home):
    (pipeline,) = pipelines_of(str(home.store), "shop", "trip")
    return UploadStore(str(home.store), "shop", "trip", pipeline)


def query_of(session):
    return FakeQuery(session.query_folder(session.plans[0]), partitions=0, control=False)


def test_a_home_that_lives_without_new_input_is_not_taken_over(home, other, monkeypatch):
    """It has uploaded nothing since it continued the other one."""
    home.start()
    other.start()
    monkeypatch.setattr(uploads, "BEATS", 150)
    alive = opened(home.pipeline.topology, home.options)
    with alive, pytest.raises(PipelineBusyError, match="runs in another home"):
        other.start()
    other.start()
    assert home.rows() == [0, 1, 2]


def test_a_silent_home_is_fenced_off_before_any_output_knows_it(home, other, monkeypatch):
    """No output has a fence, as none was written to; the next batch of the first home is refused by its upload."""
    monkeypatch.setattr(uploads, "BEATS", 0.001)
    with opened(home.pipeline.topology, replace(home.options, lease_ttl=TTL)) as session:
        query, (plan,) = query_of(session).begin(), session.plans
        query.plan(0)
        uploaded = session.uploader.of(session.folders[plan.name])
        uploaded.begin()
        uploaded.wait()
        with opened(other.pipeline.topology, replace(other.options, lease_ttl=TTL)):
            home.write(session, "out", 0)
            query.commit(0)
            with pytest.raises(LeaseLostError, match="was continued from its uploads"):
                home.one_batch(session, query, 1)
    other.start(2)
    assert home.rows() == [0, 1]


def test_an_upload_that_another_home_has_not_read_is_not_committed(home, monkeypatch):
    """The other home begins between the check before an upload and its end."""
    saved = UploadStore.save

    def save(self, upload, content):
        self.mark(RunMark(upload.token + 1, "0" * 16))
        saved(self, upload, content)

    home.start()
    with opened(home.pipeline.topology, home.options) as session:
        monkeypatch.setattr(UploadStore, "save", save)
        with pytest.raises(LeaseLostError):
            home.one_batch(session, query_of(session), 1)
    assert home.rows() == [0]


def test_of_two_homes_with_one_token_one_goes_on(tmp_path):
    store, first, second = UploadStore(str(tmp_path), "shop", "trip", "p"), RunMark(3, "a" * 16), RunMark(3, "b" * 16)
    store.mark(second)
    store.mark(first)
    assert (store.outranked(first), store.outranked(second)) == (3, 0)
    assert store.token() == 3


def test_of_two_homes_that_recover_at_once_one_goes_on(home, other, monkeypatch, tmp_path):
    """The second one begins while the first has read which upload is the newest, and restores it."""
    home.start(2)
    shutil.rmtree(home.root)
    restored, third = uploads.restore_savepoint, replace(home, root=tmp_path / "third")

    def restore(store, content, *how, **more):
        monkeypatch.setattr(uploads, "restore_savepoint", restored)
        third.start()
        return restored(store, content, *how, **more)

    monkeypatch.setattr(uploads, "restore_savepoint", restore)
    with pytest.raises(Exception, match="written to since by a start|continued from its uploads"):
        other.start()
    other.start()
    third.start()
    assert home.rows() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("blank", [False, True])
def test_a_new_generation_outranks_starts_that_have_written_nothing(home, other, blank):
    """The outputs have not seen the tokens of those starts."""
    home.start()
    other.start()
    for _ in range(3):
        other.start(0)
    if blank:
        shutil.rmtree(home.root)
    home.start(new_generation=True)
    assert home.rows() == [0]


@pytest.mark.parametrize("back", [lambda home: home.restore(), lambda home: home.rewind(0)])
def test_going_back_outranks_starts_that_have_written_nothing(home, other, back):
    home.start(2)
    home.save()
    other.start()
    for _ in range(3):
        other.start(0)
    back(home)
    home.start()
    assert home.manifest.last_generation == 2
    assert home.rows() == [*range(home.rows()[-1] + 1)]


def test_short_runs_leave_only_what_is_needed(home, monkeypatch):
    """Each ends before it would tidy up the first time."""
    monkeypatch.setattr(uploader, "LEFT_OVER", timedelta(0))
    for _ in range(5):
        home.start()
    kept = uploads_of(home)
    assert len(kept.marks()) == 1
    assert len(kept.ids()) <= uploader.KEPT
    assert {path.rpartition("/")[2] for path in kept.store.objects()} >= {f.sha256 for f in kept.newest().content.files}
    assert len(kept.store.objects()) <= 2 * len(kept.newest().content.files)
    shutil.rmtree(home.root)
    home.start()
    assert home.rows() == [*range(6)]


@pytest.mark.parametrize("back", [lambda home: home.restore(), lambda home: home.rewind(1)])
def test_a_home_lost_after_it_went_back_continues_there(home, other, back):
    home.start(2)
    home.save()
    home.start(2)
    back(home)
    shutil.rmtree(home.root)
    other.start(2)
    assert home.rows() == [0, 1, 2, 3]
    assert other.manifest.last_generation == 2


def test_a_start_that_another_home_has_overtaken_is_refused(home, other, monkeypatch, tmp_path):
    """Nothing has to be done: the other home goes on."""
    home.start()
    marked, third = UploadStore.mark, replace(home, root=tmp_path / "third")

    def mark(self, run):
        monkeypatch.setattr(UploadStore, "mark", marked)
        marked(self, run)
        third.start()

    monkeypatch.setattr(UploadStore, "mark", mark)
    with pytest.raises(PipelineBusyError, match="is continued in another home"):
        other.start()
    assert home.rows() == [0, 1]
