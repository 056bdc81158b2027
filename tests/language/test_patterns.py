"""Patterns are taken and refused as Java does it: what is refused finds nothing, so nothing good may be."""

from __future__ import annotations

import pytest

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Function
from rs_assets.expressions.functions.patterns import fault_of, groups_of
from rs_assets.expressions.functions.registry import function_named

PATTERNS = (
    *("[?&]id=", "[a-z&&[^b]]", "[]a]", "[^]a]", "[]", "[a-[b]]", r"[\d-x]", r"[\w.-]", "[z-a]", r"[\b]", r"[\q]"),
    *(r"\Qa](", r"[\Qa]\E]", r"\p{L}", r"[\p{L}&&[^\p{Lu}]]", r"\x{10FFFF}", r"\x{110000}", "x{2,1}", "x{2}", "x{,3}"),
    *("(?<a>x)(?<a>y)", r"(?<a>x)\k<a>", r"\k<a>", "(?i)*", "^*", "(?<=a*)b", "(?<=(a|b)+)c", "a**", "a*+", "(", ")"),
    *("*a", "{", "]", "}", r"\8", r"\u0041", r"\R|\X", r"\cA", r"\0", r"\012"),
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_should_take_the_patterns_that_java_takes(pattern, spark):
    try:
        wanted = spark._jvm.java.util.regex.Pattern.compile(pattern).matcher("").groupCount()
    except Exception:  # noqa: BLE001  what py4j raises
        wanted = None
    fault = fault_of(pattern)
    assert (None if fault else groups_of(pattern)) == wanted, fault


def test_should_refuse_a_class_of_characters_that_is_not_known_here():
    found: Function = function_named("regexp", 2)
    with pytest.raises(TopologyError, match="not every Java version knows"):
        found.sql("a", r"'\\p{javaMirrored}'")
