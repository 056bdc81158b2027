"""Accumulators in Python that windows keep and merge, against the same aggregates of the rows in plain Python."""

import json
from base64 import b64decode
from dataclasses import dataclass
from decimal import Decimal
from random import Random

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import (
    CountWindow,
    CumulateWindow,
    GlobalWindow,
    HoppingWindow,
    MemoryChannel,
    OverWindow,
    SessionWindow,
    SlidingWindow,
    StreamBuilder,
    Time,
    TumblingWindow,
)
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import RsError, SchemaError, StepError, TopologyChangedError, TopologyError, UnknownFieldError
from rs_assets.records.encoded import encoded
from rs_assets.runtime.upkeep.state import preview, snapshot_state, state_path
from rs_assets.testing import PipelineDriver
from tests.crash import Crash
from tests.operators.driving import cut, emitted
from tests.operators.model import at, sessions, sliced

SCHEMA = "key string, v bigint, tags array<string>, ts timestamp"
TEN = TumblingWindow.of(Time.seconds(10), "ts")
GAP = 4


@dataclass(frozen=True)
class Summary:
    """An aggregate with a setting of its own, whose methods change what they get."""

    of: str

    def create(self):
        return {"total": 0, "newest": None, "tags": {}, "money": Decimal("0.00")}

    def accumulate(self, accumulator, row):
        accumulator["total"] += row[self.of]
        accumulator["newest"] = row["ts"]
        accumulator["money"] += Decimal(row[self.of]) / 100
        for tag in row["tags"] or ():
            accumulator["tags"][tag] = accumulator["tags"].get(tag, 0) + 1
        row.clear()
        return accumulator

    def merge(self, one, other):
        one["total"] += other["total"]
        one["newest"] = max(one["newest"], other["newest"])
        one["money"] += other["money"]
        for tag, count in other["tags"].items():
            one["tags"][tag] = one["tags"].get(tag, 0) + count
        return one

    def value(self, accumulator):
        told = " ".join(f"{tag}{count}" for tag, count in sorted(accumulator["tags"].items()))
        return {"summary": f"{accumulator['total']} {accumulator['money']} {accumulator['newest']:%M:%S} {told}"}


KIND = "struct<total bigint, newest timestamp, tags map<string, int>, money decimal(20, 2)>"


def least(before, row):
    return {"least": row["v"] if before is None else min(before["least"], row["v"])}


def lesser(one, other):
    return min(one, other, key=lambda each: each["least"])


def order(before, row):
    """Needs the rows, in their order."""
    return {"order": f"{before['order']} {row['v']}" if before else str(row["v"])}


def windows(stream, name, window, emit):
    window = stream.window(window, name=name, emit=emit).group_by("key").count("n")
    window = window.reduce(
        Summary("v"), schema="summary string", accumulator=KIND, fields=["v", "tags", "ts"], name=f"{name}_summary"
    )
    window = window.reduce(order, schema="order string", fields=["v"], name=f"{name}_order")
    window = window.reduce(least, merge=lesser, schema="least bigint", fields="v", name=f"{name}_least")
    return window.water_mark(Time.seconds(90)).to_data_stream()


WINDOWS = {
    "session": (SessionWindow.of(Time.seconds(GAP), "ts"), "on_window_close"),
    "hopping": (HoppingWindow.of(Time.seconds(10), Time.seconds(5), "ts"), "on_window_close"),
    "updated": (TEN, "on_window_update"),
    "fired": (TEN, "on_update_and_close"),
    "merging": (SessionWindow.of(Time.seconds(GAP), "ts"), "on_window_update"),
}


def expected(groups):
    return {place: told(rows) for place, rows in groups.items()}


def told(rows):
    """The columns of a window with `rows`."""
    ordered = sorted(rows, key=lambda row: (row["ts"], row["v"]))
    total, tags = sum(row["v"] for row in rows), [tag for row in rows for tag in row["tags"]]
    counts = " ".join(f"{tag}{tags.count(tag)}" for tag in sorted(set(tags)))
    summary = f"{total} {Decimal(total) / 100:.2f} {max(row['ts'] for row in rows):%M:%S} {counts}"
    return len(rows), summary, " ".join(str(row["v"]) for row in ordered), min(row["v"] for row in rows)


def standing(rows):
    """The rows that nothing has taken back or replaced."""
    known = {}
    for row in rows:
        place = (row["key"], row["start_time"], row["end_time"])
        shown = (row["n"], row["summary"], row["order"], row["least"])
        if row.get("retracted"):
            assert known.pop(place) == shown
        else:
            known[place] = shown
    return known


ROW = st.fixed_dictionaries(
    {
        "key": st.sampled_from("ab"),
        "v": st.integers(-5, 5),
        "tags": st.lists(st.sampled_from("xy"), max_size=2),
        "ts": st.integers(0, 40).map(at),
    }
)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_should_merge_what_came_in_any_batches(driver, data):
    rows = data.draw(st.lists(ROW, min_size=6, max_size=20))
    built = stream = StreamBuilder.data_stream("test", "merged").from_file("in.jsonl", schema=SCHEMA)
    for name, (window, emit) in WINDOWS.items():
        built = windows(stream, name, window, emit).to_print(name=f"{name}_out")
    batches = cut(data, rows, least=1, most=3)
    restart = data.draw(st.integers(0, len(batches) - 1))
    found = emitted(built.build(), driver, WINDOWS, batches, restart=restart)
    assert standing(found["session"]) == expected(sessions(rows, gap=GAP))
    assert standing(found["hopping"]) == expected(sliced(rows, size=10, slide=5))
    assert standing(found["updated"]) == standing(found["fired"]) == expected(sliced(rows, size=10, slide=10))
    assert standing(found["merging"]) == standing(found["session"])


LOW = {
    "counted": (CountWindow.of(3, "ts"), {}),
    "before": (OverWindow.rows(1, "ts", keep=["v"]), {}),
    "within": (OverWindow.range(Time.seconds(5), "ts", keep=["v"]), {}),
    "sliding": (SlidingWindow.of(Time.seconds(5), "ts"), {}),
    "cumulated": (CumulateWindow.of(Time.seconds(10), Time.seconds(5), "ts"), {}),
    "ever": (GlobalWindow.of("ts"), {}),
    "records": (TEN, {"emit": "on_record"}),
    "late": (TEN, {"late": "deltas"}),
}


def test_should_agree_with_a_minimum_of_spark_in_all_windows(driver):
    rows = [{"key": "ab"[n % 2], "v": (n * 7) % 11 - 5, "tags": [], "ts": at((n * 5) % 23)} for n in range(14)]
    built = stream = StreamBuilder.data_stream("test", "low").from_file("in.jsonl", schema=SCHEMA)
    for name, (window, how) in LOW.items():
        windowed = stream.window(window, name=name, emit=how.get("emit", "on_window_close")).group_by("key")
        windowed = windowed.late_firings(how["late"]) if "late" in how else windowed
        windowed = windowed.min("v", "spark").reduce(least, merge=lesser, schema="least bigint", fields="v")
        built = windowed.water_mark(Time.seconds(30)).to_data_stream().to_print(name=f"{name}_out")
    found = {name: [] for name in LOW}
    with PipelineDriver(built.build(), spark=driver) as running:
        for batch in (rows[:5], rows[5:]):
            running.push(batch)
            running.step()
            for name in LOW:
                found[name] += running.take(f"{name}_out")
        running.finish()
        for name in LOW:
            found[name] += running.take(f"{name}_out")
    for name, every in found.items():
        assert [row["least"] for row in every] == [row["spark"] for row in every] != [], name


def lows(channel, accumulate=least, merge=lesser, schema="least bigint", **options):
    stream = StreamBuilder.data_stream("test", "lows").from_memory(channel, **options)
    window = stream.window(TEN, name="w").group_by("key").count("n")
    window = window.reduce(accumulate, merge=merge, schema=schema, fields="v")
    return window.water_mark(Time.seconds(60)).to_data_stream()


def hits(*values):
    return [{"key": "k", "v": v, "ts": at(n % 10)} for n, v in enumerate(values)]


def read(options, table):
    return DeltaTable(options.home.table("test", table)).to_pyarrow_table().to_pylist()


def kept(job, options):
    """The bytes of the state of each window."""
    snapshot_state(job.topology, options)
    (row,) = DeltaTable(state_path(job.topology, "w", options.home)).to_pyarrow_table().to_pylist()
    (buffer,) = [value for name, value in json.loads(row["value"]).items() if name.startswith("buf")]
    return len(b64decode(buffer)), len(row["key"]) + len(row["value"])


def test_the_state_is_an_accumulator_however_many_rows_there_are(options):
    channel = MemoryChannel(schema=SCHEMA)
    job = lows(channel).to_delta("lows").build()
    for values in ([7], range(3000), [-3, 9]):
        channel.put(*hits(*values))
        job.run(options)
    own = len(encoded({"least": -3}))
    buffer, whole = kept(job, options)
    assert buffer == own
    assert whole <= own * 4 / 3 + 200
    (seen,) = preview(job.topology, "w", options).to_pylist()
    assert (seen["n"], seen["least"]) == (3003, None)
    job.run(options, finish=True)
    assert [(row["n"], row["least"]) for row in read(options, "lows")] == [(3003, -3)]


def twice(before, row):
    return least(before, {"v": 2 * row["v"]})


def test_the_functions_may_change_but_not_the_type(options):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*hits(5, 4))
    lows(channel).to_delta("lows").build().run(options)
    channel.put(*hits(1, 3))
    with pytest.raises(TopologyChangedError, match=r"accumulator\(struct<least double>\)"):
        lows(channel, schema="least double").to_delta("lows").build().run(options)
    lows(channel, twice, lambda one, other: one).to_delta("lows").build().run(options, finish=True)
    ((row),) = read(options, "lows")
    assert (row["n"], row["least"]) == (4, 4)


def minutes_of(channel, **options):
    """The least of each minute, from windows of ten seconds."""
    minutes = lows(channel, **options).window(TumblingWindow.of(Time.minutes(1), "start_time"), name="minutes")
    return minutes.reduce(
        lambda before, row: least(before, {"v": row["least"]}), merge=lesser, schema="least bigint", fields="least"
    )


def test_a_window_of_accumulators_may_follow_another(options):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*({**row, "ts": at(9 * n)} for n, row in enumerate(hits(4, 7, 2, 3))))
    minutes_of(channel).to_data_stream().to_delta("minutes").build().run(options, finish=True)
    assert [row["least"] for row in read(options, "minutes")] == [2]
    with pytest.raises(TopologyError, match="follows the Python step 'minutes_reduce', whose failing rows"):
        lows_of_counts(channel).to_data_stream().to_print().build()


def lows_of_counts(channel):
    """Accumulators of the rows of a window, where failing records become dead letters."""
    stream = StreamBuilder.data_stream("test", "chained").from_memory(channel, bad_records="quarantine")
    minutes = stream.window(TEN, name="w").group_by("key").count("v").to_data_stream()
    minutes = minutes.window(TumblingWindow.of(Time.minutes(1), "start_time"), name="minutes")
    return minutes.reduce(least, merge=lesser, schema="least bigint", fields="v")


def inverse(before, row):
    return {"least": 10 // row["v"]}


def lost(one, other):
    raise KeyError("lost")


def test_under_quarantine_the_row_that_it_fails_on_is_a_dead_letter(options):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*hits(5, 0, 2))
    report = lows(channel, inverse, bad_records="quarantine").to_delta("kept").build().run(options, finish=True)
    assert [(row["n"], row["least"]) for row in read(options, "kept")] == [(2, 2)]
    letters = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    assert [(row["step"], "ZeroDivisionError" in row["reason"]) for row in letters] == [("w_reduce", True)]
    assert report.rows_dead == 1


@pytest.mark.parametrize(
    ("accumulate", "merge", "error"),
    [
        (inverse, lesser, "step 'w_reduce' raised ZeroDivisionError"),
        (least, lost, "step 'w_reduce' raised KeyError"),
        (least, lambda one, other: {"least": "low"}, "step 'w_reduce' merged accumulators into one that does not fit"),
    ],
)
def test_what_it_raises_ends_the_run(options, accumulate, merge, error):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*hits(1, 0))
    with pytest.raises(StepError, match=error):
        lows(channel, accumulate, merge).to_delta("failed").build().run(options, finish=True)


def test_late_rows_have_their_fields_and_no_accumulator(driver):
    stream = StreamBuilder.data_stream("test", "late").from_file("in.jsonl", schema=SCHEMA)
    window = stream.window(TEN, name="w").group_by("key").reduce(least, merge=lesser, schema="least bigint", fields="v")
    job = window.late_to("late").water_mark(Time.seconds(1)).to_data_stream().to_print(name="out").build()
    with PipelineDriver(job, spark=driver) as running:
        for second in (1, 40, 2):
            running.push([{"key": "k", "v": second, "tags": ["x"], "ts": at(second)}])
            running.step()
        (row,) = running.take("late_table")
    assert {name: row[name] for name in row if name != "watermark"} == {
        "key": "k", "v": 2, "tags": ["x"], "ts": at(2)
    }  # fmt: skip


class Untyped(Summary):
    """The type of its accumulators is not known."""


class Typed(Untyped):
    def create(self) -> dict[str, int]:
        return {}


@pytest.mark.parametrize(
    ("made", "error", "told"),
    [
        (lambda w: w.reduce(Untyped("v"), schema="s string"), SchemaError, "the type of the accumulator"),
        (lambda w: w.reduce(Untyped("v"), schema="s string", accumulator="nothing"), SchemaError, "'nothing'"),
        (lambda w: w.reduce(Typed("v"), merge=lesser, schema="s string"), TopologyError, r"merge\(one, other\)"),
        (lambda w: w.reduce(Typed("v"), schema="s string", fields="w"), UnknownFieldError, "'w'"),
        (lambda w: w.count("s").reduce(Typed("v"), schema="s string"), TopologyError, "two columns called s"),
    ],
)
def test_what_cannot_be_is_refused(made, error, told):
    window = StreamBuilder.data_stream("test", "refused").from_file("in.jsonl", schema=SCHEMA).window(TEN)
    with pytest.raises(error, match=told):
        made(window).to_data_stream().to_print().build()


class World:
    """A followed file of rows, and a table of the windows that have closed."""

    def __init__(self, options, folder):
        self.options, self.file, self.rows = options, folder / "rows.jsonl", []
        self.file.write_text("")

    def pipeline(self):
        stream = StreamBuilder.data_stream("test", "ways").from_file(self.file, schema=SCHEMA, tail=True)
        window = stream.window(TEN, name="w").group_by("key").count("n")
        window = window.reduce(Summary("v"), schema="summary string", accumulator=KIND, fields=["v", "tags", "ts"])
        window = window.reduce(least, merge=lesser, schema="least bigint", fields="v", name="least")
        return window.water_mark(Time.seconds(20)).to_data_stream().to_delta("windows").build()

    def run(self, rows=()):
        with self.file.open("a") as file:
            file.writelines(json.dumps({**row, "ts": row["ts"].isoformat()}) + "\n" for row in rows)
        self.rows += rows
        return self.pipeline().run(self.options)

    def result(self):
        table = self.options.home.table("test", "windows")
        rows = DeltaTable(table).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(table) else []
        found = {(row["key"], row["start_time"], row["end_time"]): row for row in rows}
        assert len(found) == len(rows)
        return {place: (row["n"], row["summary"], row["least"]) for place, row in found.items()}

    def expected(self):
        """The windows that the watermark has passed."""
        closed = max(row["ts"] for row in self.rows) - Time.seconds(20)
        found = expected(sliced(self.rows, size=10, slide=10)).items()
        return {place: (n, summary, low) for place, (n, summary, _, low) in found if place[2] <= closed}


def some(seed, begin):
    """Rows of forty seconds, out of order by less than the watermark's delay."""
    rng = Random(seed)
    rows = [
        {"key": rng.choice("abc"), "v": rng.randint(-9, 9), "tags": [rng.choice("xy")], "ts": at(begin + n // 3)}
        for n in range(120)
    ]
    return sorted(rows, key=lambda row: row["ts"] + Time.seconds(rng.randint(0, 15)))


@pytest.mark.long
def test_a_crash_savepoints_rewinds_and_rescales_take_accumulators_along(options, tmp_path, monkeypatch):
    world = World(options, tmp_path)
    world.run(some(1, 0))
    taken, first = world.pipeline().savepoint(options), world.result()
    with monkeypatch.context() as patched:
        Crash(patched, DeltaWriter, behind=True)
        with pytest.raises(RsError, match="crash"):
            world.run(some(2, 40))
    world.run()
    assert world.result() == world.expected()
    world.pipeline().rescale(3, options)
    world.run(some(3, 80))
    assert world.result() == (last := world.expected())
    world.pipeline().rewind(0, options)
    world.run()
    assert world.result() == last
    world.pipeline().restore(options, savepoint_id=taken.id)
    assert world.result() == first
    world.run()
    assert world.result() == last


@pytest.mark.long
def test_the_state_of_a_window_of_a_million_rows(options, tmp_path):
    """At most 200 bytes more than its accumulator."""
    file = tmp_path / "in.jsonl"
    with file.open("w") as lines:
        lines.writelines(
            f'{{"key": "k", "v": {n}, "ts": "{at(n % 10):%Y-%m-%dT%H:%M:%SZ}"}}\n' for n in range(1_000_000)
        )
    stream = StreamBuilder.data_stream("test", "million").from_file(tmp_path / "*.jsonl", schema=SCHEMA)
    window = stream.window(TEN, name="w").group_by("key").count("n")
    window = window.reduce(least, merge=lesser, schema="least bigint", fields="v").water_mark(Time.seconds(60))
    job = window.to_data_stream().to_delta("lows").build()
    job.run(options)
    own = len(encoded({"least": 0}))
    buffer, whole = kept(job, options)
    assert buffer == own
    assert whole <= own + 200
    job.run(options, finish=True)
    assert [(row["n"], row["least"]) for row in read(options, "lows")] == [(1_000_000, 0)]
