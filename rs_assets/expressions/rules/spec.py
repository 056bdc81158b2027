"""Rules as data: where their table comes from, and its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from types import MappingProxyType
from typing import Any, Self

from rs_assets.errors import RsError, TopologyError
from rs_assets.expressions.condition.parse import Atom, Condition, parse_condition
from rs_assets.expressions.rules.atoms import formula_of
from rs_assets.expressions.rules.having import check_having, having_of
from rs_assets.expressions.rules.normal import TooManyError, conjunctions_of
from rs_assets.expressions.syntax.tree import Both, Not, Word
from rs_assets.expressions.syntax.typed import FLOATING, WHOLE
from rs_assets.operators.dimension.spec import LOOK, Dimension, FileFormat
from rs_assets.records.fields import declared
from rs_assets.records.types import Type

RULE, CONDITION, HAVING = "rule", "condition", "having"
# The columns that every table of rules has.
OWN = "rule string, condition string"
KINDS: Mapping[type, str] = MappingProxyType({bool: "boolean", int: "bigint", float: "double", str: "string"})
# The columns that have a meaning besides the own ones: how each is declared, and the types that it may have.
MEANT: Mapping[str, tuple[str, frozenset[str]]] = MappingProxyType(
    {
        "enabled": ("boolean", frozenset({"boolean"})),
        "priority": ("int", WHOLE | FLOATING | {"decimal"}),
        HAVING: ("string", frozenset({"string"})),
    }
)
# Rules in the program change with the program.
NEVER = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class GivenRules:
    """Rules of the program, as rows of their table."""

    rows: tuple[Mapping[str, Any], ...]

    @property
    def __name__(self) -> str:
        """For people."""
        return f"rules[{len(self.rows)}]"

    def __call__(self) -> list[Mapping[str, Any]]:
        """The rows."""
        return list(self.rows)


@dataclass(frozen=True, slots=True)
class Rules:
    """Conditions that a stream is matched with: `stream.match(rules)`. See docs/rules.md.

    A rule is a row with a name, `rule`, and a `condition` in the language of `filter_by_expression`. Of further columns
    `enabled` (boolean; null is true), `priority` (int; the least comes first, null last) and `having` (string; when
    `alerts` fires) have a meaning; others can be carried into the rows.
    """

    dimension: Dimension

    def __post_init__(self) -> None:
        """Refuse a column that would not have its meaning: TopologyError."""
        for name, kind in declared(self.dimension.schema, step="rules").types.items():
            _check_meant(name, kind)

    @classmethod
    def of(cls, rules: Mapping[str, str] | Iterable[Mapping[str, Any]]) -> Self:
        """Rules of the program: conditions by name, or rows with at least `rule` and `condition`.

        TopologyError for a condition that cannot be parsed, for a name that is there twice, and for `enabled`,
        `priority` or `having` of another type.

        >>> Rules.of({"slow": "(ms,>,100)"}).dimension.text
        'rules[1]()'
        """
        rows: list[Mapping[str, Any]] = (
            [{RULE: name, CONDITION: text} for name, text in rules.items()] if isinstance(rules, Mapping) else [*rules]
        )
        for row in rows:
            if not isinstance(row, Mapping) or not row.get(RULE) or not isinstance(row.get(CONDITION), str):
                remedy = "write Rules.of({'slow': '(ms,>,100)'}), or rows with 'rule' and 'condition'"
                raise TopologyError(f"{row!r} is not a rule", remedy=remedy)
            parse_condition(row[CONDITION])
            if row.get(HAVING) is not None:
                having_of(row[HAVING])
        twice = [name for name, times in Counter(row[RULE] for row in rows).items() if times > 1]
        if twice:
            raise TopologyError(f"several rules are named {twice[0]!r}", remedy="give each rule a name of its own")
        made = GivenRules(tuple(rows))
        schema = ", ".join([OWN, *(f"`{name}` {kind}" for name, kind in _kinds(rows).items())])
        return cls(Dimension.from_loader(made, schema=schema, every=NEVER, may_be_empty=True))

    @classmethod
    def from_delta(cls, table: str | PathLike[str], *, columns: str = "", every: timedelta = LOOK) -> Self:
        """The rules in a Delta table, read again when its version has changed; running pipelines take them up.

        `table` is named as for `to_delta`. `columns` declares its columns besides `rule` and `condition`, as in
        `"enabled boolean, severity string"`; others are not read. TopologyError for `enabled`, `priority` or `having`
        of another type.

        >>> Rules.from_delta("rules", columns="severity string").dimension.names
        ('rule', 'condition', 'severity')
        """
        return cls(Dimension.from_delta(table, schema=_schema(columns), every=every, may_be_empty=True))

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        *,
        format: FileFormat | None = None,  # noqa: A002  Spark's word
        columns: str = "",
        every: timedelta = LOOK,
    ) -> Self:
        """The rules in a file: lines of JSON or CSV, or Parquet. It is read again when it has changed.

        `columns` is as for `from_delta`; `format` is by default that of the ending of `path`, else "json".
        """
        schema = _schema(columns)
        return cls(Dimension.from_file(path, format=format, schema=schema, every=every, may_be_empty=True))

    @property
    def reads(self) -> tuple[str, ...] | None:
        """The fields that rules of the program read; None for a table, whose rules change."""
        given = getattr(self.dimension.origin, "call", None)
        if not isinstance(given, GivenRules):
            return None
        found = [_read(parse_condition(row[CONDITION])) for row in given.rows]
        found += [[*having_of(row[HAVING]).fields] for row in given.rows if row.get(HAVING) is not None]
        return tuple(dict.fromkeys(name for names in found for name in names))


def given_by(dimension: Dimension) -> bool:
    """Whether it has the rules of a program, which change with its code alone."""
    return isinstance(getattr(dimension.origin, "call", None), GivenRules)


def check_given(call: Callable[..., Any], fields: Mapping[str, str | None], *, step: str) -> None:
    """RsError for the first rule of the program that cannot be evaluated over these fields."""
    for row in call.rows if isinstance(call, GivenRules) else ():
        try:
            conjunctions_of(formula_of(row[CONDITION], fields, step=step))
            if row.get(HAVING) is not None:
                check_having(row[HAVING], fields, step=step)
        except TooManyError as error:
            remedy = "write several rules; the alternatives of one are multiplied"
            raise TopologyError(f"rule {row[RULE]!r}: {error}", remedy=remedy, step=step) from None
        except RsError as error:
            error.add_note(f"in rule {row[RULE]!r}")
            raise


def _check_meant(name: str, kind: Type | None) -> None:
    """TopologyError for a column of rules that has a meaning under another name or type."""
    known = name.casefold()
    if known not in MEANT:
        return
    written, kinds = MEANT[known]
    if name != known:
        what = f"the column {name!r} of rules would have no effect: it differs from {known!r} by its case"
        raise TopologyError(what, remedy=f"name it {known!r}")
    if kind is not None and kind.name.partition("(")[0] not in kinds:
        what = f"the column {name!r} of rules is of type {kind.name}, and must be of type {written}"
        raise TopologyError(
            what, remedy=f"give it values of that type; of a table declare it: columns='{name} {written}'"
        )


def _schema(columns: str) -> str:
    return f"{OWN}, {columns}" if columns else OWN


def _kinds(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The types of the columns besides the own ones."""
    made: dict[str, str] = {}
    for row in rows:
        for name, value in row.items():
            if name not in (RULE, CONDITION) and value is not None:
                made.setdefault(name, KINDS.get(type(value), "string"))
    return made


def _read(condition: Condition) -> list[str]:
    match condition:
        case Both(_, parts):
            return [name for part in parts for name in _read(part)]  # type: ignore[arg-type]
        case Not(part):
            return _read(part)  # type: ignore[arg-type]
        case Atom(Word(name)):
            return [name]
    return []
