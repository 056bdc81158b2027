"""A driver that was overtaken cannot write: neither behind the other one's commit nor between check and commit."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from rs_assets.connectors.dead_letters import SCHEMA, DeadLetters
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import LeaseLostError, SinkError


@pytest.fixture
def frame(spark, driver):
    return driver.call(lambda session: session.range(3))


def mark(batch_id, token):
    return BatchMark("p1", 1, "rows", batch_id, token)


def write(driver, writer, frame, batch):
    assert not writer.committed(batch)
    return driver.call(lambda _: writer.stage(frame, batch).commit())


def rows(path):
    return DeltaTable(path).to_pyarrow_table().num_rows


@pytest.mark.parametrize("mode", ["append", "upsert", "complete"])
def test_an_older_token_is_refused_once_a_newer_one_has_written(tmp_path, driver, frame, mode):
    path = str(tmp_path / "t")
    old, new = (DeltaWriter("rows", path, mode, keys=("id",) if mode == "upsert" else ()) for _ in range(2))
    assert write(driver, old, frame, mark(0, 1)) == 3
    assert write(driver, new, frame, mark(1, 2)) == 3
    before = DeltaTable(path).version()
    with pytest.raises(LeaseLostError, match="newer_token=2"):
        old.committed(mark(2, 1))
    assert DeltaTable(path).version() == before


@pytest.mark.parametrize("mode", ["append", "upsert", "complete"])
def test_a_driver_that_sleeps_between_check_and_commit_is_refused(tmp_path, driver, frame, mode):
    path = str(tmp_path / "t")
    old, new = (DeltaWriter("rows", path, mode, keys=("id",) if mode == "upsert" else ()) for _ in range(2))
    write(driver, old, frame, mark(0, 1))
    assert not old.committed(mark(1, 1))
    staged = driver.call(lambda _: old.stage(frame, mark(1, 1)))
    write(driver, new, frame, mark(1, 2))
    before = rows(path)
    with pytest.raises(LeaseLostError):
        driver.call(lambda _: staged.commit())
    assert rows(path) == before


def test_two_drivers_of_one_token_cannot_both_commit_a_batch(tmp_path, driver, frame):
    path = str(tmp_path / "t")
    one, other = (DeltaWriter("rows", path) for _ in range(2))
    write(driver, one, frame, mark(0, 1))
    assert not other.committed(mark(1, 1))
    staged = driver.call(lambda _: other.stage(frame, mark(1, 1)))
    write(driver, one, frame, mark(1, 1))
    with pytest.raises(SinkError, match="another writer"):
        driver.call(lambda _: staged.commit())
    assert rows(path) == 6


def test_other_writers_of_the_table_are_no_rivals(tmp_path, driver, frame):
    path = str(tmp_path / "t")
    mine, theirs = DeltaWriter("rows", path), DeltaWriter("rows", path)
    write(driver, mine, frame, mark(0, 1))
    assert not mine.committed(mark(1, 1))
    staged = driver.call(lambda _: mine.stage(frame, mark(1, 1)))
    write(driver, theirs, frame, BatchMark("p2", 1, "rows", 0, 7))
    assert driver.call(lambda _: staged.commit()) == 3
    assert rows(path) == 9


def test_dead_letters_are_fenced_too(tmp_path):
    letters = DeadLetters(str(tmp_path / "letters"))
    row = dict.fromkeys(SCHEMA.names) | {"job": "clicks"}
    table = pa.Table.from_pylist([row], schema=SCHEMA)
    assert letters.write(table, mark(0, 2)) == 1
    with pytest.raises(LeaseLostError):
        letters.write(table, mark(1, 1))


@pytest.mark.parametrize("mode", ["append", "upsert", "complete"])
def test_a_token_alone_stops_who_slept_and_is_no_change_of_the_rows(tmp_path, driver, frame, mode):
    path = str(tmp_path / "t")
    old, new = (DeltaWriter("rows", path, mode, keys=("id",) if mode == "upsert" else ()) for _ in range(2))
    for batch in range(2):
        write(driver, old, frame, mark(batch, 1))
    staged = driver.call(lambda _: old.stage(frame, mark(2, 1)))
    new.raise_fence(mark(-1, 2))
    before = rows(path)
    with pytest.raises(LeaseLostError):
        driver.call(lambda _: staged.commit())
    with pytest.raises(LeaseLostError):
        old.rewind(mark(0, 1), mark(0, 1).of_generation(2), 1)
    assert rows(path) == before
    assert (new.last_committed(mark(1, 2)), new.last_writer(mark(1, 2)).token) == (1, 2)
    assert new.changes_by_others(mark(1, 2)) == ()
    assert write(driver, new, frame, mark(2, 2)) == 3
    new.rewind(mark(0, 2), mark(0, 2).of_generation(2), 2)
    assert rows(path) == 3


def test_a_token_is_not_raised_in_a_table_that_is_not_there(tmp_path):
    DeltaWriter("rows", str(tmp_path / "t")).raise_fence(mark(-1, 2))
    assert not (tmp_path / "t").exists()
