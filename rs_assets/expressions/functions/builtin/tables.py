"""Built-in table functions."""

from __future__ import annotations

from typing import Final

from rs_assets.expressions.functions.builtin.grok import GROK_ROWS
from rs_assets.expressions.functions.function import Family
from rs_assets.expressions.functions.literals import separated_by
from rs_assets.expressions.functions.udf import TableFunction

_row = Family("table").row

TABLES: Final = (
    TableFunction(
        _row(
            "string_split stringSplit",
            "s text, sep text",
            lambda t: (
                f"transform(filter(split({t['s']}, {separated_by(t['sep'])}), part -> part != '' and"
                " lower(part) != 'null'), part -> struct(part as f0))"
            ),
            "array<struct<f0:string>>",
            "A row for each non-empty part between separators, in the field `f0`.",
        ),
        (("f0", "string"),),
    ),
    GROK_ROWS,
)
