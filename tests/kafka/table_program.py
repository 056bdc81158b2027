"""The pipeline of `test_table_kills`, as a program to be killed: a table from one compacted topic into another.

    python -m tests.kafka.table_program SERVERS FROM TO DELIVERY HOME SIGNS

The file SIGNS grows by a byte before and after each batch is staged, and after its commit.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rs_assets import Pipeline, RunOptions, StreamBuilder
from rs_assets.common.home import Home
from rs_assets.connectors.kafka.nodes import Delivery
from rs_assets.connectors.kafka.sink.at_least_once import KafkaWriter
from rs_assets.connectors.kafka.sink.exactly_once import TransactionalWriter
from rs_assets.connectors.sink import BatchMark, Staged
from rs_assets.spark.driver import SparkDriver
from rs_assets.spark.settings import SparkSettings
from rs_assets.stream.table import Table

FIELDS = ("id", "page", "ts", "ms")
SCHEMA = "id bigint, page string, ts string, ms bigint"
BATCH = 1_000
# As the session of the tests, which runs it at last: the state of a table has a number of partitions.
SETTINGS = SparkSettings(master="local[2]", partitions=2)


def table_of(servers: str, topic: str, job: str) -> Table:
    """The newest record of each key of `topic`."""
    records = StreamBuilder.data_stream("killed", job).from_kafka(
        servers,
        topic,
        schema=SCHEMA,
        key_schema="user string",
        tombstones="keep",
        metadata=["tombstone"],
        max_rows_per_batch=BATCH,
    )
    newest = records.with_fields(user="kafka_key_user").to_table("user", deletes="kafka_tombstone")
    return newest.map_values(*FIELDS)


def copied(servers: str, topic: str, out: str, delivery: Delivery) -> Pipeline:
    """The table of `topic` into `out`."""
    return table_of(servers, topic, "table").to_kafka(servers, out, delivery=delivery).build()


def watched(writer: type[KafkaWriter | TransactionalWriter], signs: Path) -> None:
    """Let `signs` grow with each step of a batch into a sink."""
    stage = writer.stage

    def sign() -> None:
        with signs.open("ab") as file:
            file.write(b".")

    def staging(sink: KafkaWriter | TransactionalWriter, batch: object, mark: BatchMark) -> Staged:
        sign()
        staged = stage(sink, batch, mark)  # type: ignore[arg-type]
        sign()

        def commit() -> int:
            rows = staged.commit()
            sign()
            return rows

        return Staged(commit)

    writer.stage = staging  # type: ignore[assignment,method-assign]


def main(servers: str, topic: str, out: str, delivery: Delivery, home: str, signs: str) -> None:
    """Run until it is killed."""
    for writer in (KafkaWriter, TransactionalWriter):
        watched(writer, Path(signs))
    options = RunOptions(home=Home(Path(home)), driver=SparkDriver.shared(SETTINGS))
    with copied(servers, topic, out, delivery).start(options) as running:
        running.await_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
