"""Predicates and CASE: comparisons, three-valued logic, LIKE."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final

from rs_assets.expressions.functions.literals import quote, unquote
from rs_assets.records.types import Type
from rs_assets.sql.expressions.comparing import comparison, is_rounded
from rs_assets.sql.expressions.expressions import Expressions, a_type
from rs_assets.sql.expressions.flink_json_made import is_json
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.types import BOOLEAN, common, is_decimal, is_number

# Longer chains of AND or OR are written without inner brackets.
LONG: Final = 60
# A text that begins with an hour, which Spark compares as a time of the day of the clock.
HOUR: Final = re.compile(r"\s*T?\d{1,2}:")


def _compared(sign: str) -> Callable[[Expressions, Any], Value]:
    def rule(made: Expressions, tree: Any) -> Value:
        left, right = made.value(tree.this), made.value(tree.expression)
        if sign != "<=>":
            _check_known(made, tree)
        check_alike(made, left, right, tree)
        return Value(comparison(made, sign, left, right), BOOLEAN)

    return rule


def _check_known(made: Expressions, tree: Any) -> None:
    """SqlError for a comparison with the word NULL: it is neither true nor false, so it would drop all rows."""
    parts = (tree.this, tree.expression)
    other = next((part for part, beside in zip(parts, parts[::-1], strict=True) if beside.key == "null"), None)
    if other is not None:
        known = made.text.written(other) or "x"
        raise made.error("a comparison with NULL is never true", tree, remedy=f"write {known} IS NULL, or IS NOT NULL")


def _distinct(made: Expressions, tree: Any) -> Value:
    same = _compared("<=>")(made, tree)
    return Value(f"(NOT {same.text})", BOOLEAN)


def check_alike(made: Expressions, left: Value, right: Value, tree: Any) -> None:
    """SqlError for values that Spark would compare by a cast that may fail the run or hide a mistake."""
    kinds = [kind for kind in (left.type, right.type) if kind is not None]
    if len(kinds) < 2 or kinds[0].name == kinds[1].name or all(map(is_number, kinds)):
        return
    names = {kind.name for kind in kinds}
    hour = next((each.text for each in (left, right) if HOUR.match(unquote(each.text) or "")), None)
    if hour is not None and "timestamp" in names:
        remedy = "write the date, too, as '2026-01-05 12:30:00', or compare HOUR(ts)"
        raise made.error(f"the time {hour} has no date in {made.shown(tree)}", tree, remedy=remedy)
    if names <= {"timestamp", "date", "string"} or "void" in names:
        return
    raise made.error(
        f"{a_type(kinds[0])} is compared with {a_type(kinds[1])} in {made.shown(tree)}",
        tree,
        remedy=f"CAST one of them: CAST(... AS {kinds[0].text.upper()})",
    )


def _joined(sign: str) -> Callable[[Expressions, Any], Value]:
    def rule(made: Expressions, tree: Any) -> Value:
        parts = _chain(tree)
        # Neither Python nor Spark supports hundreds of nested brackets.
        parts = parts if len(parts) > LONG else [tree.this, tree.expression]
        return Value(f"({f' {sign} '.join(made.condition(part).text for part in parts)})", BOOLEAN)

    return rule


def _chain(tree: Any) -> list[Any]:
    """The parts of a left-associative chain of one connective."""
    kind, right = tree.key, []
    while tree.key == kind:
        right.append(tree.expression)
        tree = tree.this
    return [tree, *reversed(right)]


def _not(made: Expressions, tree: Any) -> Value:
    return Value(f"(NOT {made.condition(tree.this).text})", BOOLEAN)


def _is(made: Expressions, tree: Any) -> Value:
    if tree.expression.key == "json":
        return Value(is_json(_text(made, tree.this), tree.expression.name.upper()), BOOLEAN)
    value, what = made.value(tree.this), made.value(tree.expression)
    if tree.expression.key not in ("null", "boolean"):
        raise made.error(
            f"{made.shown(tree.expression)} is not allowed after IS",
            tree,
            remedy="use IS NULL, IS TRUE or IS FALSE, or = for values",
        )
    if tree.expression.key == "boolean":
        made.condition(tree.this)
    return Value(f"({value.text} IS {what.text.upper()})", BOOLEAN)


def _text(made: Expressions, tree: Any) -> Value:
    value = made.value(tree)
    if value.type is not None and value.type.name not in ("string", "void"):
        raise made.error(f"{made.shown(tree)} is {a_type(value.type)}, not a text", tree, remedy="CAST(... AS STRING)")
    return value


def _between(made: Expressions, tree: Any) -> Value:
    parts = [made.value(part) for part in (tree.this, tree.args["low"], tree.args["high"])]
    for part in parts[1:]:
        check_alike(made, parts[0], part, tree)
    if any(is_rounded(made, parts[0], part) for part in parts[1:]):
        both = (comparison(made, sign, parts[0], part) for sign, part in zip((">=", "<="), parts[1:], strict=True))
        return Value(f"({' AND '.join(both)})", BOOLEAN)
    return Value(f"({parts[0].text} BETWEEN {parts[1].text} AND {parts[2].text})", BOOLEAN)


def _in(made: Expressions, tree: Any) -> Value:
    if tree.args.get("query") is None and not tree.expressions:
        raise made.error("IN () has no values", tree, remedy="write values: IN (1, 2)")
    if tree.args.get("query") is not None:
        raise made.error(
            "IN (SELECT ...) is not supported here",
            tree,
            remedy="move it to WHERE, joined to other conditions with AND",
        )
    value, among = made.value(tree.this), [made.value(each) for each in tree.expressions]
    for each in among:
        check_alike(made, value, each, tree)
    # Spark gives all of them one type.
    if any(is_rounded(made, one, two) for one, two in combinations([value, *among], 2)):
        return Value(f"({' OR '.join(comparison(made, '=', value, each) for each in among)})", BOOLEAN)
    return Value(f"({value.text} IN ({', '.join(each.text for each in among)}))", BOOLEAN)


def _like(made: Expressions, tree: Any) -> Value:
    value = made.value(tree.this)
    if value.type is not None and value.type.name != "string":
        what = f"{made.shown(tree.this)} is {a_type(value.type)}, not a text"
        raise made.error(what, tree, remedy="CAST(... AS STRING)")
    pattern = tree.expression
    # In Flink a backslash is a plain character of a pattern unless ESCAPE names it.
    text = quote(pattern.this.replace("\\", "\\\\")) if pattern.is_string else (
        f"replace({made.value(pattern).text}, {quote(chr(92))}, {quote(chr(92) * 2)})"
    )  # fmt: skip
    return Value(f"({value.text} LIKE {text})", BOOLEAN)


def _escape(made: Expressions, tree: Any) -> Value:
    like, by = tree.this, tree.expression
    if like.key not in made.rules or like.key not in ("like", "ilike"):
        raise made.error(f"{made.shown(tree)} is not supported here", tree, remedy=made.refused.get(like.key, ""))
    if by.is_string and len(by.name) != 1:
        raise made.error("ESCAPE takes one character", by, remedy="write LIKE '50!%' ESCAPE '!'")
    parts = [made.value(part).text for part in (like.this, like.expression, tree.expression)]
    word = "ILIKE" if like.key == "ilike" else "LIKE"
    return Value(f"({parts[0]} {word} {parts[1]} ESCAPE {parts[2]})", BOOLEAN)


def _case(made: Expressions, tree: Any) -> Value:
    subject = made.value(tree.this) if tree.this is not None else None
    whens, results = list[Value](), list[Value]()
    for branch in tree.args["ifs"]:
        when = made.value(branch.this) if subject is not None else made.condition(branch.this)
        if subject is not None:
            check_alike(made, subject, when, branch)
        whens.append(when)
        results.append(made.value(branch.args["true"]))
    subject, conditions = _asked(made, subject, whens)
    heads = [f"WHEN {when} THEN" for when in conditions]
    if tree.args.get("default") is not None:
        results.append(made.value(tree.args["default"]))
        heads.append("ELSE")
    kind = branches_type(made, [each.type for each in results], tree)
    parts = [f"{head} {aligned(made, each, kind).plain}" for head, each in zip(heads, results, strict=True)]
    head = f"CASE {subject.text}" if subject is not None else "CASE"
    return Value(f"{head} {' '.join(parts)} END", kind)


def _asked(made: Expressions, subject: Value | None, whens: list[Value]) -> tuple[Value | None, list[str]]:
    """What is after CASE, if anything, and after each WHEN: comparisons where Spark would round a number."""
    if subject is None or not any(is_rounded(made, subject, when) for when in whens):
        return subject, [when.plain for when in whens]
    return None, [comparison(made, "=", subject, when) for when in whens]


def aligned(made: Expressions, value: Value, kind: Type | None) -> Value:
    """A branch cast to the common type, where Spark would choose another one: for FLOAT and DECIMAL."""
    if kind is None or value.type is None or value.type.name in (kind.name, "void"):
        return value
    if made.text.dialect == "spark" or not (kind.name == "float" or is_decimal(kind)):
        return value
    return Value(f"cast({value.plain} AS {kind.text})", kind)


def branches_type(made: Expressions, kinds: list[Type | None], tree: Any) -> Type | None:
    """The common type of all branches; SqlError for a text and a number."""
    known = [kind for kind in kinds if kind is not None and kind.name != "void"]
    if any(kind is None for kind in kinds) or not known:
        return None
    made_of = known[0]
    for kind in known[1:]:
        shared = common(made_of, kind)
        if shared is None:
            what = "CASE" if tree.key == "case" else made.shown(tree)
            raise made.error(
                f"{what} has branches of {made_of.text.upper()} and of {kind.text.upper()}",
                tree,
                remedy="CAST one of them",
            )
        made_of = shared
    return made_of


PREDICATES: Final[Mapping[str, Callable[[Expressions, Any], Value]]] = MappingProxyType(
    {
        "eq": _compared("="), "neq": _compared("<>"), "gt": _compared(">"), "gte": _compared(">="),
        "lt": _compared("<"), "lte": _compared("<="), "nullsafeeq": _compared("<=>"), "nullsafeneq": _distinct,
        "and": _joined("AND"), "or": _joined("OR"), "not": _not, "is": _is, "between": _between, "in": _in,
        "like": _like, "escape": _escape, "case": _case,
    }
)  # fmt: skip
