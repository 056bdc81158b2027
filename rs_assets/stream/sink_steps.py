"""Sinks: each adds an output to a stream and returns the same stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING, Self

from rs_assets.common.names import one_or_more
from rs_assets.common.secrets import Deferred, Secret
from rs_assets.connectors.console.nodes import PrintSink
from rs_assets.connectors.database.nodes import DatabaseMode, DatabaseSink
from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions
from rs_assets.connectors.delta.nodes import DeltaConnector, DeltaMode, DeltaSink, OnNewFields
from rs_assets.connectors.files.form import Compression, FileForm, WrittenFormat
from rs_assets.connectors.files.nodes import FileSink
from rs_assets.connectors.http.endpoint import HttpEndpoint
from rs_assets.connectors.http.nodes import BodyFormat, HttpSink, Method, Refused
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.nodes import (
    Delivery,
    Descriptor,
    KafkaSink,
    WrittenRecords,
    avro_subject,
    protobuf_subject,
)
from rs_assets.connectors.kafka.registry.address import SchemaRegistry
from rs_assets.connectors.memory.nodes import MemorySink
from rs_assets.connectors.mqtt.broker import MqttBroker, MqttVersion
from rs_assets.connectors.mqtt.nodes import MqttSink
from rs_assets.connectors.mqtt.nodes import Refused as MqttRefused
from rs_assets.connectors.own.nodes import WriterSink
from rs_assets.connectors.redis.nodes import RedisMode, RedisSink, RedisStructure
from rs_assets.connectors.rocketmq.client.cluster import RocketMQCluster
from rs_assets.connectors.rocketmq.nodes import RocketmqSink
from rs_assets.connectors.search.index import IndexName
from rs_assets.connectors.search.nodes import Flavour, SearchMode, SearchSink
from rs_assets.connectors.sqlite.nodes import SqliteSink
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.stream.draft import Draft, name_from
from rs_assets.topology.record_time import times_of

if TYPE_CHECKING:
    from rs_assets.common.node import Node
    from rs_assets.connectors.memory import MemoryChannel
    from rs_assets.connectors.sink import SinkWriter


class SinkSteps:
    """The sinks of a stream; part of `DataStream`. `name` (default: from the target) is the name of the sink's step."""

    __slots__ = ()

    step: str
    draft: Draft

    def to_print(self, *, max_rows: int = 20, name: str = "print") -> Self:
        """Show each batch as a table on standard output.

        Typical uses: a first look, debugging.

        - `max_rows` (int, rows of each batch, default 20).
        - `name` (str, default "print").

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("docs", "shown").from_array([{"page": "/a"}])
        >>> print(hits.to_print(max_rows=5).build().describe())
        docs.shown  fingerprint ...
          array  array_source  [1 row]
          print  print_sink <- array
        """
        return self._sink(PrintSink(name=name, inputs=(self.step,), max_rows=max_rows))

    def to_file(
        self,
        path: str | PathLike[str],
        format: WrittenFormat = "json",  # noqa: A002  the name is fixed by the public surface
        *,
        compression: Compression | None = None,
        partition_by: Sequence[str] = (),
        header: bool = True,
        delimiter: str = ",",
        name: str | None = None,
    ) -> Self:
        """Write files below `path`, exactly once: one folder a batch, made visible by one rename.

        Typical uses: files for programs that cannot read Delta. docs/sinks.md has what each format keeps of a value.

        - `path` (str or Path): a folder.
        - `format` (default "json"): "json" has a record a line, "csv" and "parquet" have columns; "text" has the texts
          of the only field, a line each.
        - `compression` (default: none, for "parquet" Spark's): "gzip" or "zstd"; for "parquet" also "snappy"; "none".
        - `partition_by` (sequence of str, default none): fields that become folders `name=value` within that of a
          batch, as Spark and Hive name them. The files do not have these fields.
        - `header` (bool, default True): whether each CSV file begins with the names of its columns.
        - `delimiter` (str, default ","): the character between the values of CSV.
        - `name` (str, default: the last part of the path and `_files`).

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("docs", "files").from_array([{"page": "/a", "day": "2024-03-01"}])
        >>> print(hits.to_file("/data/out").to_file("/data/days", "csv", partition_by=["day"]).build().describe())
        docs.files  fingerprint ...
          array       array_source  [1 row]
          out_files   file_sink <- array  [/data/out]
          days_files  file_sink <- array  [csv, partitioned by day /data/days]
        """
        where = fspath(path)
        form = FileForm(
            format=format,
            compression=compression,
            partition_by=one_or_more(partition_by),
            header=header,
            delimiter=delimiter,
        )
        named = name or name_from(where, suffix="files")
        return self._sink(FileSink(name=named, inputs=(self.step,), path=where, form=form))

    def to_delta(
        self,
        table: str | PathLike[str],
        *,
        mode: DeltaMode = "append",
        keys: Sequence[str] = (),
        connector: DeltaConnector = "native",
        order_by: Sequence[str] = (),
        deletes: str | None = None,
        time_field: str | None = None,
        partition_by: Sequence[str] = (),
        partitions: EventTimePartitions | None = None,
        change_feed: bool = False,
        added_columns: OnNewFields = "fail",
        name: str | None = None,
    ) -> Self:
        """Write to a Delta table, exactly once.

        Typical uses: results for analysis, tables for other pipelines. A repeated batch changes nothing. See
        docs/sinks.md.

        - `table` (str or Path): a name in RS_HOME, a path, or an address in an object store (docs/object_stores.md).
        - `mode` (default "append"): "append" adds rows. "upsert" replaces the row of the same `keys`. "history"
          keeps each version of it, with the columns `valid_from`, `valid_to` (null: still valid) and `current`.
          "complete" (after a tumbling or hopping window) holds the current rows of all windows.
        - `keys` (sequence of str): the key of an upsert or a history.
        - `connector` ("native" or "jvm", default "native"): the writer.
        - `order_by` (sequence of str, default: the order of reading, newer files and later lines last): of rows with
          equal keys the one that is greatest by these fields stays, whenever it comes.
        - `deletes` (str, default None): a boolean field. Where it is true the row of these keys is deleted. The table
          does not remember deleted rows: an older row that comes later is inserted.
        - `time_field` (str, default None): the time from which a version of a history is valid; rows may come late. Of
          rows with equal keys and times one stays, see `order_by`. None: the time at which the batch is written.
        - `partition_by` (sequence of str, default none): the partitions of a new table.
        - `partitions` (EventTimePartitions, default None): partitions by event time. Each one that the watermark has
          passed is a partition of an asset in Dagster (docs/partitions.md).
        - `change_feed` (bool, default False): a new table has a change feed, from which other pipelines read which rows
          were inserted, updated and deleted: `from_delta(table, changes=True)`. Such a table writes more files.
        - `added_columns` ("fail" or "add", default "fail"): what becomes of fields that an existing table lacks. "add"
          makes them columns, null in earlier rows; columns that the rows lack are null. Types do not change.
        - `name` (str, default: the table's name and `_table`).

        >>> from rs_assets import StreamBuilder
        >>> totals = StreamBuilder.data_stream("docs", "totals").from_array([{"page": "/a", "n": 1}])
        >>> pipeline = totals.to_delta("totals", mode="upsert", keys=["page"]).build()
        >>> pipeline.try_([{"page": "/a", "n": 2}])
        {'totals_table': [{'page': '/a', 'n': 2}]}
        >>> print(pipeline.describe())
        docs.totals  fingerprint ...
          array         array_source  [1 row]
          totals_table  delta_sink <- array  [upsert totals]
        """
        where = fspath(table)
        node = DeltaSink(
            name=name or name_from(where, suffix="table"),
            inputs=(self.step,),
            table=where,
            mode=mode,
            keys=one_or_more(keys),
            connector=connector,
            order_by=one_or_more(order_by),
            deletes=deletes,
            time_field=time_field,
            partition_by=one_or_more(partition_by),
            change_feed=change_feed,
            added_columns=added_columns,
            partitions=partitions,
        )
        return self._sink(node)

    def to_kafka(
        self,
        bootstrap_servers: str | KafkaCluster,
        topic: str | None = None,
        *,
        topic_field: str | None = None,
        key: str | None = None,
        keys: Sequence[str] = (),
        value: str | Sequence[str] | None = None,
        partition: str | None = None,
        headers: str | Mapping[str, str] | None = None,
        timestamp: str | None = None,
        format: WrittenRecords = "json",  # noqa: A002  as in from_kafka
        registry: str | SchemaRegistry | None = None,
        subject: str | None = None,
        schema: str | None = None,
        descriptor: Descriptor | None = None,
        message: str | None = None,
        delivery: Delivery = "at_least_once",
        options: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Self:
        """Write records to `topic`, or to the topic that each row names in `topic_field`. The topics must exist.

        Typical uses: events for services, the input of another pipeline. See docs/kafka.md.

        - `bootstrap_servers` ("host:port", Dagster's `EnvVar`, or a `KafkaCluster`).
        - `topic` (str), or `topic_field` (str): a field with the topic's name.
        - `key` (str, default None): the field of the record's key. It determines the partition as in Java's clients.
        - `keys` (sequence of str, default none): instead of `key`, fields whose JSON object is the record's key.
        - `value` (str, default: a JSON object of all fields): a text or binary field; null is a tombstone. Or
          (sequence of str) the fields of the object.
        - `format` (default "json"): "avro" sends an Avro record, and "protobuf" a Protobuf message, with the header of
          a schema registry.
        - `registry` ("http://host:8081", or a `SchemaRegistry` with its login): for both. The schema is registered
          before the query starts.
        - `subject` (str, default: the topic and `-value`): where it is registered.
        - `schema` (str, default: all fields, each of which may be null): the record in Avro's JSON. Fields of a row
          that it lacks are not sent.
        - `descriptor` (bytes or a path, default: all fields, each of which may be absent): the messages of Protobuf, as
          `protoc --include_imports --descriptor_set_out=orders.desc` writes them. Fields of a row that the message
          lacks are not sent.
        - `message` (str, default "Row"): the message with its package, "shop.Order"; one of `descriptor`, if given.
        - `partition` (str, default None): a field with the number of the partition; null leaves the choice to the key.
        - `headers` (dict, default None): names of headers with their fields, {"trace": "trace_id"}; a null makes no
          header. Or (str) a field that has them all: a map of text, or an array of structs of key and value.
        - `timestamp` (str, default: see below): a timestamp field, the time of the record.
        - `delivery` (default "at_least_once"): "at_least_once" sends from Spark's tasks; a repeated batch is sent
          again. "exactly_once" sends each batch in a transaction that also stores the batch (in the compacted topic
          rs-assets-commits), so readers with `isolation.level=read_committed` see it once. On one machine tasks send it
          in parallel; on a cluster the driver collects it and sends it row by row, so limit the rows of a batch there.
        - `options` (dict, default none): settings of the producer by their Java names, {"compression.type": "gzip"}.
        - `name` (str, default: the topic and `_topic`).

        Without `timestamp` a row of a window has the time of its end (`end_time`); another row has the event time of
        the last step that has one, else the `kafka_timestamp` that it was read with, if these fields still exist and
        are not later than the clock. Otherwise, and for null and times before 1970, it is the time of sending.
        `describe()` names the fields. A topic with `message.timestamp.type=LogAppendTime` has its broker's times.
        Retention counts from the time of a record, so old records are soon deleted.

        SinkError before the start if a topic does not exist, or the registry refuses the schema.

        >>> from rs_assets import StreamBuilder
        >>> stream = StreamBuilder.data_stream("shop", "copy").from_kafka("localhost:9092", "in", format="text")
        >>> print(stream.to_kafka("localhost:9092", "out", value="value", delivery="exactly_once").build().describe())
        shop.copy  fingerprint ...
          kafka      kafka_source  [text in]
          out_topic  kafka_sink <- kafka  [exactly once to out, time: the clock]
        """
        step = name or name_from(topic or str(topic_field), suffix="topic")
        node = KafkaSink(
            name=step,
            inputs=(self.step,),
            cluster=KafkaCluster.of(bootstrap_servers),
            topic=topic,
            topic_field=topic_field,
            key=key,
            keys=one_or_more(keys),
            value=value if isinstance(value, str) else None,
            values=() if value is None or isinstance(value, str) else tuple(value),
            partition=partition,
            headers=headers if isinstance(headers, str) else None,
            header_fields=tuple(headers.items()) if isinstance(headers, Mapping) else (),
            timestamp=timestamp,
            times=times_of(self.draft.leading_to(self.step), self.step),
            avro=avro_subject(format, registry, subject, schema, topic=topic, step=step),
            protobuf=protobuf_subject(format, registry, subject, schema, descriptor, message, topic=topic, step=step),
            delivery=delivery,
            options=dict(options or {}),
        )
        return self._sink(node)

    def to_rocketmq(
        self,
        name_server: str | RocketMQCluster,
        topic: str,
        *,
        key: str | None = None,
        tags: str | None = None,
        value: str | None = None,
        delivery: Delivery = "at_least_once",
        name: str | None = None,
    ) -> Self:
        """Send messages to a RocketMQ topic, at least once or, with one driver, exactly once. The topic must exist.

        Typical uses: events for services, the input of another pipeline. Each batch passes through the driver, so limit
        its rows. It is not atomic: readers see parts of it. See docs/rocketmq.md.

        - `name_server` ("host:port", several as "host:port;host:port", Dagster's `EnvVar`, or a `RocketMQCluster`).
        - `topic` (str).
        - `key` (str, default None): the field of the message's key. It determines the queue as in Java's
          SelectMessageQueueByHash, so messages of a key keep their order.
        - `tags` (str, default None): the field of the message's tag, by which readers select.
        - `value` (str, default: a JSON object of all fields): a text or binary field, the body, never empty.
        - `delivery` (default "at_least_once"): a repeated batch is sent again. "exactly_once" reads back which messages
          of a repeated batch are in the topic, and sends the others. It holds if a batch that is computed again has the
          same rows (no clock, no random numbers); the commit topic `rs-assets-commits-<topic>` is created for it.
        - `name` (str, default: the topic and `_topic`).

        SinkError before the start if the topic does not exist.

        >>> from rs_assets import StreamBuilder
        >>> stream = StreamBuilder.data_stream("shop", "copy").from_rocketmq("localhost:9876", "in", format="text")
        >>> print(stream.to_rocketmq("localhost:9876", "out", value="value").build().describe())
        shop.copy  fingerprint ...
          rocketmq   rocketmq_source  [text in]
          out_topic  rocketmq_sink <- rocketmq  [at least once to out]
        """
        node = RocketmqSink(
            name=name or name_from(topic, suffix="topic"),
            inputs=(self.step,),
            cluster=RocketMQCluster.of(name_server),
            topic=topic,
            key=key,
            tags=tags,
            value=value,
            delivery=delivery,
        )
        return self._sink(node)

    def to_http(
        self,
        url: str | Deferred | HttpEndpoint,
        *,
        method: Method = "POST",
        format: BodyFormat = "json_lines",  # noqa: A002  as in to_file
        batch: int | None = None,
        headers: Mapping[str, Secret] | None = None,
        timeout: timedelta | None = None,
        rows_per_second: float | None = None,
        refused: Refused = "fail",
        name: str | None = None,
    ) -> Self:
        """Send rows to an HTTP service, at least once; once if the service honours the header `Idempotency-Key`.

        Typical uses: webhooks, APIs that take events. The key of a request is made of the pipeline, the batch and the
        rows, so a request that is repeated, after a lost answer or a crash, has the same key. That holds if a batch
        that is computed again has the same rows (no clock, no random numbers). Each batch passes through the driver, so
        limit its rows. See docs/http.md.

        - `url` ("https://host/path", Dagster's `EnvVar`, or an `HttpEndpoint` with its login).
        - `method` (default "POST"): or "PUT" or "PATCH".
        - `format` (default "json_lines"): a JSON object a line; "json_array" is an array of the rows, "json_object" a
          row by itself. Times are ISO 8601 in UTC with microseconds, bytes are Base64.
        - `batch` (int, default 500, for "json_object" 1): the most rows of a request. A request of more than 8 MiB is
          divided.
        - `headers` (dict of str or `EnvVar`, default none): their values are secrets.
        - `timeout` (timedelta, default 30 s): how long a request may take.
        - `rows_per_second` (float, default: no limit).
        - `refused` (default "fail"): rows that the service answers by 400, 413 or 422 end the run; "dead_letter" sends
          them to the dead-letter table. A request that is refused is sent again in halves, until the row is found.
        - `name` (str, default: the last part of the address and `_requests`).

        A service that is away, or answers by 408, 409, 425, 429 or 5xx, is asked again, after the time that it asks for
        (`Retry-After`), for 5 minutes: `patience=` of `HttpEndpoint`. Any other answer ends the run with SinkError.

        >>> from rs_assets import StreamBuilder
        >>> orders = StreamBuilder.data_stream("shop", "hook").from_array([{"id": 1, "ms": 12}])
        >>> print(orders.to_http("https://example.org/orders?key=secret", batch=100).build().describe())
        shop.hook  fingerprint ...
          array            array_source  [1 row]
          orders_requests  http_sink <- array  [POST https://example.org/orders]
        """
        endpoint = HttpEndpoint.of(url, headers, timeout)
        node = HttpSink(
            name=name or name_from(endpoint.where, suffix="requests"),
            inputs=(self.step,),
            endpoint=endpoint,
            method=method,
            format=format,
            batch=(1 if format == "json_object" else 500) if batch is None else batch,
            rows_per_second=rows_per_second,
            refused=refused,
        )
        return self._sink(node)

    def to_search(
        self,
        url: str | Deferred | HttpEndpoint,
        index: str,
        *,
        mode: SearchMode = "append",
        keys: Sequence[str] = (),
        deletes: str | None = None,
        version: str | None = None,
        flavour: Flavour | None = None,
        batch: int = 1_000,
        rows_per_second: float | None = None,
        refused: Refused = "fail",
        name: str | None = None,
    ) -> Self:
        """Write documents to OpenSearch or Elasticsearch, each once but not atomically: readers see parts of a batch.

        Typical uses: full-text search, dashboards. Ids and versions of documents let a batch that is repeated change
        nothing. For "append" that holds if a batch that is computed again has the same rows (no clock, no random
        numbers). Each batch passes through the driver, so limit its rows. See docs/search.md.

        - `url` ("http://host:9200", Dagster's `EnvVar`, or an `HttpEndpoint` with its login).
        - `index` (str): a name, or one by fields: "orders-{ts|yyyy.MM}" (a pattern of Spark's `date_format`, in UTC) or
          "orders-{country}".
        - `mode` (default "append"): "append" adds a document for each row. "upsert" replaces the document of the same
          `keys`; an older batch never replaces a newer one.
        - `keys` (sequence of str): the fields that make the id of an upsert's document. A null key is an error.
        - `deletes` (str, default None): a boolean field that documents do not have. Where it is true the document of
          these keys is deleted: `deletes="retracted"` after steps that retract rows.
        - `version` (str, default None): a whole number that grows with each change of a row, such as `lsn`; the
          document has the row with the greatest one, in whatever order they come. None: the batch that was read last.
        - `flavour` ("opensearch" or "elasticsearch", default None: either): what the server must be.
        - `batch` (int, default 1,000): the most documents of a request, which has at most 8 MiB.
        - `rows_per_second` (float, default: no limit).
        - `refused` (default "fail"): a document that the server refuses ends the run; "dead_letter" sends its row to
          the dead-letter table.
        - `name` (str, default: the index and `_index`).

        SinkError before the start if the server does not answer, or is of the other flavour.

        >>> from rs_assets import StreamBuilder
        >>> orders = StreamBuilder.data_stream("shop", "search").from_array([{"id": 1, "text": "a red hat"}])
        >>> print(orders.to_search("http://localhost:9200", "hats", mode="upsert", keys=["id"]).build().describe())
        shop.search  fingerprint ...
          array       array_source  [1 row]
          hats_index  search_sink <- array  [upsert http://localhost:9200/hats]
        """
        step = name or name_from(index.partition("{")[0].rstrip("-_.") or "documents", suffix="index")
        made = IndexName(index)
        made.check(step=step)
        node = SearchSink(
            name=step,
            inputs=(self.step,),
            endpoint=HttpEndpoint.of(url),
            index=made,
            mode=mode,
            keys=one_or_more(keys),
            deletes=deletes,
            version=version,
            flavour=flavour,
            batch=batch,
            rows_per_second=rows_per_second,
            refused=refused,
        )
        return self._sink(node)

    def to_mqtt(
        self,
        url: str,
        topic: str | None = None,
        *,
        topic_field: str | None = None,
        value: str | None = None,
        qos: int = 1,
        retain: bool = False,
        username: Secret | None = None,
        password: Secret | None = None,
        ca: str | None = None,
        connect_timeout: timedelta = timedelta(seconds=10),
        keep_alive: timedelta = timedelta(seconds=60),
        version: MqttVersion = "3.1.1",
        rows_per_second: float | None = None,
        refused: MqttRefused = "fail",
        name: str = "mqtt_sink",
    ) -> Self:
        """Publish rows to MQTT topics, at least once; with `qos=0` best effort.

        Typical uses: commands to machines, alarms. Each batch passes through the driver, so limit its rows. The driver
        waits for the broker's acknowledgements; messages of a call that were not acknowledged are published again, and
        so is a batch that is repeated. See docs/collectors.md.

        - `url` (str): "mqtt://host:1883", or "mqtts://host:8883" for TLS.
        - `topic` (str), or `topic_field` (str): the topic of all messages, or the field that has it.
        - `value` (str, default: a JSON object of all fields but `topic_field`): a text or binary field, the payload.
        - `qos` (0, 1 or 2, default 1).
        - `retain` (bool, default False): the broker keeps the last message of each topic for new subscribers.
        - `username`, `password`, `ca`, `connect_timeout`, `keep_alive`: as in `from_mqtt`.
        - `version` ("3.1.1" or "5", default "3.1.1"): that of the protocol. Only with 5 and `qos=1` a broker says that
          it has refused a message, as one to a topic that the user may not write; with 3.1.1 it acknowledges and drops
          it.
        - `rows_per_second` (float, default: no limit).
        - `refused` (default "fail"): rows without a topic or a payload, with one that the protocol does not allow, or
          that the broker has refused (version 5), end the run; "dead_letter" sends them to the dead-letter table.
        - `name` (str, default "mqtt_sink").

        A broker that is away is tried again, for about two minutes; then the run ends with SinkError.

        >>> from rs_assets import StreamBuilder
        >>> alarms = StreamBuilder.data_stream("docs", "alarms").from_array([{"machine": 7, "celsius": 91.5}])
        >>> print(alarms.to_mqtt("mqtt://localhost", "plant/alarms", retain=True).build().describe())
        docs.alarms  fingerprint ...
          array      array_source  [1 row]
          mqtt_sink  mqtt_sink <- array  [plant/alarms]
        """
        broker = MqttBroker(
            url=url,
            username=username,
            password=password,
            ca=ca,
            connect_timeout=connect_timeout,
            keep_alive=keep_alive,
            version=version,
        )
        node = MqttSink(
            name=name,
            inputs=(self.step,),
            broker=broker,
            topic=topic,
            topic_field=topic_field,
            value=value,
            qos=qos,
            retain=retain,
            rows_per_second=rows_per_second,
            refused=refused,
        )
        return self._sink(node)

    def to_sqlite(self, path: str | PathLike[str], table: str, *, name: str | None = None) -> Self:
        """Add the rows to an SQLite table, exactly once: a batch and its marker are one transaction.

        Typical uses: a small application, a report. Each batch passes through the driver, so limit its rows. The rows
        cannot be removed again: the pipeline can only go back to a batch after which nothing was written, and a new
        generation is refused until the table is empty.

        - `path` (str or Path): the database; created if it does not exist.
        - `table` (str): created if it does not exist; an existing table may have more columns. Times are text (ISO
          8601, UTC), nested fields JSON.
        - `name` (str, default: the table's name and `_table`).

        >>> from rs_assets import StreamBuilder
        >>> stream = StreamBuilder.data_stream("shop", "late").from_array([{"page": "/a", "ms": 120}])
        >>> print(stream.to_sqlite("shop.db", "slow_pages").build().describe())
        shop.late  fingerprint ...
          array             array_source  [1 row]
          slow_pages_table  sqlite_sink <- array  [slow_pages]
        """
        step = name or name_from(table, suffix="table")
        return self._sink(SqliteSink(name=step, inputs=(self.step,), path=fspath(path), table=table))

    def to_database(
        self,
        url: Secret,
        table: str,
        *,
        mode: DatabaseMode = "append",
        keys: Sequence[str] = (),
        deletes: str | None = None,
        name: str | None = None,
    ) -> Self:
        """Write to a table of Postgres or another database, exactly once: a batch and its mark are one transaction.

        Typical uses: results for an application, a copy of a stream that can be queried. Each batch passes through the
        driver, so limit its rows. A run that was overtaken by another cannot commit. See docs/databases.md.

        - `url` (str, or better Dagster's `EnvVar`): `postgresql://user:password@host:5432/name`, or that of another
          database of SQLAlchemy. It is read at each connection, and never shown.
        - `table` (str): `name` or `schema.name`; created if it does not exist. An existing table may have more columns.
        - `mode` (default "append"): "append" adds rows. "upsert" replaces the row of the same `keys`; for Postgres,
          SQLite, MySQL and MariaDB. An existing table needs a unique index of the keys.
        - `keys` (sequence of str): the key of an upsert. A null key is an error.
        - `deletes` (str, default None): a boolean field without a column. Where it is true the row of these keys is
          deleted: `deletes="retracted"` after steps that retract rows.
        - `name` (str, default: the table's name and `_table`).

        Of the rows of a batch with equal keys the one that was read last is written. Written rows cannot be removed
        again: the pipeline can only go back to a batch after which nothing was written. A new generation replaces rows
        of an upsert, and is refused by "append" until the table is empty.

        ConfigurationError for a malformed URL or a missing driver. SinkError if the database refuses, or if the table
        lacks a column or has one of another type.

        >>> from rs_assets import StreamBuilder
        >>> totals = StreamBuilder.data_stream("shop", "totals").from_array([{"page": "/a", "n": 1}])
        >>> url = "postgresql://app:secret@db:5432/shop"
        >>> print(totals.to_database(url, "totals", mode="upsert", keys=["page"]).build().describe())
        shop.totals  fingerprint ...
          array         array_source  [1 row]
          totals_table  database_sink <- array  [upsert postgresql://db:5432/shop totals]
        """
        from rs_assets.connectors.database.place import hidden, place_of

        step = name or name_from(table.rpartition(".")[2] if isinstance(table, str) else "database", suffix="table")
        node = DatabaseSink(
            name=step,
            inputs=(self.step,),
            url=hidden(url),
            where=place_of(url, table, step=step),
            table=table,
            mode=mode,
            keys=one_or_more(keys),
            deletes=deletes,
        )
        return self._sink(node)

    def to_redis(
        self,
        url: Secret,
        *,
        prefix: str,
        structure: RedisStructure = "hash",
        key: str | Sequence[str] = (),
        mode: RedisMode | None = None,
        value: str | None = None,
        deletes: str | None = None,
        ttl: timedelta | None = None,
        name: str | None = None,
    ) -> Self:
        """Write to hashes, strings or streams of Redis, exactly once: rows and their mark are written by one script.

        Typical uses: results that an application looks up by a key, events for services. Each batch passes through the
        driver, so limit its rows. A batch of many rows is written in parts, which readers see; what a crash leaves
        unfinished is finished first. Not for Redis Cluster. See docs/redis.md.

        - `url` (str, or better Dagster's `EnvVar`): as for `from_redis`.
        - `prefix` (str): the key of a row begins with it, its fields `key` follow: "page:/a".
        - `structure` (default "hash"): "hash" has the fields of the row as texts, "string" a JSON object of them (or
          the field `value`), "stream" gets an entry with the fields of the row. Null fields are left out.
        - `key` (str or sequence of str): the fields of the key, joined by colons; without any, `prefix` names a stream.
        - `mode` (default: "append" for streams, "upsert" else): "upsert" replaces all that the key had.
        - `value` (str, default None): the field that a string has.
        - `deletes` (str, default None): a boolean field that is not written. Where it is true the key is removed:
          `deletes="retracted"` after steps that retract rows.
        - `ttl` (timedelta, default None): how long a hash or a string lives after it was written.
        - `name` (str, default: the prefix and `_redis`).

        Of the rows of a batch with equal keys the one that was read last is written. Written rows cannot be removed
        again: the pipeline can only go back to a batch after which nothing was written. A new generation replaces rows
        of an upsert, and is refused for streams until they are removed. A key that is null is an error.

        >>> from rs_assets import StreamBuilder
        >>> totals = StreamBuilder.data_stream("shop", "totals").from_array([{"page": "/a", "n": 1}])
        >>> print(totals.to_redis("redis://:secret@cache", prefix="page:", key="page").build().describe())
        shop.totals  fingerprint ...
          array       array_source  [1 row]
          page_redis  redis_sink <- array  [hash redis://cache:6379/0 page:{page}]
        """
        from rs_assets.connectors.redis.address import hidden, place_of

        step = name or name_from(prefix.rstrip(":") if isinstance(prefix, str) else "", suffix="redis")
        node = RedisSink(
            name=step,
            inputs=(self.step,),
            url=hidden(url),
            where=place_of(url, step=step),
            structure=structure,
            mode=mode or ("append" if structure == "stream" else "upsert"),
            prefix=prefix,
            keys=one_or_more(key),
            value=value,
            deletes=deletes,
            ttl=ttl,
        )
        return self._sink(node)

    def serve(
        self, store: str, keys: str | Sequence[str], *, deletes: str | None = None, name: str | None = None
    ) -> Self:
        """Hold the newest row of each key in a store for queries, exactly once.

        Typical uses: windows that update, looked up by an application while the stream runs. See docs/queries.md.

        - `store` (str): its name; `pipeline.query(store)` reads it.
        - `keys` (str or sequence of str): plain values. Rows are in their order; null sorts first.
        - `deletes` (str, default None): a boolean field without a column. Where it is true the keys have no row:
          `deletes="retracted"` after steps that retract rows.
        - `name` (str, default: the store's name and `_store`).

        Of the rows of a batch with equal keys the one that was read last is held. The changes of a batch pass through
        the driver. SinkError if the store has the rows of another sink, or other keys.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, RunOptions, StreamBuilder
        >>> totals = StreamBuilder.data_stream("docs", "served").from_array([{"page": "/a", "n": 1}])
        >>> pipeline = totals.serve("totals", "page").build()
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     pipeline.query("totals", options).get("/a").row
        {'page': '/a', 'n': 1}
        """
        node = StoreSink(
            name=name or name_from(store, suffix="store"),
            inputs=(self.step,),
            store=store,
            keys=one_or_more(keys),
            deletes=deletes,
        )
        return self._sink(node)

    def to_memory(self, channel: MemoryChannel, *, name: str = "collect") -> Self:
        """Collect the rows into `channel` of this process.

        Typical uses: tests, a pipeline inside another program.

        - `channel` (MemoryChannel): `take()` returns the rows since the last call, `rows()` all of them.
        - `name` (str, default "collect").

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder
        >>> channel = MemoryChannel()
        >>> hits = StreamBuilder.data_stream("docs", "collected").from_array([{"page": "/a"}])
        >>> with TemporaryDirectory() as folder:
        ...     _ = hits.to_memory(channel).build().run(RunOptions(home=Home.at(folder)))
        >>> channel.take()
        [{'page': '/a'}]
        """
        return self._sink(MemorySink(name=name, inputs=(self.step,), channel=channel))

    def to(self, sink: SinkWriter, *, name: str = "sink") -> Self:
        """Write the rows with an object of your own, which stages and commits batches.

        Typical uses: a system without a sink here. See rs_assets.sinks for the protocols.

        - `sink` (SinkWriter): if it has a method `on_system_message`, it also gets splits and checkpoints in order, and
          can flush first.
        - `name` (str, default "sink").

        >>> from rs_assets import StreamBuilder
        >>> from rs_assets.sinks import Staged
        >>> class Counted:
        ...     name = "counted"
        ...
        ...     def location(self):
        ...         return "memory"
        ...
        ...     def committed(self, mark):
        ...         return False
        ...
        ...     def last_committed(self, mark):
        ...         return None
        ...
        ...     def stage(self, batch, mark):
        ...         rows = batch.count()
        ...         return Staged(lambda: rows)
        >>> hits = StreamBuilder.data_stream("docs", "own").from_array([{"page": "/a"}])
        >>> print(hits.to(Counted()).build().describe())
        docs.own  fingerprint ...
          array  array_source  [1 row]
          sink   writer_sink <- array  [Counted]
        """
        return self._sink(WriterSink(name=name, inputs=(self.step,), writer=sink))

    def _sink(self, node: Node) -> Self:
        raise NotImplementedError
