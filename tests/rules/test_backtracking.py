"""Patterns that double their time with each character are left out, and others are not."""

import re

import pyarrow as pa
import pytest

from rs_assets.expressions.rules.backtracking import is_exponential
from rs_assets.expressions.rules.batch import batch_of
from rs_assets.expressions.rules.match import matches
from rs_assets.expressions.rules.rule_set import rule_set_of

DOUBLING = [
    r"(a+)+$", "^(a|a)*$", r"(\w+\s?)*$", r"^(\d+)*\1$", "(x+x+)+y", "(a|b|ab)*$", "(a?b?)*$", "(.*,?)+x$",
    r"([^/]+/?)+\.sh$", r"(\s*a?\s*)*$", "(a{1,}){2,}$", "(a+?)+?$", "(?:[ab]+|b)+$", "(a{1,5000}){1,5000}$",
    "(([ab]){1,2})*$",
]  # fmt: skip
PLAIN = [
    r"(\w+\.)+com$", "(foo|bar)+$", "a+b+$", "((a|b)c?)+$", r"^(\d{1,3}\.){3}\d+$", r"(?:[A-Z]:)?(\\[^\\]+)*$",
    "(a|b)*$", ".*.*x$", "[a-z]+(-[a-z]+)*$", r"(\s+-\w+)+$", "((?:a++))+$", "(a(b|c))*$", "^/([^/]+/)*x$",
    r"\b(curl|wget)\b", "x{200}(ab)*$",
]  # fmt: skip


def test_a_doubling_pattern_is_left_out_and_the_rest_goes_on():
    rules = pa.table({"rule": ["bad", "good"], "condition": ["(k,regex,'(a+)+$')", "(k,regex,'a+b$')"]})
    made = rule_set_of(rules, {"k": "string"}, step="judge")
    assert "doubles with each character" in made.faults["bad"]
    rows, _ = matches(made.compiled, batch_of(["k"], [pa.array(["a" * 60 + "b"])]))
    assert rows.tolist() == [0]


@pytest.mark.parametrize("pattern", DOUBLING)
def test_doubling_patterns(pattern):
    assert is_exponential(re.compile(pattern))


@pytest.mark.parametrize("pattern", PLAIN)
def test_plain_patterns(pattern):
    assert not is_exponential(re.compile(pattern))
