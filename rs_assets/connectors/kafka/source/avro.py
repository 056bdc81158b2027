"""Avro values as fields: each is read by the schema that it was written with, and resolved to the reader's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from rs_assets.connectors.kafka.registry.address import SchemaRegistry
from rs_assets.records.calendar import FAULTS, NO_UTF8, fault_reason
from rs_assets.records.columns import PREFIX
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import processors_of

PARSED = f"{PREFIX}parsed"
RESOLVED = f"{PREFIX}avro"


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroFormat:
    """Avro values that become fields of the record `schema`, in Avro's JSON.

    With `registry` the header of a value leads to the schema that it was written with; fetched schemas are stored in
    `folder`. With `schema_id` headers must have that id, which is the id of `schema`. With neither there is no header.
    """

    schema: str
    registry: SchemaRegistry | None = None
    schema_id: int | None = None
    folder: Path | None = None

    def decoded(self, frame: DataFrame) -> tuple[DataFrame, list[Column], Column]:
        """`frame` with the decoded column `value`, its fields, and why a value cannot be used."""
        from pyspark.sql.avro.functions import from_avro, to_avro

        frame = frame.withColumn(RESOLVED, self._resolved(frame))
        value, refused = F.col(f"{RESOLVED}.value"), F.col(f"{RESOLVED}.reason")
        frame = frame.withColumn(PARSED, from_avro(value, self.schema, {"mode": "PERMISSIVE"}))
        found = frame.select(f"{PARSED}.*").schema
        fields = [F.col(f"{PARSED}.{quoted(name)}") for name in found.names]
        # Spark returns nulls for a value that it cannot decode: for every field, even non-nullable ones.
        nothing = F.col(PARSED).isNull() | reduce(and_, (field.isNull() for field in fields))
        if all_nullable(self.schema):
            # A record of nulls has exactly one encoding.
            nothing = nothing & ~(to_avro(PARSED, self.schema).eqNullSafe(value))
        malformed = F.when(F.col("value").isNotNull() & nothing, F.lit("malformed Avro"))
        strange = fault_reason(found.fields, F.col(PARSED).__getitem__, (*FAULTS, NO_UTF8))
        reason = F.coalesce(refused, malformed, strange)
        return frame, [field.alias(name) for field, name in zip(fields, found.names, strict=True)], reason

    def _resolved(self, frame: DataFrame) -> Column:
        """Values of the reader's schema without a header, each with the reason if there is none."""
        ours = processors_of(frame)
        value = F.col("value")._jc  # noqa: SLF001  pyspark has no public way to its JVM
        if self.registry is not None:
            schemas = ours.RegistrySchemas(registry_client(ours, self.registry), str(self.folder))
            return ClassicColumn(ours.AvroRecords.registered(value, self.schema, schemas))
        if self.schema_id is not None:
            return ClassicColumn(ours.AvroRecords.declared(value, self.schema, self.schema_id))
        return ClassicColumn(ours.AvroRecords.plain(value, self.schema))


def registry_client(ours: Any, registry: SchemaRegistry) -> Any:
    """The client of a registry in the JVM whose package of processors is `ours`."""
    patience = int(registry.patience.total_seconds() * 1000)
    return ours.RegistryClient(registry.url, registry.authorization(), registry.authorities(), patience)


def all_nullable(schema: str) -> bool:
    """Whether every field of an Avro record may be null.

    >>> all_nullable('{"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "int"]}]}')
    True
    """
    fields = orjson.loads(schema)["fields"]
    return all(isinstance(field["type"], list) and "null" in field["type"] for field in fields)
