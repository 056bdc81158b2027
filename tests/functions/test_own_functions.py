"""Functions of users' own on real Spark, against the same functions in Python; and what declares none."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import EntryPoint
from random import Random
from typing import NamedTuple

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, aggregate_function, function, functions, table_function
from rs_assets.errors import SchemaError, StepError, TopologyError
from rs_assets.expressions.functions import packages
from rs_assets.expressions.functions.registry import function_named
from rs_assets.testing import run_rows
from rs_assets.topology.nodes.step import Script
from rs_assets.topology.user_code.expression import ConditionText
from tests.functions import library

SCHEMA = "text string, n bigint, m bigint, items array<bigint>, at timestamp"
VALUES = {
    "text": [None, "", " ", "a b", "a  b'c\\", "é 😀x", "-1 `q`"],
    "n": [None, 0, 1, -7, 2**53 + 1, -(2**63), 2**63 - 1],
    "m": [None, 0, 3, -1],
    "items": [None, [], [5], [3, -2, 9]],
    "at": [None, *(datetime(year, 3, 1, 23, 59, 59, 999999, UTC) for year in (1, 1969, 2026, 9999))],
}
SCRIPT = """
    a=own_initials(text,'.'); b=own_told(n); if(m!=0){c=own_share(n,m)}; d=own_joined(text,b,null);
    e=own_range(items); f=own_year(at); g=own_joined(); less=own_less(n,m)
"""


def expected(row):
    """The record behind SCRIPT."""
    text, n, m, items, at = (row[name] for name in ("text", "n", "m", "items", "at"))
    told = library.own_told(n)
    return row | {
        "a": None if text is None else library.own_initials(text, "."),
        "b": told,
        "c": n / m if n is not None and m is not None and m != 0 else None,
        "d": library.own_joined(text, told, None),
        "e": None if items is None else library.own_range(items),
        "f": None if at is None else at.year,
        "g": "",
        "less": None if n is None or m is None else n - m,
    }


def test_should_take_times_in_the_zone_of_the_script():
    """A text without a zone is a local time, as for the other functions; a text with one and a field are moments."""
    texts = ["2026-01-31 20:00:00", "2026-01-31T12:00:00Z", "2026-01-31T20:00:00Z"]
    rows = [{"s": text, "at": "2026-01-31T20:00:00Z"} for text in texts]
    here = StreamBuilder.data_stream("shop", "zones").from_file("a.jsonl", schema="s string, at timestamp")
    here = here.script("a=own_moment(s);b=own_moment(at);c=own_day(s);d=own_day(at);rm(s,at)", zone="Asia/Shanghai")
    found = [tuple(row.values()) for row in run_rows(here, rows)]
    noon, evening = "2026-01-31T12:00:00+00:00", "2026-01-31T20:00:00+00:00"
    assert found == [
        (noon, evening, "2026-01-31", "2026-02-01"),
        (noon, evening, "2026-01-31", "2026-02-01"),
        (evening, evening, "2026-02-01", "2026-02-01"),
    ]


def test_should_do_as_in_python(source, drive):
    """All pairs of numbers among them, in batches of several sizes, one of them empty."""
    pick = Random(7)
    rows = [
        {**{name: pick.choice(values) for name, values in VALUES.items()}, "n": n, "m": m}
        for n in VALUES["n"]
        for m in VALUES["m"]
        if not (n == -(2**63) and m == 3) and not (n == 2**63 - 1 and m == -1)
    ]
    found = drive(source(SCHEMA).script(SCRIPT), rows[:1], rows[1:9], [], rows[9:])
    assert found == [expected(row) for row in rows]


def test_should_be_called_in_conditions_and_steps_and_make_rows(source, compute):
    rows = [{"text": text, "n": n, "m": 1, "items": None, "at": None} for n, text in enumerate(["a b", None, "", "c"])]
    stream = source(SCHEMA).filter_by_expression("(own_told(n),!=,'+3')").script("OWN_WORDS(text)")
    stream = stream.map("n", "word", functions.own_sum("n", functions.own_sum("place", 10)).alias("sum"))
    assert compute(stream, rows) == [{"n": 0, "word": "a", "sum": 10}, {"n": 0, "word": "b", "sum": 11}]


@pytest.mark.parametrize("call", ["own_share(n,m)", "own_sum(n,9223372036854775807)"])
def test_should_end_the_run_where_a_value_is_asked_for_that_was_not_made(source, compute, call):
    with pytest.raises(StepError, match="the function 'own_s.* raised") as error:
        compute(source(SCHEMA).script(f"x={call}"), [{"n": 1, "m": 0}])
    assert str(error.value.facts["record"]).startswith(call.partition("(")[0])


def test_should_keep_bad_records_apart(options, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text("".join(f'{{"n": {n}, "m": {n % 3}}}\n' for n in range(9)))
    begin = StreamBuilder.data_stream("own", "apart").from_file(
        file, schema="n bigint, m bigint", bad_records="quarantine"
    )
    report = begin.script("x=own_share(n,m)").to_delta("shares").build().run(options)
    found = DeltaTable(options.home.table("own", "shares")).to_pyarrow_table().to_pylist()
    assert sorted((row["n"], row["x"]) for row in found) == [(n, n / (n % 3)) for n in range(9) if n % 3]
    assert report.rows_dead == 3
    letters = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    assert sorted(row["line"] for row in letters) == [1, 4, 7]
    assert all("the function 'own_share' raised ZeroDivisionError" in row["reason"] for row in letters)


def test_should_find_the_functions_of_packages(monkeypatch, tmp_path):
    code = "from rs_assets import function\n@function\ndef own_packaged(n: int) -> int:\n    return n\n"
    (tmp_path / "rs_own_packaged.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("shop", "rs_own_packaged", packages.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry] if group == packages.GROUP else [])
    packages.load_packages.cache_clear()
    assert "rs_own_packaged" not in sys.modules
    assert function_named("OWN_PACKAGED", 1).signature == "own_packaged(n bigint)"
    packages.load_packages.cache_clear()
    broken = EntryPoint("broken", "tests.functions.nowhere", packages.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [broken])
    with pytest.raises(TopologyError, match="the entry point 'broken' cannot be imported"):
        function_named("own_nowhere", 1)
    packages.load_packages.cache_clear()


def test_should_refuse_what_cannot_be_called_by_its_name():
    def named_only(*, text: str) -> str: ...

    def untold(text: str): ...

    def odd(text: complex) -> str: ...

    wrong = {
        named_only: (TopologyError, "its parameter 'text' is keyword-only"),
        untold: (SchemaError, "the result of the function 'untold' has no type"),
        odd: (SchemaError, "has no Spark type"),
        library.untyped: (SchemaError, "the parameter 'text' of the function 'untyped' has no type"),
    }
    for call, (kind, what) in wrong.items():
        with pytest.raises(kind, match=what):
            function(call)
    for name in ("trim", "IF", "count", "rename", "and", "a b"):
        with pytest.raises(TopologyError):
            function(name=name)(library.plain_length)
    with pytest.raises(TopologyError, match="which tests.functions.library.own_told already declares"):
        function(name="OWN_told")(library.plain_length)
    with pytest.raises(TopologyError, match="has no method 'create'"):
        aggregate_function(name="own_none")(object)
    with pytest.raises(SchemaError, match="the accumulator of the aggregate 'own_merged' has no type"):
        aggregate_function(name="own_merged")(library.Merged)
    aggregate_function(name="own_merged", accumulator="array<bigint>")(library.Merged)
    with pytest.raises(SchemaError, match="have no schema"):
        table_function()(library.plain_length)


def test_should_be_told_apart_by_their_code():
    """State knows the code of what stands before it."""

    def own_versioned(n: int) -> int:
        return n + 1

    script, condition = (
        Script(name="s", inputs=("a",), text="x = OWN_versioned (n)"),
        ConditionText("(own_versioned(n),>,1)"),
    )
    called = functions.own_versioned
    function(own_versioned)
    first = script.identity(), condition.identity(), called("n").rs_sql

    def own_versioned(n: int) -> int:
        return n + 2

    function(own_versioned)
    second = script.identity(), condition.identity(), called("n").rs_sql
    assert all(one != other for one, other in zip(first, second, strict=True))


def test_should_take_null_for_a_default_of_none_and_what_was_declared_last(source, compute):
    """Whatever the annotation says: without the argument the function would never be called."""

    def made(factor):
        @function(name="own_rated")
        def rated(n: int, m: int = None) -> int:  # noqa: RUF013
            return factor["is"] * n + (m or 0)

        function(name="own_bound")(Scaled(factor["is"]).by)
        function(name="own_partial")(partial(scaled, factor["is"]))

    function(name="own_c", arguments="text string", returns="bigint")(len)
    rows = [{"text": "ab", "n": 3, "m": None, "items": None, "at": None}]
    for factor in (2, 5):
        made({"is": factor})
        found = compute(
            source(SCHEMA).script("a=own_rated(n); b=own_rated(n,1); c=own_bound(n); d=own_partial(n)"), rows
        )
        assert [found[0][name] for name in "abcd"] == [3 * factor, 3 * factor + 1, 3 * factor, 3 * factor]
    assert compute(source(SCHEMA).script("a=own_c(text)"), rows)[0]["a"] == 2


def test_should_take_a_file_that_is_run_and_imported_for_one(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text(
        "from rs_assets import function\n@function\ndef own_run(n: int) -> int:\n    return n\n"
        "if __name__ == '__main__':\n    import shop\n    print(shop.own_run(3))\n"
    )
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr


def scaled(factor: int, n: int) -> int:
    return factor * n


class Scaled:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def by(self, n: int) -> int:
        return self.factor * n


class Named(NamedTuple):
    page: str
    ms: int | None


@dataclass
class Held:
    first: Named
    others: list[Named]


def test_should_take_records_of_any_class_wherever_they_stand_and_no_text_for_a_list(source, compute):
    @function(name="own_held")
    def held(n: int) -> Held:
        return Held(Named("/", n), [Named("/a", None)])

    @function(name="own_letters")
    def letters(n: int) -> list[str]:
        return "abc"

    rows = [{"text": "ab", "n": 3, "m": None, "items": None, "at": None}]
    [row] = compute(source(SCHEMA).script("x=own_held(n)"), rows)
    assert row["x"] == {"first": {"page": "/", "ms": 3}, "others": [{"page": "/a", "ms": None}]}
    with pytest.raises(StepError, match=r"'abc' is not of type array<string>"):
        compute(source(SCHEMA).script("x=own_letters(n)"), rows)
