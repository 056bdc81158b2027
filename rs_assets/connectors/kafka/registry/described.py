"""Descriptors of Protobuf messages for fields in Spark's notation, which keep the numbers of an older one."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from rs_assets.connectors.kafka.registry.protobuf import OWN, TIMESTAMP, ProtobufMessage, check_types
from rs_assets.errors import TopologyError
from rs_assets.records.types import Type

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KINDS: Final[Mapping[str, int]] = {
    "boolean": FieldDescriptorProto.TYPE_BOOL,
    "int": FieldDescriptorProto.TYPE_INT32,
    "bigint": FieldDescriptorProto.TYPE_INT64,
    "decimal(20,0)": FieldDescriptorProto.TYPE_UINT64,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "string": FieldDescriptorProto.TYPE_STRING,
    "binary": FieldDescriptorProto.TYPE_BYTES,
}
# Where fields of all files cannot be.
RESERVED: Final = range(19000, 20000)


def described(name: str, fields: Mapping[str, Type | None], before: str | None, *, step: str) -> ProtobufMessage:
    """The message `name` with `fields`, each of which may be absent; TopologyError for names and types of no use.

    `before` is the file of an older version in base64: fields of the same names keep their numbers, and no new field
    gets one that was used.

    >>> older = described("Row", {"a": Type("int"), "b": Type("string")}, None, step="s")
    >>> newer = described("Row", {"c": Type("int"), "b": Type("string")}, text_of(older.file), step="s")
    >>> {field.name: field.number for field in newer.file.message_type[0].field}
    {'b': 2, 'c': 3}
    """
    check_types(fields, step=step)
    package, _, own = name.rpartition(".")
    file = FileDescriptorProto(name=f"{name.replace('.', '/')}.proto", package=package, syntax="proto3")
    file.message_type.add(name=own)
    _fill(file.message_type[0], f".{name}", fields, _older(name, before), step)
    if TIMESTAMP in str(file):
        file.dependency.append(f"{OWN}timestamp.proto")
    files = FileDescriptorSet(file=[file]).SerializeToString(deterministic=True)
    return ProtobufMessage(name=name, files=b64encode(files).decode())


def text_of(file: FileDescriptorProto) -> str:
    """A file as registries take it: in base64."""
    return b64encode(file.SerializeToString(deterministic=True)).decode()


def _older(name: str, before: str | None) -> DescriptorProto | None:
    """The message of this name in an older file; None without one."""
    try:
        file = FileDescriptorProto.FromString(b64decode(before or "", validate=True))
    except (ValueError, DecodeError):
        return None
    prefix = f"{file.package}." if file.package else ""
    return next((each for each in file.message_type if f"{prefix}{each.name}" == name), None)


def _fill(
    message: DescriptorProto,
    scope: str,
    fields: Mapping[str, Type | None],
    before: DescriptorProto | None,
    step: str,
) -> None:
    numbers = {each.name: each.number for each in before.field} if before is not None else {}
    gone = {number for name, number in numbers.items() if name not in fields} | _reserved(before)
    last = max((*numbers.values(), *gone), default=0)
    for name in fields:
        if not NAME.fullmatch(name):
            raise TopologyError(
                f"step {step!r}: a field of Protobuf cannot have the name {name!r}",
                remedy="write it as name_2: A to Z in any case, digits and _, and no digit first",
                step=step,
            )
        if name not in numbers:
            last += 1 if last + 1 not in RESERVED else len(RESERVED) + 1
            numbers[name] = last
    for name in sorted(fields, key=numbers.__getitem__):
        field = message.field.add(name=name, number=numbers[name])
        _declare(message, field, scope, fields[name], before, step)
    for number in sorted(gone):
        message.reserved_range.add(start=number, end=number + 1)


def _reserved(before: DescriptorProto | None) -> set[int]:
    ranges = before.reserved_range if before is not None else ()
    return {number for each in ranges for number in range(each.start, each.end)}


def _declare(
    message: DescriptorProto,
    field: FieldDescriptorProto,
    scope: str,
    kind: Type | None,
    before: DescriptorProto | None,
    step: str,
) -> None:
    if kind is None:
        raise TopologyError(
            f"step {step!r}: the type of the field {field.name!r} is not known, and Protobuf needs one",
            remedy="convert it: .with_fields(n='CAST(n AS bigint)')",
            step=step,
        )
    parts = dict(kind.parts)
    field.label = FieldDescriptorProto.LABEL_OPTIONAL
    if kind.name in ("array", "map"):
        field.label = FieldDescriptorProto.LABEL_REPEATED
    if kind.name == "map":
        title = re.sub(r"(?:^|_)(.?)", lambda found: found[1].upper(), field.name)
        entry = message.nested_type.add(name=f"{title}Entry")
        entry.options.map_entry = True
        for number, part in enumerate(("key", "value"), 1):
            made = entry.field.add(name=part, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            _one(message, made, scope, f"{field.name}_{part}", parts[part], before, step)
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f"{scope}.{entry.name}"
        return
    _one(message, field, scope, field.name, parts["element"] if kind.name == "array" else kind, before, step)
    if field.label == FieldDescriptorProto.LABEL_OPTIONAL and field.type != FieldDescriptorProto.TYPE_MESSAGE:
        # How proto3 marks a field that may be absent.
        field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def _one(
    message: DescriptorProto,
    field: FieldDescriptorProto,
    scope: str,
    path: str,
    kind: Type | None,
    before: DescriptorProto | None,
    step: str,
) -> None:
    """The type of one value of a field; a struct is a message within."""
    name = kind.name if kind is not None else ""
    if name in KINDS:
        field.type = KINDS[name]
        return
    field.type = FieldDescriptorProto.TYPE_MESSAGE
    if name == "timestamp":
        field.type_name = TIMESTAMP
        return
    own = f"Row_{path}"
    older = next((each for each in before.nested_type if each.name == own), None) if before is not None else None
    made = message.nested_type.add(name=own)
    field.type_name = f"{scope}.{own}"
    _fill(made, field.type_name, dict(kind.parts) if kind is not None else {}, older, step)
