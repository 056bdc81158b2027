"""Expectations of a table: CONSTRAINT name EXPECT (condition), and NOT NULL of the columns of a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.sql.plan.catalog import NULLS
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import Relation
from rs_assets.sql.read.statements import Column, CreateTable

# What happens to a row with a null in a column that is NOT NULL, by the option NULLS.
ENFORCED: Final[Mapping[str, str]] = MappingProxyType({"ERROR": "fail", "DROP": "skip"})


def expected(planner: Planner, relation: Relation, table: CreateTable, context: QueryContext) -> Relation:
    """The rows that the expectations of a table leave; SqlError for a table whose rows come and go."""
    if table.expectations and relation.changes:
        raise planner.error(
            f"rows of {table.name.text!r} come and go, and an expectation judges each row once",
            table.expectations[0].name.start,
            remedy="declare it for a source without a PRIMARY KEY, or for a sink of a query without retractions",
        )
    for each in table.expectations:
        condition = planner.over(relation).condition(each.condition).plain
        name = planner.name(context, each.name.text, each.name.start)
        stream = relation.stream.expect(condition, on_fail=each.on_fail, name=name)
        relation = replace(relation, stream=stream)
    return relation


def without_nulls(
    planner: Planner, relation: Relation, columns: Sequence[Column], context: QueryContext, at: int
) -> Relation:
    """The rows without a null in columns that are NOT NULL; others end the run, or are left out."""
    required = [f"{quote_name(column.name.text)} IS NOT NULL" for column in columns if column.required]
    if not required:
        return relation
    on_fail = ENFORCED[planner.catalog.options.get(NULLS, "ERROR")]
    stream = relation.stream.expect(" AND ".join(required), on_fail=on_fail, name=planner.name(context, "not_null", at))
    return replace(relation, stream=stream)
