"""Sinks of a table: each holds exactly its current rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING, Literal, Self

from rs_assets.common.names import one_or_more
from rs_assets.common.secrets import Deferred, Secret
from rs_assets.connectors.delta.nodes import DeltaSink, KeyedMode, OnNewFields
from rs_assets.connectors.http.endpoint import HttpEndpoint
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.nodes import (
    Delivery,
    Descriptor,
    KafkaSink,
    KeyFormat,
    WrittenRecords,
    avro_subject,
    protobuf_subject,
)
from rs_assets.connectors.kafka.registry.address import SchemaRegistry
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.errors import TopologyError
from rs_assets.stream.draft import Draft, name_from

if TYPE_CHECKING:
    from rs_assets.common.node import Node
    from rs_assets.stream.data_stream import DataStream


class TableSinks:
    """The sinks of a table; part of `Table`. `name` (default: from the target) is the name of the sink's step."""

    __slots__ = ()

    draft: Draft
    step: str
    keys: tuple[str, ...]

    if TYPE_CHECKING:

        def to_stream(self, *, name: str | None = None) -> DataStream:
            """As in `Table`."""

    def to_delta(
        self,
        table: str | PathLike[str],
        *,
        mode: KeyedMode = "upsert",
        partition_by: Sequence[str] = (),
        change_feed: bool = False,
        added_columns: OnNewFields = "fail",
        name: str | None = None,
    ) -> Self:
        """Hold the current rows in a Delta table, or their history, exactly once.

        - `table` (str or Path): a name in RS_HOME, or a path.
        - `mode` (default "upsert"): the current rows; or "history": each row that a batch left, with the columns
          `valid_from` and `valid_to` (when batches were written; null: still valid) and `current`.
        - `partition_by` (sequence of str, default none): the partitions of a new table.
        - `change_feed` (bool, default False): a new table has a change feed, from which other pipelines read which rows
          were inserted, updated and deleted: `from_delta(table, changes=True)`. Such a table writes more files.
        - `added_columns` ("fail" or "add", default "fail"): what becomes of fields that an existing table lacks. "add"
          makes them columns, null in earlier rows; columns that the rows lack are null. Types do not change.
        - `name` (str, default: the table's name and `_table`).

        >>> from rs_assets import StreamBuilder
        >>> users = StreamBuilder.data_stream("shop", "users").from_array([{"id": 1, "tier": "free"}]).to_table("id")
        >>> pipeline = users.to_delta("tiers").build()
        >>> pipeline.try_([{"id": 1, "tier": "free"}, {"id": 1, "tier": "paid"}])
        {'tiers_table': [{'id': 1, 'tier': 'paid'}]}
        """
        where = fspath(table)
        node = DeltaSink(
            name=name or name_from(where, suffix="table"),
            inputs=(self.step,),
            table=where,
            mode=mode,
            keys=self.keys,
            changes=True,
            partition_by=one_or_more(partition_by),
            change_feed=change_feed,
            added_columns=added_columns,
        )
        return self._sink(node)

    def to_kafka(
        self,
        bootstrap_servers: str | KafkaCluster,
        topic: str,
        *,
        key_format: KeyFormat = "text",
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
        """Write a compacted topic: the newest row of each key as JSON, and a tombstone for a key that goes.

        Typical uses: the table for other services, for Kafka Streams as a `KTable`, for Flink as `upsert-kafka`. A
        batch sends one record for each key that changed.

        - `bootstrap_servers` ("host:port", Dagster's `EnvVar`, or a `KafkaCluster`).
        - `topic` (str): must exist, with `cleanup.policy=compact`, unless all records are to be kept.
        - `key_format` (default "text"): "text" is the value of the key, of which there must be one; "json" is a JSON
          object of all keys.
        - `format`, `registry`, `subject`, `schema`, `descriptor`, `message`, `delivery`, `options`: as for
          `DataStream.to_kafka`. A batch that is sent again leaves the same table.
        - `name` (str, default: the topic and `_topic`).

        >>> from rs_assets import StreamBuilder
        >>> users = StreamBuilder.data_stream("shop", "users").from_array([{"id": 1, "tier": "free"}]).to_table("id")
        >>> print(users.to_kafka("localhost:9092", "tiers").build().describe())
        shop.users  fingerprint ...
          array        array_source  [1 row]
        * table        to_table <- array  [by id]
          tiers_topic  kafka_sink <- table  [at least once to tiers, time: the clock]
        """
        step = name or name_from(topic, suffix="topic")
        if key_format == "text" and len(self.keys) != 1:
            raise TopologyError(
                f"step {step!r}: the key of the table is {', '.join(self.keys)}, and the text of a record's key is one",
                remedy="key_format='json'",
                step=step,
            )
        return self._sink(
            KafkaSink(
                name=step,
                inputs=(self.step,),
                cluster=KafkaCluster.of(bootstrap_servers),
                topic=topic,
                key=self.keys[0] if key_format == "text" else None,
                keys=self.keys if key_format == "json" else (),
                changes=True,
                avro=avro_subject(format, registry, subject, schema, topic=topic, step=step),
                protobuf=protobuf_subject(
                    format, registry, subject, schema, descriptor, message, topic=topic, step=step
                ),
                delivery=delivery,
                options=dict(options or {}),
            )
        )

    def to_database(self, url: Secret, table: str, *, name: str | None = None) -> Self:
        """Hold the current rows in a table of Postgres or another database, exactly once.

        - `url`, `table`: as for `DataStream.to_database`. The key of the table is that of the rows.
        - `name` (str, default: the table's name and `_table`).

        >>> from rs_assets import StreamBuilder
        >>> users = StreamBuilder.data_stream("shop", "users").from_array([{"id": 1, "tier": "free"}]).to_table("id")
        >>> print(users.to_database("sqlite:///shop.db", "tiers").build().describe())
        shop.users  fingerprint ...
          array        array_source  [1 row]
        * table        to_table <- array  [by id]
          changes_1    table_changes <- table  [by id]
          tiers_table  database_sink <- changes_1  [upsert ...]
        """
        self.to_stream().to_database(url, table, mode="upsert", keys=list(self.keys), deletes="retracted", name=name)
        return self

    def to_search(self, url: str | Deferred | HttpEndpoint, index: str, *, name: str | None = None) -> Self:
        """Hold the current rows in an index of OpenSearch or Elasticsearch, not atomically: a document for each key.

        - `url`, `index`: as for `DataStream.to_search`. The key of the table is that of the documents.
        - `name` (str, default: the index and `_index`).

        >>> from rs_assets import StreamBuilder
        >>> users = StreamBuilder.data_stream("shop", "users").from_array([{"id": 1, "tier": "free"}]).to_table("id")
        >>> print(users.to_search("http://localhost:9200", "tiers").build().describe())
        shop.users  fingerprint ...
          array        array_source  [1 row]
        * table        to_table <- array  [by id]
          changes_1    table_changes <- table  [by id]
          tiers_index  search_sink <- changes_1  [upsert http://localhost:9200/tiers but retracted]
        """
        self.to_stream().to_search(url, index, mode="upsert", keys=list(self.keys), deletes="retracted", name=name)
        return self

    def to_redis(
        self,
        url: Secret,
        *,
        prefix: str,
        structure: Literal["hash", "string"] = "hash",
        value: str | None = None,
        ttl: timedelta | None = None,
        name: str | None = None,
    ) -> Self:
        """Hold the current rows in hashes or strings of Redis, exactly once; a row that goes removes its key.

        - `url`, `prefix`, `structure`, `value`, `ttl`: as for `DataStream.to_redis`. The key is that of the table.
        - `name` (str, default: the prefix and `_redis`).

        >>> from rs_assets import StreamBuilder
        >>> users = StreamBuilder.data_stream("shop", "users").from_array([{"id": 1, "tier": "free"}]).to_table("id")
        >>> print(users.to_redis("redis://cache", prefix="tier:").build().describe())
        shop.users  fingerprint ...
          array       array_source  [1 row]
        * table       to_table <- array  [by id]
          changes_1   table_changes <- table  [by id]
          tier_redis  redis_sink <- changes_1  [hash redis://cache:6379/0 tier:{id}]
        """
        self.to_stream().to_redis(
            url,
            prefix=prefix,
            structure=structure,
            key=self.keys,
            value=value,
            deletes="retracted",
            ttl=ttl,
            name=name,
        )
        return self

    def serve(self, store: str, *, name: str | None = None) -> Self:
        """Hold the current rows in a store for queries, exactly once, in the order of the table's keys.

        Typical uses: lookups by an application or by HTTP while the stream runs. See docs/queries.md.

        - `store` (str): its name; `pipeline.query(store)` reads it.
        - `name` (str, default: the store's name and `_store`).

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, RunOptions, StreamBuilder
        >>> rows = [{"id": 1, "tier": "free"}, {"id": 2, "tier": "free"}, {"id": 1, "tier": "paid"}]
        >>> users = StreamBuilder.data_stream("docs", "tiers").from_array(rows).to_table("id")
        >>> pipeline = users.serve("tiers").build()
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     answer = pipeline.query("tiers", options).range(1, 2)
        >>> answer.rows, answer.batch
        ([{'id': 1, 'tier': 'paid'}, {'id': 2, 'tier': 'free'}], 0)
        """
        node = StoreSink(
            name=name or name_from(store, suffix="store"),
            inputs=(self.step,),
            store=store,
            keys=self.keys,
            changes=True,
        )
        return self._sink(node)

    def _sink(self, node: Node) -> Self:
        """This table, with a sink."""
        return replace(self, step=self.draft.add_sink(self.step, node))  # type: ignore[type-var]
