"""Spark computes of random conditions and scripts what an interpreter of their trees does, over random records."""

from __future__ import annotations

from functools import reduce

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rs_assets.compile.script import applied
from rs_assets.expressions.condition.bind import condition_sql
from rs_assets.expressions.condition.parse import parse_condition
from rs_assets.expressions.script.bind import bound_script
from rs_assets.expressions.script.parse import parse_script
from tests.language.interpreter import holds, run

ANY = settings(
    max_examples=3, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
TEXTS = [
    "",
    " ",
    "5",
    " 18 ",
    "-3",
    "18.5",
    "abc",
    "ab%",
    "a\\b",
    "é",
    "10.1.2.3",
    "10.1.2.300",
    "99999999999",
    "AbC",
    "null",
]
TEXTS = st.none() | st.sampled_from(TEXTS)
INTS = st.none() | st.sampled_from([-3, 0, 5, 17, 18, 19, 2**31 - 1, -(2**31)])
DOUBLES = st.none() | st.sampled_from([-3.0, 0.0, 5.0, 17.9999999, 18.0, 18.5, 1e300])
ROWS = st.lists(st.tuples(TEXTS, TEXTS, INTS, DOUBLES), min_size=40, max_size=60)
FIELDS = {"s": "string", "p": "string", "i": "int", "d": "double"}
DDL = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())

NUMBERS = st.sampled_from(["5", "18", "18.5", "-3", "0"])
COMPARISONS = st.sampled_from(["=", "==", "!=", "<>", ">", ">=", "<", "<=", "&gt;"])
ATOMS = st.one_of(
    st.builds("({},{},{})".format, st.sampled_from("id"), COMPARISONS, NUMBERS),
    st.builds("({},{},{},{})".format, st.sampled_from("sid"), COMPARISONS, st.sampled_from(["int", "double"]), NUMBERS),
    st.builds("({},{},'{}')".format, st.sampled_from("sp"), COMPARISONS, st.sampled_from(["5", "abc", "é", ""])),
    st.builds(
        "({},{},'{}')".format,
        st.sampled_from("spi"),
        st.sampled_from(["in", "!in"]),
        st.sampled_from(["5, abc", "18,é"]),
    ),
    st.builds(
        "(s,{},'{}')".format, st.sampled_from(["like", "!like"]), st.sampled_from(["a%", "_b%", "%\\%", "5", "%"])
    ),
    st.builds(
        "(s,{},'{}')".format, st.sampled_from(["regex", "~regex", "!regex"]), st.sampled_from(["^a", "[0-9]+$", "B"])
    ),
    st.builds("(s,{},b)".format, st.sampled_from(["contains", "notContains", "~contains"])),
    st.builds("({},{})".format, st.sampled_from("spi"), st.sampled_from(["isNull", "isNotNull"])),
    st.builds(
        "(s,ipContains,'{}')".format, st.sampled_from(["10.", "10.1.0.0/16", "10.1.2.0/30", "10.1.2.3", "0.0.0.0/0"])
    ),
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.builds("({}{}{})".format, inner, st.sampled_from("&|"), inner) | st.builds("!{}".format, inner),
    max_leaves=6,
)

VALUES = st.sampled_from(
    ["s", "p", "'x'", "upper(s)", "trim(p)", "reverse(s)", "left(s,2)", "coalesce(s,p)", "x", "word"]
)
TESTS = st.sampled_from(
    [
        "i>5",
        "s=='abc'",
        "s==p",
        "s!=p",
        "d>=18.5",
        "d==18.0",
        "length(s)>3",
        "i>0&s!='5'",
        "i<0|!(s=='5')",
        "s>18",
        "x==p",
        "p<'b'",
    ]
)
STATEMENTS = st.recursive(
    st.builds("{}={};".format, st.sampled_from("spx"), VALUES) | st.just("n=add(i,length(s));"),
    lambda inner: (
        st.builds(
            "if({}){{{}}}elseif({}){{{}}}else{{{}}}".format, TESTS, inner, TESTS, inner, st.just("break()") | inner
        )
        | st.builds("{}{}".format, inner, inner)
    ),
    max_leaves=6,
)


@ANY
@given(ROWS, st.lists(CONDITIONS, min_size=60, max_size=60))
def compare_conditions(spark, rows, texts):
    parts = [f"{condition_sql(text, FIELDS, step='any')} as r{number}" for number, text in enumerate(texts)]
    found = spark.createDataFrame(rows, DDL).selectExpr(*parts).collect()
    for row, judged in zip(rows, found, strict=True):
        record = dict(zip(FIELDS, row, strict=True))
        for text, kept in zip(texts, judged, strict=True):
            assert kept is holds(parse_condition(text), record), (text, record)


@ANY
@given(ROWS, st.lists(STATEMENTS, min_size=5, max_size=5))
def compare_scripts(spark, rows, texts):
    frame = spark.createDataFrame(rows, DDL)
    for text in (f"x='';n=0;{each}" for each in texts):
        wanted = [run(parse_script(text), dict(zip(FIELDS, row, strict=True))) for row in rows]
        found = reduce(applied, bound_script(text, FIELDS, step="any").steps, frame).collect()
        assert [row.asDict() for row in found] == [row for row in wanted if row is not None], text


def test_conditions_are_compiled_as_they_are_interpreted(spark):
    compare_conditions(spark)


def test_scripts_are_compiled_as_they_are_interpreted(spark):
    compare_scripts(spark)
