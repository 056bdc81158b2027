"""process_batch: a function of Arrow tables, the states of many keys and their rows."""

import math
import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rs_assets.compile.process.by_batch import ByBatch
from rs_assets.compile.process.touched import Shape
from rs_assets.errors import StepError
from tests.processors.conftest import source, touched

SALES = "shop string, item int, ms bigint"
TOTALS = {"keys": ["shop", "item"], "state": "total bigint", "schema": "total bigint, shop string, item int"}


def totals(state, rows):
    """The sum of each key so far; a key whose sum is negative is forgotten."""
    new = rows.rename_columns({"ms": "total"})
    both = pa.concat_tables([state, new]).group_by(["shop", "item"]).aggregate([("total", "sum")])
    sums = both.rename_columns({"total_sum": "total"})
    return sums.filter(pc.greater_equal(sums["total"], 0)), sums


def test_process_batch_of_two_batches_adds_to_the_state(follow):
    told = follow(
        source(SALES).process_batch(totals, **TOTALS),
        [
            [{"shop": "a", "item": 1, "ms": 5}, {"shop": "a", "item": 1, "ms": 7}, {"shop": "b", "item": 1, "ms": 1}],
            [{"shop": "a", "item": 1, "ms": -20}],
            [{"shop": "a", "item": 1, "ms": 3}, {"shop": "b", "item": 1, "ms": 1}],
        ],
        restarts=[2],
    )
    assert [sorted((row["shop"], row["total"]) for row in rows) for rows in told] == [
        [("a", 12), ("b", 1)],
        [("a", -8)],
        [("a", 3), ("b", 2)],
    ]


def counted(state, rows):
    new = rows.select(["k"]).append_column("n", pa.repeat(1, len(rows)))
    now = pa.concat_tables([state, new]).group_by("k").aggregate([("n", "sum")]).rename_columns({"n_sum": "n"})
    return now, now


def test_rows_of_process_batch_have_one_zero_and_one_nan_as_their_key_has(follow):
    stream = source("k double").process_batch(counted, keys="k", state="n bigint", schema="k double, n bigint")
    numbers = [0.0, -0.0, math.nan, -math.nan, 1.5]
    told = follow(stream, [[{"k": k} for k in numbers], [{"k": -0.0}, {"k": -math.nan}]])
    assert [sorted((str(row["k"]), row["n"]) for row in rows) for rows in told] == [
        [("0.0", 2), ("1.5", 1), ("nan", 2)],
        [("0.0", 3), ("nan", 3)],
    ]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize(("key", "returned"), [(0.0, -0.0), (math.nan, -math.nan), (None, None)])
def test_a_state_is_that_of_its_key_whatever_its_zero_and_its_nan_are(kind, key, returned):
    state, made = pa.schema([("n", pa.int64())]), pa.schema([("k", kind)])
    shape = Shape("sums", ("k",), pa.schema([("k", kind)]), state, made)
    now = pa.table({"k": pa.array([returned], kind), "n": [1]})
    answer = ByBatch(lambda state, rows: (now, made.empty_table()), shape)
    assert answer(touched({"k": key}, None, [{"k": key}], shape))


def test_process_batch_of_a_random_history_equals_a_dictionary(follow):
    rng = random.Random(7)
    batches = [
        [
            {"shop": rng.choice([None, "", "a", "b"]), "item": rng.choice([None, 1, 2]), "ms": rng.randrange(-9, 10)}
            for _ in range(size)
        ]
        for size in (50, 1, 80, 30)
    ]
    told = follow(source(SALES).process_batch(totals, **TOTALS, buckets=3), batches, restarts=[1, 3])
    states = {}
    for rows, made in zip(batches, told, strict=True):
        sums = {}
        for row in rows:
            key = row["shop"], row["item"]
            sums[key] = sums.get(key, states.get(key, 0)) + row["ms"]
        states.update({key: max(total, 0) for key, total in sums.items()})
        assert {(row["shop"], row["item"]): row["total"] for row in made} == sums
        assert len(made) == len(sums)


def double(state, rows):
    return pa.concat_tables(
        [rows.select(["shop", "item"]).append_column("total", rows["ms"])] * 2
    ), rows.rename_columns({"ms": "total"})


def foreign(state, rows):
    keys = pa.table({"shop": ["nobody"], "item": pa.array([1], pa.int32()), "total": [1]})
    return keys, rows.rename_columns({"ms": "total"})


def raising(state, rows):
    raise ValueError("no luck")


WRONG = [
    (lambda state, rows: rows, "returned Table"),
    (lambda state, rows: (rows, rows), "returned state with the fields shop, item, ms, not shop, item, total"),
    (lambda state, rows: (None, rows), "returned NoneType as state"),
    (lambda state, rows: (state, pa.table({"total": ["x"], "shop": ["a"], "item": [1]})), "do not fit the schema"),
    (double, "two states for one key"),
    (foreign, "a state for a key without rows in this batch: {'shop': 'nobody', 'item': 1}"),
    (raising, "raised ValueError: no luck"),
]


@pytest.mark.parametrize(("function", "why"), WRONG)
def test_process_batch_says_what_a_function_did_wrong(function, why):
    rows = pa.schema([("shop", pa.string()), ("item", pa.int32()), ("ms", pa.int64())])
    made = pa.schema([("total", pa.int64()), ("shop", pa.string()), ("item", pa.int32())])
    shape = Shape("process", ("shop", "item"), rows, pa.schema([("total", pa.int64())]), made)
    batch = touched({"shop": "a", "item": 1}, None, [{"shop": "a", "item": 1, "ms": 5}], shape)
    with pytest.raises(StepError, match=why):
        ByBatch(function, shape)(batch)
