"""What a fingerprint takes of Python code: the same in every process, another when the function does another thing."""

import functools
import hashlib
import inspect
import os
import subprocess
import sys
import types
from dataclasses import dataclass, replace
from datetime import date

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.topology.nodes.step import Script
from rs_assets.topology.shape import changes, shape_of
from rs_assets.topology.user_code.code import code_digest
from rs_assets.topology.user_code.expression import ConditionText

LIMIT = 5


@dataclass(frozen=True)
class Wanted:
    pages: frozenset
    since: date = date(2024, 1, 1)


class Plain:
    """An object whose text is its address."""


class Threshold:
    def __init__(self, least):
        self.least = least
        self.lock = Plain()

    def __call__(self, row):
        return row["ms"] > self.least

    def method(self, row):
        return row["ms"] < self.least


def helper(row):
    return deeper(row["ms"])


def deeper(ms):
    return ms > LIMIT


def named(row, least=3, names=("a", "b")):
    return row["ms"] > least and row["page"] in names


def ends(row, *, least=1):
    return row["ms"] > least


def calls_helper(row):
    return helper(row)


def again(row):
    return row["ms"] and again({"ms": row["ms"] - 1})


def logged(function):
    @functools.wraps(function)
    def wrapper(row):
        print(row)
        return function(row)

    return wrapper


def capturing(*values):
    return lambda row: row["page"] in values


def allowing(allowed):
    return lambda row: row["k"] in allowed


def through(function):
    return lambda row: bool(function(row))


def default(value):
    return lambda row, c=value: row["page"] == c


def functions():
    """Functions of every kind; made anew in each process."""
    letters = {"a", "b", "c", "d"}
    return {
        "set": lambda r: r["k"] in {"a", "b", "c", "d"},
        "set in a tuple": lambda r: r["k"] in ("a", {"b", "c", "d"}),
        "captured tuple of sets": capturing(frozenset(letters), "x"),
        "captured objects": capturing(Plain(), "x"),
        "default object": default(Plain()),
        "default set": default(letters),
        "default dataclass": default(Wanted(frozenset(letters))),
        "default function": default(helper),
        "partial": functools.partial(named, names=letters),
        "object": Threshold(letters),
        "bound": Threshold(1).method,
        "keyword": ends,
        "helper": calls_helper,
        "wrapped": logged(named),
        "inner": lambda r: [x for x in r["l"] if x in {"a", "b", "c"}],
    }


if __name__ == "__main__":
    print({name: code_digest(function) for name, function in functions().items()})


def test_digests_are_the_same_in_processes_with_other_hashes():
    found = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "tests.topology.test_code"],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.append(done.stdout)
    assert found[0] == found[1]


def before(function):
    """What versions up to 0.1 made of a function."""
    digest = hashlib.sha256()
    code = getattr(inspect.unwrap(function), "__code__", None)

    def feed(code):
        digest.update(code.co_code)
        digest.update(repr((code.co_names, code.co_varnames)).encode())
        for constant in code.co_consts:
            feed(constant) if isinstance(constant, types.CodeType) else digest.update(repr(constant).encode())

    if code is None:
        digest.update(f"{type(function).__module__}.{type(function).__qualname__}".encode())
    else:
        feed(code)
        digest.update(repr(getattr(function, "__defaults__", None)).encode())
        plain = (str, int, float, bool, bytes, tuple, type(None))
        cells = [c.cell_contents for c in getattr(function, "__closure__", None) or ()]
        digest.update(repr([c if isinstance(c, plain) else type(c).__name__ for c in cells]).encode())
    return digest.hexdigest()[:16]


STABLE = {
    "plain": lambda r: r["k"] == "a" and r["n"] in (1, 2.5, None, b"x"),
    "numbers in a set": lambda r: r["n"] in {8, 1, 3},
    "one in a set": lambda r: r["k"] in {"a"} or r["k"] in ("b", ("c",)),  # noqa: FURB171
    "defaults": lambda r, a=1, b=("x", date(2024, 1, 1)), c=[1, {"k": 2}], d=Wanted(frozenset({"a"})): r,
    "captured": capturing("a", 1, (2, "b"), None, 2.5),
    "captured list": allowing(["a"]),
    "inner": lambda r: sorted(r["l"], key=lambda y: -y),
    "recursion": again,
    "keyword": ends,
    "helper": calls_helper,
    "partial": functools.partial(named, least=1),
    "object": Threshold(1),
    "bound": Threshold(1).method,
    "wrapped": logged(named),
    "built in": str.upper,
    "cached": functools.lru_cache(named),
}


@pytest.mark.parametrize("case", STABLE)
def test_state_that_was_made_before_opens_unchanged(case):
    assert code_digest(STABLE[case]).partition("+")[0] == before(STABLE[case])


OTHER = {
    "set": (lambda r: r["k"] in {"a", "b"}, lambda r: r["k"] in {"a", "c"}),
    "partial": (functools.partial(named, least=1), functools.partial(named, least=2)),
    "function of a partial": (functools.partial(ends, least=1), functools.partial(named, least=1)),
    "object": (Threshold(1), Threshold(2)),
    "bound": (Threshold(1).method, Threshold(2).method),
    "keyword": (lambda r, *, n=1: r["n"] > n, lambda r, *, n=2: r["n"] > n),
    "captured function": (through(ends), through(named)),
    "decorator": (logged(named), named),
}


@pytest.mark.parametrize("case", OTHER)
def test_a_function_that_does_another_thing_has_another_digest(case):
    first, second = OTHER[case]
    assert code_digest(first) != code_digest(second)


def test_a_helper_that_does_another_thing_changes_what_calls_it(monkeypatch):
    known = code_digest(calls_helper)
    other = types.FunctionType((lambda ms: ms < LIMIT).__code__, globals(), "deeper")
    other.__module__ = __name__
    monkeypatch.setitem(globals(), "deeper", other)
    assert code_digest(calls_helper) != known
    assert code_digest(calls_helper).partition("+")[0] == known.partition("+")[0]


FIELDS = "page string, ms bigint, `a b` bigint, `a  b` bigint, ts timestamp"


def windows_behind(condition):
    source = StreamBuilder.data_stream("shop", "job").from_file("in.jsonl", schema=FIELDS)
    windows = source.filter(condition).window(TumblingWindow.of(Time.seconds(10), "ts"))
    return shape_of(windows.count("n").to_data_stream().to_print().build().topology, "window")


def test_state_is_compared_without_what_its_version_did_not_tell():
    now, other = windows_behind(functools.partial(ends, least=1)), windows_behind(functools.partial(ends, least=2))
    then = tuple(replace(n, identity=tuple(text.partition("+")[0] for text in n.identity)) for n in now)
    assert then != now
    assert changes(then, now) == ()
    assert changes(now, now) == ()
    assert len(changes(now, other)) == 2
    assert len(changes(now, then)) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("page = 'a  b'", "page = 'a b'"),
        ('page = "a  b"', 'page = "a b"'),
        ("page = 'it''s  x'", "page = 'it''s x'"),
        ("`a  b` > 1", "`a b` > 1"),
        ("ms > 0 -- a\n AND ms > 5", "ms > 0 -- a AND ms > 5"),
    ],
)
def test_state_over_a_text_with_other_spaces_in_a_literal_is_refused(one, other):
    assert len(changes(windows_behind(one), windows_behind(other))) == 2


@pytest.mark.parametrize("text", ["page  =\n\t'a  b' ", "page = 'a  b'\n", " page = \r\n 'a  b'"])
def test_state_over_a_text_in_other_lines_is_kept(text):
    assert changes(windows_behind("page = 'a  b'"), windows_behind(text)) == ()


def test_a_script_and_a_condition_with_other_spaces_in_a_literal_are_others():
    assert ConditionText("page = 'a  b'").identity() != ConditionText("page = 'a b'").identity()
    texts = ("x = 'a  b';", "x = 'a b';")
    one, other = (Script(name="s", inputs=("a",), text=text).identity() for text in texts)
    assert one != other
