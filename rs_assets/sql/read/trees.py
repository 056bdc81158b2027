"""Trees of queries and expressions, in a normal form and checked for unsupported parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rs_assets.sql.read.lexer import parsed
from rs_assets.sql.read.source import Text
from rs_assets.sql.read.unsupported import check_read

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


def read_tree(text: Text, tokens: Sequence[Token]) -> Any:
    """The tree of one query or expression in its normal form; SqlError for an unsupported part."""
    return check_read(text, normal(parsed(text, tokens)))


def normal(tree: Any) -> Any:
    """`tree` with modifiers that change the meaning of their parent as separate trees.

    `a NOT LIKE b` becomes NOT (a LIKE b), BETWEEN SYMMETRIC two BETWEEN with OR, INTERVAL -'1' DAY an INTERVAL '-1'
    DAY: so rules need not look for them.

    >>> from rs_assets.sql.read.lexer import tokens_of
    >>> for words in ("s NOT LIKE 'a!%' ESCAPE '!'", "n BETWEEN SYMMETRIC 3 AND 1", "ts + INTERVAL -'1' DAY"):
    ...     text = Text(words)
    ...     print(normal(parsed(text, tokens_of(text))).sql())
    NOT s LIKE 'a!%' ESCAPE '!'
    (n BETWEEN 3 AND 1 OR n BETWEEN 1 AND 3)
    ts + INTERVAL '-1' DAY
    """
    # Inner trees first, because the outer ones are copied.
    for node in reversed(list(tree.walk())):
        form = FORMS.get(node.key)
        made = form(node) if form is not None else None
        if made is not None and node is tree:
            tree = made
    return tree


def _replaced(node: Any, made: Callable[[Any], Any]) -> Any:
    """Replaces `node` by the result of `made` on a copy."""
    tree = made(node.copy())
    node.replace(tree)
    return tree


def _negated(node: Any) -> Any:
    """A predicate with NOT around it."""
    from sqlglot import exp

    if not node.args.get("negate"):
        return None
    node.set("negate", None)
    return _replaced(node, lambda copy: exp.Not(this=copy))


def _escaped(node: Any) -> Any:
    """NOT LIKE with ESCAPE: both belong to LIKE."""
    from sqlglot import exp

    if node.this.key != "not":
        return None
    node.set("this", node.this.this)
    return _replaced(node, lambda copy: exp.Not(this=copy))


def _symmetric(node: Any) -> Any:
    from sqlglot import exp

    if not node.args.get("symmetric"):
        return None
    node.set("symmetric", None)

    def both(copy: Any) -> Any:
        turned = copy.copy()
        turned.set("low", copy.args["high"].copy())
        turned.set("high", copy.args["low"].copy())
        return exp.Paren(this=exp.Or(this=copy, expression=turned))

    return _replaced(node, both)


def _signed(node: Any) -> None:
    """INTERVAL -'1' DAY."""
    from sqlglot import exp

    if node.this is None or node.this.key != "neg" or node.this.this.key != "literal":
        return
    number = node.this.this.name
    made = exp.Literal.string(number[1:] if number.startswith("-") else f"-{number}")
    made.meta.update(node.this.this.meta)
    node.set("this", made)


FORMS: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        **dict.fromkeys(("like", "ilike", "is"), _negated),
        "escape": _escaped,
        "between": _symmetric,
        "interval": _signed,
    }
)
