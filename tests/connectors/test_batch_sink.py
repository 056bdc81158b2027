"""Sinks by a client: calls of bounded size, retried, at a bounded rate; refused rows; exactly once by a number."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.errors import SinkError
from rs_assets.sinks import BatchMark, BatchSink, PartMark, RefusedRow, Refusing, RowsRefused, SinkWriter

MARK = BatchMark("id", 1, "sink", 0)


class Client(BatchSink):
    """Keeps calls in memory; `faults` are raised by the first calls."""

    rows_per_call = 2
    backoff = timedelta(0)

    def __init__(self, *faults, bad=()):
        self.calls, self.faults, self.bad = [], [*faults], bad

    def write(self, rows, mark):
        if self.faults:
            raise self.faults.pop(0)
        refused = {at: "odd" for at, row in enumerate(rows) if row["n"] in self.bad}
        if refused:
            raise RowsRefused(refused)
        self.calls.append(([row["n"] for row in rows], mark.part, mark.final))


def staged(sink, *numbers, batch_id=0):
    frame = SimpleNamespace(toArrow=lambda: pa.table({"n": pa.array(numbers, pa.int64())}))
    return sink.stage(frame, replace(MARK, batch_id=batch_id))


def test_should_write_calls_of_bounded_size():
    sink = Client()
    assert staged(sink, 1, 2, 3).commit() == 3
    assert sink.calls == [([1, 2], 0, False), ([3], 1, True)]
    assert not sink.committed(MARK)
    assert sink.last_committed(MARK) is None
    assert staged(sink).commit() == 0
    sink.rows_per_call = None
    assert staged(sink, 1, 2, 3).commit() == 3
    assert sink.calls[2:] == [([1, 2, 3], 0, True)]
    assert isinstance(sink, Refusing)


def test_should_try_a_call_again_and_say_what_raised():
    sink = Client(ConnectionError("reset"), TimeoutError("slow"))
    assert staged(sink, 1).commit() == 1
    sink.faults = [ConnectionError(f"reset {n}") for n in range(9)]
    with pytest.raises(SinkError, match="Client.write has raised ConnectionError: reset 4") as raised:
        staged(sink, 2).commit()
    assert "the batch is repeated" in raised.value.remedy
    sink.faults = []
    assert staged(sink, 2).commit() == 1
    # No other exception is tried again.
    sink.faults = [ValueError("wrong")]
    with pytest.raises(SinkError, match="ValueError: wrong"):
        staged(sink, 3).commit()
    assert sink.calls == [([1], 0, True), ([2], 0, True)]


def test_should_not_exceed_a_rate():
    sink = Client()
    sink.rows_per_second = 40
    began = time.monotonic()
    staged(sink, *range(8)).commit()
    assert time.monotonic() - began >= 6 / 40


def test_should_refuse_rows_or_keep_them_apart():
    sink = Client(bad=(2, 3))
    with pytest.raises(SinkError, match="has refused 1 row, the first: odd") as refused:
        staged(sink, 1, 2, 3).commit()
    assert "refused = 'dead_letter'" in refused.value.remedy
    sink.refused, kept = "dead_letter", []
    with pytest.raises(SinkError, match="odd; only a pipeline keeps such rows") as in_an_op:
        staged(sink, 1, 2, 3).commit()
    assert in_an_op.value.remedy == "keep such rows from the sink (filter)"
    sink.keep_refused(lambda rows, mark, number: kept.append((rows, number)))
    assert staged(sink, 1, 2, 3).commit() == 1
    assert kept == [
        ([RefusedRow({"n": 2}, "odd")], 0),
        ([RefusedRow({"n": 3}, "odd")], PartMark(MARK, 1, final=True).number << 16),
    ]
    sink.faults = [RowsRefused({})]
    with pytest.raises(SinkError, match="0 rows refused"):
        staged(sink, 1).commit()


class OneByOne(Client):
    """A system that names the first row only, as a constraint does."""

    rows_per_call = 4
    refused = "dead_letter"

    def write(self, rows, mark):
        odd = next((at for at, row in enumerate(rows) if row["n"] in self.bad), None)
        if odd is not None:
            raise RowsRefused({odd: f"{rows[odd]['n']} is odd"})
        super().write(rows, mark)


def test_should_keep_rows_that_are_refused_one_by_one():
    sink, kept = OneByOne(bad=(1, 2, 4, 6)), {}
    # As the dead-letter table does, which ignores a number that was written before.
    sink.keep_refused(lambda rows, mark, number: kept.setdefault(number, [row.row["n"] for row in rows]))
    for _ in ("once", "again"):
        sink.calls = []
        assert staged(sink, 1, 2, 3, 4, 5, 6).commit() == 2
        assert [call for call, _, _ in sink.calls] == [[3], [5]]
        assert [*kept.values()] == [[1], [2], [4], [6]]
    assert sorted(kept) == [*kept]


class Ledger(BatchSink):
    """A table, with the number of the last call in the same transaction; `lost` answers are lost after the commit."""

    rows_per_call = 2
    backoff = timedelta(0)
    attempts = 2

    def __init__(self, path, lost=0):
        self.path, self.lost = path, lost
        with self._database() as database:
            database.execute("CREATE TABLE IF NOT EXISTS rows (n INTEGER)")
            database.execute("CREATE TABLE IF NOT EXISTS marks (writer TEXT PRIMARY KEY, number INTEGER)")

    def _database(self):
        return closing(sqlite3.connect(self.path, isolation_level=None))

    def write(self, rows, mark):
        with self._database() as database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO rows VALUES (:n)", rows)
            database.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", [mark.writer, mark.number])
            database.execute("COMMIT")
        if self.lost:
            self.lost -= 1
            raise ConnectionError("no answer")

    def last(self, mark):
        with self._database() as database:
            found = database.execute("SELECT number FROM marks WHERE writer = ?", [mark.writer]).fetchone()
        return found[0] if found else -1

    def rows(self):
        with self._database() as database:
            return [n for (n,) in database.execute("SELECT n FROM rows ORDER BY n")]


def test_should_have_each_row_once_by_the_number_of_a_call(tmp_path):
    sink = Ledger(tmp_path / "ledger.db", lost=1)
    mark = replace(MARK, batch_id=3)
    # An answer that is lost is no second write.
    assert staged(sink, 5, 1, 4, batch_id=3).commit() == 3
    assert sink.rows() == [1, 4, 5]
    assert sink.committed(mark)
    assert sink.last_committed(mark) == 3
    # A crash between two calls: the repeated batch has its rows in another order.
    sink.lost, sink.attempts = 1, 1
    with pytest.raises(SinkError):
        staged(sink, 9, 8, 7, batch_id=4).commit()
    assert sink.last_committed(mark) == 3
    assert staged(sink, 7, 9, 8, batch_id=4).commit() == 1
    assert sink.rows() == [1, 4, 5, 7, 8, 9]
    assert staged(sink, batch_id=5).commit() == 0
    assert sink.last_committed(mark) == 5


class Days(Ledger):
    """Has maps by day."""

    def write(self, rows, mark):
        super().write([{"n": sum(row["by_day"].values())} for row in rows], mark)


def test_should_have_each_row_once_whatever_the_keys_of_its_maps_are(tmp_path):
    sink = Days(tmp_path / "ledger.db", lost=1)
    sink.attempts = 1
    rows = [{"by_day": {date(2026, 1, day): day, date(2026, 2, 1): 0}} for day in (3, 1, 2)]
    kind = pa.schema([("by_day", pa.map_(pa.date32(), pa.int64()))])

    def commit(made):
        return sink.stage(SimpleNamespace(toArrow=lambda: pa.Table.from_pylist(made, kind)), MARK).commit()

    with pytest.raises(SinkError, match="no answer"):
        commit(rows)
    assert commit(rows[::-1]) == 1
    assert sink.rows() == [1, 2, 3]


def test_should_say_that_a_sink_does_not_know_how_far_it_is(tmp_path):
    sink = Ledger(tmp_path / "ledger.db")
    with closing(sqlite3.connect(sink.path)) as database:
        database.execute("DROP TABLE marks")
    with pytest.raises(SinkError, match="Ledger.last has raised OperationalError") as raised:
        sink.committed(MARK)
    assert "start again" in raised.value.remedy
    assert not Ledger(sink.path).committed(MARK)


class Picky(Ledger):
    """Refuses odd rows."""

    refused = "dead_letter"

    def write(self, rows, mark):
        odd = {at: f"{row['n']} is odd" for at, row in enumerate(rows) if row["n"] % 2}
        if odd:
            raise RowsRefused(odd)
        super().write(rows, mark)


def test_should_write_refused_rows_to_the_dead_letters_once(tmp_path, options):
    channel, sink = MemoryChannel(schema="n bigint"), Picky(tmp_path / "ledger.db")
    job = StreamBuilder.data_stream("shop", "picky").from_memory(channel).to(sink, name="client").build()
    channel.put(*({"n": n} for n in range(6)))
    sink.lost = sink.attempts = 1
    with pytest.raises(SinkError, match="no answer"):
        job.run(options)
    sink.lost = 0
    job.run(options)
    assert sink.rows() == [0, 2, 4]
    letters = DeltaTable(options.home.dead_letters).to_pyarrow_table().sort_by("record").to_pylist()
    assert [(row["step"], row["reason"], row["record"], row["batch_id"]) for row in letters] == [
        ("client", f"{n} is odd", f'{{"n": {n}}}', 0) for n in (1, 3, 5)
    ]


def test_should_be_a_sink_for_type_checkers():
    def takes(sink: SinkWriter) -> str:
        return sink.name

    assert takes(Client()) == "sink"
