"""Statements that change the record itself: drop or rename fields, drop or multiply records."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from rs_assets.expressions.functions.literals import quote, quote_name, separated_by
from rs_assets.expressions.script.as_written import as_written, named, written_kind
from rs_assets.expressions.script.steps import Generate, Keep, Project
from rs_assets.expressions.syntax.bind import bind, united
from rs_assets.expressions.syntax.tree import Call, Text
from rs_assets.expressions.syntax.typed import Sql

if TYPE_CHECKING:
    from rs_assets.expressions.script.binder import Binder, Command

NOTHING = Sql("null", "void")


def leave(binder: Binder, call: Call, guard: str) -> None:
    """`break()`: the record is dropped."""
    if call.arguments:
        raise binder.scope.error(f"{call.name} takes no argument", call.at, remedy=f"write {call.name}()")
    binder.steps.append(Keep(f"not {guard}" if guard else "false"))


def remove(binder: Binder, call: Call, guard: str) -> None:
    """`rm(a,b)`: the fields are dropped; in a branch they become null."""
    remove_fields(binder, binder.names(call), guard, call.at)


def retain(binder: Binder, call: Call, guard: str) -> None:
    """`retain(a,b)`: all other fields are dropped; in a branch they become null."""
    kept = binder.names(call)
    remove_fields(binder, [name for name in binder.fields if name not in kept], guard, call.at)


def remove_fields(binder: Binder, names: list[str], guard: str, at: int) -> None:
    """Drops fields; in a branch they become null."""
    if guard:
        for name in names:
            binder.assign(name, NOTHING, guard, at)
        return
    binder.fields = {name: kind for name, kind in binder.fields.items() if name not in names}
    if not binder.fields:
        raise binder.scope.error("no field is left", at, remedy="drop the record by break()")
    binder.steps.append(Project(tuple((quote_name(name), name) for name in binder.fields)))


def rename(binder: Binder, call: Call, guard: str) -> None:
    """`rename(new,old)`: replaces a field with the new name; in a branch the old field becomes null."""
    if len(call.arguments) != 2:
        raise binder.scope.error(f"{call.name} takes two names", call.at, remedy=f"write {call.name}(new,old)")
    new, old = binder.names(call, known=False)
    binder.names(Call(call.name, call.arguments[1:], call.at))
    if guard:
        binder.assign(new, Sql(quote_name(old), binder.fields[old]), guard, call.at)
        binder.flush()
        binder.assign(old, NOTHING, guard, call.at)
        return
    binder.check_name(new, [name for name in binder.fields if name != old], call.at)
    kept = {name: new if name == old else name for name in binder.fields if name == old or name != new}
    binder.fields = {renamed: binder.fields[name] for name, renamed in kept.items()}
    binder.steps.append(Project(tuple((quote_name(name), renamed) for name, renamed in kept.items())))


def add_field(binder: Binder, call: Call, guard: str) -> None:
    """`addField(name,value)`: same as `name=value`."""
    if len(call.arguments) != 2:
        raise binder.scope.error(f"{call.name} takes a name and a value", call.at, remedy=f"write {call.name}(name,1)")
    name = binder.names(Call(call.name, call.arguments[:1], call.at), known=False)[0]
    value = bind(call.arguments[1], binder.scope.with_fields(binder.fields))
    binder.assign(name, value, guard, call.at)


def split_array(binder: Binder, call: Call, guard: str) -> None:
    """`splitArray(items)`, `splitArray(items,'a string, b int')`: a record for each item, with the fields of the item.

    A record without items stays as it is.
    """
    name, schema = _array_arguments(binder, call, guard)
    kind = binder.fields[name] or ""
    if schema:
        made = _items(binder, name, f"array<struct<{schema}>>")
    elif kind.startswith("array<struct<"):
        made, schema = quote_name(name), kind.removeprefix("array<struct<").removesuffix(">>")
    else:
        remedy = f"declare the type of its items: {call.name}({name},'a string, b int')"
        raise binder.scope.error(
            f"{name!r} is not an array of objects but {kind or 'of unknown type'}", call.at, remedy=remedy
        )
    items = fields_of(schema)
    kept = tuple(each for each in binder.fields if each != name and each not in items)
    binder.fields = {**{each: binder.fields[each] for each in kept}, **items}
    binder.steps.append(Generate(kept, f"inline_outer({made})"))


def _items(binder: Binder, name: str, kind: str) -> str:
    """The SQL of the items of a text of JSON."""
    if not (other := written_kind(kind)):
        return parsed(binder, name, kind)
    return as_written(kind, binder.hidden(parsed(binder, name, kind)), binder.hidden(parsed(binder, name, other)))


def _array_arguments(binder: Binder, call: Call, guard: str) -> tuple[str, str]:
    check_not_in_branch(binder, call, guard)
    schema = call.arguments[1] if len(call.arguments) == 2 else Text("")
    if len(call.arguments) not in (1, 2) or not isinstance(schema, Text):
        remedy = f"write {call.name}(items) or {call.name}(items,'a string, b int')"
        raise binder.scope.error(f"{call.name} takes a field, and the schema of its items", call.at, remedy=remedy)
    return binder.names(Call(call.name, call.arguments[:1], call.at))[0], schema.text


def parsed(binder: Binder, name: str, schema: str) -> str:
    """The SQL of a field with a text of JSON as a value of `schema`; times without a zone are in that of the script."""
    zone = "" if binder.scope.zone == "UTC" else f", map('timeZone', {quote(binder.scope.zone)})"
    return f"from_json(cast({quote_name(name)} as string), {quote(schema)}{zone})"


def fields_of(schema: str) -> dict[str, str | None]:
    """The fields of a struct's DDL with their types."""
    return {name: _PLAIN.get(kind.lower(), kind.lower()) for name, kind in named(schema)}


_PLAIN = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def split_text(binder: Binder, call: Call, guard: str) -> None:
    """`string_split(text,sep)`: a record for each non-empty part, in the field `f0`; none without parts."""
    check_not_in_branch(binder, call, guard)
    if len(call.arguments) != 2:
        raise binder.scope.error(
            f"{call.name} takes a text and a separator", call.at, remedy=f"write {call.name}(a,'-')"
        )
    scope = binder.scope.with_fields(binder.fields)
    text, separator = (united(bind(each, scope), "string", scope).text for each in call.arguments)
    kept = tuple(each for each in binder.fields if each != "f0")
    binder.fields = {**{each: binder.fields[each] for each in kept}, "f0": "string"}
    parts = f"filter(split({text}, {separated_by(separator)}), part -> part != '' and lower(part) != 'null')"
    binder.steps.append(Generate(kept, f"explode({parts}) as f0"))


def check_not_in_branch(binder: Binder, call: Call, guard: str) -> None:
    """LanguageError for a call in a branch, where only some records would multiply."""
    if guard:
        remedy = "put it after the branch, and filter before it with break()"
        raise binder.scope.error(f"{call.name} is not allowed in a branch", call.at, remedy=remedy)


RECORD_STATEMENTS: Mapping[str, Command] = MappingProxyType(
    {
        **dict.fromkeys(("break", "return"), leave),
        **dict.fromkeys(("rm", "removefield", "delete", "del"), remove),
        **dict.fromkeys(("retain", "retainfield"), retain),
        **dict.fromkeys(("rename", "rn"), rename),
        **dict.fromkeys(("addfield", "newfield", "constant", "addconstant"), add_field),
        **dict.fromkeys(("splitarray", "split_array"), split_array),
        **dict.fromkeys(("string_split", "stringsplit"), split_text),
    }
)
