"""What a function becomes when it is traced, against the function itself. Without Spark."""

import random
import re
import sys

import pytest

from rs_assets import StreamBuilder
from rs_assets.compile.python.tracing.traced import trace_filter, trace_map
from rs_assets.compile.python.tracing.tree import UNDECIDED, leading_to, verdicts_of
from tests.operators.traced_functions import (
    FIELDS,
    FILTERS,
    LOOKED_AT,
    MAPS,
    SPREAD,
    Drawn,
    computed,
    followed,
    rows,
    wanted,
)
from tests.work import calls_of

ROWS = rows(300, seed=1)
# What a function may cost that is given up; about a tenth of a second.
MOST_CALLS = 100_000


def check_filter(function, told):
    traced = trace_filter(function, FIELDS)
    if traced.tree is None:
        assert traced.asked, told
        return "python"
    stays = leading_to(traced.tree, {"keep", *UNDECIDED})
    for row in ROWS:
        verdict = followed(traced.tree, row).verdict
        assert verdict in ("ask", wanted(function, row)), (told, row)
        assert (stays if isinstance(stays, bool) else computed(stays, row)) is (verdict != "drop"), (told, row)
    return "in part" if traced.asked else "whole"


def check_map(function, kind, told):
    traced = trace_map(function, FIELDS, {"x": kind})
    for row in ROWS if traced.tree is not None else ():
        leaf = followed(traced.tree, row)
        if leaf.verdict == "made":
            assert repr(computed(leaf.values[0], row)) == repr(function(dict(row))["x"]), (told, row)
        elif leaf.verdict == "raise":
            assert wanted(function, row) == "raise", (told, row)


@pytest.mark.parametrize("number", range(len(FILTERS)))
def test_a_tree_says_what_the_function_says(number):
    check_filter(FILTERS[number], number)


@pytest.mark.parametrize("number", range(len(MAPS)))
def test_a_tree_makes_what_the_function_makes(number):
    kind, function = MAPS[number]
    check_map(function, kind, number)


@pytest.mark.parametrize("seed", range(8))
def test_trees_of_functions_that_were_drawn(seed):
    found = {"whole": 0, "in part": 0, "python": 0}
    for drawn in (Drawn(100 * seed + n) for n in range(20)):
        source = drawn.filter()
        found[check_filter(eval(source), source)] += 1
        kind, source = drawn.map()
        check_map(eval(source), kind, source)
    assert found["whole"] + found["in part"] > 10, found


WIDER = {**FIELDS, "x": "bigint"}


def check_spread(function):
    traced = trace_map(function, FIELDS, WIDER)
    for row in ROWS if traced.tree is not None else ():
        leaf = followed(traced.tree, row)
        assert leaf.verdict in ("made", "ask")
        if leaf.verdict == "made":
            made = function(dict(row))
            assert [repr(computed(value, row)) for value in leaf.values] == [repr(made[name]) for name in WIDER]
    return traced


@pytest.mark.parametrize("function", SPREAD)
def test_trace_map_of_a_record_in_a_dict_makes_what_the_function_makes(function):
    traced = check_spread(function)
    assert traced.asked == ()
    assert verdicts_of(traced.tree) == {"made"}


@pytest.mark.parametrize("function", LOOKED_AT)
def test_trace_map_of_a_dict_that_is_looked_at_leaves_it_to_python(function):
    assert check_spread(function).asked


def test_trace_map_of_a_record_in_a_dict_widens_numbers_and_checks_narrow_ones():
    wider = trace_map(lambda r: {**r}, {"i": "int"}, {"i": "bigint"}).tree
    narrow = trace_map(lambda r: {**r}, {"n": "bigint"}, {"n": "int"}).tree
    assert verdicts_of(wider) == {"made"}
    assert [followed(narrow, {"n": n}).verdict for n in (None, 2**31 - 1, 2**31)] == ["made", "made", "ask"]
    for kind in ("float", "decimal(9,2)", "array<int>", "timestamp_ntz"):
        (asked,) = trace_map(lambda r: {**r}, {"a": kind}, {"a": kind}).asked
        assert asked.why == f"{kind} for a field of type {kind} is not known"


OUTSIDE = {"limit": 5, "pages": ["/a"], "calls": 0}
LEAST = 5


def made_outside(limit, pages):
    return lambda r: (r["n"] or 0) > limit and r["s"] in pages


def counting():
    calls = 0

    def count(r):
        nonlocal calls
        calls += 1
        return calls > 3 and r["b"]

    return count


def setting(r):
    global LEAST  # noqa: PLW0603  on purpose
    LEAST = 7
    return r["b"]


def printing(r):
    print(r["s"])
    return True


def trying(r):
    try:
        return r["n"] > 1
    except TypeError:
        return False


def generating(r):
    yield r["s"]


def looping(r):
    while r["n"] != 5:
        pass
    return True


def deep(r):
    return deep(r)


REFUSED = {
    "a mutable capture": (made_outside(5, ["/a"]), "pages is a list, which may change"),
    "a global dict": (lambda r: r["n"] == OUTSIDE["limit"], "OUTSIDE is a dict, which may change"),
    "nonlocal": (counting(), "it sets a variable outside of the function"),
    "global": (setting, "it sets a global"),
    "a side effect": (printing, "print\\(\\) is not known"),
    "a module": (lambda r: random.random() < 0.5, "random is not known"),
    "try": (trying, "try or with"),
    "a generator": (generating, "a generator"),
    "a loop without end": (looping, "it runs more than"),
    "recursion": (deep, "RecursionError|more than"),
    "a power": (lambda r: r["n"] ** r["n"] ** 9, "may take any time"),
    "too many ways": (lambda r: sum(1 for x in range(80) if r["n"] == x) > 0, "sum\\(\\) is not known"),
    "many questions": (lambda r: [x for x in range(80) if r["n"] == x], "more than 64 paths|too many questions"),
    "a class": (dict, "not a plain function"),
    "an attribute": (lambda r: r.__class__ is dict, "it uses .__class__"),
    "all fields": (lambda r: len(dict(r)) > 2, "^line \\d+: it takes all fields of the record$"),
    "a field of all": (lambda r: {**r}["n"] == 1, "^line \\d+: it uses a field of {..row}$"),
    "a field of all by is": (lambda r: {**r}["n"] is None, "^line \\d+: it takes all fields of the record$"),
}


@pytest.mark.parametrize(("function", "why"), REFUSED.values(), ids=REFUSED)
def test_what_might_do_anything_else_is_left_to_python(function, why):
    traced, calls = calls_of(lambda: trace_filter(function, FIELDS))
    assert re.search(why, "; ".join(map(str, traced.asked)))
    # Nothing but the records on which it surely raises, or is surely false before, is known of any.
    assert traced.tree is None or verdicts_of(traced.tree) <= {"ask", "raise", "drop"}
    assert calls < MOST_CALLS
    assert LEAST == 5


# What is known of the records that no path keeps or drops: that the function raises, or nothing.
ON_NULL = {
    "a method": (lambda r: r["s"].startswith("/"), "raise"),
    "a comparison": (lambda r: r["n"] > 5, "raise"),
    "two comparisons": (lambda r: 5 < r["n"] < 7 and r["s"] >= "a", "raise"),
    "a sum": (lambda r: r["i"] + 1 > 5, "raise"),
    "a text of a sum": (lambda r: r["s"] + "x" == "ax" and "x" + r["p"] == "xa", "raise"),
    "a quotient": (lambda r: r["i"] % 2 == 1 or r["d"] / 2 > 1, "raise"),
    "a sign": (lambda r: -r["i"] < abs(r["i"]), "raise"),
    "a part": (lambda r: r["s"][:2] == "/c", "raise"),
    "a length": (lambda r: len(r["s"]) > 2, "raise"),
    "a member": (lambda r: "a" in r["s"], "raise"),
    "an order": (lambda r: min(r["i"], 5) == 5, "raise"),
    "a place in a text": (lambda r: r["s"] % None == "None", "ask raise"),
    "an argument": (lambda r: "abc".startswith(r["s"]), "ask"),
    "another type": (lambda r: r["s"] > 5, "ask raise"),
    "no field": (lambda r: r["nope"] > 3, "ask"),
}


@pytest.mark.parametrize(("function", "told"), ON_NULL.values(), ids=ON_NULL)
def test_trace_filter_of_a_function_that_raises_on_null_knows_it(function, told):
    traced = trace_filter(function, FIELDS)
    assert verdicts_of(traced.tree) & UNDECIDED == set(told.split())
    check_filter(function, told)


MANY = frozenset(map(str, range(200_000)))


def test_a_large_set_is_left_to_python_at_once():
    traced, calls = calls_of(lambda: trace_filter(lambda r: r["s"] is not None and r["s"] in MANY, FIELDS))
    assert [asked.why for asked in traced.asked] == ["so many members are for Python"]
    # Each member is looked at once.
    assert calls < 2 * len(MANY)


def test_long_code_is_left_to_python_at_once():
    chain = "".join(f"    if r['n'] == {n}:\n        return {n}\n" for n in range(5_000))
    made = {}
    exec("def long(r):\n" + chain, made)
    traced, calls = calls_of(lambda: trace_filter(made["long"], FIELDS))
    assert [(asked.why, asked.line) for asked in traced.asked] == [("it is too long", 1)]
    assert calls < MOST_CALLS


def test_values_from_outside_are_those_of_the_moment():
    limits = [trace_filter(made_outside(limit, ("/a",)), FIELDS).tree for limit in (5, 6)]
    assert followed(limits[0], {**ROWS[0], "n": 6, "s": "/a"}).verdict == "keep"
    assert followed(limits[1], {**ROWS[0], "n": 6, "s": "/a"}).verdict == "drop"


def test_a_reason_names_its_line():
    first = is_long.__code__.co_firstlineno
    (asked,) = trace_filter(lambda r: r["s"] == "a" or is_long(r["s"] or ""), FIELDS).asked
    assert (asked.why, asked.line) == (".count of text is not known", first + 2)


def is_long(text):
    parts = 2
    return text.count("/") > parts


def test_a_debugger_is_given_back():
    before = sys.gettrace()
    trace_filter(lambda r: r["n"], FIELDS)
    assert sys.gettrace() is before


def test_a_description_tells_what_becomes_of_each_function():
    hits = StreamBuilder.data_stream("test", "told").from_file("in.jsonl", schema="s string, n bigint")
    stream = hits.filter(lambda r: (r["n"] or 0) > 5, name="whole").map(
        lambda r: {"s": r["s"], "n": r["n"] + 1}, schema="s string, n bigint", name="made"
    )
    stream = stream.split(lambda r: "a" if r["n"] == 1 else None, name="parts").select("a", name="a")
    stream = stream.filter(lambda r: r["n"] == 2 and r["s"] in PAGES, name="some")
    stream = stream.filter(lambda r: r["n"] == 7, name="fused").with_fields(m="n + 1", name="sql")
    stream = stream.filter(lambda r: is_long(r["s"]), name="none").select_fields("s", name="narrow")
    stream = stream.flat_map(lambda r: [r] if r["s"] else None, schema="s string", name="each").shuffle(2, name="apart")
    lines = stream.filter(lambda r: True, trace=False, name="off").to_print().build().describe().splitlines()
    told = {line.split()[0]: line.split("]  ")[1] for line in lines if "]  " in line}
    here = test_a_description_tells_what_becomes_of_each_function.__code__.co_firstlineno
    assert told == {
        "whole": "compiled",
        "made": f"compiled in part: line {here + 3}: it raises TypeError; "
        f"line {here + 3}: the result is more than a bigint holds",
        "parts": "compiled",
        "some": f"compiled in part: line {here + 6}: PAGES is a list, which may change; a tuple or frozenset may not",
        "fused": "Python: with the step before it",
        "none": f"Python: line {is_long.__code__.co_firstlineno + 2}: it raises AttributeError; "
        f"line {is_long.__code__.co_firstlineno + 2}: .count of text is not known",
        "each": "compiled in part: its results",
        "off": "Python: trace=False",
    }


PAGES = ["/a"]
