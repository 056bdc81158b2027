"""Which fields of a row become which parts of a record; needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass

from rs_assets.connectors.kafka.registry.subject import AvroSubject, ProtobufSubject


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordShape:
    """How a row becomes a record. `topic` is fixed, or `topic_field` holds it; the other names are fields too.

    Without `value` the value is a JSON object of `values`, by default all fields except topic_field, partition and
    headers; a null `value`
    is a tombstone. With `keys` the key is a JSON object of these fields. With `changes` rows are changes of a
    table, marked by RETRACTED: of the rows of a key in a batch only the newest is a record. `headers` is a map from
    text to text or binary, or an array of structs of key and value; `header_fields` are names of headers, each with the
    field of its value, and a null makes no header. With `avro` the value is an Avro record, of the
    fields of its schema if it has one; with `protobuf` a Protobuf message, of its fields that a row has.

    `timestamp` is the field with the time of the record. Without it `times` are the candidate fields: the first of them
    that a row has, and that is not null, is used, unless it is later than the clock.
    """

    topic: str | None
    topic_field: str | None = None
    key: str | None = None
    keys: tuple[str, ...] = ()
    changes: bool = False
    value: str | None = None
    values: tuple[str, ...] = ()
    partition: str | None = None
    headers: str | None = None
    header_fields: tuple[tuple[str, str], ...] = ()
    timestamp: str | None = None
    times: tuple[str, ...] = ()
    avro: AvroSubject | None = None
    protobuf: ProtobufSubject | None = None

    @property
    def subject(self) -> AvroSubject | ProtobufSubject | None:
        """Where the schema of values is registered, None without one."""
        return self.avro or self.protobuf

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that it uses."""
        declared = (self.avro.fields or ()) if self.avro is not None else ()
        declared = self.protobuf.needed if self.protobuf is not None else declared
        named = (
            self.topic_field,
            self.key,
            *self.keys,
            self.value,
            *self.values,
            self.partition,
            self.headers,
            self.timestamp,
        )
        headers = (field for _, field in self.header_fields)
        return tuple(name for name in (*named, *headers, *declared) if name is not None)
