"""What Python functions get, what may come of it, and what becomes of the rest. Arrow alone, without Spark."""

import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rs_assets.common.errors_wire import from_wire
from rs_assets.compile.python.fields_read import fields_read
from rs_assets.compile.python.python_step import FusedSteps, python_step
from rs_assets.compile.python.udf import Runner
from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.udf import Body

TEXT, NUMBER = pa.string(), pa.int64()
RECORD = {
    "page": TEXT,
    "ms": NUMBER,
    "tags": pa.list_(TEXT),
    "attrs": pa.map_(TEXT, NUMBER),
    "s": pa.struct([("m", pa.map_(TEXT, TEXT))]),
    "ts": pa.timestamp("us", tz="UTC"),
}
AT = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
ROW = {"page": "/a", "ms": 1, "tags": ["x"], "attrs": {"k": 1}, "s": {"m": {"a": "b"}}, "ts": AT}


def fused(steps, *, kinds=RECORD, quarantines=False):
    """`steps` are (kind, function) or (kind, function, fields that it makes); they are called s0, s1 and so on."""
    made = tuple(pa.schema(step[2]) if step[2:] else None for step in steps)
    out = next((schema for schema in reversed(made) if schema is not None), pa.schema(kinds))
    extra = [("_rs_line", NUMBER)]
    extra += [("_rs_label", TEXT)] if any(step[0] == "label" for step in steps) else []
    extra += [("_rs_reason", TEXT)] if quarantines else []
    named = tuple(python_step(step[0], f"s{n}", step[1]) for n, step in enumerate(steps))
    return FusedSteps(named, made, pa.schema([*out, *map(pa.field, *zip(*extra, strict=True))]), quarantines)


def through(steps, rows=(ROW,), kinds=RECORD, **options):
    numbered = [{**row, "_rs_line": n} for n, row in enumerate(rows, 1)]
    batch = pa.RecordBatch.from_pylist(numbered, pa.schema({**kinds, "_rs_line": NUMBER}))
    (out,) = fused(steps, kinds=kinds, **options)([batch])
    return out.to_pylist(maps_as_pydicts="strict")


def values(steps, rows=(ROW,), kinds=RECORD):
    return [{k: v for k, v in row.items() if not k.startswith("_rs_")} for row in through(steps, rows, kinds)]


def failure(steps, rows=(ROW,), kinds=RECORD):
    """The error that ends the batch."""
    with pytest.raises(RuntimeError) as caught:
        through(steps, rows, kinds)
    return from_wire(str(caught.value))


@pytest.mark.parametrize("dumps", [json.dumps, lambda row, **_: orjson.dumps(row).decode()], ids=["json", "orjson"])
def test_encoders_see_the_whole_record(dumps):
    row = {**ROW, "ts": None}
    (made,) = values([("map", lambda row: {"body": dumps(row)}, {"body": TEXT})], [row])
    assert json.loads(made["body"]) == row
    (made,) = values([("flat_map", lambda row: [{"body": dumps({"in": row})}], {"body": TEXT})], [row])
    assert json.loads(made["body"]) == {"in": row}
    (made,) = through([("label", dumps)], [row])
    assert json.loads(made["_rs_label"]) == row
    assert values([("map", lambda row: {"s": row}, {"s": pa.struct(RECORD)})]) == [{"s": ROW}]


def test_a_filter_gets_a_mapping_that_no_encoder_takes_for_empty():
    def look(row):
        return isinstance(row, Mapping) and row == ROW and len(row) == 6 and "q" not in row and [*row] == [*ROW]

    assert values([("filter", look)]) == [ROW]
    assert "not JSON serializable" in failure([("filter", json.dumps)]).what
    assert values([("filter", lambda row: "/a" in json.dumps(dict(row), default=str))]) == [ROW]
    assert values([("filter", lambda row: (row | {"ms": 5})["ms"] == ({"ms": 4} | row)["ms"] + 4)]) == [ROW]
    # The same behind a function that made the record.
    same = ("map", lambda row: row, RECORD)
    assert values([same, ("filter", look)]) == [ROW]
    assert "not JSON serializable" in failure([same, ("filter", json.dumps)]).what


def test_maps_are_dicts_wherever_they_are():
    step = ("map", lambda r: {"x": r["attrs"]["k"], "y": r["s"]["m"]["a"]}, {"x": NUMBER, "y": TEXT})
    assert values([step]) == [{"x": 1, "y": "b"}]
    odd = {"m": pa.map_(pa.struct([("a", NUMBER)]), TEXT)}
    (made,) = values([("map", lambda r: {"n": r["m"][0][0]["a"]}, {"n": NUMBER})], [{"m": [({"a": 3}, "x")]}], odd)
    assert made == {"n": 3}


def spoil(row):
    """Change everything that can be changed."""
    row["tags"].append("spoilt")
    row["attrs"]["spoilt"] = 1
    row["s"]["m"].clear()
    if isinstance(row, dict):
        row.clear()
    return True


@pytest.mark.parametrize("kind", ["filter", "for_each", "label"])
@pytest.mark.parametrize("before", [(), (("map", lambda row: row, RECORD),)], ids=["first", "behind a map"])
def test_what_a_function_does_to_its_record_nobody_else_sees(kind, before):
    tell = ("map", lambda row: {"body": json.dumps(row, default=str)}, {"body": TEXT})
    expected = json.dumps(ROW, default=str)
    assert values([*before, (kind, spoil), ("filter", lambda row: len(row["tags"]) == 1), tell]) == [{"body": expected}]
    assert values([*before, (kind, spoil)]) == [ROW]
    assert values([("filter", lambda row: bool(row["tags"])), *before, (kind, spoil)]) == [ROW]


def test_each_record_of_a_generator_stands_as_it_was_yielded():
    def thrice(row):
        made = {"n": 0}
        for n in range(3):
            made["n"] = n
            yield made

    assert values([("flat_map", thrice, {"n": NUMBER})]) == [{"n": 0}, {"n": 1}, {"n": 2}]
    kept = {}

    def same(row):
        kept["n"] = row["ms"]
        return kept

    assert values([("map", same, {"n": NUMBER})], [ROW, {**ROW, "ms": 2}]) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    "kind", [list, set, deque, dict.fromkeys, bytearray], ids=["list", "set", "deque", "dict", "bytearray"]
)
def test_each_record_has_the_content_that_a_container_had_when_it_was_returned(kind):
    """A function may use one container again and again, within others too."""
    kept = kind([0])
    grow = getattr(kept, "append", getattr(kept, "add", getattr(kept, "setdefault", None)))
    several = pa.map_(NUMBER, NUMBER) if isinstance(kept, dict) else pa.list_(NUMBER)
    whole = pa.binary() if isinstance(kept, bytearray) else several
    fields = {"seen": whole, "within": pa.list_(whole)}

    def seen(row):
        grow(row["ms"])
        return {"seen": kept, "within": (kept,)}

    def both(row):
        yield seen(row)
        yield seen({"ms": row["ms"] + 1})

    def sizes(steps, *numbers):
        return [(len(row["seen"]), len(row["within"][0])) for row in values(steps, [{**ROW, "ms": n} for n in numbers])]

    assert sizes([("map", seen, fields)], 1, 2) == [(2, 2), (3, 3)]
    assert sizes([("flat_map", both, fields)], 3, 5) == [(4, 4), (5, 5), (6, 6), (7, 7)]


def test_each_value_of_a_function_over_columns_is_what_it_was_when_it_was_returned():
    kept = []

    def seen(n):
        kept.append(n)
        return kept

    body = Body("seen", "seen", seen, ("bigint",), (False,), "array<bigint>")
    numbers = pa.array([1, 2, 3])
    made = Runner(body, pa.list_(NUMBER))(numbers, numbers).to_pylist()
    assert [each["value"] for each in made] == [[1], [1, 2], [1, 2, 3]]


def test_what_a_function_does_to_a_constant_of_the_one_before_no_record_has():
    known = ["x"]
    first = ("map", lambda row: {"tags": known, "ms": row["ms"]}, {"tags": pa.list_(TEXT), "ms": NUMBER})

    def add(row):
        row["tags"].append(str(row["ms"]))
        return row

    second = ("map", add, {"tags": pa.list_(TEXT), "ms": NUMBER})
    rows = [{**ROW, "ms": n} for n in (1, 2)]
    assert [row["tags"] for row in values([first, second], rows)] == [["x", "1"], ["x", "2"]]


@dataclass
class Point:
    x: int


MISFITS = {
    "a field is missing": ({"x": NUMBER, "y": NUMBER}, {"x": 1}, "the field 'y' is missing; return {'y': None}"),
    "a field too many": ({"x": NUMBER}, {"x": 1, "y": 2}, "it has the field 'y', which is not one of: x"),
    "another name": ({"x": NUMBER}, {"z": 1}, "it has the field 'z', which is not one of: x"),
    "a dataclass too": ({"x": NUMBER, "y": NUMBER}, Point(1), "the field 'y' is missing"),
    "another type": ({"x": NUMBER}, {"x": "abc"}, "x='abc' is not of type bigint"),
    "a part of a number": ({"x": NUMBER}, {"x": 1.5}, "x=1.5 is not of type bigint"),
    "too large": ({"x": NUMBER}, {"x": 2**70}, "is not of type bigint"),
    "no moment": ({"ts": RECORD["ts"]}, {"ts": "soon"}, "ts='soon' is not a timestamp"),
    "no number at all": ({"x": NUMBER}, {"x": Decimal("sNaN")}, "x=Decimal('sNaN') is not of type bigint"),
    "null": ([pa.field("x", NUMBER, nullable=False)], {"x": None}, "x=None is not of type bigint"),
    "a member unknown": (
        {"s": pa.struct({"page": TEXT})},
        {"s": {"pagee": "/"}},
        "s={'pagee': '/'} is not of type struct<page:string>",
    ),
    "a member deep down": (
        {"m": pa.map_(TEXT, pa.list_(pa.struct({"a": NUMBER})))},
        {"m": {"k": [{"a": 1}, {"b": 1}]}},
        "m={'k': [{'a': 1}, {'b': 1}]} is not of type map<string,array<struct<a:bigint>>>",
    ),
    "a member null": (
        {"s": pa.struct([pa.field("a", NUMBER, nullable=False)])},
        {"s": {"a": None}},
        "s={'a': None} is not of type struct<a:bigint>",
    ),
    "half a character": ({"x": TEXT}, {"x": "\ud800"}, "x='\\ud800' is not of type string"),
    "no struct": ({"s": pa.struct({"a": NUMBER})}, {"s": 7}, "s=7 is not of type struct<a:bigint>"),
}


@pytest.mark.parametrize("case", MISFITS)
@pytest.mark.parametrize("kind", ["map", "flat_map"])
def test_a_result_that_does_not_fit_names_step_line_and_record(case, kind):
    fields, bad, text = MISFITS[case]

    def make(row):
        return (bad if kind == "map" else [bad]) if row["ms"] == 2 else ([] if kind == "flat_map" else good)

    good = {field.name: None for field in pa.schema(fields)}
    if case == "null":
        good = {"x": 0}
    if case == "a member null":
        good = {"s": None}
    rows = [{**ROW, "ms": n} for n in (1, 2, 3)]
    error = failure([(kind, make, fields)], rows)
    assert error.what.startswith("step 's0' returned a record that does not fit its schema: ")
    assert text in error.what
    assert (error.facts["step"], error.facts["line"]) == ("s0", 2)
    assert "_rs_" not in str(error)
    out = through([(kind, make, fields)], rows, quarantines=True)
    assert [(row["_rs_line"], row["_rs_reason"]) for row in out if row["_rs_reason"]] == [(2, error.what[:500])]


def test_functions_that_end_oddly_name_their_step_too():
    class OddError(Exception):
        def __str__(self):
            raise ValueError

    def odd(row):
        raise OddError

    def leave(row):
        raise SystemExit(3)

    def half(row):
        raise ValueError("\ud800")

    class Undecided:
        def __bool__(self):
            raise ValueError("neither")

    for function, text in ((odd, "OddError: "), (leave, "SystemExit: 3"), (half, "ValueError: \\ud800")):
        assert failure([("for_each", function)]).what == f"step 's0' raised {text}"
        (row,) = through([("for_each", function)], quarantines=True)
        assert row["_rs_reason"] == f"step 's0' raised {text}"
    assert failure([("filter", lambda row: Undecided())]).what == "step 's0' raised ValueError: neither"
    assert "UnicodeEncodeError" in failure([("label", lambda row: "\ud800")]).what
    assert "a list of dicts, not dict" in failure([("flat_map", lambda row: {"n": 1}, {"n": NUMBER})]).what


def test_rows_in_quarantine_have_a_value_where_the_schema_says_not_null():
    kinds = {
        "n": NUMBER, "t": TEXT, "b": pa.binary(), "f": pa.bool_(), "d": pa.decimal128(9, 2), "at": RECORD["ts"],
        "day": pa.date32(), "x": pa.float64(), "l": pa.list_(TEXT), "m": pa.map_(TEXT, TEXT),
        "s": pa.struct([pa.field("a", NUMBER, nullable=False)]),
    }  # fmt: skip
    fields = [pa.field(name, kind, nullable=False) for name, kind in kinds.items()]
    (row,) = through([("map", lambda row: {}, fields)], quarantines=True)
    assert not [name for name in kinds if row[name] is None]
    assert row["s"] == {"a": 0}


def test_a_function_that_cannot_be_sent_to_the_workers_names_its_step(capfd):
    lock = threading.Lock()
    with pytest.raises(
        TopologyError, match="the function of step 'locked' cannot be sent to Spark's workers: "
    ) as told:
        python_step("filter", "locked", lambda row: lock is not None)
    assert told.value.facts["step"] == "locked"
    assert capfd.readouterr().err == ""


CODE = {
    "one field": (lambda r: r["page"] == "/a", ("page",)),
    "two and a default": (lambda r: r["page"] and r.get("ms", 0) > 0, ("page", "ms")),
    "a field there is not": (lambda r: r.get("nothing") is None, ("nothing",)),
    "nothing": (lambda r: True, ()),
    "the whole": (lambda r: len(r) == 6, None),
    "handed on": (lambda r: bool(dict(r)), None),
    "a name that is computed": (lambda r: r["pa" + "ge".lower()] == "/a", None),
    "a name in a variable": (lambda r: all(r[name] is not None for name in ("page", "ms")), None),
    "a method that is kept": (lambda r: next(map(r.get, ["page"])) == "/a", None),
    "captured": (lambda r: any(r["page"] == page for page in ["/a"]), None),
    "stored under another name": (lambda r: [q := r] and q["page"] == "/a", None),
    "a way to see all variables": (lambda r: r["page"] and len(locals()["r"]) == 6, None),
    "star": (lambda *r: r[0]["page"] == "/a", None),
    "a callable object": ("/a".__eq__, None),
    "a choice of names": (lambda r: r["page" if r["ms"] else "tags"] == "/a", None),
    "in": (lambda r: "page" in r and r["page"] == "/a", None),
}


@pytest.mark.parametrize("case", CODE)
def test_only_what_a_function_surely_reads_is_left_out(case):
    function, known = CODE[case]
    assert fields_read(function) == known
    if case != "a callable object":
        assert values([("filter", function)]) == [ROW]


# The differential test: chains of steps against plain Python, row by row.


def failing(row):
    if row["n"] % 5 == 0:
        raise ValueError(row["n"])


PIECES = {
    "odd": ("filter", lambda r: r["n"] % 2 == 1),
    "odd, whole": ("filter", lambda r: dict(r)["n"] % 2 == 1),
    "spoil": ("for_each", lambda r: r.clear()),
    "fail": ("for_each", failing),
    "fail to tell": ("filter", lambda r: 10 // (r["n"] % 4) > 0),
    "label": ("label", lambda r: None if r["n"] == 3 else r["n"] % 3),
    "add": ("map", lambda r: {"n": r["n"] + 1, "l": [*r["l"], r["n"]]}, {"n": NUMBER, "l": pa.list_(NUMBER)}),
    "own": ("map", lambda r: r, {"n": NUMBER, "l": pa.list_(NUMBER)}),
    "misfit": ("map", lambda r: {"n": r["n"], "l": r["l"] if r["n"] != 4 else 0}, {"n": NUMBER, "l": pa.list_(NUMBER)}),
    "twice": ("flat_map", lambda r: [r, {**r, "n": r["n"] * 2}], {"n": NUMBER, "l": pa.list_(NUMBER)}),
    "some": ("flat_map", lambda r: [r] * (r["n"] % 3), {"n": NUMBER, "l": pa.list_(NUMBER)}),
}


def by_hand(steps, row):
    """What becomes of one row: the rows it makes with their labels, or None if a step fails on one of them."""
    rows = [(json.loads(json.dumps(row)), None)]
    for kind, call, *_ in steps:
        made = []
        for record, label in rows:
            given = json.loads(json.dumps(record))
            try:
                result = call(given)
            except Exception:  # noqa: BLE001  whatever a piece raises
                return None
            if kind == "filter":
                made += [(record, label)] * bool(result)
            elif kind == "for_each":
                made.append((record, label))
            elif kind == "label":
                made.append((record, None if result is None else str(result)))
            else:
                each = [result] if kind == "map" else result
                made += [(json.loads(json.dumps(one)), label) for one in each]
        rows = made
    return rows


@settings(max_examples=150, deadline=None)
@given(
    chain=st.lists(st.sampled_from(sorted(set(PIECES) - {"misfit"})), min_size=1, max_size=5),
    last=st.sampled_from([(), ("misfit",)]),
    numbers=st.lists(st.integers(0, 12), max_size=12),
)
def test_chains_give_what_plain_python_gives(chain, last, numbers):
    steps = [PIECES[name] for name in (*chain, *last)]
    rows = [{"n": n, "l": [n]} for n in numbers]
    expected = {line: by_hand(steps, row) for line, row in enumerate(rows, 1)}
    for line, made in expected.items():
        if made is not None and any(record["l"] == 0 for record, _ in made):
            expected[line] = None
    out = through(steps, rows, {"n": NUMBER, "l": pa.list_(NUMBER)}, quarantines=True)
    good = [(row["_rs_line"], row["n"], row["l"], row.get("_rs_label")) for row in out if row["_rs_reason"] is None]
    assert good == [(ln, r["n"], r["l"], label) for ln, made in expected.items() for r, label in made or ()]
    failed = [row["_rs_line"] for row in out if row["_rs_reason"] is not None]
    assert sorted(failed) == [line for line, made in expected.items() if made is None]
    if failed:
        error = failure(steps, rows, {"n": NUMBER, "l": pa.list_(NUMBER)})
        assert error.facts["line"] in failed
        assert error.facts["step"].startswith("s")
