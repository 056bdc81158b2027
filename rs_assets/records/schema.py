"""Converts schemas given by users to DDL text, the form used everywhere else. Needs no Spark."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rs_assets.errors import SchemaError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# DDL text, Spark's StructType, or a class of records: a TypedDict, a dataclass, a NamedTuple or a Pydantic model.
Schema = typing.Union[str, type, "StructType"]

# The Spark type of each Python type that an annotation may use.
DDL_TYPES: Mapping[object, str] = types.MappingProxyType(
    {
        str: "string",
        int: "bigint",
        float: "double",
        bool: "boolean",
        bytes: "binary",
        datetime: "timestamp",
        date: "date",
        Decimal: "decimal(38,18)",
    }
)


def schema_text(schema: object, *, step: str) -> str | None:
    """`schema` as DDL text, None if there is none; SchemaError for a value that is not a schema.

    >>> class Hit(typing.TypedDict):
    ...     page: str
    ...     ms: int | None
    >>> schema_text(Hit, step="file")
    '`page` string, `ms` bigint'
    """
    if schema is None or (isinstance(schema, str) and schema.strip()):
        return schema
    if _is_struct_type(schema):
        return ", ".join(_field(field) for field in typing.cast("Any", schema).jsonValue()["fields"])
    if is_record_type(schema):
        return record_ddl(typing.cast("type", schema), step=step)
    raise SchemaError(
        f"the schema of step {step!r} must be DDL text such as 'page string, ms bigint', not {schema!r}",
        remedy="use DDL text, a StructType, a TypedDict, a dataclass or a Pydantic model",
        step=step,
    )


def is_record_type(value: object) -> bool:
    """Whether `value` is a class whose annotations are the fields of a record."""
    return isinstance(value, type) and (
        _is_typed_dict(value) or is_dataclass(value) or hasattr(value, "model_fields") or _is_named_tuple(value)
    )


def record_ddl(record: type, *, step: str) -> str:
    """The DDL of a record class; SchemaError for a type without a Spark equivalent."""
    members = _members(record)
    return ddl_of({name: ddl_type(kind, step=step, field=name) for name, kind in members.items()})


def ddl_type(kind: object, *, step: str, field: str) -> str:
    """The Spark type of a Python annotation; SchemaError if it has none."""
    if kind in DDL_TYPES:
        return DDL_TYPES[kind]
    if is_record_type(kind):
        return f"struct<{record_ddl(typing.cast('type', kind), step=step)}>"
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        real = [arg for arg in args if arg is not type(None)]
        if len(real) == 1:
            return ddl_type(real[0], step=step, field=field)
    if origin is list and args:
        return f"array<{ddl_type(args[0], step=step, field=field)}>"
    if origin is dict and args:
        key, value = (ddl_type(arg, step=step, field=field) for arg in args)
        return f"map<{key},{value}>"
    raise SchemaError(
        f"step {step!r}: the type {kind!r} of field {field!r} has no Spark type",
        remedy="declare it with schema='...'",
        step=step,
    )


def ddl_of(kinds: Mapping[str, str]) -> str:
    """The fields with these types as DDL text; "" without any.

    >>> ddl_of({"id": "bigint", "a b": "string"})
    '`id` bigint, `a b` string'
    """
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in kinds.items())


def quoted(name: str) -> str:
    """`name` as a quoted identifier of Spark SQL.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def _members(record: type) -> Mapping[str, object]:
    hints = typing.get_type_hints(record)
    if is_dataclass(record):
        return {field.name: hints[field.name] for field in fields(record)}
    names = getattr(record, "model_fields", hints)
    return {name: hints[name] for name in names}


def _is_typed_dict(value: type) -> bool:
    """Also true for typing_extensions.TypedDict, which Pydantic requires."""
    return typing.is_typeddict(value) or (issubclass(value, dict) and hasattr(value, "__required_keys__"))


def _is_named_tuple(value: type) -> bool:
    return issubclass(value, tuple) and hasattr(value, "_fields")


def _is_struct_type(value: object) -> bool:
    """Whether `value` is Spark's StructType; does not import pyspark."""
    kind = type(value)
    return kind.__name__ == "StructType" and kind.__module__.startswith("pyspark.") and hasattr(value, "jsonValue")


def _field(field: Mapping[str, Any]) -> str:
    """The DDL of a field given in the JSON form of a StructType."""
    return f"{quoted(field['name'])} {_json_type(field['type'])}{'' if field.get('nullable', True) else ' NOT NULL'}"


def _json_type(kind: Any) -> str:
    return kind if isinstance(kind, str) else _JSON_TYPES[kind["type"]](kind)


_JSON_TYPES: Mapping[str, Callable[[Mapping[str, Any]], str]] = types.MappingProxyType(
    {
        "array": lambda kind: f"array<{_json_type(kind['elementType'])}>",
        "map": lambda kind: f"map<{_json_type(kind['keyType'])},{_json_type(kind['valueType'])}>",
        "struct": lambda kind: f"struct<{', '.join(_field(field) for field in kind['fields'])}>",
    }
)
