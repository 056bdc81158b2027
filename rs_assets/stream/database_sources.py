"""Databases as sources; part of the entry to the fluent API."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from rs_assets.common.names import one_or_more
from rs_assets.common.secrets import Secret
from rs_assets.connectors.changes.nodes import OnAdded, OnTruncate
from rs_assets.connectors.database.nodes import DatabaseSource
from rs_assets.connectors.mariadb.nodes import MariadbSource
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.postgres.nodes import PostgresSource
from rs_assets.connectors.redis.nodes import RedisFormat, RedisSource, RedisStart
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import Schema, schema_text
from rs_assets.stream.draft import Draft

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream

# How long the name of a replication slot may be.
SLOT_CHARS = 63


class DatabaseSources:
    """The sources of databases; part of `DataStreamSource`."""

    __slots__ = ()

    draft: Draft

    @abstractmethod
    def _begin(self, source: Source) -> DataStream:
        """A stream of the source."""

    def from_postgres(
        self,
        url: Secret,
        table: str,
        *,
        schema: Schema | None = None,
        slot: str | None = None,
        publication: str | None = None,
        snapshot: bool = True,
        keep: timedelta = timedelta(days=7),
        truncate: OnTruncate = "fail",
        added_columns: OnAdded = "fail",
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_rows_per_batch: int | None = 100_000,
        name: str = "postgres",
    ) -> DataStream:
        """A table of Postgres and then each of its changes, exactly once and in the order of commits; unbounded.

        Typical uses: a mirror of a table (`.to_table(...)`), reactions to changes. The rows are the fields of the table
        and `op` ("snapshot", "insert", "update", "delete"), `lsn` (bigint: the commit in the database's log), `seq`
        (the place within it) and `commit_time`. A changed key is a delete and an insert. A delete has the key; other
        fields are null, unless the table has REPLICA IDENTITY FULL. What was rolled back is never seen. Batches have
        whole transactions. It makes a replication slot, which keeps the server's log while the pipeline does not run:
        drop that of a pipeline that is given up. See docs/cdc.md.

        - `url` (str, or better Dagster's `EnvVar`): `postgresql://user:password@host:5432/name`; it needs the extra
          `postgres`.
        - `table` (str): `name` or `schema.name`; a plain table with a primary key, or with REPLICA IDENTITY FULL.
        - `schema` (default: that of the table, pinned at the first start): the columns to read.
        - `slot`, `publication` (str, default: `rs_` and the names of pipeline and step): made if they do not exist.
        - `snapshot` (bool, default True): whether the rows that the table has come first. False begins at an existing
          slot, or now.
        - `keep` (timedelta, default 7 days): how long rows stay on disk after they were read; so far a pipeline can go
          back, and so old a savepoint can be.
        - `truncate` (default "fail"): a TRUNCATE ends the run, or "row" gives a row with `op = 'truncate'`.
        - `added_columns` (default "fail"): a new column ends the run, or "ignore" reads the others. Without meaning if
          `schema` is given.
        - `bad_records` (default "fail"): for values that no field can hold, such as the time "infinity".
        - `max_rows_per_batch` (int, default 100,000; None: no limit): a larger transaction is one batch.
        - `name` (str, default "postgres").

        DataLossError before a batch is planned if the slot is gone, was advanced by another program, or lost its log.

        >>> from rs_assets import StreamBuilder
        >>> shop = StreamBuilder.data_stream("docs", "orders")
        >>> orders = shop.from_postgres("postgresql://me:secret@db/shop", "orders", schema="id bigint, ms bigint")
        >>> print(orders.to_table("id", deletes="op = 'delete'").to_delta("orders").build().describe())
        docs.orders  fingerprint ...
          postgres      postgres_source  [changes of postgresql://db/shop orders]
        * table         to_table <- postgres  [by id]
          orders_table  delta_sink <- table  [upsert orders]
        """
        from rs_assets.connectors.database.place import hidden, place_of

        made = _slot_name(self.draft.namespace, self.draft.job, name)
        return self._begin(
            PostgresSource(
                name=name,
                url=hidden(url),
                where=place_of(url, table, step=name),
                table=table,
                schema=schema_text(schema, step=name),
                slot=made if slot is None else slot,
                publication=made if publication is None else publication,
                snapshot=snapshot,
                keep=keep,
                truncate=truncate,
                added_columns=added_columns,
                policy=BadRecords.of(bad_records),
                max_rows_per_batch=max_rows_per_batch,
            )
        )

    def from_mariadb(
        self,
        url: Secret,
        table: str,
        *,
        schema: Schema | None = None,
        server_id: int | None = None,
        snapshot: bool = True,
        keep: timedelta = timedelta(days=7),
        truncate: OnTruncate = "fail",
        added_columns: OnAdded = "fail",
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_rows_per_batch: int | None = 100_000,
        name: str = "mariadb",
    ) -> DataStream:
        """A table of MariaDB and then each of its changes, exactly once and in the order of commits; unbounded.

        Typical uses: a mirror of a table (`.to_table(...)`), reactions to changes. The rows are those of
        `from_postgres`: the fields of the table and `op` ("snapshot", "insert", "update", "delete"), `lsn` (bigint: the
        transaction in the binary log, the number of the file times 2^32 and the position there), `seq` (the place
        within it) and `commit_time`, to the second. A changed key is a delete and an insert; a delete has the whole old
        row. What was rolled back is never seen. Batches have whole transactions. The server keeps its log as long as
        its settings say, whether it was read or not. See docs/cdc.md.

        - `url` (str, or better Dagster's `EnvVar`): `mariadb://user:password@host:3306/name`; it needs the extra
          `mariadb`.
        - `table` (str): `name` or `schema.name`; a plain table of InnoDB.
        - `schema` (default: that of the table, pinned at the first start): the columns to read.
        - `server_id` (int, default: made of the names of pipeline and step): the number by which the server knows the
          reader; no replica of the server and no other reader may have it.
        - `snapshot` (bool, default True): whether the rows that the table has come first. False begins now.
        - `keep` (timedelta, default 7 days): how long rows stay on disk after they were read; so far a pipeline can go
          back, and so old a savepoint can be.
        - `truncate` (default "fail"): a TRUNCATE ends the run, or "row" gives a row with `op = 'truncate'`.
        - `added_columns` (default "fail"): a new column ends the run, or "ignore" reads the others. Without meaning if
          `schema` is given.
        - `bad_records` (default "fail"): for values that no field can hold, such as the date 0000-00-00.
        - `max_rows_per_batch` (int, default 100,000; None: no limit): a larger transaction is one batch.
        - `name` (str, default "mariadb").

        DataLossError before a batch is planned if the server has removed the part of its log that was not read.

        >>> from rs_assets import StreamBuilder
        >>> shop = StreamBuilder.data_stream("docs", "orders")
        >>> orders = shop.from_mariadb("mariadb://me:secret@db/shop", "orders", schema="id bigint, ms bigint")
        >>> print(orders.to_table("id", deletes="op = 'delete'").to_delta("orders").build().describe())
        docs.orders  fingerprint ...
          mariadb       mariadb_source   [changes of mariadb://db/shop orders]
        * table         to_table <- mariadb  [by id]
          orders_table  delta_sink <- table  [upsert orders]
        """
        from rs_assets.connectors.database.place import hidden, place_of

        made = _slot_name(self.draft.namespace, self.draft.job, name)
        return self._begin(
            MariadbSource(
                name=name,
                url=hidden(url),
                where=place_of(url, table, step=name),
                table=table,
                schema=schema_text(schema, step=name),
                server_id=_number_of(made) if server_id is None else server_id,
                snapshot=snapshot,
                keep=keep,
                truncate=truncate,
                added_columns=added_columns,
                policy=BadRecords.of(bad_records),
                max_rows_per_batch=max_rows_per_batch,
            )
        )

    def from_database(
        self,
        url: Secret,
        table: str,
        *,
        column: str,
        lag: timedelta | None = None,
        schema: Schema | None = None,
        every: timedelta = timedelta(seconds=1),
        keep: int = 10,
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_rows_per_batch: int = 100_000,
        name: str = "database",
    ) -> DataStream:
        """New rows of a table that is polled, exactly once if its column is exact, else it is refused; unbounded.

        Typical uses: a table without change data capture, a table of events. Rows are written to disk before they are
        read, so a batch that is repeated has the same rows, whatever became of them in the table. What is new is known
        by one column. Exact are a column `xid xid8 DEFAULT pg_current_xact_id()` of Postgres, a growing integer of
        SQLite, and a column of times with a `lag` that no transaction exceeds. A row that is updated is read again if
        its column grows; a row that is deleted is not seen. See docs/cdc.md.

        - `url` (str, or better Dagster's `EnvVar`): as for `to_database`.
        - `table` (str): `name` or `schema.name`.
        - `column` (str): it grows with each row; rows where it is null are not read.
        - `lag` (timedelta, default None): read only rows whose time is so long ago, by the database's clock.
        - `schema` (default: that of the table, pinned at the first start).
        - `every` (timedelta, default 1 s): the pause after a poll without rows.
        - `keep` (int, polls, default 10): how many stay on disk after they were read; so far a pipeline can go back.
        - `bad_records` (default "fail").
        - `max_rows_per_batch` (int, default 100,000): rows of one poll; rows with the same value stay together.
        - `name` (str, default "database").

        ConfigurationError before the start if rows can appear late by the column.

        >>> from rs_assets import StreamBuilder
        >>> shop = StreamBuilder.data_stream("shop", "events")
        >>> events = shop.from_database("sqlite:///shop.db", "events", column="id", schema="id bigint, page string")
        >>> print(events.to_print().build().describe())
        shop.events  fingerprint ...
          database  database_source  [sqlite:///shop.db events by id]
          print     print_sink <- database
        """
        from rs_assets.connectors.database.place import hidden, place_of

        return self._begin(
            DatabaseSource(
                name=name,
                url=hidden(url),
                where=place_of(url, table, step=name),
                table=table,
                column=column,
                lag=lag,
                schema=schema_text(schema, step=name),
                every=every,
                keep=keep,
                policy=BadRecords.of(bad_records),
                max_rows_per_batch=max_rows_per_batch,
            )
        )

    def from_redis(
        self,
        url: Secret,
        streams: str | Sequence[str],
        *,
        format: RedisFormat = "fields",  # noqa: A002  as in from_kafka
        schema: Schema | None = None,
        value: str = "value",
        starting_ids: RedisStart = "earliest",
        metadata: Sequence[str] = (),
        bad_records: str | BadRecords = BadRecords.FAIL,
        max_rows_per_batch: int | None = 100_000,
        name: str = "redis",
    ) -> DataStream:
        """Entries of streams of Redis, exactly once while the streams keep them; an unbounded source.

        Typical uses: events of services, the output of another pipeline. Each stream is a split, read by the ids of its
        entries and without a consumer group. Needs Redis 7.0. See docs/redis.md.

        - `url` (str, or better Dagster's `EnvVar`): `redis://user:password@host:6379/0`; with TLS `rediss://`, whose
          parameters `ca_file`, `cert_file` and `key_file` name files of certificates. It is never shown.
        - `streams` (str, or sequence of str): keys of streams, which may not exist yet.
        - `format` (default "fields"): "fields" reads the fields of an entry as text of the types of `schema`, "json"
          the JSON object in the field `value`, "raw" gives id, stream, timestamp and fields (map of binary).
        - `schema` (default: inferred from the first entries, then pinned; fields are then texts).
        - `value` (str, default "value"): the field that format "json" reads.
        - `starting_ids` (default "earliest"): used at the first start only; "latest" reads entries added from then on.
        - `metadata` (sequence of "id", "stream", "timestamp"; default none): adds the fields `redis_id`,
          `redis_stream`, `redis_timestamp` to all formats but "raw". The time is that of the id.
        - `bad_records` (default "fail").
        - `max_rows_per_batch` (int, default 100,000; None: no limit).
        - `name` (str, default "redis").

        DataLossError if entries were trimmed or deleted before they were read, also if some of them remain.

        >>> from rs_assets import StreamBuilder
        >>> shop = StreamBuilder.data_stream("shop", "clicks")
        >>> clicks = shop.from_redis("redis://:secret@cache", "clicks", schema="page string, ms bigint")
        >>> print(clicks.to_print().build().describe())
        shop.clicks  fingerprint ...
          redis  redis_source  [fields clicks of redis://cache:6379/0]
          print  print_sink <- redis
        """
        from rs_assets.connectors.redis.address import hidden, place_of

        return self._begin(
            RedisSource(
                name=name,
                url=hidden(url),
                where=place_of(url, step=name),
                streams=one_or_more(streams),
                format=format,
                schema=schema_text(schema, step=name),
                value=value,
                starting=starting_ids,
                metadata=one_or_more(metadata),
                policy=BadRecords.of(bad_records),
                max_rows_per_batch=max_rows_per_batch,
            )
        )


def _slot_name(*parts: str) -> str:
    """The name of a replication slot; one that would be too long is cut, and gets a digest."""
    name = "_".join(("rs", *parts))
    return (
        name if len(name) <= SLOT_CHARS else f"{name[: SLOT_CHARS - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    )


def _number_of(name: str) -> int:
    """A number for a name, as a server_id: of 31 bits and not a small one, as people give them."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") >> 1 | 1 << 30
