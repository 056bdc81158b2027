"""The subject of a schema registry under which a sink registers the schema of its records; needs no Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rs_assets.connectors.kafka.registry.address import SchemaRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroSubject:
    """Values of records are Avro, with the header of `registry`; their schema is a version of `subject`.

    `schema` is a record in Avro's JSON; None: of all fields of a row, each of which may be null.
    """

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


def _nullable(kind: object) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)
