"""Rows as Avro values with the header of a schema registry."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.connectors.kafka.registry.registration import SchemaIds
from rs_assets.connectors.kafka.registry.schemas import avro_schema
from rs_assets.connectors.kafka.registry.subject import AvroSubject
from rs_assets.records.schema import quoted
from rs_assets.records.types import type_in

# A zero, and the id of the schema.
HEADER = ">bI"


def schema_of(rows: DataFrame, names: Sequence[str], avro: AvroSubject, *, step: str) -> str:
    """The schema of the fields `names` of a row; TopologyError for fields that Avro lacks."""
    if avro.schema is not None:
        return avro.schema
    return avro_schema({name: type_in(rows.schema[name].dataType.simpleString()) for name in names}, step=step)


def avro_value(rows: DataFrame, names: Sequence[str], avro: AvroSubject, ids: SchemaIds | None, *, step: str) -> Column:
    """The fields `names` as one value; registers their schema with `ids`, without it no schema is registered."""
    from pyspark.sql.avro.functions import to_avro

    schema = schema_of(rows, names, avro, step=step)
    header = struct.pack(HEADER, 0, ids.of(schema) if ids is not None else 0)
    return F.concat(F.lit(header), to_avro(F.struct(*(F.col(quoted(name)) for name in names)), schema))
