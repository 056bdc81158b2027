"""Texts with numbers: "1 row" and not "1 rows", wherever a number that may be one has a noun after it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.project.words import ROOT

NOUNS = (
    "rows|records|batches|files|partitions|splits|groups|steps|rules|patterns|proofs|documents|messages|entries|queries"
    "|savepoints|events|columns|fields|findings|jars|topics|times|letters|differences|changes|values|keys|names"
)
AFTER_A_NUMBER = re.compile(rf" (?:\w+ ){{0,2}}(?:{NOUNS})\b(?!/)")
AFTER_A_BRACE = re.compile(rf"\}}{AFTER_A_NUMBER.pattern}")
# Expressions of numbers, or any expression with a comma between thousands. Names of constants are in capitals.
NUMBER = re.compile(r"len\([^A-Z]|\b(?:rows|count|number|total|batches|partitions|times|found|most|left)(?:_\w+)?$|:,$")
CONSTANT = re.compile(r"[A-Z_]+(?::,)?$")
# Numbers that are never one there.
GREATER = (
    "{self.times} times since ",
    "{partitions} partitions, Spark has ",
    "{len(self.names)} fields cannot be ",
    "{len(start.logs)} queries of the pipeline read the source ",
    "{len(items)} values",
    "{len(bad)} of its rows have ",
    "{most} records of the batch fail, too many for the quarantine",
    "{len(within)} keys that contain values",
)


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Line and source of each number of an f-string that a plural follows."""
    source = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)) if AFTER_A_BRACE.search(source) else ():
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for value, after in pairwise(parts):
            if not (isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant)):
                continue
            number = ast.unparse(value.value) + (":," if value.format_spec is not None else "")
            if AFTER_A_NUMBER.match(str(after.value)) and NUMBER.search(number) and not CONSTANT.match(number):
                yield node.lineno, f"{{{number}}}{after.value}"


def test_numbers_in_texts_have_the_noun_that_goes_with_one() -> None:
    """`count_of(number, "row")` of rs_assets/common/plural.py."""
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for place in ("rs_assets", "pipelines")
        for file in sorted((ROOT / place).rglob("*.py"))
        for line, text in texts(file)
        if text not in GREATER
    ]
    assert found == []
