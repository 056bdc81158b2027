"""Functions of users' own on real Spark, against the same functions in Python; and what declares none."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

from rs_assets import aggregate_function, function, functions, table_function
from rs_assets.engine.functions import packages
from rs_assets.engine.functions.registry import function_named
from rs_assets.errors import SchemaError, StepError, TopologyError
from rs_assets.pipeline.topology.expression import ConditionText
from rs_assets.pipeline.topology.step import Script
from tests.functions import library

SCHEMA = "text string, n bigint, m bigint, items array<bigint>, at timestamp"


def test_should_be_called_in_conditions_and_steps_and_make_rows(source, drive):
    rows = [{"text": text, "n": n, "m": 1, "items": None, "at": None} for n, text in enumerate(["a b", None, "", "c"])]
    stream = source(SCHEMA).filter_by_expression("(own_told(n),!=,'+3')").script("OWN_WORDS(text)")
    stream = stream.map("n", "word", functions.own_sum("n", functions.own_sum("place", 10)).alias("sum"))
    assert drive(stream, rows) == [{"n": 0, "word": "a", "sum": 10}, {"n": 0, "word": "b", "sum": 11}]


@pytest.mark.parametrize("call", ["own_share(n,m)", "own_sum(n,9223372036854775807)"])
def test_should_end_the_run_where_a_value_is_asked_for_that_was_not_made(source, drive, call):
    with pytest.raises(StepError, match="the function 'own_s.* raised") as error:
        drive(source(SCHEMA).script(f"x={call}"), [{"n": 1, "m": 0}])
    assert str(error.value.facts["record"]).startswith(call.partition("(")[0])


def test_should_find_the_functions_of_packages(monkeypatch, tmp_path):
    code = "from rs_assets import function\n@function\ndef own_packaged(n: int) -> int:\n    return n\n"
    (tmp_path / "rs_own_packaged.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("shop", "rs_own_packaged", packages.GROUP)
    monkeypatch.setattr(packages, "entry_points", lambda group: [entry] if group == packages.GROUP else [])
    packages.load_packages.cache_clear()
    assert "rs_own_packaged" not in sys.modules
    assert function_named("OWN_PACKAGED", 1).signature == "own_packaged(n bigint)"
    packages.load_packages.cache_clear()
    broken = EntryPoint("broken", "tests.functions.nowhere", packages.GROUP)
    monkeypatch.setattr(packages, "entry_points", lambda group: [broken])
    with pytest.raises(TopologyError, match="the entry point 'broken' cannot be imported"):
        function_named("own_nowhere", 1)
    packages.load_packages.cache_clear()


def test_should_refuse_what_cannot_be_called_by_its_name():
    def named_only(*, text: str) -> str: ...

    def untold(text: str): ...

    def odd(text: complex) -> str: ...

    wrong = {
        named_only: (TopologyError, "its parameter 'text' is given by name only"),
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
    with pytest.raises(TopologyError, match="which tests.functions.library.own_told has declared"):
        function(name="OWN_told")(library.plain_length)
    with pytest.raises(TopologyError, match="has no method 'create'"):
        aggregate_function(name="own_none")(object)
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
