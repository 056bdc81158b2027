"""Deduplication by the sink: if the sink table keeps the newest row of each key, no state is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rs_assets.sql.expressions.values import Value
from rs_assets.sql.plan.outputs import Output, outputs_of
from rs_assets.sql.plan.planner import Planner
from rs_assets.sql.plan.relation import Column, Relation
from rs_assets.sql.read.statements import Column as Declared


@dataclass(frozen=True, slots=True)
class UpsertTable:
    """A table that replaces rows by keys, and the selected values of its columns."""

    planner: Planner
    declared: Sequence[Declared]
    items: Sequence[Any]

    def kept(
        self, relation: Relation, columns: Sequence[Column], groups: Sequence[Value], window: Any
    ) -> Relation | None:
        """Rows of `columns` of which the table keeps the first by OVER; None if it does not support this order."""
        newest, keys = self._newest_by(relation, window), [value.field for value in groups]
        if newest is None or not keys or None in keys:
            return None
        made = replace(
            relation,
            columns=tuple(columns),
            keys=tuple(dict.fromkeys(filter(None, keys))),
            latest=tuple(field for field in newest if field not in keys),
            window=None,
        )
        return made if self._has(made) else None

    def _newest_by(self, relation: Relation, window: Any) -> tuple[str, ...] | None:
        """The fields by which the first row is the greatest, empty for processing time; None for another order."""
        orders = window.args["order"].expressions if window.args.get("order") is not None else []
        if not orders or any(not each.args.get("desc") or each.args.get("nulls_first") for each in orders):
            return None
        over = self.planner.over(relation)
        values = [over.value(each.this) for each in orders]
        if [value.role for value in values] == ["proctime"]:
            return ()
        fields = [value.field for value in values]
        return None if None in fields else tuple(dict.fromkeys(filter(None, fields)))

    def _has(self, relation: Relation) -> bool:
        """Whether all keys and order fields have unchanged columns of their own."""
        outputs = outputs_of(self.planner, relation, self.items)
        pairs = zip(self.declared, outputs, strict=False)
        there = {out.value.field for column, out in pairs if _as_it_is(column, out)}
        return {*(relation.keys or ()), *(relation.latest or ())} <= there


def _as_it_is(column: Declared, out: Output) -> bool:
    known = out.value.type
    return column.type is None or (known is not None and known.text == column.type.text)
