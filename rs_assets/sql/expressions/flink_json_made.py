"""Functions that make JSON as in Flink: JSON_OBJECT, JSON_ARRAY and JSON_STRING; and the condition IS JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rs_assets.expressions.functions.literals import quote, unquote
from rs_assets.sql.expressions.flink_json import Clause
from rs_assets.sql.expressions.sql_function import MANY, Refusal, SqlFunction
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.types import TEXT

# As Flink writes times; all others are written by Spark as by Jackson.
OPTIONS: Final = "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd''T''HH:mm:ss[.SSS]')"


@dataclass(frozen=True, slots=True)
class Json(Value):
    """A value that is JSON already, and a part of other JSON as it is."""


def _made(text: str) -> Json:
    return Json(f"({text})", TEXT)


def _written(value: Value) -> str:
    """A value as JSON; null for null."""
    if isinstance(value, Json):
        return value.text
    whole = f"to_json(named_struct('v', {value.plain}), {OPTIONS})"
    return f"if({value.text} IS NULL, NULL, substring({whole}, 6, length({whole}) - 6))"


def _given(values: Sequence[Value]) -> tuple[Sequence[Value], str]:
    """The arguments without clauses, and what becomes of nulls: NULL, ABSENT, or an empty text if nothing says so."""
    clauses = [each for each in values if isinstance(each, Clause)]
    return [each for each in values if not isinstance(each, Clause)], clauses[0].text if clauses else ""


def _refused_object(values: Sequence[Value]) -> Refusal:
    given, _ = _given(values)
    keys = [unquote(key.text) for key in given[::2]]
    if len(given) % 2 or None in keys or len(set(keys)) < len(keys):
        return (
            "it takes texts as keys, each once, and a value for each",
            "write JSON_OBJECT('id' VALUE id, 'n' VALUE n)",
        )
    return None


def _object(values: Sequence[Value]) -> Json:
    """An object with its keys in order; null is a value, unless it is to be absent."""
    given, nulls = _given(values)
    members = sorted(
        ((unquote(key.text) or "", value) for key, value in zip(given[::2], given[1::2], strict=True)),
        key=lambda each: each[0],
    )
    return _joined("{}", [_member(key, value, nulls) for key, value in members])


def _member(key: str, value: Value, nulls: str) -> str:
    written = _written(value) if nulls == "ABSENT" else f"coalesce({_written(value)}, 'null')"
    return f"concat({quote(json.dumps(key, ensure_ascii=False) + ':')}, {written})"


def _array(values: Sequence[Value]) -> Json:
    """An array; nulls are absent, unless they are values."""
    given, nulls = _given(values)
    items = [_written(each) for each in given]
    return _joined("[]", [f"coalesce({each}, 'null')" if nulls == "NULL" else each for each in items])


def _joined(brackets: str, parts: Sequence[str]) -> Json:
    if not parts:
        return _made(quote(brackets))
    return _made(f"concat('{brackets[0]}', array_join(array({', '.join(parts)}), ','), '{brackets[1]}')")


def is_json(value: Value, kind: str) -> str:
    """Whether a text is JSON, of one kind: '', VALUE, OBJECT, ARRAY or SCALAR; false for null."""
    found = f"schema_of_variant(try_parse_json({value.plain}))"
    cases = {"OBJECT": f"{found} RLIKE '^OBJECT'", "ARRAY": f"{found} RLIKE '^ARRAY'"}
    cases["SCALAR"] = f"{found} NOT RLIKE '^(OBJECT|ARRAY)'"
    return f"coalesce({cases.get(kind, f'{found} IS NOT NULL')}, false)"


MAKING: Final[Mapping[str, SqlFunction]] = MappingProxyType(
    {
        "JSON_STRING": SqlFunction(1, 1, lambda values: _written(values[0]), "string"),
        "JSON_OBJECT": SqlFunction(0, MANY, _object, "string", refuses=_refused_object),
        "JSON_ARRAY": SqlFunction(0, MANY, _array, "string"),
    }
)
