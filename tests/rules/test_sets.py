"""Sets of rules without Spark: what the search of all patterns must not miss, and which rows of a table count."""

import math

import numpy as np
import pyarrow as pa
import pytest

from rs_assets import Rules
from rs_assets.errors import TopologyError
from rs_assets.expressions.rules import matched, scan
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


def set_of(**columns):
    return rule_set_of(pa.table(columns), {"text": "string"}, step="judge")


@pytest.mark.parametrize("enabled", [[True, False], [False, True], [None, False]])
def test_a_rule_that_is_switched_off_takes_no_name(enabled):
    made = set_of(rule=["a", "a"], condition=["(text,=,x)", "(text,=,x)"], enabled=enabled)
    assert (len(made), dict(made.faults)) == (1, {})
    assert made.rows.to_pylist() == [enabled.index(False) ^ 1]


def test_rules_without_a_number_as_priority_come_last():
    made = set_of(rule=["a", "b", "c", "d"], condition=["(text,=,x)"] * 4, priority=[math.nan, 2.5, None, -1.0])
    assert made.rows.to_pylist() == [3, 1, 0, 2]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("enabled string", "'enabled' of rules is of type string, and must be of type boolean"),
        ("enabled int", "must be of type boolean"),
        ("priority string", "must be of type int"),
        ("having int", "must be of type string"),
        ("Enabled boolean", "would have no effect: it differs from 'enabled'"),
    ],
)
def test_a_column_that_would_not_have_its_meaning_is_refused(columns, why):
    with pytest.raises(TopologyError, match=why):
        Rules.from_delta("rules", columns=columns)


def test_a_priority_may_be_any_number():
    columns = "priority decimal(9,2), having string, severity string, enabled boolean"
    assert Rules.from_file("rules.jsonl", columns=columns).dimension.names[-1] == "enabled"


def test_matches_are_noted_of_a_version_that_has_more_rules_over_more_fields(tmp_path):
    # A pipeline that was changed in one session: its workers live on.
    for rules in (1, 3):
        held = np.array([rules - 1, rules - 1], np.int64)
        matched.note_matches(tmp_path, "v000001-0123456789ab", rules, held, "r{}".format)
    (day,) = (tmp_path / matched.FOLDER).iterdir()
    assert sorted(matched._names(day)) == ["r0", "r2"]
