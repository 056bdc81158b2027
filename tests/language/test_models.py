"""Functions compute what plain Python does, over random rows: all of them in one select."""

from __future__ import annotations

import math

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rs_assets.expressions.script.parse import parse_script
from rs_assets.expressions.syntax.bind import Scope, bind
from rs_assets.expressions.syntax.tree import words_in
from tests.language.models import MODELS

FIELDS = {"s": "string", "p": "string", "i": "int", "j": "int", "t": "string"}
# Letters whose case is one letter, so that both languages know the same of them.
LETTERS = st.text("abAB01 .,;=-%_$\\'\"[](){}é中😀\n", max_size=12)
TEXTS = st.none() | LETTERS | st.sampled_from(["null", "NULL", "0", "-7", "3.5", "a-b-c", "aab,b", "x" * 300])
PARTS = st.none() | st.text("ab-,. $\\", max_size=2)
SMALL = st.none() | st.integers(-20, 20)
INTS = SMALL | st.integers(-(2**31), 2**31 - 1)
TIMES = (
    st.none()
    | st.datetimes().map(lambda t: str(t.replace(microsecond=0)))
    | st.sampled_from(["", "x", "2023-02-30 00:00:00"])
)
ROWS = st.lists(st.tuples(TEXTS, PARTS, SMALL, INTS, TIMES), min_size=60, max_size=80)


def same(found, wanted):
    if isinstance(found, float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-12)
    return found == wanted and type(found) is type(wanted)


def test_should_compute_what_python_does(spark):
    calls = {call: parse_script(f"x={call}")[0].value for call in MODELS}
    scope = Scope("", "models", FIELDS)
    parts = [f"{bind(value, scope).text} as r{number}" for number, value in enumerate(calls.values())]
    names = {
        call: list(dict.fromkeys(word for word in words_in(value) if word in FIELDS)) for call, value in calls.items()
    }

    @settings(
        max_examples=3,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(ROWS)
    def computed(rows):
        frame = spark.createDataFrame(rows, ", ".join(f"{name} {kind}" for name, kind in FIELDS.items()))
        for row, found in zip(rows, frame.selectExpr(*parts).collect(), strict=True):
            given = dict(zip(FIELDS, row, strict=True))
            for (call, model), value in zip(MODELS.items(), found, strict=True):
                wanted = model(*(given[name] for name in names[call]))
                assert same(value, wanted), (call, given, value, wanted)

    computed()
