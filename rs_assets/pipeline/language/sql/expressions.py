"""Expressions: each kind of tree has a rule that makes Spark SQL of it; what has none is refused with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rs_assets.engine.functions.literals import quote, quote_name
from rs_assets.errors import SqlError
from rs_assets.pipeline.check.types import Type, type_in
from rs_assets.pipeline.language.sql.casts import cast
from rs_assets.pipeline.language.sql.durations import interval_text
from rs_assets.pipeline.language.sql.lexer import CALL
from rs_assets.pipeline.language.sql.source import Text
from rs_assets.pipeline.language.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    TEXT,
    TIMESTAMP,
    common,
    is_number,
    is_whole,
    type_of_cast,
)
from rs_assets.pipeline.language.sql.values import Value

if TYPE_CHECKING:
    from sqlglot import exp

LARGEST_INT: Final = 2**31 - 1
# What a tree is here, before its rule is asked; None: not this one's matter.
Resolve = Callable[["exp.Expression"], "Value | None"]
Calls = Callable[["Expressions", str, "list[Value]", "exp.Expression"], Value]


@dataclass(frozen=True, slots=True)
class Expressions:
    """Makes Spark SQL of trees: `resolve` knows the columns, `calls` the functions."""

    text: Text
    resolve: Resolve
    calls: Calls

    def value(self, tree: exp.Expression) -> Value:
        """The text of `tree` and its type; SqlError for what has no meaning here."""
        found = self.resolve(tree)
        if found is not None:
            return found
        rule = RULES.get(tree.key)
        if rule is None:
            raise self.error(f"{self.shown(tree)} is not supported here", tree, remedy=REFUSED.get(tree.key, ""))
        return rule(self, tree)

    def condition(self, tree: exp.Expression) -> Value:
        """The text of what must be true or false."""
        made = self.value(tree)
        if made.type is not None and made.type.name != "boolean":
            raise self.error(
                f"{self.shown(tree)} is {_a(made.type)}, not true or false", tree, remedy="compare it with something"
            )
        return made

    def error(self, what: str, at: object, *, remedy: str = "") -> SqlError:
        """The error for what stands at a tree."""
        return self.text.error(what, at, remedy=remedy)

    def shown(self, tree: exp.Expression) -> str:
        """A tree as it was written, as far as it has a place."""
        written = " ".join(self.text.written(tree).split())
        return repr(written) if written else tree.key.upper()


def _a(kind: Type) -> str:
    return f"{'an' if kind.name[0] in 'aeiou' else 'a'} {kind.text.upper()}"


def _literal(made: Expressions, tree: Any) -> Value:  # noqa: ARG001  the table's form
    if tree.is_string:
        return Value(quote(tree.this), TEXT)
    number = tree.this
    if number.isdigit():
        return Value(number, Type("int") if int(number) <= LARGEST_INT else BIGINT)
    if "e" in number.casefold():
        return Value(number, DOUBLE)
    whole, _, behind = number.partition(".")
    return Value(number, type_in(f"decimal({max(len(whole.lstrip('0')) + len(behind), 1)},{len(behind)})"))


def _fixed(text: str, kind: Type | None) -> Callable[[Expressions, Any], Value]:
    return lambda made, tree: Value(text, kind)  # noqa: ARG005  the table's form


def _boolean(made: Expressions, tree: Any) -> Value:  # noqa: ARG001
    return Value("true" if tree.this else "false", BOOLEAN)


def _bracketed(made: Expressions, tree: Any) -> Value:
    return made.value(tree.this)


def _negative(made: Expressions, tree: Any) -> Value:
    value = made.value(tree.this)
    _need_number(made, value, tree)
    return Value(f"(- {value.text})", value.type)


def _arithmetic(sign: str) -> Callable[[Expressions, Any], Value]:
    def rule(made: Expressions, tree: Any) -> Value:
        moved = _moved(made, tree, sign)
        if moved is not None:
            return moved
        left, right = made.value(tree.this), made.value(tree.expression)
        for value, part in ((left, tree.this), (right, tree.expression)):
            _need_number(made, value, part)
        return Value(f"({left.text} {sign} {right.text})", _result(sign, left.type, right.type))

    return rule


def _moved(made: Expressions, tree: Any, sign: str) -> Value | None:
    """A time and an interval."""
    parts = (tree.this, tree.expression)
    if sign not in "+-" or not any(part.key == "interval" for part in parts):
        return None
    at, span = parts if parts[1].key == "interval" else (parts[1], parts[0])
    value = made.value(at)
    if value.type is not None and value.type.name not in ("timestamp", "date"):
        raise made.error(f"{made.shown(at)} is {_a(value.type)}, no time", at, remedy="add intervals to timestamps")
    return Value(f"({value.text} {sign} {interval_text(made.text, span)})", value.type)


def _need_number(made: Expressions, value: Value, tree: Any) -> None:
    if value.type is not None and not is_number(value.type):
        raise made.error(
            f"{made.shown(tree)} is {_a(value.type)}, no number",
            tree,
            remedy="write || to join texts" if value.type.name == "string" else "CAST(... AS BIGINT)",
        )


def _result(sign: str, left: Type | None, right: Type | None) -> Type | None:
    """The type of a sum or a product; of decimals only that it is one, for digits are Spark's matter."""
    kind = common(left, right)
    if kind is None or is_whole(kind) or kind.name in ("float", "double"):
        return kind
    scales = [0 if is_whole(each) else int(each.name[:-1].rpartition(",")[2]) for each in (left, right) if each]
    return type_in(f"decimal(38,{min(sum(scales) if sign == '*' else max(scales), 38)})")


def _divided(made: Expressions, tree: Any) -> Value:
    left, right = made.value(tree.this), made.value(tree.expression)
    for value, part in ((left, tree.this), (right, tree.expression)):
        _need_number(made, value, part)
        if value.type is None:
            raise made.error(
                f"the type of {made.shown(part)} is not known, so neither is whether / drops what is behind the point",
                part,
                remedy="CAST(... AS BIGINT) or CAST(... AS DOUBLE)",
            )
    if is_whole(left.type) and is_whole(right.type):
        return Value(f"({left.text} div {right.text})", BIGINT)
    double = "double" if common(left.type, right.type) == DOUBLE else None
    return Value(f"({left.text} / {right.text})", type_in(double) if double else type_in("decimal(38,6)"))


def _compared(sign: str) -> Callable[[Expressions, Any], Value]:
    def rule(made: Expressions, tree: Any) -> Value:
        left, right = made.value(tree.this), made.value(tree.expression)
        check_alike(made, left, right, tree)
        return Value(f"({left.text} {sign} {right.text})", BOOLEAN)

    return rule


def _distinct(made: Expressions, tree: Any) -> Value:
    same = _compared("<=>")(made, tree)
    return Value(f"(NOT {same.text})", BOOLEAN)


def check_alike(made: Expressions, left: Value, right: Value, tree: Any) -> None:
    """SqlError for values that Spark would compare by a cast that may end the run, or hide a mistake."""
    kinds = [kind for kind in (left.type, right.type) if kind is not None]
    if len(kinds) < 2 or kinds[0].name == kinds[1].name or all(map(is_number, kinds)):
        return
    names = {kind.name for kind in kinds}
    if names <= {"timestamp", "date", "string"} or "void" in names:
        return
    raise made.error(
        f"{_a(kinds[0])} is compared with {_a(kinds[1])} in {made.shown(tree)}",
        tree,
        remedy=f"CAST one of them: CAST(... AS {kinds[0].text.upper()})",
    )


def _joined(sign: str) -> Callable[[Expressions, Any], Value]:
    def rule(made: Expressions, tree: Any) -> Value:
        parts = [made.condition(part).text for part in (tree.this, tree.expression)]
        return Value(f"({f' {sign} '.join(parts)})", BOOLEAN)

    return rule


def _not(made: Expressions, tree: Any) -> Value:
    return Value(f"(NOT {made.condition(tree.this).text})", BOOLEAN)


def _is(made: Expressions, tree: Any) -> Value:
    value, what = made.value(tree.this), made.value(tree.expression)
    return Value(f"({value.text} IS {what.text.upper()})", BOOLEAN)


def _between(made: Expressions, tree: Any) -> Value:
    parts = [made.value(part) for part in (tree.this, tree.args["low"], tree.args["high"])]
    for part in parts[1:]:
        check_alike(made, parts[0], part, tree)
    return Value(f"({parts[0].text} BETWEEN {parts[1].text} AND {parts[2].text})", BOOLEAN)


def _in(made: Expressions, tree: Any) -> Value:
    if tree.args.get("query") is not None or not tree.expressions:
        raise made.error("IN (SELECT ...) is not supported", tree, remedy="write it as a JOIN")
    value, among = made.value(tree.this), [made.value(each) for each in tree.expressions]
    for each in among:
        check_alike(made, value, each, tree)
    return Value(f"({value.text} IN ({', '.join(each.text for each in among)}))", BOOLEAN)


def _like(made: Expressions, tree: Any) -> Value:
    value = made.value(tree.this)
    if value.type is not None and value.type.name != "string":
        raise made.error(f"{made.shown(tree.this)} is {_a(value.type)}, no text", tree, remedy="CAST(... AS STRING)")
    pattern = tree.expression
    # In Flink a backslash is a letter of a pattern unless ESCAPE names it.
    text = quote(pattern.this.replace("\\", "\\\\")) if pattern.is_string else (
        f"replace({made.value(pattern).text}, {quote(chr(92))}, {quote(chr(92) * 2)})"
    )  # fmt: skip
    return Value(f"({value.text} LIKE {text})", BOOLEAN)


def _escape(made: Expressions, tree: Any) -> Value:
    like = tree.this
    parts = [made.value(part).text for part in (like.this, like.expression, tree.expression)]
    return Value(f"({parts[0]} LIKE {parts[1]} ESCAPE {parts[2]})", BOOLEAN)


def _case(made: Expressions, tree: Any) -> Value:
    subject = made.value(tree.this) if tree.this is not None else None
    parts, kinds = [], list[Type | None]()
    for branch in tree.args["ifs"]:
        when = made.value(branch.this) if subject is not None else made.condition(branch.this)
        then = made.value(branch.args["true"])
        kinds.append(then.type)
        parts.append(f"WHEN {when.plain} THEN {then.plain}")
    if tree.args.get("default") is not None:
        other = made.value(tree.args["default"])
        kinds.append(other.type)
        parts.append(f"ELSE {other.plain}")
    head = f"CASE {subject.text}" if subject is not None else "CASE"
    return Value(f"{head} {' '.join(parts)} END", branches_type(made, kinds, tree))


def branches_type(made: Expressions, kinds: list[Type | None], tree: Any) -> Type | None:
    """The type that all branches share; SqlError if a text and a number would become one."""
    known = [kind for kind in kinds if kind is not None and kind.name != "void"]
    if any(kind is None for kind in kinds) or not known:
        return None
    made_of = known[0]
    for kind in known[1:]:
        shared = common(made_of, kind)
        if shared is None:
            raise made.error(
                f"{made.shown(tree)} is once {_a(made_of)} and once {_a(kind)}", tree, remedy="CAST one of them"
            )
        made_of = shared
    return made_of


def _cast(made: Expressions, tree: Any) -> Value:
    kind = type_of_cast(made.text, tree.args["to"], tree)
    return cast(made.text, made.value(tree.this), kind, tree, failing="cast")


def _try_cast(made: Expressions, tree: Any) -> Value:
    kind = type_of_cast(made.text, tree.args["to"], tree)
    return cast(made.text, made.value(tree.this), kind, tree, failing="try_cast")


def _call(made: Expressions, tree: Any) -> Value:
    name = tree.name.removeprefix(CALL)
    return made.calls(made, name, [made.value(each) for each in arguments(tree)], tree)


def arguments(tree: Any) -> list[Any]:
    """The arguments of a call; a unit of time as the first one becomes a text."""
    from sqlglot import exp

    return [
        exp.Literal.string(each.name.upper()) if tree.name.startswith("RS_TIMESTAMP") and place == 0 else each
        for place, each in enumerate(tree.expressions)
    ]


def _extract(made: Expressions, tree: Any) -> Value:
    return made.calls(made, tree.this.name.upper(), [made.value(tree.expression)], tree)


def _trim(made: Expressions, tree: Any) -> Value:
    value = made.value(tree.this).text
    side = tree.args.get("position") or "BOTH"
    letters = f"{made.value(tree.expression).text} " if tree.expression is not None else ""
    return Value(f"trim({side} {letters}FROM {value})", TEXT)


def _position(made: Expressions, tree: Any) -> Value:
    return Value(f"locate({made.value(tree.args['substr']).text}, {made.value(tree.this).text})", Type("int"))


def _concat(made: Expressions, tree: Any) -> Value:
    parts = [made.value(part) for part in (tree.this, tree.expression)]
    for part, each in zip(parts, (tree.this, tree.expression), strict=True):
        if part.type is not None and part.type.name != "string":
            raise made.error(f"{made.shown(each)} is {_a(part.type)}, no text", each, remedy="CAST(... AS STRING)")
    return Value(f"({parts[0].text} || {parts[1].text})", TEXT)


def _bracket(made: Expressions, tree: Any) -> Value:
    value, place = made.value(tree.this), made.value(tree.expressions[0])
    kind = value.type
    if kind is not None and kind.name not in ("array", "map"):
        raise made.error(f"{made.shown(tree.this)} is {_a(kind)}, which has no elements", tree)
    of = dict(kind.parts).get("element" if kind.name == "array" else "value") if kind is not None else None
    # Places are counted from 1; what is not there is null.
    return Value(f"try_element_at({value.text}, {place.text})", of)


def _dot(made: Expressions, tree: Any) -> Value:
    value = made.value(tree.this)
    kind = dict(value.type.parts).get(tree.expression.name) if value.type is not None else None
    return Value(f"{value.text}.{quote_name(tree.expression.name)}", kind)


def _interval(made: Expressions, tree: Any) -> Value:
    raise made.error("an INTERVAL alone is no value", tree, remedy="add it to a time: ts + INTERVAL '1' HOUR")


def _column(made: Expressions, tree: Any) -> Value:
    raise made.error(f"there is no column {made.shown(tree)} here", tree)


# Kinds of trees that are refused with more than their place.
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "similarto": "write REGEXP(text, 'pattern')",
        "subquery": "join with it: JOIN (SELECT ...) AS s ON ...",
        "exists": "write it as a JOIN",
        "window": "OVER is read with ROW_NUMBER() in a sub-query whose rows are limited: WHERE rn <= 3",
        "struct": "name the columns one by one",
        "star": "name the columns, or write COUNT(*)",
        "tuple": "compare the columns one by one",
    }
)
RULES: Final[Mapping[str, Callable[[Expressions, Any], Value]]] = MappingProxyType(
    {
        "literal": _literal, "null": _fixed("NULL", Type("void")), "boolean": _boolean, "paren": _bracketed,
        "neg": _negative, "add": _arithmetic("+"), "sub": _arithmetic("-"), "mul": _arithmetic("*"),
        "mod": _arithmetic("%"), "div": _divided, "eq": _compared("="), "neq": _compared("<>"), "gt": _compared(">"),
        "gte": _compared(">="), "lt": _compared("<"), "lte": _compared("<="), "nullsafeeq": _compared("<=>"),
        "nullsafeneq": _distinct, "and": _joined("AND"), "or": _joined("OR"), "not": _not, "is": _is,
        "between": _between, "in": _in, "like": _like, "escape": _escape, "case": _case, "cast": _cast,
        "trycast": _try_cast, "anonymous": _call, "extract": _extract, "trim": _trim, "strposition": _position,
        "dpipe": _concat, "bracket": _bracket, "dot": _dot, "interval": _interval, "column": _column,
        "currenttimestamp": _fixed("current_timestamp()", TIMESTAMP),
        "currentdate": _fixed("current_date()", type_in("date")),
    }
)  # fmt: skip
