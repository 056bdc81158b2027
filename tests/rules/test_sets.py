"""Sets of rules without Spark: what the search of all patterns at once must not miss."""

import pyarrow as pa
import pytest

from rs_assets.expressions.rules import scan
from rs_assets.expressions.rules.batch import Batch
from rs_assets.expressions.rules.match import matches
from rs_assets.expressions.rules.rule_set import rule_set_of

# Kelvin's sign and the long s: letters outside of ASCII that Unicode folds to k and s, and Java does not.
FOLDED = ["\u212a", "\u017f"]


def held(condition, texts):
    made = rule_set_of(pa.table({"rule": ["a"], "condition": [condition]}), {"text": "string"}, step="judge")
    rows, _ = matches(made.compiled, Batch({"text": pa.array(texts, pa.string())}, len(texts)))
    return [texts[row] for row in rows.tolist()]


@pytest.mark.parametrize("scanner", ["hyperscan", "re"])
@pytest.mark.parametrize("pattern", ["(?i:[^ks])", "(?i)[^ks]", "(?i:([^ks]))", "(?i:a|(?:[^ks]))"])
def test_a_class_that_leaves_letters_out_in_any_case_leaves_out_those_of_ascii(monkeypatch, scanner, pattern):
    if scanner == "re":
        monkeypatch.setattr(scan, "hyperscan", lambda: None)
    elif scan.hyperscan() is None:
        pytest.skip("hyperscan is not installed")
    assert held(f"(text,regex,'{pattern}')", [*FOLDED, "k", "S"]) == FOLDED
