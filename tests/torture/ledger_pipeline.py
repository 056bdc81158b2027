"""The pipeline of the ledger, as a program: from topic to topic, exactly once.

python -m tests.torture.ledger_pipeline SERVERS FROM TO HOME go|finish
"""

from __future__ import annotations

import sys
from pathlib import Path

from rs_assets import Pipeline, RunOptions, StreamBuilder
from rs_assets.common.home import Home
from rs_assets.spark.driver import SparkDriver
from tests.torture.site import SMALL

SCHEMA = "partition int, number bigint, attempt string, key string"
BATCH = 500


def copied(servers: str, topic: str, out: str) -> Pipeline:
    """Each entry of `topic` into `out`, under its key."""
    stream = StreamBuilder.data_stream("torture", "ledger").from_kafka(
        servers, topic, schema=SCHEMA, max_rows_per_batch=BATCH
    )
    return stream.to_kafka(servers, out, key="key", delivery="exactly_once").build()


def main(servers: str, topic: str, out: str, home: str, how: str) -> None:
    """Run until it is killed, or to the end of what is there."""
    options = RunOptions(home=Home(Path(home)), driver=SparkDriver.shared(SMALL))
    pipeline = copied(servers, topic, out)
    if how == "finish":
        pipeline.run(options, finish=True)
        return
    with pipeline.start(options) as running:
        running.await_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
