"""Every remedy that the code prints, by where it stands, and the table that says which test follows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("remedies.tsv")
# Why no test follows a remedy.
REASONS = {
    "passed on": "made before the call, or of another error: it has no words of its own here",
    "names": "lists what there is: one of the names is taken",
    "outside": "asks for what no test does: another disk, other permissions, a broker, a package, a copy, a release",
    "nothing": "there is nothing to do, or only to try again",
    "unseen": "guards against what nobody has seen: no input is known that leads to it",
    "open": "no test follows it yet",
}


# The languages have hundreds, which are refusals by line and column: they are kept by file. Those of a system's tables
# are kept one by one, as its connector's are.
BY_FILE = ("sql/", "expressions/condition/", "expressions/script/", "expressions/syntax/")
ONE_BY_ONE = ("sql/systems/",)


def remedies() -> Iterator[str]:
    """`file::function` and the remedy's source, with a tab between, of each call with `remedy=`; in order."""
    for file in sorted((ROOT / "rs_assets").rglob("*.py")):
        name = str(file.relative_to(ROOT / "rs_assets"))
        found = tuple(_of(ast.parse(file.read_text()), name, ""))
        by_file = name.startswith(BY_FILE) and not name.startswith(ONE_BY_ONE)
        yield from {f"{name}::*\tof what is written"} if found and by_file else found


def _of(node: ast.AST, file: str, within: str) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        within = f"{within}.{node.name}" if within else node.name
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg == "remedy":
                yield f"{file}::{within}\t{' '.join(ast.unparse(keyword.value).split())}"
    for child in ast.iter_child_nodes(node):
        yield from _of(child, file, within)


def table() -> dict[str, str]:
    """The rows of the table: what a remedy is known by, and the test that follows it or the reason why none does."""
    rows = (line.rpartition("\t") for line in TABLE.read_text().splitlines() if line and not line.startswith("#"))
    return {remedy: followed for remedy, _, followed in rows}


def complete() -> None:
    """Write the table with the rows that there must be: new ones are open, and those of remedies that are gone go."""
    known = table()
    rows = (f"{remedy}\t{known.get(remedy, 'open')}" for remedy in dict.fromkeys(remedies()))
    head = [line for line in TABLE.read_text().splitlines() if line.startswith("#")]
    TABLE.write_text("\n".join([*head, *rows]) + "\n")


if __name__ == "__main__":
    complete()
