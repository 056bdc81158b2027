"""The journal goes on behind a catalog that cannot be written, and loses nothing that it was given."""

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from deltalake.exceptions import CommitFailedError, DeltaError

from rs_assets import RunOptions
from rs_assets.catalog import catalog as catalogs
from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.offsets import storage_named
from rs_assets.catalog.offsets.messages import CheckPoint, NewSplit
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.background import BackgroundFailures
from rs_assets.errors import CheckpointError, ConfigurationError
from rs_assets.runtime.record import journal as journals
from rs_assets.runtime.record.journal import Flush, Journal, JournalEntry, write_entries

AT = datetime(2026, 3, 1, tzinfo=UTC)
SPLITS = ("a.log", "b.log")


OFTEN = Flush(batches=5, after=timedelta(milliseconds=50))


@pytest.fixture
def catalog(tmp_path):
    return Catalog(tmp_path / "catalog")


@pytest.fixture
def storage(catalog):
    return storage_named("delta", catalog=catalog.root)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("rs_assets.common.background.FIRST_PAUSE", timedelta(milliseconds=20))
    monkeypatch.setattr(journals, "LOOK", timedelta(milliseconds=1))


def entry(batch_id, log=None):
    new = [NewSplit(source="file", query="totals", batch_id=0, split=split) for split in SPLITS if not batch_id]
    offsets = dict.fromkeys(SPLITS, str(batch_id))
    return JournalEntry(
        namespace="shop",
        job="logs",
        generation=1,
        query="totals",
        folder="totals",
        batch_id=batch_id,
        run_id="run",
        at=AT + timedelta(seconds=batch_id),
        watermark=None,
        messages=[*new, CheckPoint(source="file", query="totals", batch_id=batch_id, offsets=offsets)],
        log=log,
    )


def told(catalog):
    """Batch and number of every message in the catalog, in order."""
    return sorted((row["batch_id"], row["number"]) for row in catalog.rows("system_messages"))


def whole(first, last):
    return sorted([(0, 0), (0, 1), (0, 2)] * (not first) + [(batch, 0) for batch in range(max(first, 1), last + 1)])


def stored(storage):
    return [row.batch_id for row in storage.rows() if row.queue == SPLITS[0]]


class Disk:
    """Lets writes to the catalog fail, with the errors that delta-rs has."""

    def __init__(self, monkeypatch):
        self.error = None
        self.refused = threading.Event()
        written = catalogs.write_deltalake

        def write(*args, **how):
            if self.error is not None:
                self.refused.set()
                raise self.error
            return written(*args, **how)

        monkeypatch.setattr(catalogs, "write_deltalake", write)
        monkeypatch.setattr("rs_assets.catalog.offsets.delta.write_deltalake", write)
        monkeypatch.setattr(catalogs.Catalog._append.retry, "sleep", lambda _: None)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@pytest.mark.parametrize(
    "error", [OSError("No space left on device"), DeltaError("No space left"), CommitFailedError("lost")]
)
def test_a_fault_of_the_disk_leaves_no_hole_and_is_told_until_it_is_over(catalog, storage, disk, error):
    failures = BackgroundFailures()
    journal = Journal(catalog, storage, failures, flush=OFTEN)
    for batch in range(5):
        journal.put(entry(batch))
    disk.error = error
    for batch in range(5, 10):
        journal.put(entry(batch))
    assert disk.refused.wait(120)
    journal.put(entry(10))
    wait_for(lambda: failures.warnings)
    assert failures.warnings[0].startswith("the catalog lags behind: a table of the catalog cannot be written")
    disk.error = None
    wait_for(lambda: journal.written.get("totals") == 10)
    for batch in range(11, 15):
        journal.put(entry(batch))
    journal.close()
    assert told(catalog) == whole(0, 14)
    assert stored(storage) == list(range(15))
    assert journal.written == {"totals": 14}
    assert failures.warnings == ()


def test_what_could_not_be_written_until_the_end_is_left_to_the_next_start(catalog, storage, disk):
    journal = Journal(catalog, storage, flush=OFTEN)
    for batch in range(5):
        journal.put(entry(batch))
    wait_for(lambda: journal.written.get("totals") == 4)
    disk.error = DeltaError("No space left")
    journal.put(entry(5))
    journal.close()
    journal.close()
    assert journal.written == {"totals": 4}
    assert any("the catalog lags behind" in warning for warning in journal.failures.warnings)


def test_a_write_that_was_cut_short_is_not_repeated_for_what_is_there(catalog, storage, disk, monkeypatch):
    journal = Journal(catalog, storage, flush=OFTEN)
    kept, calls = storage.save, []

    def save(rows):
        calls.append(rows)
        if len(calls) == 1:
            raise CheckpointError("the database is away")
        kept(rows)

    monkeypatch.setattr(storage, "save", save)
    for batch in range(5):
        journal.put(entry(batch))
    wait_for(lambda: len(calls) > 1)
    journal.close()
    assert told(catalog) == whole(0, 4)
    assert len(catalog.rows("splits")) == len(SPLITS)
    assert stored(storage) == list(range(5))


def test_more_than_memory_should_hold_is_dropped_told_and_filled_in_by_the_next_start(
    catalog, storage, disk, monkeypatch
):
    monkeypatch.setattr(journals, "MOST_WAITING", 4)
    disk.error = OSError("No space left on device")
    journal = Journal(catalog, storage, flush=OFTEN)
    for batch in range(7):
        journal.put(entry(batch))
    lost = "the catalog lacks batches 4 to 6 of query 'totals'"
    assert any(lost in warning for warning in journal.failures.warnings)
    disk.error = None
    wait_for(lambda: journal.written.get("totals") == 3)
    journal.put(entry(7))
    journal.close()
    assert journal.written == {"totals": 3}
    assert told(catalog) == sorted([*whole(0, 3), (7, 0)])
    assert [row["kind"] for row in catalog.rows("operations", pipeline="shop.logs")] == ["catalog_gap"]
    # As a start does with what Spark's log has behind `written`.
    write_entries(catalog, storage, [entry(batch) for batch in range(4, 8)], again=True)
    assert told(catalog) == whole(0, 7)
    assert stored(storage) == list(range(8))


def test_batches_that_spark_has_removed_from_its_log_meanwhile_are_written_too(catalog, storage, tmp_path):
    log = CheckpointLog(tmp_path / "checkpoint")
    (log.folder / "commits").mkdir(parents=True)
    (log.folder / "commits" / "4").write_text("v1\n{}")
    journal = Journal(catalog, storage, flush=OFTEN)
    for batch in range(6):
        journal.put(entry(batch, log))
    journal.close()
    assert told(catalog) == whole(0, 4)


def test_of_a_batch_that_was_computed_twice_the_second_try_counts(catalog, storage):
    journal = Journal(catalog, storage, flush=Flush(batches=100, after=timedelta(minutes=1)))
    journal.put(entry(0))
    journal.put(replace(entry(0), run_id="again"))
    journal.close()
    assert told(catalog) == whole(0, 0)
    assert {row["run_id"] for row in catalog.rows("system_messages")} == {"again"}


def test_a_flush_of_one_writes_each_batch_at_once(catalog, storage):
    journal = Journal(catalog, storage, flush=Flush(batches=1, after=timedelta(hours=1)))
    heard = threading.Event()
    journal.follow("nothing", lambda _: heard.set())
    journal.put(entry(0))
    assert heard.wait(timeout=120)
    assert told(catalog) == whole(0, 0)
    journal.close()


def test_a_flush_of_no_batches_is_refused():
    with pytest.raises(ConfigurationError, match="flush_batches must be a whole number above 0, not 0"):
        RunOptions(flush_batches=0)
    assert RunOptions(flush_batches=1).flush_batches == 1


def test_a_follower_that_fails_holds_up_neither_the_catalog_nor_other_followers(catalog, storage):
    journal, heard = Journal(catalog, storage, flush=OFTEN), []

    def fail(_):
        raise OSError("the broker is away")

    journal.follow("no offsets are shown in the consumer group", fail)
    journal.follow("nobody hears", heard.extend)
    for batch in range(3):
        journal.put(entry(batch))
    journal.close()
    assert told(catalog) == whole(0, 2)
    assert [each.batch_id for each in heard] == [0, 1, 2]
    warning = "no offsets are shown in the consumer group: OSError: the broker is away"
    assert journal.failures.warnings == (warning,)


def wait_for(condition, seconds=120.0):
    pause, deadline = threading.Event(), time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        pause.wait(0.01)
