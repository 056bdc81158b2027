"""Traces the functions of steps."""

from __future__ import annotations

from collections.abc import Mapping

from rs_assets.compile.python.tracing.explore import Traced, explore
from rs_assets.compile.python.tracing.outcomes import filter_outcome, flat_map_outcome, label_outcome, map_outcome


def trace_filter(function: object, fields: Mapping[str, str]) -> Traced:
    """The function of a filter over records with `fields`, their types by name.

    >>> traced = trace_filter(lambda row: row["ms"] is not None and row["ms"] > 5, {"ms": "bigint"})
    >>> traced.asked
    ()
    >>> print(*trace_filter(lambda row: row["ms"] > 5, {"ms": "bigint"}).asked)
    line 1: it raises TypeError
    """
    return explore(function, fields, filter_outcome)


def trace_flat_map(function: object, fields: Mapping[str, str]) -> Traced:
    """The function of a flat_map: the records for which its result is empty."""
    return explore(function, fields, flat_map_outcome)


def trace_label(function: object, fields: Mapping[str, str]) -> Traced:
    """The function of a split."""
    return explore(function, fields, label_outcome)


def trace_map(function: object, fields: Mapping[str, str], made: Mapping[str, str]) -> Traced:
    """The function of a map, which makes records with the fields `made`."""
    return explore(function, fields, map_outcome(made))
