"""Scripts of a program: frozen statements, with the text that `script` gets."""

from __future__ import annotations

from dataclasses import dataclass

from tests.programs.program import Step
from tests.programs.terms import literal


@dataclass(frozen=True)
class Called:
    """A function of the library for scripts, of one field and perhaps a constant."""

    function: str
    field: str
    constant: int | str | None = None

    def text(self):
        more = "" if self.constant is None else f",{literal(self.constant)}"
        return f"{self.function}({self.field}{more})"


@dataclass(frozen=True)
class Given:
    """A constant."""

    value: int | str

    def text(self):
        return literal(self.value)


@dataclass(frozen=True)
class Copied:
    """The value of another field."""

    field: str

    def text(self):
        return self.field


# Tests: true or false, never null.


@dataclass(frozen=True)
class Holds:
    """A field compared with a constant; with None: whether it has no value."""

    field: str
    operator: str
    value: int | str | None

    def text(self):
        return f"{self.field}{self.operator}{'null' if self.value is None else literal(self.value)}"


@dataclass(frozen=True)
class Joint:
    """Both tests, or one of two."""

    operator: str
    left: object
    right: object

    def text(self):
        return f"({self.left.text()}){self.operator}({self.right.text()})"


@dataclass(frozen=True)
class Not:
    """The contrary of a test."""

    of: object

    def text(self):
        return f"!({self.of.text()})"


# Statements.


@dataclass(frozen=True)
class Set:
    """A field gets a value; `kind` is the type of a new one."""

    name: str
    value: object
    kind: str

    def text(self):
        return f"{self.name}={self.value.text()}"


@dataclass(frozen=True)
class If:
    """Statements for records of which a test is true, and for the others."""

    test: object
    then: tuple[object, ...]
    other: tuple[object, ...] = ()

    def text(self):
        other = f"else{{{joined(self.other)}}}" if self.other else ""
        return f"if({self.test.text()}){{{joined(self.then)}}}{other}"


@dataclass(frozen=True)
class Drop:
    """The record is left out."""

    def text(self):
        return "break()"


@dataclass(frozen=True)
class Remove:
    """A field is left out."""

    name: str

    def text(self):
        return f"rm({self.name})"


@dataclass(frozen=True)
class Rename:
    """A field gets another name."""

    new: str
    old: str

    def text(self):
        return f"rename({self.new},{self.old})"


def joined(statements):
    return ";".join(each.text() for each in statements)


@dataclass(frozen=True)
class Script(Step):
    """Statements that change or drop a record."""

    of: str
    statements: tuple[object, ...]

    def code(self, label):
        return f'{self.of}.script({joined(self.statements)!r}, name="{label}")'


def fields_of(statements, fields):
    """The fields after statements that begin with these fields and types."""
    fields = dict(fields)
    for each in statements:
        match each:
            case Set(name, _, kind):
                fields.setdefault(name, kind)
            case If(_, then, other):
                fields = fields_of(other, fields_of(then, fields))
            case Remove(name):
                del fields[name]
            case Rename(new, old):
                fields[new] = fields.pop(old)
    return fields
