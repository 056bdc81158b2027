"""Statements that make fields of a document."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rs_assets.expressions.functions.builtin.json import exact_number
from rs_assets.expressions.functions.literals import quote_name
from rs_assets.expressions.script.as_written import as_written, named, written_kind
from rs_assets.expressions.script.log_statements import assign_found
from rs_assets.expressions.script.record_statements import fields_of, parsed, remove_fields
from rs_assets.expressions.syntax.tree import Call, Text
from rs_assets.expressions.syntax.typed import Sql

if TYPE_CHECKING:
    from rs_assets.expressions.script.binder import Binder, Command

# Those that leave the document where it is.
KEEPING: Final = frozenset({"json_merge", "jsonmerge"})


def expand(binder: Binder, call: Call, guard: str) -> None:
    """`expand_json(doc,'id int, what string')`: the members of a document as fields, instead of it.

    A document is a text of JSON with its schema, or a field that has fields. `json_merge` leaves it where it is. A
    field that exists keeps its value where the document has none.
    """
    schema = call.arguments[1] if len(call.arguments) == 2 else Text("")
    if len(call.arguments) not in (1, 2) or not isinstance(schema, Text):
        remedy = f"write {call.name}(doc,'id int, what string')"
        raise binder.scope.error(f"{call.name} takes a field, and the schema of its document", call.at, remedy=remedy)
    (name,) = binder.names(Call(call.name, call.arguments[:1], call.at))
    kind, declared = binder.fields[name] or "", schema.text
    if declared:
        made = parsed(binder, name, declared)
    elif kind.startswith("struct<"):
        made, declared = quote_name(name), kind.removeprefix("struct<").removesuffix(">")
    else:
        remedy = f"declare its schema: {call.name}({name},'id int, what string')"
        raise binder.scope.error(f"{name!r} has no fields: it is {kind or 'of unknown type'}", call.at, remedy=remedy)
    found, members = binder.hidden(made), fields_of(declared)
    other = written_kind(f"struct<{schema.text}>")
    written = binder.hidden(parsed(binder, name, other)) if other else ""
    for member, of in members.items():
        text = f"{found}.{quote_name(member)}"
        if of == "string" and schema.text:
            text = exact_number(text, f"cast({quote_name(name)} as string)", f"$['{member}']")
        elif schema.text:
            text = as_written(dict(named(schema.text))[member], text, f"{written}.{quote_name(member)}")
        assign_found(binder, member, Sql(text, of), guard, call.at)
    if call.name.casefold() not in KEEPING and name not in members:
        binder.flush()
        remove_fields(binder, [name], guard, call.at)


JSON_STATEMENTS: Mapping[str, Command] = MappingProxyType(
    dict.fromkeys(("expand_json", "expandfield", "json_expand", "jsonexpand", *KEEPING), expand)
)
