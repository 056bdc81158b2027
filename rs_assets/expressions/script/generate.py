"""Table functions as statements of a script: one record becomes several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.expressions.functions.registry import FUNCTIONS, table_function_named, udf_named
from rs_assets.expressions.functions.udf import TableFunction
from rs_assets.expressions.script.record_statements import check_not_in_branch
from rs_assets.expressions.script.steps import Generate
from rs_assets.expressions.syntax.bind import bind, given
from rs_assets.expressions.syntax.tree import Call

if TYPE_CHECKING:
    from rs_assets.expressions.script.binder import Binder


def makes_rows(call: Call) -> bool:
    """Whether a call is of a user-defined table function."""
    return call.name.casefold() not in FUNCTIONS and isinstance(udf_named(call.name), TableFunction)


def make_rows(binder: Binder, call: Call, guard: str) -> None:
    """`f(x)`: a record for each row, with the fields of the row added to the record; none without rows."""
    check_not_in_branch(binder, call, guard)
    scope = binder.scope.with_fields(binder.fields)
    try:
        function = table_function_named(call.name, len(call.arguments))
        values = [bind(each, scope) for each in call.arguments]
        converted = [given(function.function.kind_at(place), each, scope) for place, each in enumerate(values)]
        rows = function.rows(*(each.text for each in converted), zone=scope.zone)
    except TopologyError as error:
        if hasattr(error, "line"):
            raise
        raise scope.error(error.what, call.at, remedy=error.remedy) from error
    made = dict(function.columns(*(each.text for each in converted)))
    for name in made:
        binder.check_name(name, [each for each in binder.fields if each != name], call.at)
    kept = tuple(each for each in binder.fields if each not in made)
    binder.fields = {**{each: binder.fields[each] for each in kept}, **made}
    names = ", ".join(map(quote_name, made))
    binder.steps.append(Generate(kept, f"inline({rows}) as ({names})"))
