"""Generates the page of all functions from their tables: `python -m rs_assets.expressions.functions.document FILE`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from rs_assets.expressions.functions.function import Function
from rs_assets.expressions.functions.kinds import LITERALS
from rs_assets.expressions.functions.registry import FAMILIES, FUNCTIONS

HEAD = """# Functions

Scripts, conditions and SQL call these functions, by names in any case. This page is generated from their tables
(`rs_assets/expressions/functions`), and the tests run each example. There are {functions} functions with {names} names.
All are Spark expressions, so none needs a Python worker. Steps of the fluent API call them by `rs_assets.functions`:
`.with_fields(name=functions.trim("name"))`, with arguments in SQL.

A function is total: a result that cannot be computed is null, and no value of a row raises. Arguments are cast to the
kind of the parameter: *text*, *number* (a double), *long*, *int*, *boolean*; *any* takes a value unchanged. These must
be literals, which are checked when the pipeline is built: {literals}.
`= x` is the value of an omitted argument, `...` is any number of arguments.
"""
TAIL = """## Functions of your own

A declared Python function is called by its name, in any case, like a built-in one: in scripts, in conditions, in SQL
and by `rs_assets.functions`.

```python
>>> import rs_assets
>>> from rs_assets import functions
>>> @rs_assets.function
... def net_of(address: str, parts: int = 2) -> str | None:
...     found = address.split(".")
...     return ".".join(found[:parts]) if len(found) == 4 else None
>>> hits = rs_assets.StreamBuilder.data_stream("docs", "nets").from_array([{"ip": "10.1.2.3"}, {"ip": None}])
>>> hits.script("net=net_of(ip)").preview()
[{'ip': '10.1.2.3', 'net': '10.1'}, {'ip': None, 'net': None}]
>>> hits.map("ip", functions.net_of("ip", 3).alias("net")).preview(records=1)
[{'ip': '10.1.2.3', 'net': '10.1.2'}]

```

- **Types** come from the annotations (`str`, `int`, `float`, `bool`, `bytes`, `datetime`, `date`, `Decimal`, lists,
  dicts, dataclasses and TypedDicts), else from DDL: `@function(arguments="s string, n int", returns="array<string>")`.
  Arguments are cast to them: a value that cannot be cast is null. SQL refuses arguments of another type when the
  pipeline is built.
- **Nulls**: if an argument is null and its parameter is not Optional (in DDL: `NOT NULL`), the result is null and the
  function is not called. If the result is declared as never null, returning None is a fault.
- **Faults**: if a function raises, or its result does not fit its type, the record is bad: the run fails with
  `StepError`, or with `bad_records="quarantine"` the record becomes a dead letter. This only happens if the value is
  used: not in a branch of `if` or `CASE` that is not taken. The function is still called there.
- **Pure**: a function is called again if a batch is repeated, and may be called for records that are dropped.
- **Many rows at once**: with `form="arrow"` or `form="pandas"` a function gets an array or a Series for each argument,
  and returns one of the same length. Each value may only depend on its own row: Spark chooses how rows are batched. If
  it raises, it is called again with each row.
- **Rows**: `@table_function(returns="word string, place bigint")` declares a function that returns or yields rows;
  `words_of(line)` alone in a script makes a record of each row, with the fields of the original record added.
- **Aggregates**: `@aggregate_function` on a class with `create()`, `accumulate(accumulator, value)` and
  `value(accumulator)` declares one for windows in SQL: `SELECT median_of(ms) ... GROUP BY TUMBLE(...)`. With
  `merge(one, other)` the state of a window is one accumulator, of the type that `create` is annotated to return, else
  of `accumulator="array<bigint>"`; without it the rows are the state. In the fluent API use
  [`.reduce()`](windows.md#reduce), where the same rules hold.
- **Names** of built-in functions are reserved, and two functions cannot share a name.
- **Packages**: a module with declared functions is imported when a name is otherwise unknown, if its package has an
  entry point: `[project.entry-points."rs_assets.functions"]` with `shop = "shop.functions"` in its pyproject.toml.

Spark runs them in Python workers over Arrow batches. They cannot be called in SQL text of the fluent API, in an
aggregate written as SQL, in branches that are merged again before a stateful step, or in real-time mode.
"""
TITLES = {
    "text": "Texts",
    "regexp": "Regular expressions",
    "grok": "Lines of logs",
    "conditional": "Conditionals and predicates",
    "math": "Numbers",
    "bits": "Bits, bases and addresses",
    "date": "Times",
    "json": "JSON",
    "array": "Arrays and maps",
    "encoding": "Encodings, hashes and URLs",
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
    return "\n".join([*parts, TAIL])


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
