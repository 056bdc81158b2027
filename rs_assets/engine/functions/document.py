"""The page of all functions, made from their tables: `python -m rs_assets.engine.functions.document FILE`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from rs_assets.engine.functions.function import Function
from rs_assets.engine.functions.kinds import LITERALS
from rs_assets.engine.functions.registry import FAMILIES, FUNCTIONS

HEAD = """# Functions

Scripts, conditions and SQL call these functions, by names that are taken in any case. This page is made from their
tables (`rs_assets/engine/functions`), and each example is run by the tests. There are {functions} functions, which
answer to {names} names; all are expressions of Spark's own, so none needs a Python worker.

A function is total: what it cannot compute is null, and no value of a row raises. Arguments are cast to the kind that a
parameter names: *text*, *number* (a double), *long*, *int*, *boolean*; *any* takes a value as it is. These have to be
literals, which are checked when the pipeline is built: {literals}.
`= x` is what stands for an argument that is left out, `...` is for any number of them.
"""
TITLES = {
    "text": "Texts",
    "regexp": "Regular expressions",
    "conditional": "Choices and questions",
    "math": "Numbers",
    "bits": "Bits, bases and addresses",
    "date": "Times",
    "json": "JSON",
    "array": "Arrays and maps",
    "encoding": "Codes, hashes and addresses of the web",
    "cast": "Types",
}


def page() -> str:
    """The page in Markdown."""
    literals = ", ".join(f"*{each}*" for each in sorted(LITERALS))
    every = [function for table in FAMILIES for function in table]
    parts = [HEAD.format(functions=len({each.name for each in every}), names=len(FUNCTIONS), literals=literals)]
    for family, title in TITLES.items():
        rows = sorted((each for each in every if each.family == family), key=lambda each: each.name.casefold())
        parts.append(
            "\n".join([f"## {title}", "", "| call | result | example |", "|---|---|---|", *_rows(rows)]) + "\n"
        )
    return "\n".join(parts)


def _rows(functions: list[Function]) -> Iterator[str]:
    for _, overloads in groupby(functions, key=lambda each: each.name):
        for place, function in enumerate(overloads):
            also = (
                f" Also {', '.join(f'`{_cell(each)}`' for each in function.aliases)}."
                if function.aliases and not place
                else ""
            )
            example = function.examples[0]
            shown = f"`{_cell(example.call)}` is {_shown(example.result)}"
            yield f"| `{_cell(function.signature)}` | {_cell(function.doc)}{also} | {shown} |"


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, float):
        return f"{value:.12g}"
    return f"`{_cell(str(value))}`" if value != "" else "an empty text"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
