"""What a Column of a running Spark does, as texts; does not import pyspark."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from rs_assets.topology.user_code.outside import whole_digest

# In the tree of a Column, as Spark writes it: its functions, SQL texts, and texts that are read as a time.
_FUNCTION: Final = re.compile(r"UnresolvedFunction\((\w+),")
_SQL: Final = re.compile(r"SqlExpression\((.*?),Origin\(", re.DOTALL)
_CAST: Final = re.compile(r"CAST\('\w+[^']*' AS \w+\)")
_READ: Final = re.compile(r"(?:try_)?to_(?:date|timestamp\w*)\('\w+[^']*'")
# A node of a Column that holds an expression of Spark, an expression that holds a node, and a function in Python.
_HOLDS_EXPRESSION, _HOLDS_NODE, _FUNCTION_IN_PYTHON = "ExpressionColumnNode", "ColumnNodeExpression", "PythonUDF"
# What differs between processes in which a Column does the same: seeds that Spark draws, addresses, numbers of
# variables, and places in a program.
_SEED: Final = re.compile(r"(\b(?:rand|randn|random|randstr|uniform|uuid|shuffle)\([^()]*?)-?\d{10,}L\)")
_ADDRESS: Final = re.compile(r"@[0-9a-f]+\b")
_VARIABLES: Final = re.compile(r"(\w+_\d+(?:, \w+_\d+)*)\)? ->")


@dataclass(frozen=True, slots=True)
class Parts:
    """The names of the functions in a Column, the SQL texts, and the texts that it reads as times, as SQL."""

    functions: tuple[str, ...]
    texts: tuple[str, ...]
    casts: tuple[str, ...]


def parts_of(column: Any) -> Parts:
    """The parts of a Column."""
    node = column._jc.node().normalized()  # noqa: SLF001  there is no public way
    tree, text = node.toString(), node.sql()
    reads = (*_CAST.findall(text), *(f"{each})" for each in _READ.findall(text)))
    return Parts(tuple(_FUNCTION.findall(tree)), tuple(_SQL.findall(tree)), reads)


def column_text(column: Any) -> str:
    """The expression of a Column as a text: the same in each process in which it does the same.

    The digests of functions in Python that it calls (`udf`, `pandas_udf`) follow.
    """
    node = column._jc.node()  # noqa: SLF001
    return " ".join([steady_text(node.normalized().sql()), *map(whole_digest, _functions_in(node))])


def _functions_in(node: Any) -> Iterator[Callable[..., Any]]:
    """The functions in Python that a node of a Column calls: Spark holds them as they are sent to its workers."""
    kind = node.getClass().getSimpleName()
    inner = {_HOLDS_EXPRESSION: "expression", _HOLDS_NODE: "node"}.get(kind)
    if inner is not None:
        yield from _functions_in(getattr(node, inner)())
        return
    if kind == _FUNCTION_IN_PYTHON:
        # A pair of the function and its type; a large one is only named.
        sent = pickle.loads(node.func().command().unsafeArray())  # noqa: S301  pickled in this process
        if isinstance(sent, tuple) and callable(sent[0]):
            yield sent[0]
    children = node.children()
    for place in range(children.size()):
        yield from _functions_in(children.apply(place))


def steady_text(text: str) -> str:
    """`text` without what Spark puts into each Column by itself.

    >>> steady_text("transform(xs, x_1 -> +(x_1, rand(-7694185576550756758L)))"), steady_text("rand(5L)")
    ('transform(xs, x -> +(x, rand()))', 'rand(5L)')
    >>> steady_text("[B@311eca4a"), steady_text("f(Origin(None,Some([Ljava;@1d),Some((col,a.py:3))))")
    ('[B', 'f(Origin)')
    """
    text = _ADDRESS.sub("", _SEED.sub(r"\1)", text))
    for variable in {name for found in _VARIABLES.findall(text) for name in found.split(", ")}:
        text = re.sub(rf"\b{variable}\b", variable.rpartition("_")[0], text)
    return _without_origins(text)


def _without_origins(text: str) -> str:
    """`text` without the places in a program: what follows `Origin`, up to the parenthesis that closes it."""
    before, found, after = text.partition("Origin(")
    if not found:
        return text
    depth = 1
    for at, sign in enumerate(after):
        depth += (sign == "(") - (sign == ")")
        if not depth:
            return f"{before}Origin{_without_origins(after[at + 1 :])}"
    return text
