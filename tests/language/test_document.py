"""docs/functions.md is what the tables of functions say."""

from pathlib import Path

from rs_assets.expressions.functions.document import TITLES, page
from rs_assets.expressions.functions.registry import FAMILIES, FUNCTIONS

ROOT = Path(__file__).parents[2]


def test_the_page_is_current():
    assert (ROOT / "docs" / "functions.md").read_text("utf-8") == page(), "run `make functions`"


def test_every_family_has_a_title_and_there_are_enough_names():
    assert {function.family for table in FAMILIES for function in table} == set(TITLES)
    assert len(FUNCTIONS) >= 400
