"""Rows as Kafka records: maps fields to topic, key, value, headers and partition."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegralType, MapType, StringType, StructType

from rs_assets.connectors.kafka.client.names import INTERNAL, TOPIC
from rs_assets.connectors.kafka.registry.registration import SchemaIds
from rs_assets.connectors.kafka.registry.subject import AvroSubject
from rs_assets.connectors.kafka.sink.avro import avro_value
from rs_assets.connectors.kafka.sink.protobuf import protobuf_value
from rs_assets.connectors.kafka.sink.record_time import TIMESTAMP, record_time
from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.errors import TopologyError
from rs_assets.records.columns import PREFIX, RETRACTED, check_fields
from rs_assets.records.schema import quoted

# Nulls are written, and times with microseconds: a reader gets the row unchanged.
JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


# The place of a row among those of its key in a batch.
PLACE = f"{PREFIX}place"
# The marker of a row that cannot become a record, in the text of Spark's error.
FAULT = re.compile(r"<<record: (?P<field>[^|]*)\|(?P<what>.*?)>>", re.DOTALL)


def records(
    rows: DataFrame, shape: RecordShape, *, step: str, partitions: int | None = None, ids: SchemaIds | None = None
) -> DataFrame:
    """The columns topic, key, value, and, if there are such fields, partition, headers and TIMESTAMP.

    A row with an invalid topic or partition raises FAULT when it is computed; `partitions` is the number of partitions
    of its topic, if known. `ids` registers the schema of Avro and Protobuf values. UnknownFieldError or TopologyError
    for fields that are missing or of a type without a counterpart in Kafka.
    """
    check_fields(rows, shape.fields, step=step)
    if shape.changes:
        rows = _newest(rows, shape)
    made: dict[str, Column] = {
        "topic": F.lit(shape.topic) if shape.topic is not None else _text(rows, shape.topic_field, "topic", step),
        "key": _object(shape.keys) if shape.keys else _bytes(rows, shape.key, "key", step),
        "value": _value(rows, shape, step, ids),
    }
    if shape.partition is not None:
        _expect(rows, shape.partition, IntegralType, "the number of a partition", step)
        made["partition"] = _partition(shape.partition, partitions)
    if shape.headers is not None:
        made["headers"] = _headers(rows, shape.headers, step)
    if shape.header_fields:
        made["headers"] = _named_headers(rows, shape.header_fields, step)
    time = record_time(rows, shape, step=step)
    if time is not None:
        made[TIMESTAMP] = time
    return rows.select(*(column.alias(name) for name, column in made.items()))


def _newest(rows: DataFrame, shape: RecordShape) -> DataFrame:
    """One change of each key: the row that comes, else the one that goes."""
    keys = [_column(name) for name in (shape.keys or (str(shape.key),))]
    place = F.row_number().over(Window.partitionBy(*keys).orderBy(F.col(RETRACTED)))
    return rows.withColumn(PLACE, place).filter(F.col(PLACE) == 1).drop(PLACE)


def value_fields(rows: DataFrame, shape: RecordShape) -> Sequence[str]:
    """The fields that a value without a field of its own has."""
    apart = {shape.topic_field, shape.partition, shape.headers, RETRACTED}
    declared = shape.avro.fields if shape.avro is not None else None
    if shape.protobuf is not None and shape.protobuf.message.files:
        declared = tuple(name for name in shape.protobuf.message.fields if name in rows.columns)
    return declared or shape.values or [name for name in rows.columns if name not in apart]


def _value(rows: DataFrame, shape: RecordShape, step: str, ids: SchemaIds | None) -> Column:
    if shape.value is not None:
        return _bytes(rows, shape.value, "value", step)
    names = value_fields(rows, shape)
    if shape.protobuf is not None:
        value = protobuf_value(rows, names, shape.protobuf, ids, step=step)
    else:
        value = _object(names) if shape.avro is None else _avro(rows, names, shape.avro, step, ids)
    return F.when(~F.col(RETRACTED), value) if shape.changes else value


def _avro(rows: DataFrame, names: Sequence[str], avro: AvroSubject, step: str, ids: SchemaIds | None) -> Column:
    """An Avro value; a null that its schema forbids is the error of FAULT."""
    value = avro_value(rows, names, avro, ids, step=step)
    for name in avro.required:
        missing = F.when(_column(name).isNull(), F.lit(f"it is null, which the schema of {avro.subject} forbids"))
        value = _sound(value, name, missing)
    return value


def _object(names: Sequence[str]) -> Column:
    """A JSON object of fields."""
    return F.to_json(F.struct(*map(_column, names)), JSON_OPTIONS).cast("binary")


def _column(name: str) -> Column:
    return F.col(quoted(name))


def _expect(rows: DataFrame, name: str, kind: type, what: str, step: str) -> None:
    found = rows.schema[name].dataType
    if not isinstance(found, kind):
        raise TopologyError(
            f"step {step!r}: the field {name!r} is {found.simpleString()}, which is not {what}", step=step
        )


def _text(rows: DataFrame, name: str | None, what: str, step: str) -> Column:
    assert name is not None  # the node checked that one of the two is given
    _expect(rows, name, StringType, f"the name of a {what}", step)
    column = _column(name)
    wrong = ~column.rlike(f"^{TOPIC.pattern}$") | column.isin(".", "..")
    return _sound(
        column,
        name,
        F.when(column.isNull(), F.lit("its topic is null"))
        .when(wrong, F.concat(F.lit("the name of its topic, "), column, F.lit(", cannot be one")))
        .when(column.rlike(f"^(?:{INTERNAL})"), F.concat(F.lit("its topic, "), column, F.lit(", is an internal one"))),
    )


def _partition(name: str, partitions: int | None) -> Column:
    """The number of a partition; null leaves the choice to Kafka's client."""
    column = _column(name)
    wrong = (column < 0) | (column >= F.lit(partitions if partitions is not None else 1 << 31))
    has = f", and the topic has {partitions}" if partitions is not None else ""
    said = F.concat(F.lit("there is no partition "), column.cast("string"), F.lit(has))
    return _sound(column, name, F.when(wrong, said)).cast("int")


def _sound(column: Column, name: str, reason: Column) -> Column:
    """`column`, or the error of FAULT if there is a reason."""
    fault = F.concat(F.lit(f"<<record: {name}|"), reason, F.lit(">>"))
    return F.when(reason.isNotNull(), F.raise_error(fault)).otherwise(column)


def _bytes(rows: DataFrame, name: str | None, what: str, step: str) -> Column:
    """A field as bytes: text and binary unchanged, numbers and times as their text; nested ones are refused."""
    if name is None:
        return F.lit(None).cast("binary")
    found = rows.schema[name].dataType
    if isinstance(found, StructType | ArrayType | MapType):
        raise TopologyError(
            f"step {step!r}: the field {name!r} is {found.simpleString()}, which cannot be the {what} of a record",
            remedy=f"convert it to text: .with_fields({name}='to_json({name})')",
            step=step,
        )
    return _raw(_column(name), found)


def _named_headers(rows: DataFrame, named: Sequence[tuple[str, str]], step: str) -> Column:
    """One header a field; a null makes no header."""
    each = [_header(F.lit(name), _bytes(rows, field, "header", step)) for name, field in named]
    return F.filter(F.array(*each), lambda header: header["value"].isNotNull())


def _headers(rows: DataFrame, name: str, step: str) -> Column:
    found = rows.schema[name].dataType
    if isinstance(found, MapType):
        return _of_map(name, found.valueType)
    if isinstance(found, ArrayType) and isinstance(found.elementType, StructType):
        kinds = {field.name: field.dataType for field in found.elementType.fields}
        if kinds.keys() >= {"key", "value"}:
            return _of_array(name, kinds["value"])
    raise TopologyError(
        f"step {step!r}: the field {name!r} is {found.simpleString()}, which cannot be headers",
        remedy="use a map<string,string>, or an array<struct<key:string,value:binary>>",
        step=step,
    )


def _of_map(name: str, kind: DataType) -> Column:
    return F.transform(F.map_entries(_column(name)), lambda e: _header(e["key"], _raw(e["value"], kind)))


def _of_array(name: str, kind: DataType) -> Column:
    """A header without a name is the error of FAULT; keys of maps are never null."""
    nameless = F.exists(_column(name), lambda e: e["key"].isNull())
    sound = _sound(_column(name), name, F.when(nameless, F.lit("one of its headers has no name")))
    return F.transform(sound, lambda e: _header(e["key"], _raw(e["value"], kind)))


def _header(name: Column, value: Column) -> Column:
    return F.struct(name.alias("key"), value.alias("value"))


def _raw(value: Column, kind: DataType) -> Column:
    return value if isinstance(kind, BinaryType) else value.cast("string").cast("binary")
