"""Atoms of conditions as tests of columns: the same truth as their Spark SQL, bound to the types of fields."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from rs_assets.errors import UnknownFieldError
from rs_assets.expressions.condition.bind import number_of
from rs_assets.expressions.condition.networks import NoNetworkError, network_of
from rs_assets.expressions.condition.operators import COMPARISONS, TYPES
from rs_assets.expressions.condition.parse import Atom, Condition, parse_condition
from rs_assets.expressions.rules.backtracking import is_exponential
from rs_assets.expressions.rules.portable import NotPortableError, Portable, like, literal, portable
from rs_assets.expressions.syntax.bind import Scope
from rs_assets.expressions.syntax.tree import Both, Not, Word
from rs_assets.expressions.syntax.typed import FLOATING, WHOLE

# How a text field is looked at: as it is, without spaces around, or that in lower case.
RAW, TRIMMED, LOWER = "raw", "trimmed", "lower"
# The types of the fields that rules may read.
READABLE = frozenset({*WHOLE, *FLOATING, "string", "boolean"})
LEAST, MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class View:
    """A field as text."""

    field: str
    form: str = TRIMMED


@dataclass(frozen=True, slots=True)
class Interval:
    """A number from `low` to `high`, both included; NaN is beyond every number, as in Spark."""

    field: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Member:
    """A text that is one of `values`."""

    view: View
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class Matches:
    """A text in which a pattern is found."""

    view: View
    pattern: Portable


@dataclass(frozen=True, slots=True)
class Check:
    """Any other test, by its name in `CHECKS` of the module `checks`."""

    kind: str
    view: View
    value: str | float = ""


@dataclass(frozen=True, slots=True)
class Joined:
    """All of `parts` (`&`), or any (`|`)."""

    operator: str
    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """The opposite of `part`."""

    part: Formula


Test = Interval | Member | Matches | Check
Formula = Test | Joined | Negated


def formula_of(text: str, fields: Mapping[str, str | None], *, step: str) -> Formula:
    """A condition over `fields`, names with their Spark types, as tests that are joined and negated.

    UnknownFieldError for an unknown field; LanguageError for what does not fit its type, and for what only
    `filter_by_expression` can do.

    >>> formula_of("(ms,>,100)", {"ms": "int"}, step="judge")
    Interval(field='ms', low=101, high=9223372036854775807)
    """
    return _formula(parse_condition(text), Scope(text, step, fields, strict=True))


def _formula(condition: Condition, scope: Scope) -> Formula:
    match condition:
        case Both(operator, parts):
            return Joined(operator, tuple(_formula(part, scope) for part in parts))  # type: ignore[arg-type]
        case Not(part):
            return Negated(_formula(part, scope))  # type: ignore[arg-type]
    return _atom(condition, scope)


def _atom(atom: Atom, scope: Scope) -> Formula:
    name, kind = _field(atom, scope)
    if atom.operator in COMPARISONS:
        return _compared(atom, name, kind, scope)
    if kind in FLOATING and atom.operator not in ("isnull", "isnotnull"):
        remedy = "compare it as a number, or cast it to a text in a step before"
        raise scope.error(f"a rule cannot look at {name!r} as text: it is a {kind}", atom.at, remedy=remedy)
    plain = atom.operator.replace("!", "")
    made = MATCHES[plain](atom, name, scope)
    return Negated(made) if "!" in atom.operator else made


def _field(atom: Atom, scope: Scope) -> tuple[str, str]:
    if not isinstance(atom.left, Word):
        remedy = "compute it in a step before: .script('x=...'), and name x here"
        raise scope.error("a rule compares fields, not calls", atom.at, remedy=remedy)
    name = atom.left.name
    if name not in scope.fields:
        raise UnknownFieldError(name, step=scope.step, known=tuple(scope.fields))
    kind = scope.fields[name] or "unknown"
    if kind not in READABLE:
        remedy = "cast it in a step before; rules read texts, whole and floating numbers, and booleans"
        what = f"it is a {kind}" if scope.fields[name] else "its type is known only when Spark has computed it"
        raise scope.error(f"a rule cannot read {name!r}: {what}", atom.at, remedy=remedy)
    return name, kind


def _compared(atom: Atom, name: str, kind: str, scope: Scope) -> Formula:
    wanted = TYPES[atom.kind] if atom.kind else kind
    number = kind in WHOLE or kind in FLOATING
    if number and (wanted in WHOLE or wanted in FLOATING):
        value = number_of(atom, scope)
        return _floating(atom.operator, name, float(value)) if kind in FLOATING else _whole(atom.operator, name, value)
    if wanted == "boolean" and kind == "boolean":
        word = (atom.value or "").strip().lower()
        if word not in ("true", "false"):
            raise scope.error(f"{atom.value!r} is neither true nor false", atom.value_at, remedy="write true or false")
        return Check(f"boolean {atom.operator}", View(name, RAW), float(word == "true"))
    if wanted == "string" and kind not in FLOATING:
        return _texts(atom.operator, View(name, RAW), atom.value or "")
    remedy = f"cast {name!r} in a step before: .with_fields({name}='try_cast({name} as {wanted})')"
    raise scope.error(f"a rule cannot compare {name!r}, a {kind}, as a {wanted}", atom.at, remedy=remedy)


def _texts(operator: str, view: View, value: str) -> Formula:
    """Empty text compares as null does."""
    same = Member(view, frozenset({value} - {""}))
    if operator == "=":
        return same
    if operator == "!=":
        return Joined("&", (Check("filled", view), Negated(same)))
    return Check(f"text {operator}", view, value)


def _whole(operator: str, name: str, value: Decimal) -> Formula:
    up, down = math.ceil(value), math.floor(value)
    if operator == "!=":
        return Joined("&", (Interval(name, LEAST, MOST), Negated(_whole("=", name, value))))
    low, high = {
        "=": (up, down),
        ">": (down + 1, MOST),
        ">=": (up, MOST),
        "<": (LEAST, up - 1),
        "<=": (LEAST, down),
    }[operator]
    return Interval(name, max(low, LEAST), min(high, MOST))


def _floating(operator: str, name: str, value: float) -> Formula:
    near, there = Check("near", View(name, RAW), value), Interval(name, -math.inf, math.inf)
    made: Mapping[str, Formula] = {
        "=": near,
        "!=": Joined("&", (there, Negated(near))),
        ">": Interval(name, math.nextafter(value, math.inf), math.inf),
        ">=": Interval(name, value, math.inf),
        "<": Interval(name, -math.inf, math.nextafter(value, -math.inf)),
        "<=": Interval(name, -math.inf, value),
    }
    return made[operator]


def _in(atom: Atom, name: str, scope: Scope) -> Test:
    items = {re.sub(r"^(['\"])(.*)\1$", r"\2", item.strip()) for item in (atom.value or "").split(",")}
    if len(items) > MOST_ITEMS:
        remedy = "put them into a table, and join it: .dim_join(Dimension.from_delta(...), on=...)"
        raise scope.error(f"a rule lists {len(items)} values", atom.value_at, remedy=remedy)
    return Member(View(name), frozenset(items))


# More values than these are a dimension.
MOST_ITEMS = 10_000


def _regex(caseless: bool) -> Callable[[Atom, str, Scope], Test]:  # noqa: FBT001
    def made(atom: Atom, name: str, scope: Scope) -> Test:
        try:
            found = portable(atom.value or "", caseless=caseless)
        except NotPortableError as error:
            remedy = "write it without that, or use filter_by_expression, which has all of Java's patterns"
            raise scope.error(f"the pattern {atom.value!r} cannot be in a rule: {error}", atom.value_at,
                              remedy=remedy) from None  # fmt: skip
        if not found.certain and is_exponential(found.compiled()):
            remedy = "write each loop so that it reads a text in one way: (a+)+ is a+, (a|ab)* is (ab?)*"
            raise scope.error(f"the pattern {atom.value!r} may take time that doubles with each character of a text",
                              atom.value_at, remedy=remedy)  # fmt: skip
        return Matches(View(name), found)

    return made


def _network(atom: Atom, name: str, scope: Scope) -> Test:
    try:
        return Check("network", View(name), str(network_of(atom.value or "")))
    except NoNetworkError as error:
        remedy = "write an address, a network or the beginning of one: 10.0.0.1, 10.0.0.0/8, 10."
        raise scope.error(str(error), atom.value_at, remedy=remedy) from None


# Their opposites are negated afterwards, so they are true where there is no value.
MATCHES: Mapping[str, Callable[[Atom, str, Scope], Formula]] = MappingProxyType(
    {
        "in": _in,
        "like": lambda atom, name, _: Matches(View(name), like(atom.value or "")),
        "regex": _regex(caseless=False),
        "~regex": _regex(caseless=True),
        "contains": lambda atom, name, _: Matches(View(name), literal(atom.value or "")),
        "~contains": lambda atom, name, _: Matches(View(name, LOWER), literal((atom.value or "").lower())),
        "isnull": lambda atom, name, _: Negated(Check("filled", View(name))),  # noqa: ARG005
        "isnotnull": lambda atom, name, _: Check("filled", View(name)),  # noqa: ARG005
        "ipcontains": _network,
    }
)
