"""A table of SQLite as a sink: a batch and its marker are one transaction, whatever is repeated or cut off."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from decimal import Decimal

import pytest
from pyspark.sql.types import LongType, StructField

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.connectors.database.place import Place, hidden
from rs_assets.connectors.sink import BatchMark, Claim
from rs_assets.connectors.sqlite.database import connected
from rs_assets.connectors.sqlite.writer import SqliteWriter
from rs_assets.errors import LeaseLostError, SinkError, TopologyChangedError
from rs_assets.runtime.upkeep.savepoints import rewind

MARK = BatchMark("p1", 1, "out", 0, token=5)


@pytest.fixture
def writer(tmp_path):
    return SqliteWriter("out", str(tmp_path / "out.db"), "hits")


def asked(path, sql="SELECT id FROM hits ORDER BY id"):
    with closing(sqlite3.connect(path)) as database:
        found = database.execute(sql).fetchall()
    return [row[0] if len(row) == 1 else row for row in found]


def frame(driver, *keys):
    return driver.call(lambda spark: spark.createDataFrame([(key,) for key in keys], "id bigint"))


def test_should_commit_a_batch_once(driver, writer):
    rows = frame(driver, 1, 2)
    assert not writer.committed(MARK)
    part = driver.call(lambda _: writer.stage(rows, MARK))
    # Nothing is there before the commit, and a look makes no database.
    assert writer.last_committed(MARK) == -1
    assert not writer.committed(MARK)
    assert part.commit() == 2
    assert writer.committed(MARK)
    assert part.commit() == 0
    assert driver.call(lambda _: SqliteWriter("out", writer.path, "hits").stage(rows, MARK)).commit() == 0
    assert asked(writer.path) == [1, 2]
    assert writer.last_committed(MARK) == 0


def test_should_leave_nothing_of_a_batch_that_was_cut_off(driver, writer):
    rows = frame(driver, 1)
    driver.call(lambda _: writer.stage(rows, MARK)).commit()
    following = replace(MARK, batch_id=1)
    two = frame(driver, 8, 9)
    failing = driver.call(lambda _: writer.stage(two, following))
    with closing(sqlite3.connect(writer.path)) as database:
        # The second row fails in the middle of the transaction, as a kill would end it.
        database.execute("CREATE TRIGGER no BEFORE INSERT ON hits WHEN new.id = 9 BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(SinkError, match="no"):
        failing.commit()
    assert asked(writer.path) == [1]
    assert writer.last_committed(following) == 0
    with closing(sqlite3.connect(writer.path)) as database:
        database.execute("DROP TRIGGER no")
    assert failing.commit() == 2
    assert asked(writer.path) == [1, 8, 9]


# Killed inside the transaction, behind the first of two rows.
KILLED = """
import os, signal, sys
from pyspark.sql.types import LongType, StructField
from rs_assets.connectors.sink import BatchMark
from rs_assets.connectors.sqlite.writer import SqliteWriter

def rows():
    yield (8,)
    os.kill(os.getpid(), signal.SIGKILL)

fields, mark = [StructField("id", LongType())], BatchMark("p1", 1, "out", 1, 5)
SqliteWriter("out", sys.argv[1], "hits")._commit(fields, rows(), mark)
"""


def test_should_leave_nothing_of_a_batch_in_which_the_process_was_killed(driver, writer):
    rows, two = frame(driver, 1), frame(driver, 8, 9)
    driver.call(lambda _: writer.stage(rows, MARK)).commit()
    assert subprocess.run([sys.executable, "-c", KILLED, writer.path], check=False).returncode == -signal.SIGKILL
    following = replace(MARK, batch_id=1)
    assert (writer.last_committed(following), asked(writer.path)) == (0, [1])
    assert driver.call(lambda _: writer.stage(two, following)).commit() == 2
    assert asked(writer.path) == [1, 8, 9]


def test_should_refuse_a_driver_that_was_overtaken(driver, writer):
    rows = frame(driver, 1)
    late = driver.call(lambda _: writer.stage(rows, MARK))
    newer = replace(MARK, token=6)
    writer.raise_fence(newer)
    with pytest.raises(LeaseLostError, match="another driver has taken over"):
        late.commit()
    with pytest.raises(LeaseLostError):
        writer.committed(MARK)
    assert writer.last_committed(newer) == -1
    assert writer.last_writer(newer).token == 6
    assert driver.call(lambda _: writer.stage(rows, newer)).commit() == 1


def test_should_refuse_a_start_that_another_home_has_overtaken(driver, writer):
    rows = frame(driver, 1)
    ours = Claim(pipeline="shop.copy", number=7, home="a", known=frozenset({7}))
    theirs = replace(ours, number=8, home="b", known=frozenset({7, 8}))
    driver.call(lambda _: writer.stage(rows, replace(MARK, claim=ours))).commit()
    driver.call(lambda _: writer.stage(rows, replace(MARK, pipeline_id="p2", claim=theirs))).commit()
    with pytest.raises(LeaseLostError, match="another home"):
        writer.committed(replace(MARK, claim=ours))
    assert writer.last_writer(replace(MARK, claim=ours)).home == "b"


def test_should_miss_a_database_that_was_removed(driver, writer, tmp_path):
    rows = frame(driver, 1)
    driver.call(lambda _: writer.stage(rows, MARK)).commit()
    (tmp_path / "out.db").unlink()
    with pytest.raises(SinkError, match="holds no batch of this pipeline and had batch 0"):
        writer.last_committed(MARK)


def test_should_name_a_column_that_is_missing(driver, writer):
    with closing(sqlite3.connect(writer.path)) as database:
        database.execute("CREATE TABLE hits (page TEXT)")
    rows = frame(driver, 1)
    with pytest.raises(SinkError, match="no column 'id'") as refused:
        driver.call(lambda _: writer.stage(rows, MARK))
    assert 'ADD COLUMN "id" INTEGER' in refused.value.remedy


def test_should_refuse_a_column_that_changes_values(driver, writer):
    """A column REAL makes doubles of whole numbers, which have 53 bits."""
    with closing(sqlite3.connect(writer.path)) as database:
        database.execute("CREATE TABLE hits (id REAL)")
    rows = frame(driver, 2**53 + 1)
    with pytest.raises(SinkError, match="'id' of the table 'hits' is REAL, which changes some values") as refused:
        driver.call(lambda _: writer.stage(rows, MARK))
    assert "write to another table" in refused.value.remedy
    assert driver.call(lambda _: replace(writer, table="others").stage(rows, MARK)).commit() == 1
    assert asked(writer.path, "SELECT id FROM others") == [2**53 + 1]


def pipeline(channel, path, name="out", table="hits"):
    return StreamBuilder.data_stream("shop", "copy").from_memory(channel).to_sqlite(path, table, name=name).build()


def test_should_add_each_batch_of_a_pipeline_and_not_repeat_one(options, tmp_path):
    channel = MemoryChannel(schema="id bigint, at timestamp, tags array<string>, ok boolean, cents decimal(9,2)")
    job, path = pipeline(channel, tmp_path / "out.db"), tmp_path / "out.db"
    channel.put({"id": 1, "at": "2024-03-01T12:00:00Z", "tags": ["a", "ü"], "ok": True, "cents": Decimal("1.50")})
    job.run(options)
    assert asked(path, "SELECT * FROM hits") == [(1, "2024-03-01 12:00:00+00:00", '["a","ü"]', 1, "1.50")]
    (commits,) = options.home.job("shop", "copy").glob("g0001/*/checkpoint/commits")
    for name in ("0", ".0.crc"):
        # As if Spark had been killed before it knew of the commit.
        (commits / name).unlink(missing_ok=True)
    channel.put({"id": 2, "at": None, "tags": None, "ok": None, "cents": None})
    assert job.run(options).rows_out == 1
    assert asked(path) == [1, 2]
    assert asked(path, "SELECT generation, batch FROM _rs_marks") == [(1, 1)]


def test_an_output_of_another_name_over_the_same_table_is_refused(options, tmp_path):
    """It would add all rows to those that are there: marks go by the name of the output."""
    channel, path = MemoryChannel(schema="id bigint"), tmp_path / "out.db"
    channel.put({"id": 1})
    pipeline(channel, path).run(options)
    for how in (options, replace(options, new_generation=True)):
        with pytest.raises(TopologyChangedError, match="'new' writes to the location of the removed output 'out'"):
            pipeline(channel, path, "new", "Hits").run(how)
    assert asked(path) == [1]


def test_should_copy_a_table_into_a_table_over_restarts(options, tmp_path):
    path = tmp_path / "in.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE hits (id INTEGER PRIMARY KEY, ms INTEGER)")
        database.execute("INSERT INTO hits (ms) VALUES (1), (2)")
    stream = StreamBuilder.data_stream("shop", "both").from_sqlite(path, "hits", schema="id bigint, ms bigint")
    job = stream.filter("ms > 1").to_sqlite(tmp_path / "out.db", "hits").build()
    job.run(options)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO hits (ms) VALUES (3)")
    job.run(options)
    assert asked(tmp_path / "out.db") == [2, 3]


def test_should_refuse_to_take_rows_back(options, tmp_path):
    channel = MemoryChannel(schema="id bigint")
    job = pipeline(channel, tmp_path / "out.db")
    for number in range(2):
        channel.put({"id": number})
        job.run(options)
    with pytest.raises(SinkError, match="cannot be removed") as refused:
        rewind(job.topology, 0, options)
    assert "--new-generation" in refused.value.remedy
    assert asked(tmp_path / "out.db") == [0, 1]


def test_check_begin_refuses_a_table_with_rows_of_an_earlier_generation(writer):
    fields = [StructField("id", LongType())]
    later = replace(MARK, generation=2, batch_id=-1)
    assert writer.check_begin(later) == ""
    writer._commit(fields, [(1,)], MARK)
    assert writer.check_begin(replace(later, sink="other")) == ""
    with pytest.raises(SinkError, match="rows of an earlier generation") as refused:
        writer.check_begin(later)
    (delete,) = re.findall(r"\((DELETE .*?)\)", refused.value.remedy)
    with closing(sqlite3.connect(writer.path)) as database, database:
        database.execute(delete)
    assert writer.check_begin(later) == ""


def test_rewind_goes_only_to_where_nothing_was_written_since(writer):
    fields = [StructField("id", LongType())]
    third = replace(MARK, generation=3)
    assert writer.rewind(replace(MARK, batch_id=-1), replace(MARK, generation=2, batch_id=-1)) == "had nothing to undo"
    for batch in (0, 1):
        writer._commit(fields, [(batch,)], replace(MARK, batch_id=batch))
    with pytest.raises(SinkError, match="cannot be removed, and it has those of batch 1"):
        writer.rewind(MARK, third)
    with pytest.raises(SinkError, match="ends at batch 1 and had batch 2"):
        writer.rewind(replace(MARK, batch_id=2), third, had=2)
    kept = replace(MARK, batch_id=1)
    for generation in (3, 3, 4):
        # As one that was cut off is done again.
        writer.rewind(kept, replace(kept, generation=generation), had=1)
    assert writer.last_committed(replace(kept, generation=4)) == 1
    writer._commit(fields, [(2,)], replace(kept, generation=4, batch_id=2))
    with pytest.raises(SinkError, match="batch 2 of generation 4"):
        writer.rewind(kept, replace(kept, generation=5))
    assert asked(writer.path) == [0, 1, 2]


def test_a_constraint_that_forbids_a_row_is_named_with_what_helps(writer):
    fields = [StructField("id", LongType())]
    writer._commit(fields, [(1,)], MARK)
    with closing(sqlite3.connect(writer.path)) as database, database:
        database.execute("CREATE UNIQUE INDEX one ON hits (id)")
    again = replace(MARK, batch_id=1)
    with pytest.raises(SinkError, match="UNIQUE constraint failed") as refused:
        writer._commit(fields, [(1,)], again)
    assert "unique index" in refused.value.remedy
    assert "locked" not in refused.value.remedy
    with closing(sqlite3.connect(writer.path)) as database, database:
        database.execute("DROP INDEX one")
    assert writer._commit(fields, [(1,)], again) == 1


@pytest.mark.long
def test_a_column_that_a_table_lacks_is_added_or_another_table_is_written(driver, writer):
    driver.call(lambda _: writer.stage(frame(driver, 1), MARK)).commit()
    wide = driver.call(lambda spark: spark.createDataFrame([(2, "/a")], "id bigint, page string"))
    following = replace(MARK, batch_id=1)
    with pytest.raises(SinkError, match="the table 'hits' has no column 'page'") as refused:
        driver.call(lambda _: writer.stage(wide, following)).commit()
    add, _, other = refused.value.remedy.partition(", or ")
    assert other == "write to another table"
    with closing(sqlite3.connect(writer.path)) as database:
        database.execute(add)
    assert driver.call(lambda _: writer.stage(wide, following)).commit() == 1
    assert asked(writer.path, "SELECT id, page FROM hits ORDER BY id") == [(1, None), (2, "/a")]
    elsewhere = SqliteWriter("out", writer.path, "pages")
    assert driver.call(lambda _: elsewhere.stage(wide, replace(MARK, sink="pages"))).commit() == 1


def test_a_full_disk_is_told_by_both_sinks_with_what_helps(tmp_path):
    # As many pages as there is room for.
    fills = ("PRAGMA max_page_count = 2", "CREATE TABLE hits AS SELECT zeroblob(100000)")

    def fill_own():
        with connected(f"{tmp_path}/a.db", SinkError, write=True) as database:
            for statement in fills:
                database.execute(statement)

    def fill_by_url():
        with Place(hidden(f"sqlite:///{tmp_path}/b.db"), "out").writing(SinkError) as connection:
            for statement in fills:
                connection.exec_driver_sql(statement)

    for fill in (fill_own, fill_by_url):
        with pytest.raises(SinkError, match="full") as refused:
            fill()
        assert "make room on the disk" in refused.value.remedy
