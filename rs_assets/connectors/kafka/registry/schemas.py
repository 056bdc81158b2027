"""Avro schemas of fields that are declared in Spark's notation; needs no Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from rs_assets.errors import TopologyError
from rs_assets.records.types import DdlError, Type, fields_in

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
# The name of the record; a nested one has the path to it.
ROOT: Final = "row"

SIMPLE: Final[Mapping[str, object]] = {
    "boolean": "boolean",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def is_avro(schema: str | None) -> bool:
    """Whether `schema` is an Avro record with fields, as JSON text.

    >>> is_avro("id bigint")
    False
    """
    try:
        made = json.loads(schema or "")
    except ValueError:
        return False
    return isinstance(made, dict) and made.get("type") == "record" and bool(made.get("fields"))


def reader_schema(ddl: str | None, *, step: str) -> str:
    """The Avro schema to read the fields of `ddl` with; TopologyError for a type that Avro lacks.

    A field may be null, and is null in a record whose schema lacks it.

    >>> reader_schema("id bigint", step="kafka")
    '{"type": "record", "name": "row", "fields": [{"name": "id", "type": ["null", "long"], "default": null}]}'
    """
    try:
        fields = fields_in(ddl) if ddl else {}
    except DdlError as error:
        raise TopologyError(f"step {step!r}: {error}", remedy=error.remedy, step=step) from error
    return avro_schema(fields or {}, step=step)


def avro_schema(fields: Mapping[str, Type | None], *, step: str) -> str:
    """The Avro record of `fields`, each of which may be null, as JSON; TopologyError for names and types of no use."""
    if not fields:
        raise TopologyError(
            f"step {step!r} needs the fields of its Avro records",
            remedy="""schema='id bigint, name string' or '{"type": "record", "name": "order", "fields": [...]}'""",
            step=step,
        )
    return json.dumps(_record(tuple(fields.items()), ROOT, step))


def _record(fields: tuple[tuple[str, Type | None], ...], path: str, step: str) -> dict[str, Any]:
    return {"type": "record", "name": path, "fields": [_field(name, kind, path, step) for name, kind in fields]}


def _field(name: str, kind: Type | None, path: str, step: str) -> dict[str, Any]:
    if not NAME.fullmatch(name):
        raise TopologyError(
            f"step {step!r}: an Avro field cannot have the name {name!r}",
            remedy="write it as name_2: A to Z in any case, digits and _, and no digit first",
            step=step,
        )
    return {"name": name, "type": _nullable(kind, f"{path}_{name}", step), "default": None}


def _nullable(kind: Type | None, path: str, step: str) -> list[object]:
    return ["null", _type(kind, path, step)]


def _type(kind: Type | None, path: str, step: str) -> object:
    if kind is not None and kind.name in SIMPLE:
        return SIMPLE[kind.name]
    if kind is not None and (found := DECIMAL.fullmatch(kind.name)):
        return {"type": "bytes", "logicalType": "decimal", "precision": int(found[1]), "scale": int(found[2])}
    parts = dict(kind.parts) if kind is not None else {}
    if kind is not None and kind.name == "struct" and parts:
        return _record(kind.parts, path, step)
    if kind is not None and kind.name == "array":
        return {"type": "array", "items": _nullable(parts["element"], path, step)}
    if kind is not None and kind.name == "map" and parts["key"] == Type("string"):
        return {"type": "map", "values": _nullable(parts["value"], path, step)}
    raise TopologyError(
        f"step {step!r}: the field {path.removeprefix(f'{ROOT}_')!r} has the type"
        f" {kind.text if kind is not None else 'of an expression'}, which Avro does not have",
        remedy="use int for smallint and tinyint, and maps with text as keys; or declare the schema in Avro's own JSON",
        step=step,
    )
