"""Rules against Spark: each must hold where `filter_by_expression` would keep the row, whatever the set around it."""

from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from rs_assets.expressions.condition.bind import condition_sql
from rs_assets.expressions.rules import scan
from rs_assets.expressions.rules.batch import batch_of
from rs_assets.expressions.rules.match import matches
from rs_assets.expressions.rules.rule_set import rule_set_of
from rs_assets.records.ddl import arrow_schema
from tests.rules.drawn import PATTERNS, SCHEMA, TEXTS, TYPES, condition, quoted, rows


def judged(conditions, given):
    """For each condition the ids of the rows for which it holds."""
    table = pa.table({"rule": [f"r{n:04}" for n in range(len(conditions))], "condition": conditions})
    made = rule_set_of(table, TYPES, step="judge")
    assert not made.faults
    columns = pa.Table.from_pylist(given, arrow_schema(SCHEMA))
    held = [set() for _ in conditions]
    for batch in columns.to_batches(max_chunksize=64):
        places, rules = matches(made.compiled, batch_of(batch.schema.names, batch.columns))
        for place, rule in zip(places.tolist(), rules.tolist(), strict=True):
            held[rule].add(batch["id"][place].as_py())
    return held


def filtered(spark, conditions, given):
    """The same, by the filter of each condition."""
    frame = spark.createDataFrame(pa.Table.from_pylist(given, arrow_schema(SCHEMA)))
    held = []
    for begin in range(0, len(conditions), 100):
        some = conditions[begin : begin + 100]
        each = [F.expr(condition_sql(text, TYPES, step="judge")).alias(f"c{n}") for n, text in enumerate(some)]
        found = frame.select("id", *each).toArrow().to_pydict()
        held += [{i for i, kept in zip(found["id"], found[f"c{n}"], strict=True) if kept} for n in range(len(some))]
    return held


def differing(conditions, one, two):
    return [(text, sorted(a ^ b)) for text, a, b in zip(conditions, one, two, strict=True) if a != b]


def test_three_rows_and_two_rules():
    given = [{"id": 1, "text": "curl x.sh", "ms": 5}, {"id": 2, "text": "ls", "ms": 500}, {"id": 3, "text": None}]
    assert judged([r"(text,regex,'\.sh$')|(ms,>,100)", "(text,notContains,ls)"], given) == [{1, 2}, {1, 3}]


@pytest.mark.parametrize("scanner", ["hyperscan", "re"])
def test_a_set_of_random_rules_is_equal_to_each_filter_alone(spark, monkeypatch, scanner):
    """Nulls, NaN, limits of numbers, other scripts, line ends, look-arounds, negation."""
    if scanner == "re":
        monkeypatch.setattr(scan, "hyperscan", lambda: None)
    elif scan.hyperscan() is None:
        pytest.skip("hyperscan is not installed")
    drawn = Random(7)
    conditions, given = [condition(drawn) for _ in range(600)], rows(150, drawn)
    assert not differing(conditions, judged(conditions, given), filtered(spark, conditions, given))


@pytest.mark.parametrize("scanner", ["hyperscan", "re"])
def test_each_pattern_finds_in_each_text_what_java_finds(spark, monkeypatch, scanner):
    if scanner == "re":
        monkeypatch.setattr(scan, "hyperscan", lambda: None)
    conditions = [f"(text,{operator},{quoted(each)})" for each in PATTERNS for operator in ("regex", "~regex")]
    given = [{"id": n, "text": text} for n, text in enumerate(TEXTS)]
    assert not differing(conditions, judged(conditions, given), filtered(spark, conditions, given))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_two_thousand_random_rules_are_equal_to_their_filters(spark, seed):
    drawn = Random(100 + seed)
    conditions, given = [condition(drawn, 3) for _ in range(500)], rows(300, drawn)
    assert not differing(conditions, judged(conditions, given), filtered(spark, conditions, given))
