"""Checks that streams may be united, with the same messages when a pipeline is built and when Spark analyses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rs_assets.errors import TopologyError
from rs_assets.operators.join.spec import cast_to
from rs_assets.records.types import holding


def check_kinds(name: str, inputs: Sequence[tuple[str, Mapping[str, str | None]]]) -> None:
    """TopologyError if inputs of the union `name`, each a step and the types of its fields, differ in names or types.

    A type of None is unknown. Spark would cast one of two types, with a loss of digits or errors in single records.
    """
    names = [sorted(kinds) for _, kinds in inputs]
    if any(each != names[0] for each in names):
        raise TopologyError(
            f"union {name!r} joins streams of different fields: {' / '.join(', '.join(each) for each in names)}",
            remedy="bring them to the same fields with select_fields or map",
            step=name,
        )
    (first, kinds), *others = inputs
    for field, kind in kinds.items():
        for step, its in others:
            other = its[field]
            if kind is not None and other is not None and kind != other:
                wide = holding(kind, other) or kind
                where = " and ".join(repr(at) for at, its_kind in ((first, kind), (step, other)) if its_kind != wide)
                raise TopologyError(
                    f"union {name!r}: {field!r} is a {kind} after {first!r} and a {other} after {step!r}",
                    remedy=f"cast it after {where}: {cast_to(field, wide)}",
                    step=name,
                )
