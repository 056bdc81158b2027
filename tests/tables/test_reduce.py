"""reduce and cogroup: values that Python functions keep for each group of a table or of streams."""

import random
import threading
from collections import defaultdict
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from rs_assets import StreamBuilder
from rs_assets.compile.process.by_group import INPUT, ByGroup, row_of
from rs_assets.compile.process.by_group import ROWS as COUNT
from rs_assets.compile.process.touched import Shape
from rs_assets.compile.process.wire import LENGTH
from rs_assets.errors import StepError, TopologyError
from rs_assets.records.columns import RETRACTED
from rs_assets.testing import PipelineDriver
from rs_assets.topology.nodes.table_reduce import Adder, Adders

ROWS = "id bigint, user string, ms bigint"


def orders(**how):
    stream = StreamBuilder.data_stream("test", "reduce").from_file("in.jsonl", schema=ROWS, tail=True)
    return stream.to_table("id", deletes="user = 'nobody'", **how)


def add(value, row):
    """The bits of all milliseconds, and their number."""
    value = value or {"bits": 0, "n": 0}
    return {"bits": value["bits"] ^ (row["ms"] or 0), "n": value["n"] + 1}


def subtract(value, row):
    return {"bits": value["bits"] ^ (row["ms"] or 0), "n": value["n"] - 1}


def order(number, user, ms):
    return {"id": number, "user": user, "ms": ms}


def test_a_value_follows_rows_that_come_change_and_go(driver):
    table = orders().group_by("user").reduce(add, subtract=subtract, schema="bits bigint, n int")
    with PipelineDriver(table.to_stream().to_print().build(), spark=driver) as pipeline:

        def step(*rows):
            pipeline.push([order(*row) for row in rows])
            pipeline.step()
            return sorted((r["user"], r["bits"], r["n"], r["retracted"]) for r in pipeline.take())

        assert step((1, "ann", 5), (2, "ann", 1), (3, None, 9)) == [("ann", 4, 2, False)]
        assert step((1, "bo", 6)) == [("ann", 1, 1, False), ("ann", 4, 2, True), ("bo", 6, 1, False)]
        pipeline.restart()
        assert step((2, "nobody", 0)) == [("ann", 1, 1, True)]
        assert step((3, "bo", 6), (1, "bo", 6)) == [("bo", 0, 2, False), ("bo", 6, 1, True)]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_values_of_random_histories_equal_a_dictionary_after_each_batch(driver, seed):
    rng = random.Random(seed)
    table = orders().group_by("user").reduce(add, subtract=subtract, schema="bits bigint, n int")
    known, shown = {}, {}
    with PipelineDriver(table.to_stream().to_print().build(), spark=driver) as pipeline:
        for number in range(6):
            rows = [
                (rng.randrange(30), rng.choice(["ann", "bo", "cy", None, "nobody"]), rng.randrange(99))
                for _ in range(40)
            ]
            if number == 3:
                pipeline.restart()
            pipeline.push([order(*row) for row in rows])
            pipeline.step()
            for row in sorted(pipeline.take(), key=lambda row: not row["retracted"]):
                value = (row["bits"], row["n"])
                if row["retracted"]:
                    assert shown.pop(row["user"]) == value
                else:
                    assert row["user"] not in shown
                    shown[row["user"]] = value
            for each, user, ms in rows:
                known[each] = (user, ms)
                if user == "nobody":
                    del known[each]
            wanted = defaultdict(lambda: (0, 0))
            for user, ms in known.values():
                if user is not None:
                    wanted[user] = (wanted[user][0] ^ ms, wanted[user][1] + 1)
            assert shown == dict(wanted)


def test_a_function_may_change_the_value_that_it_gets(driver):
    def pages(value, row):
        value = value or {"pages": []}
        value["pages"].append(row["ms"])
        return value

    stream = StreamBuilder.data_stream("test", "mutates").from_file("in.jsonl", schema=ROWS, tail=True)
    table = stream.group_by("user").reduce(pages, schema="pages array<bigint>")
    with PipelineDriver(table.to_stream().to_print().build(), spark=driver) as pipeline:
        for ms in (1, 2):
            pipeline.push([order(ms, "ann", ms)])
            pipeline.step()
        changes = [(row["pages"], row["retracted"]) for row in pipeline.take()]
        assert sorted(changes) == [([1], False), ([1], True), ([1, 2], False)]


def test_reduce_of_a_stream_takes_rows_in_the_order_of_reading(driver):
    def path(value, row):
        return {"path": f"{value['path']} {row['ms']}" if value else str(row["ms"])}

    stream = StreamBuilder.data_stream("test", "path").from_file("in.jsonl", schema=ROWS, tail=True)
    table = stream.group_by("user").reduce(path, schema="path string")
    with PipelineDriver(table.to_stream().filter("NOT retracted").to_print().build(), spark=driver) as pipeline:
        pipeline.push([order(n, "ann", ms) for n, ms in enumerate((3, 1, 2))])
        pipeline.step()
        pipeline.push([order(9, "ann", 0)])
        pipeline.step()
        assert [row["path"] for row in pipeline.take()] == ["3 1 2", "3 1 2 0"]


def test_cogroup_adds_rows_of_streams_and_tables_to_one_value(driver):
    shop = StreamBuilder.data_stream("test", "cogroup")
    clicks = shop.from_file("a.jsonl", schema="user string, page string", tail=True, name="clicks")
    buys = shop.from_file("b.jsonl", schema=ROWS, tail=True, name="buys").to_table("id")

    def clicked(key, row, value):
        return {**value, "pages": sorted({*value["pages"], f"{key['user']}{row['page']}"})}

    def bought(key, row, value):
        return {**value, "spent": value["spent"] + row["ms"]}

    def gave_back(key, row, value):
        return {**value, "spent": value["spent"] - row["ms"]}

    both = clicks.group_by("user").cogroup(clicked).cogroup(buys.group_by("user"), bought, subtract=gave_back)
    table = both.aggregate(schema="pages array<string>, spent bigint", initial=lambda: {"pages": [], "spent": 0})
    built = table.to_stream().filter("NOT retracted").to_print().build()
    assert "table_reduce <- clicks, table  [clicked, bought by user]  Python: with the state" in str(built.describe())
    with PipelineDriver(built, spark=driver) as pipeline:
        pipeline.push([{"user": "ann", "page": "/"}], "clicks")
        pipeline.push([order(1, "ann", 5), order(2, "bo", 7)], "buys")
        pipeline.step()
        made = sorted((row["user"], row["pages"], row["spent"]) for row in pipeline.take())
        assert made == [("ann", ["ann/"], 5), ("bo", [], 7)]
        pipeline.push([{"user": "bo", "page": "/x"}], "clicks")
        pipeline.push([order(1, "bo", 1)], "buys")
        pipeline.step()
        made = sorted((row["user"], row["pages"], row["spent"]) for row in pipeline.take())
        assert made == [("ann", ["ann/"], 0), ("bo", ["bo/x"], 8)]


def test_a_table_of_values_may_be_grouped_joined_and_written(options, tmp_path):
    rows = [order(1, "ann", 5), order(2, "bo", 1), order(3, "ann", 5)]
    table = StreamBuilder.data_stream("test", "after").from_array(rows, schema=ROWS).to_table("id")
    values = table.group_by("user").reduce(add, subtract=subtract, schema="bits bigint, n int")
    by_n = values.group_by("n").collect("user", "users").to_table(name="by_n")
    assert sorted((r["n"], r["users"]) for r in by_n.to_stream().preview()) == [(1, ["bo"]), (2, ["ann"])]


def grouped(**how):
    return orders().group_by("user").reduce(add, **{"subtract": subtract, "schema": "bits bigint, n int", **how})


REFUSED = [
    (lambda: grouped(subtract=None), TopologyError, "cannot subtract them"),
    (lambda: grouped(schema="user string"), TopologyError, "is a key, and a field of the value"),
    (
        lambda: orders().group_by("user").count("n").reduce(add, subtract=subtract, schema="b int"),
        TopologyError,
        "other",
    ),
    (
        lambda: (
            orders().group_by("user").cogroup(add, subtract=add).cogroup(orders().group_by("id"), add, subtract=add)
        ).aggregate(schema="n int"),
        TopologyError,
        "two pipelines",
    ),
]


@pytest.mark.parametrize(("make", "kind", "why"), REFUSED)
def test_reduce_refuses_what_cannot_work(make, kind, why):
    with pytest.raises(kind, match=why):
        make().to_stream().to_print().build()


def test_a_function_that_fails_ends_the_run_with_its_key(driver):
    rows = [order(1, "ann", 5)]
    stream = StreamBuilder.data_stream("test", "fails").from_array(rows, schema=ROWS)
    with pytest.raises(StepError, match="the field 'n' is missing") as caught:
        stream.group_by("user").reduce(lambda value, row: {"bits": 1}, schema="bits int, n int").to_stream().preview()
    assert caught.value.facts["key"] == "{'user': 'ann'}"


def locked():
    lock = threading.Lock()
    return lambda value, row: lock and value


def first_locked():
    lock = threading.Lock()
    return lambda: lock and {"n": 0}


def few():
    return StreamBuilder.data_stream("test", "few").from_array([order(1, "ann", 5)], schema=ROWS).to_table("id")


def reduced_by(function, other=subtract):
    return few().group_by("user").reduce(function, subtract=other, schema="bits bigint, n int")


def cogrouped(initial):
    group = few().group_by("user").cogroup(lambda key, row, value: value, subtract=lambda key, row, value: value)
    return group.aggregate(schema="n int", initial=initial)


UNSENDABLE = [
    (lambda: reduced_by(add, locked()), r"that subtracts a row \(subtract=\) of step 'reduced'"),
    (lambda: reduced_by(locked()), "that adds a row of step 'reduced'"),
    (lambda: cogrouped(first_locked()), r"that makes a first value \(initial=\) of step 'cogroup'"),
]


@pytest.mark.parametrize(("make", "why"), UNSENDABLE)
def test_a_function_that_holds_a_lock_is_named(driver, make, why):
    with pytest.raises(TopologyError, match=f"the function {why} cannot be sent") as caught:
        make().to_stream().preview()
    assert caught.value.remedy == "create locks, connections and open files inside the function, not outside"


def test_a_first_value_that_all_keys_share_is_not_changed_by_one(driver):
    shared = {"pages": [], "n": 0}

    def clicked(key, row, value):
        value["pages"].append(row["id"])
        value["n"] += 1
        return value

    rows = [order(1, "ann", 5), order(2, "bo", 1), order(3, "ann", 5), order(4, "cy", 1)]
    table = (
        StreamBuilder.data_stream("test", "shared")
        .from_array(rows, schema=ROWS)
        .group_by("user")
        .cogroup(clicked)
        .aggregate(schema="pages array<bigint>, n int", initial=lambda: shared)
    )
    made = sorted((row["user"], row["pages"], row["n"]) for row in table.to_stream().preview())
    assert made == [("ann", [1, 3], 2), ("bo", [2], 1), ("cy", [4], 1)]


def touched_by(shape, state, rows):
    """A batch for the worker with the key "ann"."""
    kinds = {name: pa.string() for name in shape.keys}
    columns = {
        "key": pa.array([{"user": "ann"}], pa.struct(kinds.items())),
        "state": pa.array([state], pa.struct(list(shape.state))),
        "rows": pa.array([rows], pa.list_(pa.struct(list(shape.rows)))),
    }
    return pa.record_batch(columns)


def answered(adder, kind, state, *rows):
    """The new state and the changes of "ann" after rows, each its milliseconds and whether it goes; no Spark."""
    number = pa.struct([("ms", pa.int64())])
    sent = pa.schema([(INPUT, pa.int32()), (RETRACTED, pa.bool_()), (row_of(0), number)])
    shape = Shape(
        "reduced",
        ("user",),
        sent,
        pa.schema([*kind, (COUNT, pa.int64())]),
        pa.schema([("user", pa.string()), *kind, (RETRACTED, pa.bool_())]),
    )
    fields = frozenset(name for name, _ in kind)
    batch = touched_by(shape, state, [{INPUT: 0, RETRACTED: goes, row_of(0): {"ms": ms}} for ms, goes in rows])
    content = ByGroup(Adders((adder,), None), fields, shape)(batch)
    (length,) = LENGTH.unpack_from(content)
    first, second = content[LENGTH.size :][:length], content[LENGTH.size + length :]
    states, made = (pa.ipc.open_stream(each).read_all().to_pylist() for each in (first, second))
    return states[0]["state"] if states else None, made


def test_a_value_that_stays_the_same_is_no_change_whatever_python_makes_of_it():
    kind = [("x", pa.float64()), ("at", pa.timestamp("us", tz="UTC")), ("tags", pa.list_(pa.string()))]
    at = datetime(2026, 1, 5, tzinfo=UTC)

    def same(key, row, value):
        return {"x": float("nan"), "at": at.replace(tzinfo=None), "tags": ("a",)}

    state, made = answered(Adder(same, same), kind, None, (1, False))
    assert [row[RETRACTED] for row in made] == [False]
    assert answered(Adder(same, same), kind, state, (1, False))[1] == []
    assert answered(Adder(same, same), kind, state, (1, True), (2, False))[1] == []


def test_the_value_has_the_types_of_its_fields_within_a_batch_as_after_it():
    seen = []

    def add(key, row, value):
        seen.append(value and value["x"])
        return {"x": 1}

    state, _ = answered(Adder(add, None), [("x", pa.float32())], None, (1, False), (2, False))
    answered(Adder(add, None), [("x", pa.float32())], state, (3, False))
    assert repr(seen) == "[None, 1.0, 1.0]"


def kept_small(key, row, value):
    """The sum of the milliseconds, while it is below ten."""
    total = (value["n"] if value else 0) + row["ms"]
    return {"n": total} if total < 10 else None


def less(key, row, value):
    return {"n": value["n"] - row["ms"]}


def test_a_function_that_returns_none_leaves_the_group_without_a_value():
    kind = [("n", pa.int64())]
    stream, table = Adder(kept_small, None), Adder(kept_small, less)
    assert answered(stream, kind, {"n": 7, COUNT: 1}, (5, False)) == (None, [{"user": "ann", "n": 7, RETRACTED: True}])
    assert answered(stream, kind, None, (50, False), (1, False)) == (
        {"n": 1, COUNT: 1},
        [{"user": "ann", "n": 1, RETRACTED: False}],
    )
    # Of a table the rows of the group are counted on: a row that goes takes nothing from a value that is not there.
    state, made = answered(table, kind, {"n": 7, COUNT: 1}, (5, False))
    assert (state, made) == ({"n": None, COUNT: -2}, [{"user": "ann", "n": 7, RETRACTED: True}])
    assert answered(table, kind, state, (7, True)) == ({"n": None, COUNT: -1}, [])
    assert answered(table, kind, state, (7, True), (5, True)) == (None, [])
    assert answered(table, kind, state, (3, False)) == ({"n": 3, COUNT: 3}, [{"user": "ann", "n": 3, RETRACTED: False}])


def test_a_group_without_a_value_has_no_row_until_its_next_one(driver):
    stream = StreamBuilder.data_stream("test", "small").from_file("in.jsonl", schema=ROWS, tail=True)
    table = stream.group_by("user").reduce(lambda value, row: kept_small(None, row, value), schema="n bigint not null")
    with PipelineDriver(table.to_stream().to_print().build(), spark=driver) as pipeline:
        told = []
        for ms in (4, 7, 2):
            pipeline.push([order(1, "ann", ms)])
            pipeline.step()
            told.append([(row["n"], row["retracted"]) for row in pipeline.take()])
        assert told == [[(4, False)], [(4, True)], [(2, False)]]
