"""Compiles conditions to Spark SQL over known fields. Each atom is true or false, never null."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from types import MappingProxyType

from rs_assets.errors import TopologyError, UnknownFieldError
from rs_assets.expressions.condition.networks import NoNetworkError, in_network
from rs_assets.expressions.condition.operators import COMPARISONS, TYPES
from rs_assets.expressions.condition.parse import Atom, Condition, parse_condition
from rs_assets.expressions.functions.kinds import time_of
from rs_assets.expressions.functions.literals import quote, quote_name
from rs_assets.expressions.functions.patterns import fault_of
from rs_assets.expressions.syntax.bind import Scope, bind
from rs_assets.expressions.syntax.tree import Both, Not, Word
from rs_assets.expressions.syntax.typed import FLOATING, WHOLE, Sql, is_numeric

# Floating-point numbers that differ by less than this are equal.
NEAR = "0.000001D"
# As Spark reads it: a zone comes after seconds, and is less than 18 hours away.
_CLOCK = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:[.]\d{1,9})?(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d|[+-]18:00)?)?)?"
_TIME = re.compile(rf"\s*(\d{{4}})-(\d{{1,2}})-(\d{{1,2}})(?:(?:T| +){_CLOCK})?\s*", re.ASCII)


def condition_sql(text: str, fields: Mapping[str, str | None], *, step: str) -> str:
    """The Spark SQL of a condition over `fields`, names with their Spark types.

    UnknownFieldError for an unknown field, LanguageError for a value that does not fit its type.

    >>> condition_sql("(age,>,int,18)&(name,like,'a%')", {"age": "int", "name": "string"}, step="adults")
    "(coalesce(`age` > 18, false) and coalesce(trim(`name`) like 'a%', false))"
    """
    return _sql(parse_condition(text), Scope(text, step, fields, strict=True))


def _sql(condition: Condition, scope: Scope) -> str:
    match condition:
        case Both(operator, parts):
            word = " and " if operator == "&" else " or "
            return f"({word.join(_sql(part, scope) for part in parts)})"  # type: ignore[arg-type]
        case Not(part):
            return f"(not {_sql(part, scope)})"  # type: ignore[arg-type]
        case Atom():
            return _atom(condition, scope)
    raise TypeError(f"{condition!r} is not a condition")


def _atom(atom: Atom, scope: Scope) -> str:
    left = _left(atom, scope)
    if atom.operator in COMPARISONS:
        return _compared(atom, left, scope)
    name = atom.operator.lstrip("~!") if atom.operator != "~regex" else atom.operator
    made = MATCHES[atom.operator.replace("!", "")](atom, _trimmed(left), scope)
    return f"(not {made})" if name != atom.operator and "!" in atom.operator else made


def _left(atom: Atom, scope: Scope) -> Sql:
    if isinstance(atom.left, Word):
        if atom.left.name not in scope.fields:
            raise UnknownFieldError(atom.left.name, step=scope.step, known=tuple(scope.fields))
        return Sql(quote_name(atom.left.name), scope.fields[atom.left.name])
    return bind(atom.left, scope)


def _text(value: Sql) -> str:
    return value.text if value.kind == "string" else f"cast({value.text} as string)"


def _trimmed(value: Sql) -> str:
    return f"trim({_text(value)})"


def _compared(atom: Atom, left: Sql, scope: Scope) -> str:
    """Values are compared as the type word says, else by the field's type, else as texts."""
    kind = TYPES[atom.kind] if atom.kind else left.kind or "string"
    if is_numeric(kind):
        return _as_numbers(atom, left, kind, scope)
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return _as_times(atom, left, scope)
    if kind == "boolean":
        return _as_booleans(atom, left, scope)
    text = _text(left)
    return f"coalesce({text} != '' and {text} {atom.operator} {quote(atom.value or '')}, false)"


def _as_numbers(atom: Atom, left: Sql, kind: str, scope: Scope) -> str:
    value = number_of(atom, scope)
    if left.kind is not None and is_numeric(left.kind):
        number, kind = left.text, left.kind
    else:
        number = f"try_cast({left.text} as {kind})"
    if kind in FLOATING:
        written = f"{value:f}D"
        near = f"abs({number} - {written}) < {NEAR}"
        made = {"=": near, "!=": f"not ({near})"}.get(atom.operator, f"{number} {atom.operator} {written}")
        return f"coalesce({made}, false)"
    if kind in WHOLE and not -(2**63) <= value <= 2**63 - 1:
        # Spark 4.2 takes null for a value here, when it simplifies the comparison.
        beyond = atom.operator == "!=" or (atom.operator in ("<", "<=")) == (value > 0)
        return f"({number} is not null)" if beyond and atom.operator != "=" else "false"
    written = f"{value:f}" if value == value.to_integral_value() and kind in WHOLE else f"{value:f}BD"
    return f"coalesce({number} {atom.operator} {written}, false)"


def number_of(atom: Atom, scope: Scope) -> Decimal:
    """The number that an atom compares with; LanguageError if its value is none."""
    try:
        value = Decimal((atom.value or "").strip())
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite() or abs(value.adjusted()) > 37 or len(value.as_tuple().digits) > 37:
        raise scope.error(
            f"{atom.value!r} is not a number",
            atom.value_at,
            remedy="write digits, or compare texts: (field,=,string,value)",
        )
    return value.to_integral_value() if value == value.to_integral_value() else value


def _as_times(atom: Atom, left: Sql, scope: Scope) -> str:
    if not _is_time(atom.value or ""):
        raise scope.error(f"{atom.value!r} is not a time", atom.value_at, remedy="write it as 2026-01-31 23:59:59")
    time = time_of(left.text) if left.kind == "string" else f"try_cast({left.text} as timestamp)"
    return f"coalesce({time} {atom.operator} {time_of(quote(atom.value or ''))}, false)"


def _is_time(text: str) -> bool:
    """Whether a text is a time that there is: of one such as 2026-02-30 Spark makes null, and no row would match."""
    found = _TIME.fullmatch(text)
    if found is None:
        return False
    year, month, day, hour, minute, second = (int(each or 0) for each in found.groups())
    try:
        datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return False
    return True


def _as_booleans(atom: Atom, left: Sql, scope: Scope) -> str:
    word = (atom.value or "").strip().lower()
    if word not in ("true", "false"):
        raise scope.error(f"{atom.value!r} is neither true nor false", atom.value_at, remedy="write true or false")
    made = left.text if left.kind == "boolean" else f"try_cast({left.text} as boolean)"
    return f"coalesce({made} {atom.operator} {word}, false)"


def _in(atom: Atom, text: str, _scope: Scope) -> str:
    items = [re.sub(r"^(['\"])(.*)\1$", r"\2", item.strip()) for item in (atom.value or "").split(",")]
    return f"coalesce({text} in ({', '.join(map(quote, items))}), false)"


def _like(atom: Atom, text: str, _scope: Scope) -> str:
    return f"coalesce({text} like {quote((atom.value or '').replace(_BACKSLASH, _BACKSLASH * 2))}, false)"


_BACKSLASH = "\\"


def _regex(flags: str) -> Callable[[Atom, str, Scope], str]:
    def made(atom: Atom, text: str, scope: Scope) -> str:
        try:
            fault = fault_of(atom.value or "")
        except TopologyError as error:
            raise scope.error(error.what, atom.value_at, remedy=error.remedy) from None
        if fault is not None:
            remedy = "write a Java regular expression; escape literal characters with a backslash"
            raise scope.error(f"the pattern {atom.value!r} is wrong: {fault}", atom.value_at, remedy=remedy)
        return f"coalesce({text} rlike {quote(flags + (atom.value or ''))}, false)"

    return made


def _contains(atom: Atom, text: str, _scope: Scope) -> str:
    return f"coalesce(contains({text}, {quote(atom.value or '')}), false)"


def _contains_in_any_case(atom: Atom, text: str, _scope: Scope) -> str:
    return f"coalesce(contains(lower({text}), lower({quote(atom.value or '')})), false)"


def _is_null(_atom: Atom, text: str, _scope: Scope) -> str:
    return f"coalesce({text} = '', true)"


def _is_not_null(_atom: Atom, text: str, _scope: Scope) -> str:
    return f"coalesce({text} != '', false)"


def _in_network(atom: Atom, text: str, scope: Scope) -> str:
    try:
        return in_network(text, atom.value or "")
    except NoNetworkError as error:
        remedy = "write an address, a network or the beginning of one: 10.0.0.1, 10.0.0.0/8, 10."
        raise scope.error(str(error), atom.value_at, remedy=remedy) from None


# Their opposites are negated afterwards, so they are true where there is no value.
MATCHES: Mapping[str, Callable[[Atom, str, Scope], str]] = MappingProxyType(
    {
        "in": _in,
        "like": _like,
        "regex": _regex(""),
        "~regex": _regex("(?i)"),
        "contains": _contains,
        "~contains": _contains_in_any_case,
        "isnull": _is_null,
        "isnotnull": _is_not_null,
        "ipcontains": _in_network,
    }
)
