"""Nothing that sqlglot reads is dropped: each part of a tree is read by a rule, or refused at its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlglot import exp

from rs_assets.errors import SqlError
from rs_assets.sql.expressions.rules import RULES
from rs_assets.sql.read.source import Text
from rs_assets.sql.read.trees import FORMS
from rs_assets.sql.read.unsupported import READ, check_read
from rs_assets.sql.spark.functions import SPARK_RULES

QUERY = """cluster connect distribute for_ format laterals limit locks match offset options order pivots prewhere
    qualify sample settings sort windows"""
SETS = f"by_name group having joins on side where kind {QUERY}"
# The parts of trees that no rule reads. One that a new version of sqlglot adds is in neither list, and must be put into
# one: READ, with a rule that honours it, or here, where it is refused.
REFUSED = {
    "select": f"exclude into kind operation_modifiers {QUERY}",
    "union": SETS,
    "subquery": f"group having joins where {QUERY}",
    "with": "cycle recursive search udfs",
    "cte": "key_expressions materialized scalar",
    "table": """catalog changes db format hints indexed joins laterals only partition pattern pivots rows_from sample
        system_time when""",
    "join": "directed expressions global_ hint match_condition nearest pivots",
    "lateral": "cross_apply outer view",
    "group": "all cube grouping_sets rollup totals",
    "distinct": "on",
    "star": "except_ ilike rename replace",
    "column": "join_mark shadow",
    "identifier": "global_ temporary",
    "interval": "fraction_in_string",
    "in": "field is_global unnest",
    "between": "symmetric",
    "if": "false",
    "window": "first",
    "order": "siblings this",
    "ordered": "with_fill",
    "datatype": "collate nullable values",
    "cast": "action default format safe",
    "trycast": "action default format null_on_text_overflow probe_date_format requires_string",
    "trim": "collation",
    "strposition": "clamp_position occurrence position",
    "array": "struct_name_inheritance value_constructor",
    "bracket": "json_access offset returns_list_for_maps safe",
    "exists": "expression",
    "datatypeparam": "expression",
    "div": "safe typed",
    "is": "negate",
    "like": "negate",
    "ilike": "negate",
    "regexplike": "flag full_match",
    "currenttimestamp": "sysdate this",
    "currentdate": "this",
}


def kinds() -> Iterator[tuple[str, Any]]:
    for each in vars(exp).values():
        if isinstance(each, type) and hasattr(each, "arg_types"):
            yield each.key, each  # type: ignore[attr-defined]


def test_grammar_when_sqlglot_adds_a_part_of_a_tree_is_noticed() -> None:
    known = dict(kinds())
    for kind, read in READ.items():
        assert set(known[kind].arg_types) - read == set(REFUSED.get(kind, "").split()), kind


def test_rules_read_no_kind_of_tree_that_the_guard_does_not_know() -> None:
    assert {*RULES, *SPARK_RULES} <= set(READ)


def test_negate_of_all_kinds_of_trees_has_a_normal_form() -> None:
    assert {kind for kind, tree in kinds() if "negate" in tree.arg_types} <= set(FORMS)


@pytest.mark.parametrize("kind", [kind for kind in REFUSED if kind not in ("select", "version")])
def test_check_read_refuses_each_part_that_no_rule_reads(kind: str) -> None:
    for part in REFUSED[kind].split():
        tree = exp.Paren(this=dict(kinds())[kind](**{part: exp.Literal.number(1)}))
        if kind in ("select", "union", "subquery"):
            tree = tree.this
        with pytest.raises(SqlError, match="is not supported"):
            check_read(Text("1"), tree)
