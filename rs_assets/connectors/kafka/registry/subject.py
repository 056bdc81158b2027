"""The subjects of a schema registry under which a sink registers the schema of its records; needs no Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rs_assets.connectors.kafka.registry.address import SchemaRegistry

if TYPE_CHECKING:
    from rs_assets.connectors.kafka.registry.protobuf import ProtobufMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroSubject:
    """Values of records are Avro, with the header of `registry`; their schema is a version of `subject`.

    `schema` is a record in Avro's JSON; None: of all fields of a row, each of which may be null.
    """

    kind: ClassVar[str] = "AVRO"

    registry: SchemaRegistry
    subject: str
    schema: str | None = None

    @property
    def fields(self) -> tuple[str, ...] | None:
        """The fields of `schema`, None without one."""
        return tuple(each["name"] for each in json.loads(self.schema)["fields"]) if self.schema is not None else None

    @property
    def required(self) -> tuple[str, ...]:
        """The fields of `schema` that may not be null."""
        declared = json.loads(self.schema)["fields"] if self.schema is not None else []
        return tuple(each["name"] for each in declared if not _nullable(each["type"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufSubject:
    """Values of records are Protobuf, with the header of `registry`; their message is in a version of `subject`.

    `message` without files is the name of a message of all fields of a row, each of which may be absent.
    """

    kind: ClassVar[str] = "PROTOBUF"

    registry: SchemaRegistry
    subject: str
    message: ProtobufMessage

    @property
    def needed(self) -> tuple[str, ...]:
        """The fields of a declared message that a row must have."""
        if not self.message.files:
            return ()
        return tuple(name for name in self.message.fields if self.message.needs(name))


def _nullable(kind: object) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)
