"""Protobuf files for tests, and values made by Google's own Python library."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from google.protobuf import descriptor_pool, json_format, message_factory, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

KNOWN = (timestamp_pb2, wrappers_pb2)


def proto(name: str, package: str, messages: Mapping[str, Mapping[str, tuple[int, str]]], **how) -> FileDescriptorProto:
    """A file of proto3 with messages; a field has a number and a type, "optional int64", "repeated .shop.Line"."""
    file = FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=how.get("imports", ()))
    for title, fields in messages.items():
        made = file.message_type.add(name=title)
        for field, (number, text) in fields.items():
            label, _, kind = text.rpartition(" ")
            part = made.field.add(name=field, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            if label == "repeated":
                part.label = FieldDescriptorProto.LABEL_REPEATED
            if label == "optional":
                part.proto3_optional, part.oneof_index = True, len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{field}")
            if kind.startswith("."):
                part.type_name = kind
                is_enum = kind.rpartition(".")[2] in how.get("enums", {})
                part.type = FieldDescriptorProto.TYPE_ENUM if is_enum else FieldDescriptorProto.TYPE_MESSAGE
            elif kind.startswith("map<"):
                key, value = kind.removeprefix("map<").rstrip(">").split(",")
                entry = made.nested_type.add(name=f"{field.title()}Entry")
                entry.options.map_entry = True
                for place, (own, of) in enumerate((("key", key), ("value", value)), 1):
                    entry.field.add(
                        name=own, number=place, label=FieldDescriptorProto.LABEL_OPTIONAL,
                        type=getattr(FieldDescriptorProto, f"TYPE_{of.upper()}"),
                    )  # fmt: skip
                part.type_name, part.label = f".{package}.{title}.{entry.name}", FieldDescriptorProto.LABEL_REPEATED
                part.type = FieldDescriptorProto.TYPE_MESSAGE
            else:
                part.type = getattr(FieldDescriptorProto, f"TYPE_{kind.upper()}")
    for title, values in how.get("enums", {}).items():
        made = file.enum_type.add(name=title)
        for value, number in values.items():
            made.value.add(name=value, number=number)
    return file


def text(file: FileDescriptorProto) -> str:
    """A file as a registry has it."""
    return b64encode(file.SerializeToString()).decode()


def descriptor(*files: FileDescriptorProto) -> bytes:
    """What `protoc --descriptor_set_out` writes."""
    return FileDescriptorSet(file=files).SerializeToString()


def message(name: str, *files: FileDescriptorProto):
    """The class of a message, by Google's own Python library."""
    pool = descriptor_pool.DescriptorPool()
    for own in KNOWN:
        pool.AddSerializedFile(own.DESCRIPTOR.serialized_pb)
    for file in files:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def value(name: str, *files: FileDescriptorProto, **fields) -> bytes:
    """A value of a message, its fields as in Protobuf's JSON."""
    return json_format.ParseDict(fields, message(name, *files)()).SerializeToString()


def read_back(name: str, content: bytes, *files: FileDescriptorProto):
    """The fields of a value as Google's own Python library reads them, in Protobuf's JSON."""
    return json_format.MessageToDict(message(name, *files).FromString(content), preserving_proto_field_name=True)
