"""Pure functions are called once for each distinct value: which ones are pure, and that nothing else changes."""

import json
import math
import random
import re
import time
import types
from urllib import parse

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rs_assets.common.errors_wire import from_wire
from rs_assets.compile.python.memoize import once_each
from rs_assets.compile.python.purity import is_pure
from tests.operators.test_python_records import through

PATTERN, TIERS, SEEN, COUNTER, HANDLERS = re.compile("a+"), frozenset("ab"), set(), [0], {"a": print}
KINDS = {"page": pa.string(), "n": pa.int64(), "x": pa.float64()}


def normal(text):
    return text.strip().lower()


def depth(number):
    return number and depth(number - 1)


def caught(record):
    try:
        return json.loads(record["page"])["kind"]
    except ValueError:
        return None


def remembered(record):
    SEEN.add(record["page"])
    return True


def kept_by_name(record):
    return kept_by_name.seen.append(record["page"])


def lazy():
    module = types.ModuleType("lazy")
    module.__getattr__ = lambda name: pytest.fail(f"{name} was imported")
    return lambda record: module.loads(record["page"])


def with_default(record, seen=[]):  # noqa: B006  that is the point
    return seen.append(record["page"])


def counting():
    number = 0

    def count(record):
        nonlocal number
        number += 1
        return number % 2

    return count


def above(least):
    return lambda record: record["n"] > least


ONLY_COMPUTE = {
    "comparison": lambda r: r["page"] == "/a",
    "method": lambda r: r["page"].split("/")[1] in {"a", "b"},
    "pattern": lambda r: bool(PATTERN.match(r["page"])),
    "module": lambda r: re.search("a", r["page"], re.IGNORECASE) is not None,
    "constant of a module": lambda r: r["n"] > math.pi,
    "module of a package": lambda r: parse.urlsplit(r["page"]).netloc,
    "lookup": lambda r: r["page"] in TIERS and r["page"] in ("a", "b"),
    "helper": lambda r: normal(r["page"]) == "a",
    "recursion": lambda r: depth(r["n"]),
    "caught": caught,
    "generator": lambda r: any(c.isdigit() for c in r["page"]),
    "comprehension": lambda r: [c for c in r["page"] if c in TIERS],
    "format": lambda r: f"{r['page']:>3}",
    "captured": above(3),
}
MAY_DO_MORE = {
    "chance": lambda r: random.random() < 0.1,
    "clock": lambda r: time.time() > 0,
    "remembered": remembered,
    "kept by its name": kept_by_name,
    "kept by a default": with_default,
    "counted outside": counting(),
    "counted in a list": lambda r: COUNTER[0],
    "list stored into": lambda r: COUNTER.__setitem__(0, r["n"]),
    "looked up where another step may remember": lambda r: r["page"] in SEEN,
    "called from a table": lambda r: HANDLERS.get("a")(r["page"]),
    "print": lambda r: print(r["page"]),
    "file": lambda r: open(r["page"]),  # noqa: PTH123, SIM115  that is the point
    "hidden": lambda r: r["page"].__class__,
    "module of a module": lambda r: json.codecs.open(r["page"]),
    "module that imports when it is asked": lazy(),
    "not there": lambda r: not_there(r["page"]),  # noqa: F821  that is the point
    "not a plain function": "x".startswith,
}


@pytest.mark.parametrize("case", ONLY_COMPUTE)
def test_functions_that_only_compute_are_known(case):
    assert is_pure(ONLY_COMPUTE[case])


@pytest.mark.parametrize("case", MAY_DO_MORE)
def test_functions_that_may_do_more_are_not(case):
    assert not is_pure(MAY_DO_MORE[case])


def test_a_pure_function_is_called_once_for_each_value():
    called = []
    column = pa.array(["/a", None, "/b", "/a"] * 10)
    answers = once_each(column, lambda value: called.append(value) or value == "/a", bool)
    assert called == ["/a", None, "/b"]
    assert answers.tolist() == [True, False, False, True] * 10


@pytest.mark.parametrize(
    "column", [["/a", "/b"], [0.0, -0.0] * 10, [True, False] * 10, [["a"]] * 10], ids=["many", "double", "bool", "list"]
)
def test_other_values_are_looked_at_row_by_row(column):
    assert once_each(pa.array(column), pytest.fail, bool) is None


def outcome(steps, rows, *, quarantines):
    """The rows behind `steps`, or the facts of the error that ends the batch."""
    try:
        return through(steps, rows, KINDS, quarantines=quarantines)
    except RuntimeError as error:
        return from_wire(str(error)).facts


def whole(call):
    """The same function, whose code does not tell what it reads."""
    return lambda record: call(dict(record))


PIECES = [
    ("filter", lambda r: r["page"] in ("/a", "/b")),
    ("filter", lambda r: r["n"] % 3 > 0),
    ("filter", lambda r: r.get("n", 0) < 3),
    ("filter", lambda r: 10 // r["n"]),
    ("label", lambda r: r["page"].strip("/")),
    ("label", lambda r: r["n"] if r["n"] != 2 else None),
    ("filter", lambda r: r["x"] > 0),
]


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.sampled_from(PIECES), min_size=1, max_size=4),
    few=st.lists(
        st.fixed_dictionaries(
            {
                "page": st.sampled_from(["/a", "/b", "", None]),
                "n": st.sampled_from([0, 1, 2, 3, None]),
                "x": st.floats(),
            }
        ),
        min_size=1,
        max_size=8,
    ),
    repeated=st.integers(1, 12),
    quarantines=st.booleans(),
)
def test_rows_labels_and_failures_are_the_same(steps, few, repeated, quarantines):
    rows = few * repeated
    expected = outcome([(kind, whole(call)) for kind, call in steps], rows, quarantines=quarantines)
    assert repr(outcome(steps, rows, quarantines=quarantines)) == repr(expected)
