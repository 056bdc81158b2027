"""Expressions of a program: frozen data, with the SQL and the Python text that the pipeline gets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


def literal(value):
    """A value as SQL text."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP'{value.isoformat(' ')}'"
    return str(value)


@dataclass(frozen=True)
class Field:
    """The value of a field."""

    name: str

    def sql(self):
        return self.name

    def python(self):
        return f'r["{self.name}"]'


@dataclass(frozen=True)
class Part:
    """The field of a struct, or the value of a key in a map; null of null, or without that key."""

    field: str
    part: str
    kind: str

    def sql(self):
        return f"{self.field}['{self.part}']" if self.field == "bag" else f"{self.field}.{self.part}"

    def python(self):
        return f'(r["{self.field}"] or {{}}).get("{self.part}")'


@dataclass(frozen=True)
class Arithmetic:
    """A whole number `+`, `-`, `*` or `%` a constant; null of null."""

    field: str
    operator: str
    number: int

    def sql(self):
        return f"{self.field} {self.operator} {self.number}"

    def python(self):
        value = f'r["{self.field}"]'
        return f"None if {value} is None else {value} {self.operator} {self.number}"


@dataclass(frozen=True)
class Quotient:
    """A whole number divided by a constant, a double."""

    field: str
    number: int

    def sql(self):
        return f"{self.field} / {self.number}"

    def python(self):
        return f'None if r["{self.field}"] is None else r["{self.field}"] / {self.number}'


@dataclass(frozen=True)
class Coalesce:
    """A field, or a constant where it is null."""

    field: str
    value: int | str | bool | Decimal

    def sql(self):
        return f"coalesce({self.field}, {literal(self.value)})"

    def python(self):
        return f'{self.value!r} if r["{self.field}"] is None else r["{self.field}"]'


@dataclass(frozen=True)
class Joined:
    """A text and a constant; null of null."""

    field: str
    text: str

    def sql(self):
        return f"{self.field} || {literal(self.text)}"

    def python(self):
        return f'None if r["{self.field}"] is None else r["{self.field}"] + {self.text!r}'


@dataclass(frozen=True)
class Case:
    """One of two terms; a null condition takes the other one."""

    condition: object
    then: object
    other: object

    def sql(self):
        return f"CASE WHEN {self.condition.sql()} THEN {self.then.sql()} ELSE {self.other.sql()} END"


@dataclass(frozen=True)
class Constant:
    """A value of no field."""

    value: int | str

    def sql(self):
        return literal(self.value)

    def python(self):
        return repr(self.value)


# Conditions: true, false or null.


@dataclass(frozen=True)
class Compare:
    """A field compared with a constant."""

    field: str
    operator: str
    value: object

    def sql(self):
        return f"{self.field} {self.operator} {literal(self.value)}"

    def python(self):
        operator = {"=": "==", "<>": "!="}.get(self.operator, self.operator)
        return f'(r["{self.field}"] is not None and r["{self.field}"] {operator} {self.value!r})'

    def text(self):
        operator = {"=": "==", "<>": "!="}.get(self.operator, self.operator)
        return f"({self.field},{operator},{literal(self.value)})"


@dataclass(frozen=True)
class Missing:
    """Whether a field is null, or is not."""

    field: str
    negated: bool

    def sql(self):
        return f"{self.field} IS {'NOT ' * self.negated}NULL"

    def python(self):
        return f'(r["{self.field}"] is {"not " * self.negated}None)'


@dataclass(frozen=True)
class OneOf:
    """A field is one of some constants."""

    field: str
    values: tuple[object, ...]

    def sql(self):
        return f"{self.field} IN ({', '.join(map(literal, self.values))})"

    def python(self):
        return f'(r["{self.field}"] in {self.values!r})'


@dataclass(frozen=True)
class Both:
    """AND, or OR."""

    operator: str
    left: object
    right: object

    def sql(self):
        return f"({self.left.sql()} {self.operator} {self.right.sql()})"

    def python(self):
        return f"({self.left.python()} {self.operator.lower()} {self.right.python()})"

    def text(self):
        return f"({self.left.text()}{'&' if self.operator == 'AND' else '|'}{self.right.text()})"


@dataclass(frozen=True)
class Negated:
    """NOT; null of null."""

    of: object

    def sql(self):
        return f"NOT ({self.of.sql()})"
