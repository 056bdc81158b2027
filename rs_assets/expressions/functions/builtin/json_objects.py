"""Objects of JSON that are made and changed, as texts. Values keep their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.builtin.json import IS_JSON
from rs_assets.expressions.functions.function import Family
from rs_assets.expressions.functions.literals import is_null, quote, unquote

_row = Family("json").row
# Of a key that is there twice the last value counts.
_MEMBERS: Final = "try_variant_get(try_parse_json({doc}), '$', 'map<string,variant>')"
_WITHOUT: Final = "to_json(map_filter({members}, (k, v) -> not coalesce(array_contains({keys}, k), false)))"
# The members of two objects in one: `o.p` is the other one, `b` the first without its keys.
_JOINED: Final = (
    "case when o.p = '{{}}' then b when b = '{{}}' then o.p"
    " else concat(left(b, length(b) - 1), ',', substring(o.p, 2)) end"
)
# Spark's defaults would truncate times to milliseconds.
_MICROS: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_TIMES: Final = f"map('timestampFormat', {quote(f'{_MICROS}XXX')}, 'timestampNTZFormat', {quote(_MICROS)})"
_EXAMPLE: Final = "json_create('name',name,'age',age)"


def _object(texts: Mapping[str, str]) -> str:
    """The SQL of an object of the pairs of a call; TopologyError if they are not names and values in turn."""
    given = [texts["key"], texts["value"], *(texts[each] for each in texts if each.startswith("more "))]
    if len(given) % 2:
        raise TopologyError("the last name has no value", remedy=f"write names and values in turn: {_EXAMPLE}")
    names = [_name(sql) for sql in given[::2]]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TopologyError(f"an object has the name {twice!r} twice", remedy="choose another name")
    pairs = zip(names, given[1::2], strict=True)
    written = ", ".join(f"{quote(name)}, {value}" for name, value in pairs if not is_null(value))
    return f"to_json(named_struct({written}), {_TIMES})" if written else "'{}'"


def _name(sql: str) -> str:
    name = unquote(sql)
    if name is None:
        raise TopologyError(f"the name of a value must be a literal, not {sql}", remedy=f"write {_EXAMPLE}")
    return name


def _without(doc: str, keys: str) -> str:
    """The SQL of an object without these keys; null for anything else."""
    return _WITHOUT.format(members=_MEMBERS.format(doc=doc), keys=keys)


def _added(texts: Mapping[str, str]) -> str:
    base = _without("o.d", "json_object_keys(o.p)")
    joined = f"get(transform(array({base}), b -> {_JOINED.format()}), 0)"
    both = f"named_struct('d', {texts['s']}, 'p', {_object(texts)})"
    return f"get(transform(array({both}), o -> if({IS_JSON.format(s='o.d')}, {joined}, null)), 0)"


def _removed(texts: Mapping[str, str]) -> str:
    keys = ", ".join(filter(None, (texts["key"], texts["more"])))
    both = f"named_struct('d', {texts['s']}, 'k', array({keys}))"
    return f"get(transform(array({both}), o -> if({IS_JSON.format(s='o.d')}, {_without('o.d', 'o.k')}, null)), 0)"


_DOC: Final = '\'{"a":1,"b":[1.50,"x"]}\''

JSON_OBJECTS: Final = (
    _row(
        "json_create jsonCreate json_generate jsonGenerate",
        "key word, value any, more any...",
        _object,
        "string",
        "An object of names, which are literals, and values in turn; values that are null are left out.",
        {
            "json_create('name','Ann')": '{"name":"Ann"}',
            "json_create('name','Ann','age',18,'no',null,'on',true)": '{"name":"Ann","age":18,"on":true}',
            "json_create('parts',array('a','b'))": '{"parts":["a","b"]}',
            "json_create('at',to_timestamp('2026-01-05 10:00:00.123456'))": '{"at":"2026-01-05T10:00:00.123456Z"}',
        },
    ),
    _row(
        "json_add jsonAdd",
        "s text, key word, value any, more any...",
        _added,
        "string",
        "An object with these members, which replace those of the same names; null for anything but an object.",
        {
            f"json_add({_DOC},'c',true)": '{"a":1,"b":[1.5,"x"],"c":true}',
            f"json_add({_DOC},'b',2,'c','2')": '{"a":1,"b":2,"c":"2"}',
            f"json_add({_DOC},'a',null)": '{"a":1,"b":[1.5,"x"]}',
            "json_add('{}','a',1)": '{"a":1}',
            "json_add('[1]','a',1)": None,
            "json_add('{x','a',1)": None,
        },
    ),
    _row(
        "json_remove jsonRemove",
        "s text, key text, more text...",
        _removed,
        "string",
        "An object without these keys; null for anything but an object.",
        {
            f"json_remove({_DOC},'b')": '{"a":1}',
            f"json_remove({_DOC},'a','b','c')": "{}",
            f"json_remove({_DOC},null)": '{"a":1,"b":[1.5,"x"]}',
            'json_remove(\'{"b":1,"a":null,"c":2,"c":3}\',\'b\')': '{"a":null,"c":3}',
            "json_remove('[1]','a')": None,
            "json_remove('{\"a\":1} {}','b')": None,
        },
    ),
)
