"""Python functions of the rows of a window, against the same functions called on the rows in their order."""

from dataclasses import dataclass
from functools import reduce

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import HoppingWindow, MemoryChannel, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import SchemaError, StepError, TopologyError, UnknownFieldError
from rs_assets.runtime.upkeep.state import preview
from tests.operators.driving import cut, emitted
from tests.operators.model import at, sessions, sliced

SCHEMA = "key string, v bigint, tags array<string>, ts timestamp"
TEN = TumblingWindow.of(Time.seconds(10), "ts")
GAP = 4


def path(before, row):
    """Depends on the order of the rows."""
    said = f"{row['v']}{''.join(row['tags'] or [])}@{row['ts']:%S}"
    return {"path": f"{before['path']} {said}" if before else said}


@dataclass(frozen=True)
class Mean:
    """An aggregate with a setting of its own."""

    of: str

    def create(self):
        return [0, 0]

    def accumulate(self, accumulator, row):
        accumulator[0] += row[self.of]
        accumulator[1] += 1
        # What another function does to a row is not seen here.
        row.clear()
        return accumulator

    def value(self, accumulator):
        return {"mean": accumulator[0] / accumulator[1]}


def windows(stream, name, window, emit):
    window = stream.window(window, name=name, emit=emit).group_by("key").count("n")
    window = window.reduce(Mean("v"), schema="mean double", fields=["v"], name=f"{name}_mean")
    window = window.reduce(path, schema="path string", fields=["v", "tags", "ts"], name=f"{name}_path")
    return window.water_mark(Time.seconds(90)).to_data_stream()


WINDOWS = {
    "session": (SessionWindow.of(Time.seconds(GAP), "ts"), "on_window_close"),
    "hopping": (HoppingWindow.of(Time.seconds(10), Time.seconds(5), "ts"), "on_update_and_close"),
    "merging": (SessionWindow.of(Time.seconds(GAP), "ts"), "on_window_update"),
}


def expected(groups):
    made = {}
    for (key, start, end), rows in groups.items():
        ordered = sorted(rows, key=lambda row: (row["ts"], row["v"], row["tags"]))
        mean = sum(row["v"] for row in rows) / len(rows)
        made[key, start, end] = (len(rows), mean, reduce(path, ordered, None)["path"])
    return made


def standing(rows):
    """The rows that nothing has taken back or replaced."""
    known = {}
    for row in rows:
        place = (row["key"], row["start_time"], row["end_time"])
        if row.get("retracted"):
            assert known.pop(place) == (row["n"], row["mean"], row["path"])
        else:
            known[place] = (row["n"], row["mean"], row["path"])
    return known


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_should_see_rows_in_order_however_they_came(driver, data):
    row = st.fixed_dictionaries(
        {
            "key": st.sampled_from("ab"),
            "v": st.integers(-5, 5),
            "tags": st.lists(st.sampled_from("xy"), max_size=1),
            "ts": st.integers(0, 40).map(at),
        }
    )
    rows = data.draw(st.lists(row, min_size=6, max_size=20))
    built = stream = StreamBuilder.data_stream("test", "reduce").from_file("in.jsonl", schema=SCHEMA)
    for name, (window, emit) in WINDOWS.items():
        built = windows(stream, name, window, emit).to_print(name=f"{name}_out")
    batches = cut(data, rows, least=1, most=2)
    restart = data.draw(st.integers(0, len(batches) - 1))
    told = emitted(built.build(), driver, WINDOWS, batches, restart=restart)
    assert standing(told["hopping"]) == expected(sliced(rows, size=10, slide=5))
    assert standing(told["session"]) == expected(sessions(rows, gap=GAP))
    assert standing(told["merging"]) == standing(told["session"])


def sums(channel, function, **options):
    stream = StreamBuilder.data_stream("test", "sums").from_memory(channel, **options)
    window = stream.window(TEN, name="w").group_by("key").count("n")
    return window.reduce(function, schema="total bigint", fields="v").water_mark(Time.seconds(60)).to_data_stream()


def add(before, row):
    return {"total": (before or {"total": 0})["total"] + row["v"]}


def add_twice(before, row):
    return {"total": (before or {"total": 0})["total"] + 2 * row["v"]}


def hits(*values):
    return [{"key": "k", "v": v, "ts": at(n)} for n, v in enumerate(values)]


def read(options, table):
    return DeltaTable(options.home.table("test", table)).to_pyarrow_table().to_pylist()


def test_the_function_may_change_and_state_is_kept(options):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*hits(1, 2))
    job = sums(channel, add).to_delta("sums").build()
    job.run(options)
    (seen,) = preview(job.topology, "w", options).to_pylist()
    assert (seen["n"], seen["total"]) == (2, None)
    channel.put(*hits(3))
    sums(channel, add_twice).to_delta("sums").build().run(options, finish=True)
    assert [(row["key"], row["n"], row["total"]) for row in read(options, "sums")] == [("k", 3, 12)]


def shown(before, row):
    """What a function gets to see, row after row."""
    made = (before["shown"] if before else []) + [" ".join(f"{name}={value}" for name, value in row.items())]
    return {"shown": made}


def spoil(before, row):
    """Changes what lies inside a row."""
    row["tags"].append("spoilt")
    return {"spoilt": True}


def test_each_function_has_rows_of_its_own(options):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*({"key": "k", "v": v, "tags": [tag], "ts": at(1)} for v, tag in ((1, "z"), (2, "y"), (3, "x"))))
    window = StreamBuilder.data_stream("test", "own").from_memory(channel).window(TEN, name="w").group_by("key")
    window = window.reduce(spoil, schema="spoilt boolean", fields=["tags"], name="first")
    window = window.reduce(shown, schema="shown array<string>", fields=["v", "tags"], name="second")
    window.to_data_stream().to_delta("own").build().run(options, finish=True)
    (row,) = read(options, "own")
    assert row["spoilt"]
    assert row["shown"] == ["v=1 tags=['z']", "v=2 tags=['y']", "v=3 tags=['x']"]


def test_a_window_may_stand_behind_it(options):
    channel = MemoryChannel(schema=SCHEMA)
    minutes = sums(channel, add).window(TumblingWindow.of(Time.minutes(1), "start_time"), name="minutes")
    channel.put(*({**row, "ts": at(9 * n)} for n, row in enumerate(hits(1, 2, 3, 4))))
    minutes.sum("total").count("windows").to_delta("minutes").build().run(options, finish=True)
    assert [(row["total"], row["windows"]) for row in read(options, "minutes")] == [(10, 3)]


def inverse(before, row):
    return {"total": 10 // row["v"]}


def test_what_it_raises_ends_the_run_or_is_a_dead_letter(options):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*hits(1, 0), {"key": "good", "v": 2, "ts": at(1)})
    with pytest.raises(StepError, match="step 'w_reduce' raised ZeroDivisionError"):
        sums(channel, inverse).to_delta("failed").build().run(options, finish=True)


def test_under_quarantine_the_other_windows_go_on(options):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put(*hits(1, 0), {"key": "good", "v": 2, "ts": at(1)})
    job = sums(channel, inverse, bad_records="quarantine").to_delta("kept").build()
    job.run(options, finish=True)
    assert [(row["key"], row["total"]) for row in read(options, "kept")] == [("good", 5)]
    letters = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    assert [row["step"] for row in letters] == ["w_reduce"]


@pytest.mark.parametrize(
    ("made", "error", "told"),
    [
        (lambda w: w.reduce(add), SchemaError, "has no schema"),
        (lambda w: w.reduce("sum(v)", schema="v bigint"), TopologyError, r"create\(\), accumulate"),
        (lambda w: w.reduce(Mean, schema="mean double"), TopologyError, r"create\(\), accumulate"),
        (lambda w: w.reduce(add, schema="total nothing"), SchemaError, "nothing"),
        (lambda w: w.reduce(add, schema="total bigint", fields="w"), UnknownFieldError, "'w'"),
        (
            lambda w: w.count("rows of the window").reduce(add, schema="total bigint"),
            TopologyError,
            "two columns called rows of the window",
        ),
        (lambda w: w.count("total").reduce(add, schema="total bigint"), TopologyError, "two columns called total"),
        (
            lambda w: w.reduce(add, schema="a bigint").reduce(add, schema="b bigint"),
            TopologyError,
            "window_reduce",
        ),
    ],
)
def test_what_cannot_be_is_refused(made, error, told):
    window = StreamBuilder.data_stream("test", "refused").from_file("in.jsonl", schema=SCHEMA).window(TEN)
    with pytest.raises(error, match=told):
        made(window).to_data_stream().to_print().build()
