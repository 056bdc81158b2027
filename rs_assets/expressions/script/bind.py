"""Compiles the statements of a script to steps over known fields."""

from __future__ import annotations

from collections.abc import Mapping

from rs_assets.expressions.script.binder import Binder, Command
from rs_assets.expressions.script.generate import make_rows, makes_rows
from rs_assets.expressions.script.json_statements import JSON_STATEMENTS
from rs_assets.expressions.script.log_statements import LOG_STATEMENTS
from rs_assets.expressions.script.loop_statements import LOOP_STATEMENTS
from rs_assets.expressions.script.parse import parse_script
from rs_assets.expressions.script.record_statements import RECORD_STATEMENTS
from rs_assets.expressions.script.steps import Bound
from rs_assets.expressions.syntax.bind import Scope
from rs_assets.expressions.syntax.tree import Call

STATEMENTS = {**RECORD_STATEMENTS, **LOG_STATEMENTS, **JSON_STATEMENTS, **LOOP_STATEMENTS}


def bound_script(
    text: str, fields: Mapping[str, str | None], *, step: str, zone: str = "UTC", strict: bool = False
) -> Bound:
    """The steps of a script over `fields`, names with their Spark types.

    LanguageError for a function, a field or a literal that does not fit.

    >>> bound_script("x=upper(a);y=concat(x,'!')", {"a": "string"}, step="script").steps
    (Fill(columns=(('x', 'upper(cast(`a` as string))'),)), Fill(columns=(('y', "concat_ws('', ...
    """
    binder = Binder(Scope(text, step, dict(fields), zone, strict), _command_of)
    binder.run(parse_script(text), guard="")
    return binder.bound()


def _command_of(call: Call) -> Command | None:
    return STATEMENTS.get(call.name.casefold()) or (make_rows if makes_rows(call) else None)
