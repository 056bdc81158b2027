"""Postgres and MariaDB: changes of a table, new rows of a polled table, and rows into a table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from benchmarks.bench import Bench
from benchmarks.measure import Figure
from benchmarks.systems import TIMES, Against, rows_read, small_rows
from rs_assets import StreamBuilder
from rs_assets.connectors.database.place import Place, hidden, place_of
from rs_assets.connectors.database.writer import DatabaseWriter
from rs_assets.connectors.sink import BatchMark
from rs_assets.stream.data_stream import DataStream
from rs_assets.testing import MariaDbServer, PostgresServer

# The rows a second that are asked: half of what was measured of the parts of each before it was built.
LEAST_CHANGES, LEAST_OF_LOG, LEAST_POLLED, LEAST_COPIED, LEAST_LOADED = 69_000, 5_000, 186_000, 55_000, 77_000
# Transactions of the changes have so many rows, half of which replace others.
BATCH = 1_000
COLUMNS = ("id", "page", "ms", "at", "who", "note", "done")
TABLE = (
    "id bigint PRIMARY KEY, page varchar(40), ms bigint, at timestamp(6) NULL, who varchar(20),"
    " note varchar(40), done smallint"
)
VALUES = (
    "{0}, concat('/page/', {0} % 1000), {0} % 977, timestamp '2026-01-02 03:04:05', concat('user-', {0} % 5000),"
    " 'a note', 1"
)
NUMBERS = count()


def database_figures(bench: Bench) -> Iterator[Figure]:
    """A server of each, and tables of seven columns in two sizes."""
    with ExitStack() as stack:
        postgres = Postgres(bench, stack.enter_context(PostgresServer()))
        yield Against(
            benchmark="databases",
            what="read changes of Postgres into a Delta table",
            ours=postgres.changes,
            client="pg_logical_slot_peek_binary_changes alone",
            alone=postgres.peeked,
            least_per_s=LEAST_CHANGES,
        ).figure(bench)
        yield Against(
            benchmark="databases",
            what="read new rows of a polled table of Postgres into a Delta table",
            ours=postgres.polled,
            client="psycopg's SELECT alone",
            alone=postgres.selected,
            least_per_s=LEAST_POLLED,
        ).figure(bench)
        yield Against(
            benchmark="databases",
            what="a batch of upserts into Postgres",
            ours=lambda rows: _written(bench, postgres.url, rows),
            client="COPY into a table without a key alone",
            alone=postgres.copied,
            least_per_s=LEAST_COPIED,
        ).figure(bench)
        mariadb = MariaDb(bench, stack.enter_context(MariaDbServer()))
        yield Against(
            benchmark="databases",
            what="read changes of MariaDB into a Delta table",
            ours=mariadb.changes,
            client="SELECT of the same rows alone",
            alone=mariadb.selected,
            least_per_s=LEAST_OF_LOG,
        ).figure(bench)
        yield Against(
            benchmark="databases",
            what="a batch of upserts into MariaDB",
            ours=lambda rows: _written(bench, mariadb.url, rows),
            client="PyMySQL's executemany alone",
            alone=mariadb.inserted,
            least_per_s=LEAST_LOADED,
        ).figure(bench)


class Postgres:
    """Changes of two sizes, each with a slot that stands before them, and tables to poll."""

    def __init__(self, bench: Bench, server: PostgresServer) -> None:
        self.bench, self.server, self.url = bench, server, server.create_database()
        for rows in (small_rows(bench), TIMES * small_rows(bench)):
            bench.say(f"Postgres: {rows:,} changes, and rows")
            self._sql(
                f"CREATE TABLE changed_{rows} ({TABLE})",
                f"CREATE PUBLICATION changes_{rows} FOR TABLE changed_{rows}",
                f"SELECT pg_create_logical_replication_slot('from_{rows}', 'pgoutput')",
                _changes(rows),
                f"CREATE TABLE polled_{rows} ({TABLE}, xid xid8 DEFAULT pg_current_xact_id())",
                f"INSERT INTO polled_{rows} SELECT {VALUES.format('n')} FROM generate_series(1, {rows}) AS n",
            )

    def changes(self, rows: int) -> int:
        """A whole run over the changes, with a copy of the slot."""
        slot = f"bench_{next(NUMBERS)}"
        self._sql(f"SELECT pg_copy_logical_replication_slot('from_{rows}', '{slot}')")
        stream = _stream(f"changes_{rows}").from_postgres(
            self.url, f"changed_{rows}", slot=slot, publication=f"changes_{rows}", snapshot=False
        )
        read = rows_read(self.bench, stream.to_delta("out"))
        self._sql(f"SELECT pg_drop_replication_slot('{slot}')")
        return read

    def peeked(self, rows: int) -> int:
        """The changes as bytes."""
        peek = (
            f"SELECT data FROM pg_logical_slot_peek_binary_changes('from_{rows}', NULL, NULL,"
            f" 'proto_version', '1', 'publication_names', 'changes_{rows}')"
        )
        return sum(bytes(data[:1]) in (b"I", b"U") for (data,) in self.server.execute(self.url, peek))

    def polled(self, rows: int) -> int:
        """A whole run over the rows of a table."""
        stream = _stream(f"polled_{rows}").from_database(self.url, f"polled_{rows}", column="xid")
        return rows_read(self.bench, stream.to_delta("out"))

    def selected(self, rows: int) -> int:
        """The rows of that table."""
        return len(self.server.execute(self.url, f"SELECT * FROM polled_{rows}"))

    def copied(self, rows: int) -> int:
        """Rows as text, made beforehand, into a new table."""
        self._sql("DROP TABLE IF EXISTS plain", f"CREATE TABLE plain ({TABLE.replace(' PRIMARY KEY', '')})")
        lines = "".join(f"{n}\t/page/{n}\t{n}\t2026-01-02 03:04:05\tuser-{n}\ta note\t1\n" for n in range(rows))
        with self.server.connected(self.url) as connection, connection.cursor() as cursor:
            with cursor.copy("COPY plain FROM STDIN") as copy:
                copy.write(lines)
            return cursor.rowcount

    def _sql(self, *statements: str) -> None:
        with self.server.connected(self.url) as connection:
            for statement in statements:
                connection.execute(statement.encode())


class MariaDb:
    """Changes of two sizes, each with the home of a pipeline that stands before them."""

    def __init__(self, bench: Bench, server: MariaDbServer) -> None:
        self.bench, self.server, self.url = bench, server, server.create_database()
        self.homes: dict[int, Path] = {}
        for rows in (small_rows(bench), TIMES * small_rows(bench)):
            bench.say(f"MariaDB: {rows:,} changes")
            server.execute(self.url, f"CREATE TABLE changed_{rows} ({TABLE})")
            self.homes[rows] = bench.folder / f"mariadb-{rows}"
            rows_read(bench, self._copy(rows), self.homes[rows])
            half = rows // 2
            filled = f"SELECT {VALUES.format('seq')} FROM seq_1_to_{half}"
            server.execute(
                self.url,
                f"INSERT INTO changed_{rows} {filled}",
                f"UPDATE changed_{rows} SET note = 'another one'",
            )

    def changes(self, rows: int) -> int:
        """A whole run over the changes, from a copy of the home."""
        with self.bench.place() as folder:
            home = shutil.copytree(self.homes[rows], folder / "home")
            return rows_read(self.bench, self._copy(rows), home)

    def selected(self, rows: int) -> int:
        """The rows of the table, twice: of inserts and of updates."""
        return sum(len(self.server.execute(self.url, f"SELECT * FROM changed_{rows}")) for _ in range(2))

    def inserted(self, rows: int) -> int:
        """Rows by statements of many rows each, into a new table."""
        insert = f"INSERT INTO plain ({', '.join(COLUMNS)}) VALUES ({', '.join(['%s'] * len(COLUMNS))})"
        self.server.execute(self.url, "DROP TABLE IF EXISTS plain", f"CREATE TABLE plain ({TABLE})")
        values: Sequence[tuple[Any, ...]] = [
            (n, f"/page/{n}", n, "2026-01-02 03:04:05", f"user-{n}", "a note", 1) for n in range(rows)
        ]
        with self.server.connected(self.url) as connection, connection.cursor() as cursor:
            return int(cursor.executemany(insert, values) or 0)

    def _copy(self, rows: int) -> DataStream:
        stream = _stream(f"mariadb_{rows}").from_mariadb(self.url, f"changed_{rows}", snapshot=False)
        return stream.to_delta("out")


def _stream(job: str) -> StreamBuilder:
    return StreamBuilder.data_stream("bench", job)


def _changes(rows: int) -> str:
    """A block of transactions: rows are inserted, and then replaced."""
    numbers = f"generate_series(low, low + {BATCH - 1}) AS n"
    insert = f"INSERT INTO changed_{rows} SELECT {VALUES.format('n')} FROM {numbers}"
    update = f"UPDATE changed_{rows} SET note = 'another one' WHERE id BETWEEN low AND low + {BATCH - 1}"
    return (
        f"DO $$ DECLARE low bigint; BEGIN FOR part IN 0..{rows // BATCH // 2 - 1} LOOP low := part * {BATCH};"
        f" {insert}; COMMIT; {update}; COMMIT; END LOOP; END $$"
    )


def _written(bench: Bench, url: str, rows: int) -> int:
    """A batch of computed rows, staged and committed into a new table."""
    table = f"written_{next(NUMBERS)}"
    writer = DatabaseWriter(
        "out", Place(hidden(url), "out"), table, place_of(url, table, step="out"), mode="upsert", keys=("id",)
    )
    mark = BatchMark(f"bench-{table}", 1, "out", 0)
    return bench.driver.call(lambda spark: writer.stage(_rows(spark, rows), mark).commit())


def _rows(spark: Any, rows: int) -> DataFrame:
    made: DataFrame = spark.range(rows).selectExpr(
        "id", "concat('/page/', id % 1000) AS page", "id % 977 AS ms", "timestamp '2026-01-02 03:04:05' AS at",
        "concat('user-', id % 5000) AS who", "'a note' AS note", "cast(1 AS smallint) AS done",
    )  # fmt: skip
    return made
