"""Constants, tables, classes and modules that a function reads belong to its code; libraries and caches do not."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rs_assets import F, StreamBuilder, Time, TumblingWindow
from rs_assets.topology.shape import Shape, changes, shape_of
from rs_assets.topology.user_code.code import same_code
from rs_assets.topology.user_code.outside import whole_digest

SCHEMA = "page string, n bigint, ts timestamp"
# The code of a module of the project, and of another one that it imports.
HELPERS = "LIMIT = {0}\ndef above(n):\n    return n > {0}\nclass Limits:\n    least = {0}\n"
READS = {
    "a constant": "LIMIT = {0}\ndef keep(row):\n    return row['n'] > LIMIT",
    "a constant of a helper": "LIMIT = {0}\ndef h(n):\n    return n > LIMIT\ndef keep(row):\n    return h(row['n'])",
    "a constant of an inner function": "LIMIT = {0}\ndef keep(row):\n    return any(n > LIMIT for n in [row['n']])",
    "a table": "LIMITS = {{'a': {0}, 'b': 9}}\ndef keep(row):\n    return row['n'] > LIMITS[row['page']]",
    "a set": "WANTED = {{{0}, 7}}\ndef keep(row):\n    return row['n'] in WANTED",
    "a pattern": "import re\npages = re.compile('a' * {0})\ndef keep(row):\n    return bool(pages.search(row['page']))",
    "a class": "class A:\n    least = {0}\ndef keep(row):\n    return row['n'] > A.least",
    "a base class": "class A:\n    def h(self):\n        return {0}\nclass B(A):\n    pass\n"
    "def keep(row):\n    return row['n'] > B().h()",
    "a method of what is called": "class A:\n    def h(self):\n        return {0}\n    def __call__(self, row):\n"
    "        return row['n'] > self.h()\nkeep = A()",
    "an enum": "from enum import Enum\nclass A(Enum):\n    LEAST = {0}\n"
    "def keep(row):\n    return row['n'] > A.LEAST.value",
    "a partial": "import functools\ndef h(n, least):\n    return n > least\ng = functools.partial(h, least={0})\n"
    "def keep(row):\n    return g(row['n'])",
    "a captured list": "def made(wanted):\n    return lambda row: row['n'] in wanted\nkeep = made([{0}])",
    "a function of another module": "from shop_helpers import above\ndef keep(row):\n    return above(row['n'])",
    "a constant of another module": "from shop_helpers import LIMIT\ndef keep(row):\n    return row['n'] > LIMIT",
    "another module": "import shop_helpers\ndef keep(row):\n    return shop_helpers.above(row['n'])",
    "a class of another module": "from shop_helpers import Limits\ndef keep(row):\n    return row['n'] > Limits.least",
}  # fmt: skip
LEFT_OUT = {
    "a cache": "cache = {{}}\ncache[{0}] = 1\ndef keep(row):\n    return cache.setdefault(row['n'], True)",
    "a counter": "count = {0}\ndef keep(row):\n    global count\n    count += 1\n    return True",
    "a library": "import json\njson.LIMIT = {0}\ndef keep(row):\n    return json.loads('1') and json.LIMIT",
    "the file": "__file__ = '{0}'\ndef keep(row):\n    return bool(__file__)",
    "attributes of objects in a table": "class A:\n    def __init__(self):\n        self.count = {0}\n"
    "ALL = [A()]\ndef keep(row):\n    return bool(ALL)",
    "linked objects": "class A:\n    pass\nALL = [A() for _ in range(60)]\nfor one in ALL:\n"
    "    one.links, one.n = ALL, {0}\n"
    "def keep(row):\n    return bool(ALL)",
    "what nothing reads": "LIMIT = {0}\ndef keep(row):\n    return True",
}  # fmt: skip


@pytest.fixture(autouse=True)
def helpers() -> Iterator[None]:
    yield
    sys.modules.pop("shop_helpers", None)


def module(name: str, text: str) -> Any:
    made = types.ModuleType(name)
    made.__file__ = f"/project/{name}.py"
    sys.modules[name] = made
    exec(compile(text, name, "exec"), made.__dict__)
    return made


def keep(text: str, number: int) -> Callable[[Any], Any]:
    module("shop_helpers", HELPERS.format(number))
    made: Callable[[Any], Any] = module("shop_main", text.format(number)).keep
    return made


def windows(condition: Any) -> Shape:
    source = StreamBuilder.data_stream("shop", "job").from_file("in.jsonl", schema=SCHEMA)
    made = source.filter(condition).window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("page").count("n")
    return shape_of(made.to_data_stream().to_print().build().topology, "window")


@pytest.mark.parametrize("case", READS)
def test_state_behind_a_function_that_reads_something_else_is_refused(case: str) -> None:
    was = windows(keep(READS[case], 3))
    assert changes(was, windows(keep(READS[case], 3))) == ()
    assert len(changes(was, windows(keep(READS[case], 4)))) == 2


@pytest.mark.parametrize("case", LEFT_OUT)
def test_state_is_kept_whatever_a_function_keeps_while_it_runs(case: str) -> None:
    assert changes(windows(keep(LEFT_OUT[case], 3)), windows(keep(LEFT_OUT[case], 4))) == ()


PLACES = """
import os
from collections import namedtuple
from enum import Enum
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data.csv")
class Kind(Enum):
    WANTED = frozenset({"a", "b", "c", "dd", "e"})
class Other:
    data = os.path.join(HERE, "other.csv")
Pair = namedtuple("Pair", "one other")
PAIR = Pair(1, frozenset({"a", "b", "c", "dd", "e"}))
MANY = (Kind.WANTED, PAIR, Other)
OBJECTS = [Other(), Pair(Other(), 1)]
def keep(row):
    return HERE, DATA, Other.data, PAIR, MANY, OBJECTS
def told():
    from rs_assets.topology.user_code.outside import whole_digest
    print(whole_digest(keep), whole_digest(Other().__init__))
if __name__ == "__main__":
    told()
"""


def test_state_is_kept_wherever_a_project_is_and_however_it_is_started(tmp_path: Path) -> None:
    found = {}
    ways = (["shop_places.py"], ["-m", "shop_places"], ["-c", "import shop_places; shop_places.told()"])
    for seed, how in enumerate([*ways, *ways]):
        folder = tmp_path / f"release {seed}"
        folder.mkdir()
        (folder / "shop_places.py").write_text(PLACES)
        paths = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
        done = subprocess.run(
            [sys.executable, *how], cwd=folder, capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": paths},
        )  # fmt: skip
        found[seed, how[0]] = done.stdout
    assert len({*found.values()}) == 1, found


def test_state_of_releases_that_did_not_look_outside_is_kept() -> None:
    now = whole_digest(keep(READS["a constant of a helper"], 3))
    assert "^" in now
    assert same_code(now.partition("^")[0], now)
    assert same_code(now.partition("+")[0], now)
    assert not same_code(now, whole_digest(keep(READS["a constant of a helper"], 4)))


def test_a_decorator_and_a_helper_that_call_each_other_end() -> None:
    text = (
        "import functools\nLIMIT = {0}\ndef d(f):\n    @functools.wraps(f)\n    def w(row):\n        return f(row)\n"
        "    return w\n@d\ndef keep(row):\n    return row['n'] > LIMIT and other(row)\n"
        "def other(row):\n    return keep(row)"
    )
    assert whole_digest(keep(text, 3)) != whole_digest(keep(text, 4))
    assert whole_digest(functools.partial(keep(text, 3))) != whole_digest(functools.partial(keep(text, 4)))


WANTED = {"a", "b", "c", "dd"}


def wanted(row: dict[str, Any]) -> bool:
    return row["page"] in WANTED


if __name__ == "__main__":
    print(whole_digest(wanted), windows(F.col("page").isin({"a", "b", "c", "dd"})), windows(F.col("n").isin([1])))


def test_state_is_kept_in_processes_with_other_hashes() -> None:
    found = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "tests.topology.test_outside"],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.append(done.stdout)
    assert found[0] == found[1]
