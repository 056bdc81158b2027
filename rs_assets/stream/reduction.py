"""What users' functions make of a window's rows: the rows that the window keeps, and the steps behind it."""

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
    """The step `name`, which makes the fields `made` of the `fields` (none: all) of a window's rows."""

    name: str
    function: PythonFunction
    fields: tuple[str, ...]
    made: tuple[str, ...]


def reduction(
    name: str, function: Callable[[Any, Record], Any] | Accumulator, schema: object, fields: tuple[str, ...]
) -> Reduction:
    """A reduction; TopologyError for what is neither function nor accumulator, SchemaError without a schema."""
    call: Accumulated | Reduced
    returns: Callable[..., Any]
    if isinstance(function, Accumulator) and not isinstance(function, type):
        call, returns = Accumulated(function), function.value
    elif callable(function) and not isinstance(function, type):
        call, returns = Reduced(function), function
    else:
        raise TopologyError(
            f"step {name!r} takes a function of what it returned before and of a row, not {function!r}",
            remedy="or an object with create(), accumulate(accumulator, row) and value(accumulator)",
            step=name,
        )
    # With it comes the parser of SQL, which most pipelines do without.
    from rs_assets.topology.check.rules import declared

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
    """The rows that a window keeps for all of them."""
    if not reductions:
        return None
    each = tuple(tuple(dict.fromkeys(reduction.fields)) for reduction in reductions)
    fields = dict.fromkeys(name for names in each for name in names) if all(each) else {}
    return Rows(tuple(fields), tuple(name for reduction in reductions for name in reduction.made), each)


def folds(reductions: Sequence[Reduction], *, behind: str) -> Iterator[Fold]:
    """The steps behind the window, one after the other."""
    for number, each in enumerate(reductions, 1):
        rows = rows_for(number)
        yield Fold(name=each.name, inputs=(behind,), function=each.function, made=each.made, rows=rows)
        behind = each.name
