"""Stores without Spark: what is asked is answered as a dictionary would, for any history of batches and returns."""

import dataclasses
import random
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cmp_to_key
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rs_assets.connectors.store.keys import encoded
from rs_assets.errors import ConfigurationError, LeaseLostError, SinkError, StoreBehindError
from tests.queries.writing import WATERMARK, Frame, Written

TOTALS = {"user": pa.string(), "n": pa.int64()}


@pytest.fixture
def totals(tmp_path):
    return Written(tmp_path, TOTALS, ("user",))


def test_rows_come_change_and_go(totals):
    totals.write(0, come=[{"user": "ann", "n": 1}, {"user": "bo", "n": 2}, {"user": None, "n": 3}])
    totals.write(1, go=[{"user": "ann", "n": 1}, {"user": "bo", "n": 2}], come=[{"user": "ann", "n": 5}])
    store = totals.store
    assert store.get("ann").row == {"user": "ann", "n": 5}
    assert store.get(user="bo").row is None
    assert store.get(None).row == {"user": None, "n": 3}
    answer = store.range("a", "b")
    assert (answer.rows, answer.batch, answer.watermark) == ([{"user": "ann", "n": 5}], 1, WATERMARK)
    assert timedelta() <= answer.age < timedelta(minutes=1)
    assert [row["user"] for row in store.all().rows] == [None, "ann"]
    assert store.count() == 2


def test_numbers_that_are_equal_are_one_key(tmp_path):
    made = Written(tmp_path, {"k": pa.float64(), "n": pa.int64()}, ("k",))
    nans = [float("nan"), -float("nan")]
    made.write(0, come=[{"k": k, "n": n} for n, k in enumerate([0.0, -0.0, *nans, 1.5])])
    assert [made.store.get(k).row["n"] for k in (0.0, -0.0, float("nan"), 1.5)] == [1, 1, 3, 4]
    assert made.store.count() == 3


NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001  a time without a zone
MICRO = st.datetimes()
# Per type: values, and how they sort.
TYPES = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(38, 6), st.decimals(-(10**30), 10**30, places=6)),
    (pa.timestamp("us"), MICRO),
    (pa.timestamp("us", tz="UTC"), MICRO.map(lambda at: at.replace(tzinfo=UTC))),
    (pa.date32(), st.dates()),
    (pa.string(), st.text(st.sampled_from("\0\1ab\xffé😀"), max_size=4)),
    (pa.binary(), st.binary(max_size=4)),
    (pa.float64(), st.floats(allow_nan=False)),
]


@settings(max_examples=25, deadline=None)
@given(st.data())
@pytest.mark.parametrize(("kind", "values"), TYPES, ids=lambda each: str(each) if isinstance(each, pa.DataType) else "")
def test_keys_sort_as_their_values_with_null_first(kind, values, data):
    pair = st.tuples(st.none() | values, st.none() | values)
    rows = data.draw(st.lists(pair, min_size=1, max_size=12))
    keys = encoded([pa.array(column, kind) for column in zip(*rows, strict=True)])

    def compare(one, other):
        for a, b in zip(rows[one], rows[other], strict=True):
            a, b = ((value is not None, 0 if value is None else value) for value in (a, b))  # noqa: PLW2901
            if a != b:
                return -1 if a < b else 1
        return 0

    by_value = sorted(range(len(rows)), key=cmp_to_key(compare))
    assert sorted(keys) == [keys[place] for place in by_value]
    assert all((keys[a] == keys[b]) == (compare(a, b) == 0) for a in by_value for b in by_value)


def test_values_come_back_with_their_types(tmp_path):
    fields = {
        "id": pa.int64(),
        "sum": pa.decimal128(38, 4),
        "at": pa.timestamp("us", tz="UTC"),
        "raw": pa.binary(),
        "ratio": pa.float64(),
        "days": pa.list_(pa.date32()),
        "one": pa.struct({"a": pa.decimal128(5, 1)}),
        "by": pa.map_(pa.string(), pa.timestamp("us")),
    }
    row = {
        "id": -1,
        "sum": Decimal("-12345678901234567890123456789012.5000"),
        "at": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        "raw": b"\0\xff",
        "ratio": float("-inf"),
        "days": [date(2026, 1, 1), None],
        "one": {"a": Decimal("0.5")},
        "by": [("x", NAIVE)],
    }
    written = Written(tmp_path, fields, ("id",))
    written.write(0, come=[row, {"id": None}])
    assert written.store.get(-1).row == {**row, "by": dict(row["by"])}
    assert written.store.get(None).row == dict.fromkeys(fields)


@pytest.mark.parametrize("seed", range(4))
def test_histories_of_batches_crashes_and_returns_equal_a_dictionary(tmp_path, seed):
    history = History(Written(tmp_path, {"a": pa.int64(), "b": pa.string(), "n": pa.int64()}, ("a", "b")), seed)
    for _ in range(50):
        kind = history.rng.random()
        if kind < 0.75 or history.batch < 1:
            history.step()
            _check(history.written.store, history.now, history.batch)
        elif kind < 0.95:
            history.go_back()
            _check(history.written.store, history.now, history.batch)
        else:
            history.begin()


class History:
    """Batches of a store, and the dictionaries that it was at the end of each batch it can go back to."""

    def __init__(self, written, seed):
        self.written, self.rng = written, random.Random(seed)
        self.generation, self.batch, self.now, self.was = 1, -1, {}, {}

    def step(self):
        self.batch += 1
        before, after, come = self.now, dict(self.now), {}
        keys = {(self.rng.randint(-3, 3), self.rng.choice(["", "x", "x\0", "y"])) for _ in range(4)}
        for key in keys:
            after.pop(key, None)
            if self.rng.random() < 0.7:
                come[key] = after[key] = self.rng.randrange(1000)
        go = {key: before[key] for key in keys if key in before}
        for attempt in range(self.rng.choice([1, 1, 2])):
            rows = self.written.write(self.batch, _rows(come), _rows(go), generation=self.generation)
            assert rows == (0 if attempt else len(come.keys() | go.keys()))
        self.now = self.was[self.batch] = after

    def go_back(self):
        target = self.rng.randint(max(0, self.batch - 4), self.batch)
        if target not in self.was:
            return
        kept, begun = (self.written.mark(target, self.generation + more) for more in (0, 1))
        for _ in range(2):
            self.written.writer().check_rewind(kept, begun, self.batch)
            self.written.writer().rewind(kept, begun, self.batch)
        self.now = self.was[target]
        self.generation, self.batch = self.generation + 1, target

    def begin(self):
        self.generation, self.batch, self.now, self.was = self.generation + 1, -1, {}, {}


def _rows(table):
    return [{"a": a, "b": b, "n": n} for (a, b), n in table.items()]


def _check(store, table, batch):
    ordered = dict(sorted(table.items()))
    assert (store.all().rows, store.all().batch) == (_rows(ordered), batch)
    for key in [*list(table)[:2], (0, "x")]:
        row = store.get(*key).row
        assert row == (_rows({key: table[key]})[0] if key in table else None)
    for low, high in [(-2, 1), (0, 0), (2, -2)]:
        kept = {key: n for key, n in ordered.items() if low <= key[0] <= high}
        assert store.range(low, high).rows == _rows(kept)
        assert store.range(low, high, reverse=True, limit=2).rows == _rows(kept)[::-1][:2]
    pairs = {key: n for key, n in ordered.items() if (-1, "x") <= key <= (1, "x")}
    assert store.range((-1, "x"), (1, "x")).rows == _rows(pairs)
    assert store.prefix(1).rows == _rows({key: n for key, n in ordered.items() if key[0] == 1})
    begun = {key: n for key, n in ordered.items() if key[0] == 1 and key[1].startswith("x")}
    assert store.prefix(a=1, begins="x").rows == _rows(begun)


def test_bytes_that_begin_with_others_are_all_found(tmp_path):
    written = Written(tmp_path, {"k": pa.binary(), "n": pa.int64()}, ("k",))
    keys = [b"a", b"a\xff", b"a" + b"\xff" * 12, b"b"]
    written.write(0, come=[{"k": k, "n": n} for n, k in enumerate(keys)])
    assert [row["k"] for row in written.store.prefix(begins=b"a").rows] == keys[:3]
    assert [row["k"] for row in written.store.prefix(begins=b"a\xff").rows] == keys[1:3]


def test_windows_of_a_key(tmp_path):
    fields = {"user": pa.string(), "start_time": pa.timestamp("us", tz="UTC"), "n": pa.int64()}
    written = Written(tmp_path, fields, ("user", "start_time"))
    hours = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(5)]
    written.write(0, come=[{"user": user, "start_time": at, "n": at.hour} for user in ("ann", "bo") for at in hours])
    assert [row["n"] for row in written.store.windows("ann", start=hours[1], end=hours[3]).rows] == [1, 2, 3]
    assert [row["n"] for row in written.store.windows("bo", start="2026-01-01T03:00:00").rows] == [3, 4]
    assert len(written.store.windows("ann").rows) == 5
    with pytest.raises(ConfigurationError, match="windows are found by a time"):
        written.store.windows("ann", hours[0])


CHILD = """
    import os, signal, sys
    from pathlib import Path
    import pyarrow as pa
    from rs_assets.connectors.sqlite import ledger
    from tests.queries.writing import Written
    written = Written(Path(sys.argv[1]), {"user": pa.string(), "n": pa.int64()}, ("user",))
    rows = lambda batch: [{"user": f"u{n}", "n": batch} for n in range(500)]
"""


def _child(folder, code):
    program = textwrap.dedent(CHILD) + textwrap.dedent(code)
    return subprocess.Popen([sys.executable, "-c", program, str(folder)], cwd=Path.cwd())


@pytest.mark.canary
@pytest.mark.parametrize("behind", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_killed_writer_leaves_a_whole_batch_that_is_written_once(tmp_path, behind):
    kill = "os.kill(os.getpid(), signal.SIGKILL)"
    last = (
        f"written.write(1, rows(1)); {kill}"
        if behind
        else f"ledger.note = lambda *a, **k: {kill}; written.write(1, rows(1))"
    )
    child = _child(tmp_path, f"written.write(0, rows(0)); {last}")
    assert child.wait(60) == -signal.SIGKILL
    written = Written(tmp_path, TOTALS, ("user",))
    answer = written.store.all()
    assert ({row["n"] for row in answer.rows}, answer.batch) == (({1}, 1) if behind else ({0}, 0))
    assert written.writer().committed(written.mark(1)) is behind
    assert written.write(1, [{"user": f"u{n}", "n": 1} for n in range(500)]) == (0 if behind else 500)
    assert {row["n"] for row in written.store.all().rows} == {1}


@pytest.mark.long
def test_a_reader_sees_whole_batches_of_a_writer_in_another_process(tmp_path):
    child = _child(tmp_path, "for batch in range(25): written.write(batch, rows(batch))")
    written = Written(tmp_path, TOTALS, ("user",))
    seen = [written.store.all(at_least=0, timeout=60).batch]
    while child.poll() is None:
        answer = written.store.all()
        assert {row["n"] for row in answer.rows} == {answer.batch}
        assert answer.batch >= seen[-1]
        seen.append(answer.batch)
    assert child.returncode == 0
    assert written.store.get("u7").row == {"user": "u7", "n": 24}


def test_at_least_waits_for_a_batch_and_ends_in_time(totals):
    with pytest.raises(ConfigurationError, match="has no batch yet"):
        totals.store.get("ann", at_least=0, timeout=0.01)
    totals.write(0, come=[{"user": "ann", "n": 1}])
    assert totals.store.get("ann", at_least=0).row == {"user": "ann", "n": 1}
    with pytest.raises(StoreBehindError, match="is at batch 0, and batch 1 did not come in 0.01 s"):
        totals.store.get("ann", at_least=1, timeout=0.01)


def test_a_batch_or_a_limit_that_is_not_a_number_is_refused_and_the_remedy_is_taken(totals):
    totals.write(0, come=[{"user": "ann", "n": 1}])
    answer = totals.store.all()
    with pytest.raises(ConfigurationError, match="must be the number of a batch, not '0'") as caught:
        totals.store.get("ann", at_least="0")
    assert caught.value.remedy == "at_least=answer.batch"
    assert totals.store.get("ann", at_least=answer.batch).row == {"user": "ann", "n": 1}
    with pytest.raises(ConfigurationError, match="must be a positive whole number, not True"):
        totals.store.all(limit=True)


def test_what_cannot_be_right_is_refused(totals, tmp_path):
    with pytest.raises(SinkError, match="lacks the batches before 3"):
        totals.write(3, come=[{"user": "ann", "n": 1}])
    totals.write(0, come=[{"user": "ann", "n": 1}], token=2)
    with pytest.raises(LeaseLostError):
        totals.write(1, token=1)
    with pytest.raises(SinkError, match="cannot go to batch 5 of generation 1"):
        totals.writer().check_rewind(totals.mark(5, token=2), totals.mark(5, 2, token=2), 5)
    other = Written(tmp_path, {"user": pa.int64(), "n": pa.int64()}, ("user",))
    with pytest.raises(SinkError, match="has the keys user string, and the batch has user int64"):
        other.write(1, come=[{"user": 1, "n": 1}], token=2)
    for question in (
        totals.store.get,
        lambda: totals.store.get("a", "b"),
        lambda: totals.store.get(name="a"),
    ):
        with pytest.raises(ConfigurationError, match="the keys of the store are user"):
            question()
    with pytest.raises(ConfigurationError, match="no key of the store"):
        totals.store.get(1.5)


def test_what_a_refused_question_advises_is_answered(tmp_path):
    fields = {"user": pa.string(), "day": pa.timestamp("us"), "n": pa.int64()}
    written = Written(tmp_path, fields, ("user", "day"))
    written.write(0, come=[{"user": "ann", "day": NAIVE, "n": 1}])
    ask = written.store
    for wrong, advice, right in (
        (lambda: ask.all(limit=0), "limit=100", lambda: ask.all(limit=100)),
        (lambda: ask.get("ann"), "give all of them", lambda: ask.get("ann", day=NAIVE)),
        (lambda: ask.range(("a", None, 1)), "at most one value for each", lambda: ask.range(("a", None))),
        (lambda: ask.get("ann", 1.5), "its keys are user string, day", lambda: ask.get("ann", "2026-01-01")),
        (lambda: ask.windows("ann", NAIVE), "give the keys before 'day'", lambda: ask.windows("ann")),
        (lambda: ask.prefix("ann", begins="2"), "give the keys before the text", lambda: ask.prefix(begins="an")),
    ):
        with pytest.raises(ConfigurationError, match=advice):
            wrong()
        assert right().row == {"user": "ann", "day": NAIVE, "n": 1}


def test_what_a_refused_batch_advises_is_written(totals, tmp_path):
    with pytest.raises(SinkError, match="lacks the batches before 3"):
        totals.write(3)
    totals.write(0, come=[{"user": "ann", "n": 1}])
    begun = totals.mark(5, 2)
    with pytest.raises(SinkError, match="--new-generation"):
        totals.writer().rewind(totals.mark(5), begun, 5)
    other = Written(tmp_path, {"user": pa.int64(), "n": pa.int64()}, ("user",))
    with pytest.raises(SinkError, match="begin a new generation"):
        other.write(1, come=[{"user": 1, "n": 1}])
    assert other.write(0, come=[{"user": 1, "n": 1}], generation=2) == 1
    (tmp_path / "other").mkdir()
    for keys, place, advice in ((("days",), tmp_path, "name fields of plain values"), (("n",), tmp_path / "other", "")):
        nested = Written(place, {"days": pa.list_(pa.int64()), "n": pa.int64()}, keys)
        if advice:
            with pytest.raises(SinkError, match=advice):
                nested.write(0, come=[{"days": [1], "n": 1}])
        else:
            assert nested.write(0, come=[{"days": [1], "n": 1}]) == 1
    second = dataclasses.replace(totals.mark(0), sink="second")
    with pytest.raises(SinkError, match="serve under another name"):
        totals.writer().stage(Frame([], TOTALS), second).commit()
    (tmp_path / "second").mkdir()
    assert Written(tmp_path / "second", TOTALS, ("user",)).writer().stage(Frame([], TOTALS), second).commit() == 0


def test_a_new_generation_replaces_the_rows_with_its_first_batch(totals):
    totals.write(0, come=[{"user": "ann", "n": 1}])
    assert "until a batch replaces them" in totals.writer().check_begin(totals.mark(0, 2))
    assert totals.store.get("ann").row is not None
    totals.write(0, come=[{"user": "bo", "n": 1}], generation=2)
    assert totals.store.all().rows == [{"user": "bo", "n": 1}]
