"""Where a pipeline begins: a namespace, a job, and its sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Literal

from rs_assets.common.names import checked_name
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import Schema, schema_text
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.draft import Draft
from rs_assets.stream.method_hints import Fluent
from rs_assets.topology.nodes.delta import DeltaSource
from rs_assets.topology.nodes.source import (
    ArraySource,
    DataLoss,
    FileSource,
    Format,
    KafkaFormat,
    KafkaSource,
    MemorySource,
    Source,
    StartingOffsets,
    Tombstones,
    format_by_name,
)
from rs_assets.topology.nodes.sqlite import SqliteSource


class StreamBuilder:
    """The entry to the fluent API."""

    @staticmethod
    def data_stream(namespace: str, job: str) -> DataStreamSource:
        """Begin the pipeline `job` in `namespace`; both are names of a-z, 0-9 and _.

        >>> stream = StreamBuilder.data_stream("shop", "hello").from_array([{"page": "/"}])
        >>> stream.to_print().build().name
        'shop.hello'
        """
        return DataStreamSource(Draft(checked_name(namespace, what="namespace"), checked_name(job, what="job")))


@dataclass(frozen=True, slots=True)
class DataStreamSource(Fluent):
    """The sources of one pipeline; each `from_*` call gives a stream, and several of them may be united.

    A `schema` is DDL text ("page string, ms bigint"), a StructType of Spark, or a class of records: a TypedDict, a
    dataclass, a NamedTuple or a Pydantic model.
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
        """Rows given in the program; a bounded source. Without `schema` the types are inferred from the rows.

        With `bad_records="quarantine"` a row on which a step fails goes to the dead letters.
        """
        policy = BadRecords.of(bad_records)
        return self._begin(
            ArraySource(name=name, rows=tuple(rows), schema=schema_text(schema, step=name), policy=policy)
        )

    def from_memory(
        self, channel: MemoryChannel, *, bad_records: str | BadRecords = BadRecords.FAIL, name: str = "memory"
    ) -> DataStream:
        """Rows that the program puts into `channel`, now or while the pipeline runs; bounded once it is closed.

        With `bad_records="quarantine"` a row on which a step fails goes to the dead letters.
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
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_files_per_batch: int | None = None,
        max_rows_per_batch: int | None = None,
        name: str = "file",
    ) -> DataStream:
        """Rows from a file, a directory or a glob.

        One file that does not grow is bounded; a directory, a glob and `tail=True` are not. `schema` is DDL text; left
        out it is inferred from a sample at the first start and then pinned. `format` is "json" (a record a line),
        "text", "csv" or "parquet"; left out it is csv or parquet for paths that end so, else json. "text" gives the
        field `value`, or, with `pattern` (a regular expression with named groups), one field a group, cast to `schema`;
        `time_format` is the pattern of its timestamps. CSV with a `header` is matched by name, in each file by its own:
        other columns are passed over, a missing one is an error; so it is with "parquet". `bad_records` says what
        happens to a record that does not parse: fail, dead_letter, quarantine (those too on which a step fails, in
        Python or in SQL) or skip. Gzip and zstd files are read by their ending (.gz, .zst).

        >>> source = StreamBuilder.data_stream("shop", "hits")
        >>> stream = source.from_file("hits.jsonl", schema="page string, ms bigint", bad_records="dead_letter")
        """
        return self._begin(
            FileSource(
                name=name,
                path=fspath(path),
                format=format_by_name(str(fspath(path))) if format is None else format,
                schema=schema_text(schema, step=name),
                tail=tail,
                pattern=pattern,
                time_format=time_format,
                header=header,
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
        bad_records: str | BadRecords = BadRecords.FAIL,
        dead_letter_topic: str | None = None,
        on_data_loss: DataLoss = "fail",
        tombstones: Tombstones = "skip",
        isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
        max_rows_per_batch: int | None = 1_000_000,
        min_partitions: int | None = None,
        name: str = "kafka",
    ) -> DataStream:
        """Records of Kafka: of one `topic`, of `topics`, or of all that match `pattern`; an unbounded source.

        `bootstrap_servers` is `host:port`, Dagster's `EnvVar` or a `KafkaCluster`. Splits are partitions, new ones too.
        `format="json"` gives the fields of `schema` (DDL text; left out it is inferred from the first records and then
        pinned), "avro" those of the Avro record in `schema` (JSON text; "confluent_avro" has the header of a schema
        registry before it, whose id is not looked up), "text" the field `value`, and "raw" everything as it is: key,
        value (binary), headers, topic, partition, offset, timestamp. For the others `metadata=["key", "offset"]`
        adds fields: kafka_key (text), kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, kafka_headers.
        `starting_offsets` counts at the first start only: "earliest", "latest", "committed" (by `group`), a datetime,
        or {"topic": {0: 17}} (partitions that are left out: from the earliest). Committed offsets are shown in `group`,
        so that Kafka's own tools tell the lag. `bad_records` is as for files; `dead_letter_topic` gets such records
        too, as they were, with Kafka Streams' headers `__streams.errors.*`. `tombstones` (records without a value):
        skip, keep as a row of nulls, or bad. Records of aborted transactions are never seen, unless `isolation` is
        "read_uncommitted". `on_data_loss="continue"` goes on when records were deleted before they were read, and
        writes the range into the catalog's operations. A batch has at most `max_rows_per_batch` records.
        `min_partitions` lets Spark read a partition in parts, at the same time: its records lose their order then.

        >>> shop = StreamBuilder.data_stream("shop", "totals")
        >>> stream = shop.from_kafka("localhost:9092", "orders", group="totals", schema="id bigint, ms bigint")
        """
        node = KafkaSource(
            name=name,
            cluster=KafkaCluster.of(bootstrap_servers),
            topics=(*((topic,) if topic is not None else ()), *topics),
            pattern=pattern,
            group=group,
            format=format,
            schema=schema_text(schema, step=name),
            starting=starting_offsets,
            metadata=(metadata,) if isinstance(metadata, str) else tuple(metadata),
            policy=BadRecords.of(bad_records),
            dead_letter_topic=dead_letter_topic,
            on_data_loss=on_data_loss,
            tombstones=tombstones,
            read_committed=_read_committed(isolation),
            max_rows_per_batch=max_rows_per_batch,
            min_partitions=min_partitions,
        )
        return self._begin(node)

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
        """Rows of a table of SQLite, exactly once, in the order of its INTEGER PRIMARY KEY; an unbounded source.

        For tables that rows are added to: what was read is not looked at again, and new rows need greater keys than
        all before (AUTOINCREMENT sees to that). The table is one split, its offset the key of the last row; a batch has
        at most `max_rows_per_batch` rows, read by one task, which must see the file. `schema` is DDL text and may name
        some of the columns; left out it is that of the table at the first start. A row with a value that is not of its
        field's type is a bad record, for `bad_records`. SourceReadError if there is no such table or key, DataLossError
        if rows of a planned batch are gone.

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
        """Rows of a Delta table, exactly once: those that are there, then those that are added; an unbounded source.

        `table` is named as for `to_delta`: a plain name is one of the namespace's tables in the home, others are paths.
        A batch is whole versions of it; compactions are no news. A version that changes or removes rows ends the run
        with SourceReadError, unless `changes=True` reads the table's change feed (`delta.enableChangeDataFeed`) from
        its first version on: the fields have `_change_type` (insert, update_preimage, update_postimage, delete),
        `_commit_version` and `_commit_timestamp` then. `starting_version` leaves out what is older. `schema` may name
        some of the columns; with it `.build()` knows them, left out it is that of the table at the first start.

        >>> shop = StreamBuilder.data_stream("shop", "large")
        >>> paid = shop.from_delta("paid", schema="country string, amount double")
        >>> print(paid.filter("amount > 1000").to_delta("large").build().describe())
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

    def _begin(self, source: Source) -> DataStream:
        return DataStream(self.draft, self.draft.add(source))


def _read_committed(isolation: object) -> bool:
    if isolation not in ("read_committed", "read_uncommitted"):
        raise TopologyError(
            f"isolation= must be 'read_committed' or 'read_uncommitted', not {isolation!r}",
            remedy="use 'read_committed' or 'read_uncommitted'",
        )
    return isolation == "read_committed"
