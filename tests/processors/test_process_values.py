"""process_values: a function of the key, the state and the rows of a batch."""

import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from rs_assets import build_definitions
from rs_assets.compile.process.by_key import ByKey
from rs_assets.compile.process.touched import Shape
from rs_assets.errors import SchemaError, StepError, TopologyError, UnknownFieldError
from tests.processors.conftest import source, touched

CLICKS = "user string, page string, ms bigint"
VISITS = {"keys": "user", "state": "seen bigint", "schema": "user string, seen bigint, pages array<string>"}


def visits(key, state, rows):
    """Count the rows of a user, and forget him when he signs out."""
    seen = (state["seen"] if state else 0) + len(rows)
    told = [{"user": key["user"], "seen": seen, "pages": [row["page"] for row in rows]}]
    return (None if rows[-1]["page"] == "/bye" else {"seen": seen}), told


def by_user(rows):
    return sorted(rows, key=lambda row: row["user"])


def test_process_values_keeps_a_state_for_each_key_until_the_function_returns_none(follow):
    told = follow(
        source(CLICKS).process_values(visits, **VISITS),
        [
            [{"user": "ann", "page": "/", "ms": 1}, {"user": "bo", "page": "/", "ms": 1}],
            [{"user": "ann", "page": "/a", "ms": 1}, {"user": "ann", "page": "/bye", "ms": 1}],
            [{"user": "ann", "page": "/", "ms": 1}, {"user": "bo", "page": "/b", "ms": 1}],
        ],
    )
    assert list(map(by_user, told)) == [
        [{"user": "ann", "seen": 1, "pages": ["/"]}, {"user": "bo", "seen": 1, "pages": ["/"]}],
        [{"user": "ann", "seen": 3, "pages": ["/a", "/bye"]}],
        [{"user": "ann", "seen": 1, "pages": ["/"]}, {"user": "bo", "seen": 2, "pages": ["/b"]}],
    ]


KINDS = (
    "k string, `at home` double, n int, at timestamp, d decimal(20,3), tags array<string>, of map<string,int>,"
    " inner struct<a: int, b: string>, raw binary, day date, flag boolean"
)


def remember(key, state, rows):
    """Keep the rows of a key, and tell all of them whenever one comes; a row without a number ends that."""
    kept = [*(state["rows"] if state else []), *rows]
    plain = [{name: value for name, value in row.items() if name not in key} for row in kept]
    told = [{"k": key["k"], "at home": key["at home"], "all": plain}]
    return (None if rows[-1]["n"] is None else {"rows": plain}), told


def values_of(seed):
    """Batches of rows of all kinds of values, with nulls also among the keys."""
    rng = random.Random(seed)

    def maybe(value):
        return None if rng.random() < 0.2 else value

    def row(number):
        return {
            "k": maybe(rng.choice(["", "a", "ü", "b'"])),
            "at home": maybe(rng.choice([0.0, 1.5, -2.0])),
            "n": maybe(number),
            "at": maybe(datetime(2026, 1, 1, 0, 0, rng.randrange(60), 123456, UTC)),
            "d": None,
            "tags": maybe(["x", None]),
            "of": maybe({"y": 1}),
            "inner": maybe({"a": number, "b": maybe("z")}),
            "raw": None,
            "day": None,
            "flag": maybe(rng.random() < 0.5),
        }

    return [[row(number) for number in range(60)] for _ in range(4)]


def test_process_values_of_all_kinds_of_values_equals_a_dictionary_over_cuts_and_restarts(follow):
    fields = KINDS.split(", ", 2)[2]
    members = ", ".join(each.replace(" ", ": ", 1) for each in _split(fields))
    kept = f"array<struct<{members}>>"
    stream = source(KINDS).process_values(
        remember,
        keys=["k", "at home"],
        state=f"rows {kept}",
        schema=f"k string, `at home` double, all {kept}",
        buckets=3,
    )
    batches = values_of(1)
    told = follow(stream, batches, restarts=[1, 3])
    states = {}
    for rows, made in zip(batches, told, strict=True):
        wanted, touched = [], {}
        for row in rows:
            touched.setdefault((row["k"], row["at home"]), []).append(row)
        for (k, home), mine in touched.items():
            state, out = remember({"k": k, "at home": home}, states.get((k, home)), mine)
            states[k, home] = state
            wanted += out
        assert sorted(map(repr, map(plain, made))) == sorted(map(repr, map(plain, wanted)))


def plain(value):
    """Values that compare as people would: a moment is one, in whichever zone it is written."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, list):
        return list(map(plain, value))
    return {key: plain(each) for key, each in value.items()} if isinstance(value, dict) else value


def _split(fields):
    """The fields of a schema without commas inside of types."""
    depth, parts = 0, [""]
    for char in fields:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(char, 0)
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def last_pages(key, state, rows):
    return {"seen": len(rows)}, [{"user": key["user"], "seen": len(rows), "pages": [row["page"] for row in rows]}]


def test_process_values_gets_rows_in_the_order_of_reading_or_of_a_field(follow):
    rows = [{"user": "ann", "page": f"/{n % 7}-{n}", "ms": -n} for n in range(200)]
    read = follow(source(CLICKS).process_values(last_pages, **VISITS), [rows])
    assert read[0][0]["pages"] == [row["page"] for row in rows]
    ordered = follow(source(CLICKS).process_values(last_pages, **VISITS, order_by="ms"), [rows])
    assert ordered[0][0]["pages"] == [row["page"] for row in reversed(rows)]


def second(key, state, rows):
    n = (state["n"] if state else 0) + len(rows)
    return {"n": n}, [{"user": str(key["seen"]), "seen": n, "pages": []}]


def test_process_values_may_follow_another_one(follow):
    first = source(CLICKS).process_values(visits, **VISITS)
    both = first.process_values(second, **{**VISITS, "keys": "seen", "state": "n bigint"}, name="second")
    clicks = [{"user": user, "page": "/", "ms": 1} for user in ("ann", "bo", "bo", "cy")]
    told = follow(both, [clicks, clicks[:1]], restarts=[1])
    assert [(row["user"], row["seen"]) for row in by_user(told[0])] == [("1", 2), ("2", 1)]
    assert [(row["user"], row["seen"]) for row in told[1]] == [("2", 2)]


WRONG = [
    (lambda key, state, rows: {"seen": 1}, "must return two values"),
    (lambda key, state, rows: ({"seem": 1}, []), "the field 'seem'"),
    (lambda key, state, rows: ({"seen": "x"}, []), "returned a state that does not fit its schema: seen='x'"),
    (lambda key, state, rows: (None, [{"user": "a"}]), "the field 'pages' is missing"),
    (lambda key, state, rows: (None, [{"user": 5, "seen": 1, "pages": []}]), "returned a record that does not fit"),
    (lambda key, state, rows: (rows[0]["page_"], []), "raised KeyError"),
]


@pytest.mark.parametrize(("function", "why"), WRONG)
def test_process_values_names_step_and_key_of_a_function_that_fails(function, why):
    row, made = [("page", pa.string())], [("user", pa.string()), ("seen", pa.int64()), ("pages", pa.list_(pa.string()))]
    shape = Shape("process", ("user",), pa.schema(row), pa.schema([("seen", pa.int64())]), pa.schema(made))
    with pytest.raises(StepError, match=why) as caught:
        ByKey(function, shape)(touched({"user": "ann"}, None, [{"page": "/"}], shape))
    assert caught.value.facts["step"] == "process"
    assert caught.value.facts["key"] == "{'user': 'ann'}"


REFUSED = [
    (lambda: source(CLICKS).process_values(visits, **{**VISITS, "keys": []}), TopologyError, "at least one field"),
    (lambda: source(CLICKS).process_values(visits, **{**VISITS, "keys": "nope"}), UnknownFieldError, "nope"),
    (lambda: source("user array<int>").process_values(visits, **VISITS), TopologyError, "not a plain value"),
    (lambda: source(CLICKS).process_values(visits, **VISITS, buckets=0), TopologyError, "whole number of buckets"),
    (lambda: source(CLICKS).process_values(visits, **{**VISITS, "state": None}), SchemaError, "has no state"),
    (lambda: source(CLICKS).process_values(visits, **{**VISITS, "state": "user string"}), TopologyError, "is a key"),
    (
        lambda: source(CLICKS).process_values(visits, **VISITS).to_table("user").to_stream(),
        TopologyError,
        "no order of reading",
    ),
    (
        lambda: source(CLICKS).to_table("user").to_stream().process_values(visits, **VISITS),
        TopologyError,
        "would count retractions",
    ),
]


@pytest.mark.parametrize(("make", "kind", "why"), REFUSED)
def test_process_values_refuses_what_cannot_work(make, kind, why):
    with pytest.raises(kind, match=why):
        make().to_print().build()


def test_process_values_is_an_asset_in_dagster():
    pipeline = source(CLICKS).process_values(visits, **VISITS).to_delta("visits").build()
    (graph,) = build_definitions([pipeline]).assets
    assert ["test", "process", "processor"] in [key.path for key in graph.keys]
