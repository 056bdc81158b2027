"""Threads beside the batches: they go on behind a fault, and say what failed."""

import threading
from datetime import timedelta

import pytest

from rs_assets.common.background import BackgroundFailures, PeriodicTask, background_failures_in
from rs_assets.errors import CheckpointError

SOON = timedelta(milliseconds=1)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("rs_assets.common.background.FIRST_PAUSE", SOON)


def repeated(work, failures, **how):
    return PeriodicTask(work, name="test", failures=failures, **{"every": SOON, "effect": "it is behind", **how})


class PanicException(BaseException):
    """As Rust's panics come to Python."""


@pytest.mark.parametrize(
    "error", [OSError("no space left"), CheckpointError("no space left"), PanicException("no space left")]
)
def test_work_goes_on_behind_whatever_it_raises_and_the_fault_is_told_until_it_is_over(error):
    failures, done, told = BackgroundFailures(), threading.Event(), []
    failing = iter([True, True, False])

    def work():
        told.append(failures.warnings)
        if next(failing, False):
            raise error
        if len(told) > 3:
            done.set()

    loop = repeated(work, failures).start()
    assert done.wait(120)
    loop.stop()
    assert told[0] == ()
    assert told[1][0].startswith("it is behind: ")
    assert "no space left" in told[1][0]
    assert "(2 times since " in told[2][0]
    assert told[3] == failures.warnings == ()


def test_pauses_grow_behind_faults_and_never_beyond_the_longest():
    def work():
        raise OSError("away")

    loop = repeated(work, BackgroundFailures(), every=timedelta(seconds=0.1))
    pauses = [loop._pause_s() for _ in range(14) if not loop.once()]
    assert pauses[0] == 0.1
    assert pauses == sorted(pauses)
    assert max(pauses) == 60


def test_work_that_is_done_rarely_is_not_done_more_often_behind_a_fault():
    loop = repeated(lambda: 1 / 0, BackgroundFailures(), every=timedelta(minutes=10))
    loop.once()
    assert loop._pause_s() == 600


def test_a_stop_waits_for_work_that_has_begun():
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        assert go_on.wait(120)
        ended.append(True)

    loop = repeated(work, BackgroundFailures()).start()
    assert begun.wait(120)
    threading.Timer(0.05, go_on.set).start()
    loop.stop()
    assert ended
    loop.stop()


def test_other_processes_find_what_fails_in_a_file_until_it_is_over(tmp_path):
    failures = BackgroundFailures(tmp_path)
    failures.failed("no savepoint was taken", OSError("the store is away"))
    failures.lost("journal", "the catalog lacks batches 5 to 9")
    assert background_failures_in(tmp_path) == failures.warnings
    failures.succeeded("no savepoint was taken")
    assert background_failures_in(tmp_path) == ("the catalog lacks batches 5 to 9",)
    BackgroundFailures(tmp_path).begin()
    assert background_failures_in(tmp_path) == ()


def test_a_folder_that_cannot_be_written_ends_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    failures = BackgroundFailures(tmp_path / "file")
    failures.failed("the catalog is behind", OSError("no space left"))
    assert len(failures.warnings) == 1
    assert background_failures_in(tmp_path / "file") == ()


def test_an_interrupt_is_no_fault_that_work_goes_on_behind():
    failures = BackgroundFailures()
    with pytest.raises(KeyboardInterrupt), failures.guarding("no savepoint was taken"):
        raise KeyboardInterrupt
    assert failures.warnings == ()
