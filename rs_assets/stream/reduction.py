"""Python reductions over the rows of a window: the rows that the window keeps, and the steps after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rs_assets.errors import SchemaError, TopologyError
from rs_assets.operators.window.output import Rows, rows_for
from rs_assets.topology.nodes.fold import Accumulated, Accumulator, Fold, Reduced
from rs_assets.topology.user_code.expression import PythonFunction, Record, returned_schema


@dataclass(frozen=True, slots=True)
class Reduction:
    """The step `name`, which computes the fields `made` from the `fields` (empty: all) of a window's rows."""

    name: str
    function: PythonFunction
    fields: tuple[str, ...]
    made: tuple[str, ...]


def reduction(
    name: str, function: Callable[[Any, Record], Any] | Accumulator, schema: object, fields: tuple[str, ...]
) -> Reduction:
    """A reduction. TopologyError if `function` is not a function or accumulator, SchemaError without a schema."""
    call: Accumulated | Reduced
    returns: Callable[..., Any]
    if isinstance(function, Accumulator) and not isinstance(function, type):
        call, returns = Accumulated(function), function.value
    elif callable(function) and not isinstance(function, type):
        call, returns = Reduced(function), function
    else:
        raise TopologyError(
            f"step {name!r} takes a function of its previous result and a row, not {function!r}",
            remedy="or an object with create(), accumulate(accumulator, row) and value(accumulator)",
            step=name,
        )
    # Imported here: it loads the SQL parser, which most pipelines do not need.
    from rs_assets.records.fields import declared

    text = returned_schema(returns, schema, step=name)
    made = declared(text, step=name)
    if not made.whole:
        raise SchemaError(
            f"the fields that step {name!r} makes are not known",
            remedy="write them as 'page string, ms bigint', each under a name of its own",
            step=name,
        )
    return Reduction(name, PythonFunction(call, text, trace=False), fields, tuple(made.types))


def rows_kept(reductions: Sequence[Reduction]) -> Rows | None:
    """The rows that a window keeps for all reductions."""
    if not reductions:
        return None
    each = tuple(tuple(dict.fromkeys(reduction.fields)) for reduction in reductions)
    fields = dict.fromkeys(name for names in each for name in names) if all(each) else {}
    return Rows(tuple(fields), tuple(name for reduction in reductions for name in reduction.made), each)


def folds(reductions: Sequence[Reduction], *, after: str) -> Iterator[Fold]:
    """The steps after the step `after`, one reduction each."""
    for number, each in enumerate(reductions, 1):
        rows = rows_for(number)
        yield Fold(name=each.name, inputs=(after,), function=each.function, made=each.made, rows=rows)
        after = each.name
