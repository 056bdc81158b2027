"""Statements that are repeated for each field of a record, written out when the script is bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.expressions.script.parse import Assign, Do, If, Statement, parse_script
from rs_assets.expressions.syntax.tree import Both, Call, Compare, Not, Text, Value, Word

if TYPE_CHECKING:
    from rs_assets.expressions.script.binder import Binder, Command

KEY: Final = "iterator.key"
VALUE: Final = "iterator.value"
REMOVING: Final = frozenset({"rm", "removefield", "delete", "del"})


@dataclass(frozen=True, slots=True)
class Turn:
    """A field in its turn: its name, and the column that has its value from before the loop."""

    name: str
    column: str

    def value(self, value: Value) -> Value:
        """A value with the name and the value of the field in the places of `iterator.key` and `iterator.value`."""
        match value:
            case Word(name, at) if name.casefold() in (KEY, VALUE):
                return Text(self.name, at) if name.casefold() == KEY else Word(self.column, at)
            case Call(name, parts, at):
                return Call(name, tuple(map(self.value, parts)), at)
            case Both(operator, parts, at):
                return Both(operator, tuple(map(self.value, parts)), at)
            case Compare(operator, left, right, at):
                return Compare(operator, self.value(left), self.value(right), at)
            case Not(part, at):
                return Not(self.value(part), at)
        return value

    def statements(self, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Statements with the name and the value of the field."""
        return tuple(map(self._statement, statements))

    def _statement(self, statement: Statement) -> Statement:
        match statement:
            case Assign(name, value, at):
                return Assign(name, self.value(value), at)
            case Do(call, at):
                return Do(Call(call.name, tuple(map(self.value, call.arguments)), call.at), at)
            case If(branches, otherwise, at):
                made = tuple((self.value(test), self.statements(body)) for test, body in branches)
                return If(made, self.statements(otherwise), at)


def for_field(binder: Binder, call: Call, guard: str) -> None:
    """`for_field('if(iterator.value==null){missing=iterator.key}')`: the script once for each field of the record.

    The fields are those before the loop, in order, with their values from before it. The statements count as in a
    branch: a field that `rm` removes becomes null.
    """
    if len(call.arguments) != 1 or not isinstance(call.arguments[0], Text):
        remedy = f"write {call.name}('if(iterator.value==null){{missing=iterator.key}}')"
        raise binder.scope.error(f"{call.name} takes a script in quotes", call.at, remedy=remedy)
    outer, script = binder.scope, call.arguments[0].text
    binder.scope = type(outer)(script, outer.step, outer.fields, outer.zone, outer.strict)
    statements = parse_script(script)
    _check(binder, statements)
    turns = [Turn(name, _kept(binder, name, statements)) for name in tuple(binder.fields)]
    for turn in turns:
        binder.run(turn.statements(statements), guard=guard or "true")
    binder.flush()
    for turn in turns:
        if turn.column != turn.name:
            del binder.fields[turn.column]
    binder.scope = outer


def _kept(binder: Binder, name: str, statements: tuple[Statement, ...]) -> str:
    """The column with the value of a field from before the loop: a copy if a statement can change the field."""
    changed = _changed(statements)
    if changed is not None and name not in changed:
        return name
    column = binder.hidden(quote_name(name))
    binder.fields[column] = binder.fields[name]
    return column


def _changed(statements: tuple[Statement, ...]) -> frozenset[str] | None:
    """The names of fields that the statements assign; None if they remove some."""
    every = tuple(_each(statements))
    if any(isinstance(each, Do) for each in every):
        return None
    return frozenset(each.name for each in every if isinstance(each, Assign))


def _each(statements: tuple[Statement, ...]) -> Iterator[Assign | Do]:
    for statement in statements:
        if isinstance(statement, If):
            for body in (*(body for _, body in statement.branches), statement.otherwise):
                yield from _each(body)
        else:
            yield statement


def _check(binder: Binder, statements: tuple[Statement, ...]) -> None:
    """LanguageError for a statement that has no meaning for one field."""
    for each in _each(statements):
        if isinstance(each, Assign) and each.name.casefold() in (KEY, VALUE):
            remedy = "assign a field of another name"
            raise binder.scope.error(f"{each.name} cannot be assigned", each.at, remedy=remedy)
        if isinstance(each, Do) and each.call.name.casefold() not in REMOVING:
            what = f"{each.call.name} is not allowed in for_field"
            remedy = "assign a field there, and write the call after it: found='yes' and if(found=='yes'){break()}"
            raise binder.scope.error(what, each.at, remedy=remedy)


LOOP_STATEMENTS: Mapping[str, Command] = MappingProxyType(dict.fromkeys(("for_field", "forfield"), for_field))
