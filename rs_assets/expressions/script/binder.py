"""What a script has made so far: its steps and fields, and the values that wait for the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from rs_assets.expressions.functions.literals import quote_name
from rs_assets.expressions.script.parse import Assign, Do, If, Statement
from rs_assets.expressions.script.steps import Bound, Drop, Fill, Step
from rs_assets.expressions.syntax.bind import Scope, bind, united
from rs_assets.expressions.syntax.tree import Call, Text, Value, Word, words_in
from rs_assets.expressions.syntax.typed import Sql, united_types

# Prefix of the columns that hold intermediate values until the script ends.
TEST = "_rs_test_"


class Binder:
    """Walks through the statements; all values of one step are computed from the fields before that step.

    `command_of` is what runs a call that assigns nothing, and None for a call that only has a value.
    """

    def __init__(self, scope: Scope, command_of: Callable[[Call], Command | None]) -> None:
        self.scope = scope
        self.command_of = command_of
        self.fields = dict(scope.fields)
        self.steps: list[Step] = []
        self.pending: dict[str, str] = {}
        self.tests = 0
        # Patterns of grok that the script adds, by name.
        self.patterns: dict[str, str] = {}

    def bound(self) -> Bound:
        """The steps and fields so far."""
        self.flush()
        if self.tests:
            self.steps.append(Drop(tuple(f"{TEST}{number}" for number in range(1, self.tests + 1))))
        return Bound(tuple(self.steps), tuple(self.fields.items()))

    def run(self, statements: tuple[Statement, ...], *, guard: str) -> None:
        """Bind statements for the records where `guard` is true, or for all records if it is empty."""
        for statement in statements:
            match statement:
                case Assign(name, value, at):
                    self.assign(name, self._bind(value), guard, at)
                case If():
                    self._branch(statement, guard)
                case Do(call):
                    self._do(call, guard)

    def _bind(self, value: Value) -> Sql:
        """`value` over the current fields: pending assignments that it reads are flushed first."""
        if any(word in self.pending for word in words_in(value)):
            self.flush()
        return bind(value, self.scope.with_fields(self.fields))

    def flush(self) -> None:
        """Write the pending assignments as a step, so that following statements see them."""
        if self.pending:
            self.steps.append(Fill(tuple(self.pending.items())))
            self.pending = {}

    def assign(self, field: str, value: Sql, guard: str, at: int) -> None:
        """Assign a value to a field, for the records where the guard holds."""
        self.check_name(field, self.fields, at)
        if guard:
            value = self._guarded(field, value, guard)
        if value.kind == "void":
            value = Sql("cast(null as string)", "string")
        if field in self.pending:
            self.flush()
        self.pending[field] = value.text
        self.fields[field] = value.kind

    def check_name(self, field: str, others: Iterable[str], at: int) -> None:
        """LanguageError if a field cannot have this name next to the others."""
        other = next((each for each in others if each.casefold() == field.casefold() and each != field), None)
        if other is not None or field.startswith("_rs_"):
            what = f"{field!r} and {other!r} differ by case only" if other else f"{field!r} is a reserved name"
            raise self.scope.error(what, at, remedy="choose another name")

    def _guarded(self, field: str, value: Sql, guard: str) -> Sql:
        """`value` where the guard holds, else the previous value of the field."""
        if field in self.pending:
            self.flush()
        old = Sql(quote_name(field), self.fields[field]) if field in self.fields else Sql("null", "void")
        kind = united_types([value.kind, old.kind])
        scope = self.scope
        new, old = united(value, kind, scope), united(old, kind, scope) if old.kind != "void" else old
        return Sql(f"case when {guard} then {new.text} else {old.text} end", kind)

    def _branch(self, branch: If, guard: str) -> None:
        """Each test is computed once, before the following statements change a field."""
        before: list[str] = [guard] if guard else []
        for test, statements in branch.branches:
            name = self.hidden(" and ".join([*before, self._bind(test).condition]))
            self.run(statements, guard=name)
            before.append(f"not {name}")
        if branch.otherwise:
            self.run(branch.otherwise, guard=self.hidden(" and ".join(before)))

    def hidden(self, value: str) -> str:
        """The name of a column with an intermediate value, which ends with the script."""
        self.flush()
        self.tests += 1
        name = f"{TEST}{self.tests}"
        self.steps.append(Fill(((name, value),)))
        return name

    def _do(self, call: Call, guard: str) -> None:
        command = self.command_of(call)
        if command is None:
            bind(call, self.scope.with_fields(self.fields))
            raise self.scope.error(
                f"the result of {call.name} is not used", call.at, remedy=f"assign it to a field: x={call.name}(...)"
            )
        self.flush()
        command(self, call, guard)
        self.flush()

    def names(self, call: Call, *, known: bool = True) -> list[str]:
        """The field names in the arguments of a call."""
        found = []
        for each in call.arguments:
            name = each.name if isinstance(each, Word) else each.text if isinstance(each, Text) else ""
            if not name or (known and name not in self.fields):
                what = f"there is no field {name!r}" if name else f"{call.name} takes names of fields"
                raise self.scope.error(what, each.at, remedy=f"the fields are: {', '.join(self.fields)}")
            found.append(name)
        return found


# A call that is a statement, for the records where the guard holds.
Command: TypeAlias = Callable[[Binder, Call, str], None]
