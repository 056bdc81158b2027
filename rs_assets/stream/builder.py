"""The beginning of a pipeline: a namespace, a job, and its sources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

from rs_assets.common.names import checked_name, one_or_more
from rs_assets.common.storage import is_remote
from rs_assets.connectors.delta.nodes import DeltaSource
from rs_assets.connectors.files.nodes import FileSource, Format, format_by_name
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.nodes import (
    DataLoss,
    Descriptor,
    KafkaFormat,
    KafkaSource,
    KeyFormat,
    StartingOffsets,
    Tombstones,
    message_read,
)
from rs_assets.connectors.kafka.registry.address import SchemaRegistry
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.connectors.memory.nodes import ArraySource, MemorySource
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.own.nodes import CustomSource
from rs_assets.connectors.rocketmq.client.cluster import RocketMQCluster
from rs_assets.connectors.rocketmq.nodes import RocketmqFormat, RocketmqSource, RocketmqStart
from rs_assets.connectors.sqlite.nodes import SqliteSource
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import Schema, schema_text
from rs_assets.stream.collected_sources import CollectedSources
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.database_sources import DatabaseSources
from rs_assets.stream.draft import Draft
from rs_assets.stream.http_sources import HttpSources
from rs_assets.stream.method_hints import Fluent

if TYPE_CHECKING:
    from rs_assets.connectors.own.log import LogSource


class StreamBuilder:
    """The entry to the fluent API."""

    @staticmethod
    def data_stream(namespace: str, job: str) -> DataStreamSource:
        """Begin the pipeline `job` in `namespace`.

        - `namespace`, `job` (str): names of a-z, 0-9 and _. Together they name the pipeline and its checkpoints.

        >>> stream = StreamBuilder.data_stream("shop", "hello").from_array([{"page": "/"}])
        >>> stream.to_print().build().name
        'shop.hello'
        """
        return DataStreamSource(Draft(checked_name(namespace, what="namespace"), checked_name(job, what="job")))


@dataclass(frozen=True, slots=True)
class DataStreamSource(CollectedSources, DatabaseSources, HttpSources, Fluent):
    """The sources of one pipeline. Each `from_*` call returns a stream; `union` and `join` combine several of them.

    These arguments mean the same in all sources that have them:

    - `schema` (DDL text such as "page string, ms bigint", a StructType of Spark, or a class of records: TypedDict,
      dataclass, NamedTuple or Pydantic model).
    - `bad_records` (str, default "fail"): the policy for records that do not fit the schema. "fail" ends the run,
      "dead_letter" writes them to the dead-letter table, "quarantine" also those on which a later step fails (in Python
      or in SQL), "skip" drops and counts them.
    - `name` (str, default: the kind of source): the name of the step; offsets are stored under it.
    """

    draft: Draft

    def from_array(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        schema: Schema | None = None,
        bad_records: str | BadRecords = BadRecords.FAIL,
        name: str = "array",
    ) -> DataStream:
        """Rows given in the program; a bounded source.

        Typical uses: examples, tests, small fixed inputs.

        - `rows` (iterable of dicts): the rows; at least one if there is no `schema`.
        - `schema` (default: inferred from the rows).
        - `bad_records` (default "fail"): with "quarantine" a row on which a step fails becomes a dead letter.
        - `name` (str, default "array").

        >>> from rs_assets.testing import run_rows
        >>> pages = StreamBuilder.data_stream("docs", "array").from_array([{"page": "/a", "ms": 12}, {"page": "/b"}])
        >>> run_rows(pages)
        [{'page': '/a', 'ms': 12}, {'page': '/b', 'ms': None}]
        """
        policy = BadRecords.of(bad_records)
        return self._begin(
            ArraySource(name=name, rows=tuple(rows), schema=schema_text(schema, step=name), policy=policy)
        )

    def from_memory(
        self, channel: MemoryChannel, *, bad_records: str | BadRecords = BadRecords.FAIL, name: str = "memory"
    ) -> DataStream:
        """Rows that the program puts into `channel` at any time; bounded once the channel is closed.

        Typical uses: tests, a pipeline inside another program.

        - `channel` (MemoryChannel): it must have a schema.
        - `bad_records` (default "fail"): with "quarantine" a row on which a step fails becomes a dead letter.
        - `name` (str, default "memory").

        >>> from rs_assets import MemoryChannel
        >>> from rs_assets.testing import run_rows
        >>> channel = MemoryChannel(schema="page string, ms bigint")
        >>> hits = StreamBuilder.data_stream("docs", "memory").from_memory(channel)
        >>> run_rows(hits.filter("ms > 100"), [{"page": "/a", "ms": 12}, {"page": "/b", "ms": 120}])
        [{'page': '/b', 'ms': 120}]
        """
        policy = BadRecords.of(bad_records)
        return self._begin(MemorySource(name=name, channel=channel, policy=policy))

    def from_file(
        self,
        path: str | PathLike[str],
        format: Format | None = None,  # noqa: A002  the name is fixed by the public surface
        *,
        schema: Schema | None = None,
        tail: bool = False,
        pattern: str | None = None,
        time_format: str | None = None,
        header: bool = True,
        delimiter: str = ",",
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_files_per_batch: int | None = None,
        max_rows_per_batch: int | None = None,
        name: str = "file",
    ) -> DataStream:
        """Rows from a file, a directory or a glob.

        Typical uses: logs that grow, files that arrive in a folder, exports of another system. A single file without
        `tail` is bounded; a directory, a glob and `tail=True` are unbounded. Files that end in .gz or .zst are
        decompressed.

        - `path` (str or Path): a file, a directory or a glob; relative to the project's folder. Or an address in an
          object store, of JSON or Parquet, with a `schema` (docs/object_stores.md).
        - `format` (default by the ending: "csv", "parquet", else "json"): "json" has a record a line. "text" gives the
          field `value`, or with `pattern` a field a group. "csv" and "parquet" are matched by column name: unknown
          columns are ignored, a missing column is an error.
        - `schema` (default: inferred from a sample at the first start, then pinned).
        - `tail` (bool, default False): follow files as they grow.
        - `pattern` (str, default None): for "text", a regular expression with named groups, which are cast to `schema`.
        - `time_format` (str, default None): for `pattern`, the pattern of timestamps.
        - `header` (bool, default True): whether CSV files begin with a header; columns are matched by the header of
          each file.
        - `delimiter` (str, default ","): the character between the values of CSV.
        - `bad_records` (default "fail").
        - `max_files_per_batch` (int, default None: no limit); the oldest files first, of the same millisecond by name.
        - `max_rows_per_batch` (int, default None: no limit).
        - `name` (str, default "file").

        >>> from rs_assets.testing import run_rows
        >>> source = StreamBuilder.data_stream("docs", "hits")
        >>> hits = source.from_file("hits.jsonl", schema="page string, ms bigint", bad_records="dead_letter")
        >>> run_rows(hits.filter("ms > 100"), [{"page": "/a", "ms": 12}, {"page": "/b", "ms": 120}])
        [{'page': '/b', 'ms': 120}]
        """
        chosen = format_by_name(str(fspath(path))) if format is None else format
        if is_remote(fspath(path)):
            given = {
                "tail": tail,
                "pattern": pattern,
                "time_format": time_format,
                "max_files_per_batch": max_files_per_batch,
            }
            declared = schema_text(schema, step=name)
            source = stored_files(fspath(path), chosen, declared, max_rows_per_batch, given, step=name)
            return self.from_source(source, schema=schema, bad_records=bad_records, name=name)
        return self._begin(
            FileSource(
                name=name,
                path=fspath(path),
                format=chosen,
                schema=schema_text(schema, step=name),
                tail=tail,
                pattern=pattern,
                time_format=time_format,
                header=header,
                delimiter=delimiter,
                policy=BadRecords.of(bad_records),
                max_files_per_batch=max_files_per_batch,
                max_rows_per_batch=max_rows_per_batch,
            )
        )

    def from_kafka(
        self,
        bootstrap_servers: str | KafkaCluster,
        topic: str | None = None,
        *,
        topics: Sequence[str] = (),
        pattern: str | None = None,
        group: str | None = None,
        format: KafkaFormat = "json",  # noqa: A002  the name is fixed by the public surface
        schema: Schema | None = None,
        starting_offsets: StartingOffsets = "earliest",
        metadata: Sequence[str] = (),
        key_schema: Schema | None = None,
        key_format: KeyFormat = "text",
        bad_records: str | BadRecords = BadRecords.FAIL,
        dead_letter_topic: str | None = None,
        on_data_loss: DataLoss = "fail",
        tombstones: Tombstones = "skip",
        isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
        max_rows_per_batch: int | None = 1_000_000,
        min_partitions: int | None = None,
        registry: str | SchemaRegistry | None = None,
        schema_id: int | None = None,
        descriptor: Descriptor | None = None,
        message: str | None = None,
        options: Mapping[str, str] | None = None,
        name: str = "kafka",
    ) -> DataStream:
        """Records of Kafka topics; an unbounded source. Splits are partitions; new partitions are found while it runs.

        Typical uses: events of services, change streams, the output of another pipeline. See docs/kafka.md.

        - `bootstrap_servers` ("host:port", Dagster's `EnvVar`, or a `KafkaCluster` with its login).
        - `topic` (str), `topics` (sequence of str) or `pattern` (str, a regular expression): the topics to read.
        - `group` (str, default None): committed offsets are also written to this consumer group, so that Kafka's tools
          show the lag. Starts do not read them, except for "committed".
        - `format` (default "json"): "json" and "avro" give the fields of `schema`. "confluent_avro" is Avro with the
          header of a schema registry; "avro" has that header too if there is a `registry`. "protobuf" gives the fields
          of `schema`, or those of `message`; it has the header with a `registry` or a `schema_id`. "text" gives the
          field `value`. "raw" gives key, value (binary), headers, topic, partition, offset and timestamp.
        - `schema` (default: for "json" inferred from the first records, then pinned): for Avro also a record in Avro's
          own JSON.
        - `registry` ("http://host:8081", or a `SchemaRegistry` with its login; default None): each Avro record is read
          by the schema that it was written with, and resolved to `schema`. One whose schema is unknown, or cannot be
          resolved, is a bad record. So is each Protobuf record.
        - `schema_id` (int, default None): without a registry, the id of `schema`. Records with another id are bad.
        - `descriptor` (bytes or a path, default None): the messages of Protobuf records, as `protoc
          --include_imports --descriptor_set_out=orders.desc` writes them. Fields are then read by their numbers, and
          otherwise by the names that they have in the registry.
        - `message` (str, default: any): the message of Protobuf records with its package, "shop.Order". Others are bad.
        - `starting_offsets` (default "earliest"): used at the first start only. "earliest", "latest", "committed" (of
          `group`), a datetime, or {"topic": {0: 17}} with the earliest offset for partitions that are left out.
        - `metadata` (sequence of "key", "topic", "partition", "offset", "timestamp", "headers", "tombstone", default
          none): adds the fields `kafka_key` (text), `kafka_topic`, ... to all formats but "raw". `kafka_tombstone` is
          true for a record without a value, if those are kept.
        - `key_schema` (default None): the fields of the record's key, added as `kafka_key_NAME`, null without a key. A
          key that does not fit makes a bad record. For all formats but "raw".
        - `key_format` (default "text"): the key is the "text" of the one field, or a "json" object of all fields.
        - `bad_records` (default "fail").
        - `dead_letter_topic` (str, default None): bad records are also sent there unchanged, with Kafka Streams'
          headers `__streams.errors.*`.
        - `on_data_loss` (default "fail"): what to do if records were deleted before they were read. "continue" goes on
          and writes the lost range into the catalog's operations.
        - `tombstones` (default "skip"): records without a value are dropped ("skip"), become rows of nulls ("keep") or
          are bad records ("bad").
        - `isolation` (default "read_committed"): "read_uncommitted" also reads records of aborted transactions.
        - `max_rows_per_batch` (int, records, default 1,000,000; None: no limit).
        - `min_partitions` (int, default None): Spark reads partitions in parts, in parallel; records of a partition
          lose their order.
        - `options` (dict, default none): settings of the consumer by their Java names, {"fetch.min.bytes": "100000"}.
        - `name` (str, default "kafka").

        >>> from rs_assets.testing import run_rows
        >>> shop = StreamBuilder.data_stream("docs", "totals")
        >>> orders = shop.from_kafka("localhost:9092", "orders", group="totals", schema="id bigint, ms bigint")
        >>> slow = orders.filter("ms > 100")
        >>> run_rows(slow, [{"id": 1, "ms": 12}, {"id": 2, "ms": 120}])
        [{'id': 2, 'ms': 120}]
        >>> print(slow.to_print().build().describe())
        docs.totals  fingerprint ...
          kafka     kafka_source  [json orders]
          filter_1  filter <- kafka  [ms > 100]
          print     print_sink <- filter_1
        """
        protobuf, fields = message_read(format, descriptor, message, step=name), schema_text(schema, step=name)
        if fields is None and protobuf is not None and protobuf.files:
            fields = protobuf.schema(step=name)
        node = KafkaSource(
            name=name,
            cluster=KafkaCluster.of(bootstrap_servers),
            topics=(*((topic,) if topic is not None else ()), *one_or_more(topics)),
            pattern=pattern,
            group=group,
            format=format,
            schema=fields,
            starting=starting_offsets,
            metadata=one_or_more(metadata),
            key_schema=schema_text(key_schema, step=name),
            key_format=key_format,
            policy=BadRecords.of(bad_records),
            dead_letter_topic=dead_letter_topic,
            on_data_loss=on_data_loss,
            tombstones=tombstones,
            read_committed=_read_committed(isolation),
            max_rows_per_batch=max_rows_per_batch,
            min_partitions=min_partitions,
            registry=None if registry is None else SchemaRegistry.of(registry),
            schema_id=schema_id,
            protobuf=protobuf,
            options=dict(options or {}),
        )
        return self._begin(node)

    def from_rocketmq(
        self,
        name_server: str | RocketMQCluster,
        topic: str,
        *,
        group: str | None = None,
        tags: str = "*",
        sql: str | None = None,
        format: RocketmqFormat = "json",  # noqa: A002  as in from_kafka
        schema: Schema | None = None,
        starting_offsets: RocketmqStart = "earliest",
        metadata: Sequence[str] = (),
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_rows_per_batch: int | None = 1_000_000,
        name: str = "rocketmq",
    ) -> DataStream:
        """Messages of a RocketMQ topic, exactly once while the brokers keep them; an unbounded source.

        Typical uses: events of services, the output of another pipeline. Splits are queues; their offsets are stored
        with the checkpoint, and new queues are found while it runs. See docs/rocketmq.md.

        - `name_server` ("host:port", several as "host:port;host:port", Dagster's `EnvVar`, or a `RocketMQCluster` with
          its login).
        - `topic` (str).
        - `group` (str, default None): committed offsets are also written to this consumer group, so that RocketMQ's
          tools show the lag. Starts do not read them, except for "committed".
        - `tags` (str, default "*": all messages): "a || b" selects messages by their tag, at the brokers.
        - `sql` (str, default None): a condition of SQL92 over the properties of messages, at the brokers, which need
          `enablePropertyFilter=true`: "n > 3 AND TAGS = 'a'".
        - `format` (default "json"): "json" gives the fields of `schema`, "text" the field `value`, "raw" the fields
          value (binary), key, tags, properties, topic, broker, queue, offset and timestamp.
        - `schema` (default: inferred from the first messages, then pinned).
        - `starting_offsets` (default "earliest"): used at the first start only. "earliest", "latest", "committed" (of
          `group`), or a datetime, compared with the time at which a broker stored a message.
        - `metadata` (sequence of "key", "tags", "topic", "broker", "queue", "offset", "timestamp", "properties";
          default none): adds the fields `rocketmq_key`, `rocketmq_tags`, ... to all formats but "raw". `timestamp` is
          the time of sending.
        - `bad_records` (default "fail").
        - `max_rows_per_batch` (int, messages before a filter, default 1,000,000; None: no limit).
        - `name` (str, default "rocketmq").

        SourceReadError before the start if there is no such topic, DataLossError if messages were deleted before they
        were read.

        >>> from rs_assets.testing import run_rows
        >>> shop = StreamBuilder.data_stream("docs", "orders")
        >>> orders = shop.from_rocketmq("localhost:9876", "orders", tags="paid", schema="id bigint, ms bigint")
        >>> slow = orders.filter("ms > 100")
        >>> run_rows(slow, [{"id": 1, "ms": 12}, {"id": 2, "ms": 120}])
        [{'id': 2, 'ms': 120}]
        >>> print(slow.to_print().build().describe())
        docs.orders  fingerprint ...
          rocketmq  rocketmq_source  [json orders tags paid]
          filter_1  filter <- rocketmq  [ms > 100]
          print     print_sink <- filter_1
        """
        return self._begin(
            RocketmqSource(
                name=name,
                cluster=RocketMQCluster.of(name_server),
                topic=topic,
                group=group,
                tags=tags,
                sql=sql,
                format=format,
                schema=schema_text(schema, step=name),
                starting=starting_offsets,
                metadata=one_or_more(metadata),
                policy=BadRecords.of(bad_records),
                max_rows_per_batch=max_rows_per_batch,
            )
        )

    def from_sqlite(
        self,
        path: str | PathLike[str],
        table: str,
        *,
        schema: Schema | None = None,
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_rows_per_batch: int | None = 100_000,
        name: str = "sqlite",
    ) -> DataStream:
        """Rows of an SQLite table, exactly once, in the order of its INTEGER PRIMARY KEY; an unbounded source.

        Typical uses: an outbox table, a log that another program inserts into. Rows must only be added: rows that were
        read are not read again, and new rows need greater keys than all earlier ones (AUTOINCREMENT ensures that). The
        table is one split; its offset is the key of the last row. One task reads a batch, so all workers must see the
        file.

        - `path` (str or Path): the database.
        - `table` (str).
        - `schema` (default: that of the table at the first start): may name some of the columns. A value that is not of
          its field's type makes the row a bad record.
        - `bad_records` (default "fail").
        - `max_rows_per_batch` (int, rows, default 100,000; None: no limit).
        - `name` (str, default "sqlite").

        SourceReadError if the table or its key is missing, DataLossError if rows of a planned batch are gone.

        >>> source = StreamBuilder.data_stream("shop", "copy").from_sqlite("shop.db", "orders", schema="id bigint")
        >>> print(source.to_sqlite("copy.db", "orders").build().describe())
        shop.copy  fingerprint ...
          sqlite        sqlite_source  [orders]
          orders_table  sqlite_sink <- sqlite  [orders]
        """
        return self._begin(
            SqliteSource(
                name=name,
                path=fspath(path),
                table=table,
                schema=schema_text(schema, step=name),
                policy=BadRecords.of(bad_records),
                max_rows_per_batch=max_rows_per_batch,
            )
        )

    def from_delta(
        self,
        table: str | PathLike[str],
        *,
        schema: Schema | None = None,
        changes: bool = False,
        starting_version: int | None = None,
        bad_records: str | BadRecords = BadRecords.FAIL,
        name: str = "delta",
    ) -> DataStream:
        """Rows of a Delta table, exactly once: first the existing rows, then added ones; an unbounded source.

        Typical uses: a pipeline after another one, a table that Spark jobs append to. A batch is whole versions of the
        table; compactions give no rows. A version that changes or removes rows ends the run with SourceReadError,
        except with `changes=True`.

        - `table` (str or Path): as for `to_delta`: a plain name is a table of the namespace in RS_HOME, others are
          paths, or addresses in S3 (docs/object_stores.md), which need `rs-assets setup --s3`.
        - `schema` (default: that of the table at the first start): may name some of the columns. Only with it does
          `.build()` check the fields of later steps.
        - `changes` (bool, default False): read the change feed (`delta.enableChangeDataFeed`) from its first version
          on; rows also have `_change_type` (insert, update_preimage, update_postimage, delete), `_commit_version` and
          `_commit_timestamp`.
        - `starting_version` (int, default None: all): skip older versions.
        - `bad_records` (default "fail").
        - `name` (str, default "delta").

        >>> from rs_assets.testing import run_rows
        >>> shop = StreamBuilder.data_stream("shop", "large")
        >>> paid = shop.from_delta("paid", schema="country string, amount double")
        >>> large = paid.filter("amount > 1000")
        >>> run_rows(large, [{"country": "DE", "amount": 12.5}, {"country": "FR", "amount": 1200.0}])
        [{'country': 'FR', 'amount': 1200.0}]
        >>> print(large.to_delta("large").build().describe())
        shop.large  fingerprint ...
          delta        delta_source  [paid]
          filter_1     filter <- delta  [amount > 1000]
          large_table  delta_sink <- filter_1  [append large]
        """
        return self._begin(
            DeltaSource(
                name=name,
                namespace=self.draft.namespace,
                table=fspath(table),
                schema=schema_text(schema, step=name),
                changes=changes,
                starting=starting_version,
                policy=BadRecords.of(bad_records),
            )
        )

    def from_source(
        self,
        source: object,
        *,
        schema: Schema | None = None,
        bad_records: str | BadRecords = BadRecords.FAIL,
        name: str | None = None,
    ) -> DataStream:
        """Rows of a source of your own: an object of a class derived from `LogSource` or `PollingSource`, say.

        `rs_assets.sources` has these classes and says what is called when. The object must be picklable and hold no
        connection. `schema` is DDL text; left out it is the attribute `schema` of the object. `name` is by default its
        attribute `name`, else made of the name of its class. A row that does not fit the schema is a bad record, for
        `bad_records`. `bounded = True` in its class says that it ends.

        >>> from rs_assets.sources import LogSource
        >>> class Sensor(LogSource):
        ...     def ends(self):
        ...         return {"a": 10}
        ...
        ...     def read(self, split, start, end):
        ...         return ({"ms": n} for n in range(start, end))
        >>> StreamBuilder.data_stream("shop", "own").from_source(Sensor(), schema="ms bigint").to_print().build().name
        'shop.own'
        """
        step = name or getattr(source, "name", "") or name_of_class(type(source))
        policy = BadRecords.of(bad_records)
        text = schema_text(schema, step=step)
        return self._begin(CustomSource(name=step, source=source, schema=text, policy=policy))

    def _begin(self, source: Source) -> DataStream:
        return DataStream(self.draft, self.draft.add(source))


def name_of_class(kind: type) -> str:
    """A name for a step by its class.

    >>> name_of_class(StreamBuilder)
    'stream_builder'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower().strip("_")


def stored_files(
    address: str, form: str, schema: str | None, rows: int | None, given: Mapping[str, object], *, step: str
) -> LogSource:
    """The source of files in an object store; TopologyError for what only files of a file system can."""
    from rs_assets.connectors.files.stored import StoredFiles

    if form not in ("json", "parquet"):
        raise TopologyError(
            f"step {step!r}: files of the format {form} are not read from {address}",
            remedy="write them as JSON lines or Parquet, or copy them to a file system",
            step=step,
        )
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise TopologyError(f"step {step!r}: {wrong[0]} does not go with {address}", remedy="leave it out", step=step)
    made = StoredFiles(address, form, schema)
    made.max_rows_per_batch = rows or made.max_rows_per_batch
    return made


def _read_committed(isolation: object) -> bool:
    if isolation not in ("read_committed", "read_uncommitted"):
        raise TopologyError(
            f"isolation= must be 'read_committed' or 'read_uncommitted', not {isolation!r}",
            remedy="use 'read_committed' or 'read_uncommitted'",
        )
    return isolation == "read_committed"
