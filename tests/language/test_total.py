"""No function raises, whatever is in a row; patterns are judged as Java judges them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets.expressions.functions.kinds import LITERALS
from rs_assets.expressions.functions.patterns import fault_of, groups_of
from rs_assets.expressions.functions.registry import FAMILIES
from rs_assets.expressions.script.parse import parse_script
from rs_assets.expressions.syntax.bind import Scope, bind
from rs_assets.expressions.syntax.tree import Call, Word

FUNCTIONS = [function for table in FAMILIES for function in table]
# What a row may hold: nothing, blanks, extremes, times that are none, what means something to patterns and paths.
TEXTS = [
    *(None, "", " ", "a", "abc  ", "ä€😀\u0000", "x" * 3000, "\\", "%_[](){}*+?.^$|", "$1", "\\E\\Q"),
    *("0", "-1", "7", "1e5", "1e400", "NaN", "-Infinity", "9223372036854775807", "-9223372036854775808"),
    *("2147483647", "-2147483648", "99999999999999999999999999", "1.7976931348623157e308", "0.1", "+5", "0x1F"),
    *("2017-09-15 13:14:15", "2017-09-15", "0000-00-00", "9999-12-31 23:59:59.999999", "-0001-01-01", "2017-13-45"),
    *("+294247-01-10 04:00:54", "290000-01-01 00:00:00", "0001-01-01 00:00:00", "10:11", "true", "no", "null"),
    *('{"a":{"b":[1,2]},"c":null}', "[1,[2],{}]", '{"a":1,"a":2}', '[{"a":1},{"a":null},7]', '{"a":', "%zz%41+", "==="),
    *("http://u:p@h:1/p?q=1&q=2#r", "http://[::1", "k=v;k=w;=;;", "10.0.0.1", "999.1.1.1", "::1", "ff", "zz"),
]
ROWS = [
    (text, *more) for text, more in zip(TEXTS, itertools.cycle([(0,), (-1,), (3,), (None,), (2**31 - 1,), (-(2**31),)]))
]
# Arguments that have to be literals are those of the first golden row.
ARRAYS = "array('b','a',null)"


def calls_of(function):
    """Calls of a function with fields as arguments: with texts, and with whole numbers behind the first."""
    [statement] = parse_script(f"x={function.examples[0].call}")
    written = statement.value.arguments if isinstance(statement.value, Call) else ()
    if written and isinstance(written[0], Call) and function.name not in statement.value.name:
        written = written[0].arguments
    given = [function.kind_at(place) if function.parameters else "" for place in range(len(written))]
    for field in ("t", "n"):
        yield Call(
            function.name,
            tuple(
                value if kind in LITERALS or isinstance(value, Call) else Word("t" if place == 0 else field)
                for place, (value, kind) in enumerate(zip(written, given, strict=True))
            ),
        )


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
def test_should_raise_for_no_row(compiled, spark):
    scope = Scope("", "total", {"t": "string", "n": "bigint"})
    made = [bind(call, scope).text for function in FUNCTIONS for call in calls_of(function)]
    frame = spark.createDataFrame(ROWS, "t string, n bigint").repartition(2)
    settings_of = {
        "spark.sql.codegen.wholeStage": str(compiled),
        "spark.sql.codegen.factoryMode": "FALLBACK" if compiled else "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name) for name in settings_of}
    try:
        for name, value in settings_of.items():
            spark.conf.set(name, value)
        for start in range(0, len(made), 100):
            parts = [
                f"hash(cast({sql} as string)) as r{number}" for number, sql in enumerate(made[start : start + 100])
            ]
            frame.selectExpr(*parts).write.format("noop").mode("overwrite").save()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


PARTS = [
    "a",
    "b1",
    ".",
    "\\d",
    "\\w+",
    "[a-z]",
    "[^\\]x]",
    "(",
    ")",
    "(?:",
    "(?i)",
    "(?=",
    "(?<n>",
    "|",
    "*",
    "+?",
    "?",
    "{2}",
    "{2,}",
    "{,3}",
]
PARTS += [
    "\\",
    "\\y",
    "[",
    "]",
    "{",
    "}",
    "^",
    "$",
    "\\Q",
    "\\E",
    "\\x41",
    "(?P<n>",
    "é",
    "[[a]b]",
    "&&",
    "\\pL",
    "\\1",
    "-",
]


def test_patterns_are_judged_as_java_judges_them(spark):
    java = spark._jvm.java.util.regex.Pattern

    @settings(max_examples=600, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.sampled_from(PARTS), max_size=7).map("".join))
    def judged(pattern):
        if fault_of(pattern) is None:
            assert java.compile(pattern).matcher("").groupCount() == groups_of(pattern), pattern

    judged()


@pytest.mark.parametrize(
    "pattern", ["foo(.*?)(bar)", r"(\d+)-(\d+)", r"^\s*\[?[^\]]+\]?$", r"(?i)a{2,5}+|\Q(\E", r"(?<year>\d{4})"]
)
def test_patterns_of_every_day_are_without_fault(pattern):
    assert fault_of(pattern) is None
