"""Values of groups that Python functions of the user keep: of a stream, of a table, and of several inputs."""

from __future__ import annotations

from dataclasses import dataclass

from tests.programs.program import Step


@dataclass(frozen=True)
class Reduced(Step):
    """The sum of `field` and the number of rows of each group, which Python functions keep; `table`: rows may go."""

    of: str
    group: str
    field: str
    table: bool
    schema = (("total", "bigint"), ("rows", "bigint"))

    def code(self, label):
        less = f', subtract=added("{self.field}", -1)' * self.table
        what = f'added("{self.field}"){less}, schema="total bigint, rows bigint", name="{label}"'
        return f'{self.of}.group_by("{self.group}").reduce({what})'


@dataclass(frozen=True)
class Cogroup(Step):
    """The same of the rows of two inputs; `tables` says which of them are tables."""

    left: str
    right: str
    group: str
    field: str
    tables: tuple[bool, bool]
    schema = Reduced.schema

    def code(self, label):
        add = f'added_by_key("{self.field}")'
        left, right = (f'{add}, subtract=added_by_key("{self.field}", -1)' if of else add for of in self.tables)
        groups = f'{self.left}.group_by("{self.group}").cogroup({left})'
        groups += f'.cogroup({self.right}.group_by("{self.group}"), {right})'
        return f'{groups}.aggregate(schema="total bigint, rows bigint", name="{label}")'
