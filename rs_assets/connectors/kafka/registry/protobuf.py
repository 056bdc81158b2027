"""Protobuf messages: their types in descriptors, and their fields in Spark's notation; needs no Spark."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from rs_assets.errors import TopologyError
from rs_assets.records.schema import ddl_of
from rs_assets.records.types import Type

OWN: Final = "google/protobuf/"
TIMESTAMP: Final = ".google.protobuf.Timestamp"
INT, BIGINT, STRING, BINARY, BOOLEAN = (Type(name) for name in ("int", "bigint", "string", "binary", "boolean"))
# Without a sign: all numbers of 64 bits.
UNSIGNED: Final = Type("decimal(20,0)")
KINDS: Final[Mapping[int, Type]] = MappingProxyType(
    {
        **dict.fromkeys((FieldDescriptorProto.TYPE_INT32, FieldDescriptorProto.TYPE_SINT32), INT),
        FieldDescriptorProto.TYPE_SFIXED32: INT,
        **dict.fromkeys((FieldDescriptorProto.TYPE_UINT32, FieldDescriptorProto.TYPE_FIXED32), BIGINT),
        **dict.fromkeys((FieldDescriptorProto.TYPE_INT64, FieldDescriptorProto.TYPE_SINT64), BIGINT),
        FieldDescriptorProto.TYPE_SFIXED64: BIGINT,
        **dict.fromkeys((FieldDescriptorProto.TYPE_UINT64, FieldDescriptorProto.TYPE_FIXED64), UNSIGNED),
        FieldDescriptorProto.TYPE_FLOAT: Type("float"),
        FieldDescriptorProto.TYPE_DOUBLE: Type("double"),
        FieldDescriptorProto.TYPE_BOOL: BOOLEAN,
        FieldDescriptorProto.TYPE_STRING: STRING,
        FieldDescriptorProto.TYPE_BYTES: BINARY,
        FieldDescriptorProto.TYPE_ENUM: STRING,
    }
)
# Messages that are one value.
VALUES: Final[Mapping[str, Type]] = MappingProxyType(
    {
        TIMESTAMP: Type("timestamp"),
        ".google.protobuf.BoolValue": BOOLEAN,
        ".google.protobuf.BytesValue": BINARY,
        ".google.protobuf.DoubleValue": Type("double"),
        ".google.protobuf.FloatValue": Type("float"),
        ".google.protobuf.Int32Value": INT,
        ".google.protobuf.Int64Value": BIGINT,
        ".google.protobuf.StringValue": STRING,
        ".google.protobuf.UInt32Value": BIGINT,
        ".google.protobuf.UInt64Value": UNSIGNED,
    }
)
# The types without parts that a field of a message can have.
SCALARS: Final = frozenset(kind.name for kind in (*KINDS.values(), *VALUES.values()))
INCLUDED: Final = "protoc --include_imports --descriptor_set_out=orders.desc orders.proto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufMessage:
    """A type of messages: its `name` with the package, and the `files` that it needs, a FileDescriptorSet in base64.

    Either may be empty: any message, and a message whose files are in a registry.
    """

    name: str = ""
    files: str = ""

    @classmethod
    def of(cls, descriptor: bytes | str | PathLike[str] | None, name: str | None, *, step: str) -> ProtobufMessage:
        """The message `name` of a set of descriptors, or of a file with one; TopologyError if it is not there."""
        if descriptor is None:
            return cls(name=name or "")
        files = _files(descriptor, step)
        known = {full: file for file in files for full, _ in _messages(file)}
        if name not in known:
            raise TopologyError(
                f"step {step!r}: the descriptor has no message {name!r}" if name else f"step {step!r} names no message",
                remedy=f"message= is one of: {', '.join(sorted(each for each in known if not _own(known[each])))}",
                step=step,
            )
        made = FileDescriptorSet(file=_needed(files, known[name], step))
        return cls(name=name, files=b64encode(made.SerializeToString(deterministic=True)).decode())

    @property
    def file(self) -> FileDescriptorProto:
        """The file that declares it."""
        return next(file for file in self._files if any(full == self.name for full, _ in _messages(file)))

    @property
    def fields(self) -> Mapping[str, FieldDescriptorProto]:
        """Its fields by name, in the order of their declaration."""
        return {each.name: each for each in self._all[self.name].field}

    @property
    def path(self) -> tuple[int, ...]:
        """Its index in the file, and of a nested one the indexes within."""
        return next(path for full, path in _paths(self.file) if full == self.name)

    def needs(self, name: str) -> bool:
        """Whether a reader gets a default in place of a missing value of the field `name`, or an error."""
        field, file = self.fields[name], self.file
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return False
        if field.label == FieldDescriptorProto.LABEL_REQUIRED:
            return True
        apart = field.HasField("oneof_index") or field.type in _NESTED
        return bool(file.syntax == "proto3" and not apart)

    def schema(self, *, step: str) -> str:
        """All fields in Spark's notation; TopologyError for a message within itself, or one whose file is missing."""
        return ddl_of({name: kind.text for name, kind in self._struct(f".{self.name}", (), step).parts if kind})

    @property
    def _files(self) -> list[FileDescriptorProto]:
        return list(FileDescriptorSet.FromString(b64decode(self.files)).file)

    @property
    def _all(self) -> Mapping[str, DescriptorProto]:
        return {full: message for file in self._files for full, message in _messages(file)}

    def _struct(self, name: str, within: tuple[str, ...], step: str) -> Type:
        message = self._all.get(name.removeprefix("."))
        if message is None or name in within:
            what = "is not in the descriptor" if message is None else "has itself as a part"
            raise TopologyError(
                f"step {step!r}: the message {name.removeprefix('.')} {what}",
                remedy="name the fields to read: schema='id bigint, name string'",
                step=step,
            )
        entries = {f"{name}.{each.name}": each for each in message.nested_type if each.options.map_entry}
        parts = [(each.name, self._kind(each, entries, (*within, name), step)) for each in message.field]
        return Type("struct", tuple(parts))

    def _kind(
        self, field: FieldDescriptorProto, entries: Mapping[str, DescriptorProto], within: tuple[str, ...], step: str
    ) -> Type:
        if field.type_name in entries:
            key, value = entries[field.type_name].field
            return Type("map", (("key", KINDS[key.type]), ("value", self._one(value, within, step))))
        one = self._one(field, within, step)
        return Type("array", (("element", one),)) if field.label == FieldDescriptorProto.LABEL_REPEATED else one

    def _one(self, field: FieldDescriptorProto, within: tuple[str, ...], step: str) -> Type:
        if field.type not in _NESTED:
            return KINDS[field.type]
        return VALUES.get(field.type_name) or self._struct(field.type_name, within, step)


def check_types(fields: Mapping[str, Type | None], *, step: str) -> None:
    """TopologyError for a type that no field of a message has; types that are not known here pass."""
    for name, kind in fields.items():
        if kind is not None and (found := _foreign(kind)) is not None:
            raise TopologyError(
                f"step {step!r}: the field {name!r} has the type {found.text}, which Protobuf does not have",
                remedy="use int for smallint and tinyint, and a string, a number or a timestamp for others",
                step=step,
            )


_NESTED: Final = (FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_GROUP)


def _foreign(kind: Type) -> Type | None:
    """The first type in `kind` that no field has."""
    if not kind.nested:
        return None if kind.name in SCALARS else kind
    parts = dict(kind.parts)
    one, key = parts.get("element") or parts.get("value"), parts.get("key")
    if kind.name != "struct" and one is not None and one.name in ("array", "map"):
        return kind
    if kind.name == "map" and key is not None and key not in (STRING, INT, BIGINT, BOOLEAN):
        return kind
    return next((found for part in parts.values() if part and (found := _foreign(part)) is not None), None)


def _files(descriptor: bytes | str | PathLike[str], step: str) -> list[FileDescriptorProto]:
    try:
        content = descriptor if isinstance(descriptor, bytes) else Path(fspath(descriptor)).read_bytes()
        files = list(FileDescriptorSet.FromString(content).file)
    except (OSError, DecodeError) as error:
        raise TopologyError(
            f"step {step!r}: the descriptor cannot be read: {error}", remedy=f"make it by `{INCLUDED}`", step=step
        ) from error
    if not any(file.message_type for file in files):
        raise TopologyError(f"step {step!r}: the descriptor has no messages", remedy=f"`{INCLUDED}`", step=step)
    return files


def _needed(files: list[FileDescriptorProto], file: FileDescriptorProto, step: str) -> list[FileDescriptorProto]:
    """What `file` imports, each file after its own imports, and then itself; comments are left out."""
    known, found = {each.name: each for each in files}, dict[str, FileDescriptorProto]()

    def add(each: FileDescriptorProto) -> None:
        for name in each.dependency:
            if name in known and name not in found:
                add(known[name])
            elif name not in known and not name.startswith(OWN):
                raise TopologyError(
                    f"step {step!r}: the descriptor lacks {name!r}, which {each.name!r} imports",
                    remedy=f"make it by `{INCLUDED}`",
                    step=step,
                )
        bare = FileDescriptorProto.FromString(each.SerializeToString())
        bare.ClearField("source_code_info")
        found[each.name] = bare

    add(file)
    return list(found.values())


def _own(file: FileDescriptorProto) -> bool:
    return str(file.name).startswith(OWN)


def _messages(file: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    """All messages of a file, by their full names."""
    for full, path in _paths(file):
        yield full, _at(file, path)


def _paths(file: FileDescriptorProto) -> Iterator[tuple[str, tuple[int, ...]]]:
    waiting: list[tuple[str, tuple[int, ...], Any]] = [
        (f"{file.package}.{each.name}".lstrip("."), (place,), each) for place, each in enumerate(file.message_type)
    ]
    while waiting:
        full, path, message = waiting.pop(0)
        yield full, path
        waiting += [(f"{full}.{each.name}", (*path, n), each) for n, each in enumerate(message.nested_type)]


def _at(file: FileDescriptorProto, path: tuple[int, ...]) -> DescriptorProto:
    found = file.message_type[path[0]]
    for place in path[1:]:
        found = found.nested_type[place]
    return found
