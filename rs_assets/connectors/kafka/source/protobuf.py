"""Protobuf values as fields: each is read by the message that it was written with, and resolved to the reader's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import StructType

from rs_assets.connectors.kafka.registry.address import SchemaRegistry
from rs_assets.connectors.kafka.registry.protobuf import ProtobufMessage
from rs_assets.connectors.kafka.source.avro import PARSED, registry_client
from rs_assets.errors import TopologyError
from rs_assets.records.calendar import FAULTS, fault_reason
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import processors_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufFormat:
    """Protobuf values that become the fields of `schema`, in Spark's notation.

    With `registry` the header of a value leads to the message that it was written with; fetched schemas are stored in
    `folder`. With `schema_id` headers must have that id, and values are of the declared `message`. With neither they
    have no header. `step` is that of the source, for errors.
    """

    schema: str
    message: ProtobufMessage
    step: str
    registry: SchemaRegistry | None = None
    schema_id: int | None = None
    folder: Path | None = None

    def decoded(self, frame: DataFrame) -> tuple[DataFrame, list[Column], Column]:
        """`frame` with the decoded column `value`, its fields, and why a value cannot be used."""
        ours, declared = processors_of(frame), StructType.fromDDL(self.schema)
        # A type alone is that of the field `value`.
        wanted = declared if isinstance(declared, StructType) else StructType().add("value", declared)
        schemas = None
        if self.registry is not None:
            schemas = ours.ProtobufSchemas(registry_client(ours, self.registry), str(self.folder))
        name, files = self.message.name, self.message.files
        refused = ours.ProtobufRecords.refused(wanted.json(), name, files) if files else ""
        if refused:
            raise TopologyError(
                f"step {self.step!r}: {refused}", remedy="leave schema out to read all fields", step=self.step
            )
        number = -1 if self.schema_id is None else self.schema_id
        value = F.col("value")._jc  # noqa: SLF001  pyspark has no public way to its JVM
        made = ours.ProtobufRecords.column(value, wanted.json(), name, files, number, schemas)
        frame = frame.withColumn(PARSED, ClassicColumn(made))
        row = F.col(f"{PARSED}.row")
        strange = fault_reason(wanted.fields, row.__getitem__, FAULTS)
        fields = [F.col(f"{PARSED}.row.{quoted(name)}").alias(name) for name in wanted.names]
        return frame, fields, F.coalesce(F.col(f"{PARSED}.reason"), strange)
