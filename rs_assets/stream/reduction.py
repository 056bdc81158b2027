"""Python reductions of a window: the rows or accumulators that the window keeps for them, and the steps after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from rs_assets.errors import SchemaError, TopologyError
from rs_assets.operators.window.output import ACCUMULATOR, ROWS, Rows, column_for
from rs_assets.records.schema import ddl_type
from rs_assets.topology.nodes.fold import (
    Accumulated,
    Accumulator,
    Fold,
    Kept,
    Mergeable,
    MergedResults,
    Reduced,
    ValueOf,
)
from rs_assets.topology.user_code.expression import PythonFunction, Record, returned_schema


@dataclass(frozen=True, slots=True)
class Reduction:
    """The step `name`, which computes the fields `made` from the `fields` (empty: all) of a window's rows.

    `accumulator` merges what is kept, of the Spark type `kind`; without one the rows are kept.
    """

    name: str
    function: PythonFunction
    fields: tuple[str, ...]
    made: tuple[str, ...]
    accumulator: Mergeable | None = None
    kind: str = ""


def reduction(
    name: str,
    function: Callable[[Any, Record], Any] | Accumulator,
    *,
    merge: Callable[[Any, Any], Any] | None,
    schema: object,
    accumulator: str | None,
    fields: tuple[str, ...],
) -> Reduction:
    """A reduction. TopologyError if `function` is not a function or accumulator, SchemaError without a schema."""
    own = isinstance(function, Accumulator)
    if isinstance(function, type) or not (own or callable(function)) or (own and merge is not None):
        raise TopologyError(
            f"step {name!r} takes a function of its previous result and a row, not {function!r}",
            remedy="or an object with create(), accumulate(accumulator, row) and value(accumulator); with"
            " merge(one, other) it keeps accumulators instead of rows",
            step=name,
        )
    returns: Callable[..., Any] = function.value if isinstance(function, Accumulator) else function
    text = returned_schema(returns, schema, step=name)
    made = _fields_of(text, name)
    merging = function if isinstance(function, Mergeable) else None
    kind = _kind_of(merging, accumulator, name) if merging is not None else f"struct<{text}>"
    if merge is not None and not isinstance(function, Accumulator):
        merging = MergedResults(function, merge)
    call = ValueOf(merging) if merging is not None else _of_rows(function)
    return Reduction(name, PythonFunction(call, text, trace=False), fields, made, merging, kind if merging else "")


def _of_rows(function: Callable[[Any, Record], Any] | Accumulator) -> Accumulated | Reduced:
    return Accumulated(function) if isinstance(function, Accumulator) else Reduced(function)


def _fields_of(schema: str, name: str) -> tuple[str, ...]:
    # Imported here: it loads the SQL parser, which most pipelines do not need.
    from rs_assets.records.fields import declared

    made = declared(schema, step=name)
    if not made.whole:
        raise SchemaError(
            f"the fields that step {name!r} makes are not known",
            remedy="write them as 'page string, ms bigint', without further words",
            step=name,
        )
    return tuple(made.types)


def _kind_of(merging: Mergeable, declared: str | None, name: str) -> str:
    """The Spark type of an accumulator, from the annotation of `create` if it is not declared."""
    from rs_assets.records.types import type_in

    if declared is not None:
        known = type_in(declared)
        if known is not None and "?" not in known.text:
            return known.text
    try:
        hint = None if declared is not None else get_type_hints(merging.create).get("return")
        if hint is not None:
            return ddl_type(hint, step=name, field="accumulator")
    except (NameError, TypeError, SchemaError):
        pass
    raise SchemaError(
        f"the type of the accumulator of step {name!r} is not known{'' if declared is None else f': {declared!r}'}",
        remedy="declare it as accumulator='struct<n bigint, total double>', or annotate what create() returns; without"
        " a method merge the window keeps its rows",
        step=name,
    )


def rows_kept(reductions: Sequence[Reduction]) -> Rows | None:
    """The rows that a window keeps for all reductions of rows."""
    kept = [each for each in reductions if each.accumulator is None]
    if not kept:
        return None
    each = tuple(tuple(dict.fromkeys(reduction.fields)) for reduction in kept)
    fields = dict.fromkeys(name for names in each for name in names) if all(each) else {}
    return Rows(tuple(fields), tuple(name for reduction in kept for name in reduction.made), each)


def accumulators_kept(reductions: Sequence[Reduction]) -> tuple[Kept, ...]:
    """The accumulators that a window keeps."""
    return tuple(
        Kept(
            step=each.name,
            column=column,
            accumulator=each.accumulator,
            kind=each.kind,
            fields=tuple(dict.fromkeys(each.fields)),
            made=each.made,
        )
        for each, column in _columns(reductions)
        if each.accumulator is not None
    )


def folds(reductions: Sequence[Reduction], *, after: str) -> Iterator[Fold]:
    """The steps after the step `after`, one reduction each."""
    for each, column in _columns(reductions):
        yield Fold(name=each.name, inputs=(after,), function=each.function, made=each.made, rows=column)
        after = each.name


def _columns(reductions: Sequence[Reduction]) -> Iterator[tuple[Reduction, str]]:
    """Each reduction with the column of the window that it reads."""
    known = Counter[str]()
    for each in reductions:
        what = ROWS if each.accumulator is None else ACCUMULATOR
        known[what] += 1
        yield each, column_for(known[what], what)
