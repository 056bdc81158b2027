"""Compactions at the same time, and with rows that replace all others: no row is there twice."""

import multiprocessing
import threading
from datetime import timedelta

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from rs_assets.catalog.compaction import compact_table
from rs_assets.connectors.delta.joining import alone, only_next
from rs_assets.connectors.delta.table import commit_no_rows
from rs_assets.dagster.runs.compaction import clear_trash
from rs_assets.recovery.savepoints.restore import TRASH


@pytest.fixture
def path(tmp_path):
    where = str(tmp_path / "hits")
    for first in range(0, 60, 10):
        write_deltalake(where, pa.table({"id": pa.array(range(first, first + 10))}), mode="append")
    return where


def ids(path):
    return sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


def joined(path, gate):
    table = DeltaTable(path)
    gate.wait()
    compact_table(table, retention=timedelta(days=7))


def test_two_compactions_of_one_table_at_once_leave_each_row_once(path):
    made = multiprocessing.get_context("spawn")
    gate = made.Barrier(2)
    both = [made.Process(target=joined, args=(path, gate)) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    assert [each.exitcode for each in both] == [0, 0]
    assert ids(path) == [*range(60)]


def test_a_compaction_that_has_read_the_table_before_another_one_reads_it_again(path):
    first, second = DeltaTable(path), DeltaTable(path)
    compact_table(first, retention=timedelta(days=7))
    compact_table(second, retention=timedelta(days=7))
    assert ids(path) == [*range(60)]


def test_a_compaction_waits_for_what_replaces_all_rows(path):
    done = threading.Event()

    def compacts():
        compact_table(DeltaTable(path), retention=timedelta(days=7))
        done.set()

    with alone(path):
        other = threading.Thread(target=compacts)
        other.start()
        assert not done.wait(1)
        write_deltalake(path, pa.table({"id": [1, 2]}), mode="overwrite")
    other.join(60)
    assert ids(path) == [1, 2]


def test_rows_that_replace_others_are_not_committed_after_a_compaction_that_they_have_not_seen(path):
    table = DeltaTable(path)
    DeltaTable(path).optimize.compact()
    with pytest.raises(CommitFailedError):
        commit_no_rows(table, only_next(CommitProperties()), mode="overwrite")
    assert ids(path) == [*range(60)]


def test_two_compactions_remove_what_was_moved_aside_together(tmp_path):
    old = tmp_path / f"{TRASH}old"
    old.mkdir()
    for number in range(2000):
        (old / f"{number}").touch()
    failed = []

    def clears():
        try:
            clear_trash(tmp_path, keep=timedelta(0))
        except OSError as error:
            failed.append(error)

    both = [threading.Thread(target=clears) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert not failed
    assert not old.exists()
