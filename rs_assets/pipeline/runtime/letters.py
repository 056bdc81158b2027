"""Dead letters that go to a topic as well as to the table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from rs_assets.engine.checkpoint.log import CheckpointLog
from rs_assets.engine.source.kafka.dead_letters import Refused, send_refused
from rs_assets.engine.source.kafka.offsets import Partition, split_name
from rs_assets.pipeline.compile.plan import QueryPlan
from rs_assets.pipeline.compile.readers import kafka_range, kafka_reader
from rs_assets.pipeline.compile.wiring import Wiring
from rs_assets.pipeline.topology.source import KafkaSource
from rs_assets.pipeline.topology.topology import Topology


def send_letters(
    topology: Topology, plan: QueryPlan, wiring: Wiring, log: CheckpointLog, batch_id: int, letters: pa.Table
) -> None:
    """Send the records behind `letters` (rows of the dead-letter table) to the topics that their sources name."""
    nodes = [topology[name] for name in plan.sources]
    for node in (n for n in nodes if isinstance(n, KafkaSource) and n.dead_letter_topic):
        start, end = kafka_range(node.name, log, batch_id)
        refused = list(_of_source(letters, {split_name(partition): partition for partition in end}))
        records = kafka_reader(wiring, node).records(wiring.spark, start, end)
        send_refused(records, refused, cluster=node.cluster, topic=str(node.dead_letter_topic))


def _of_source(letters: pa.Table, partitions: dict[str, Partition]) -> Iterator[Refused]:
    for row in letters.select(["split", "offset", "reason"]).to_pylist():
        if row["split"] in partitions:
            yield Refused(
                partition=partitions[row["split"]], offset=row["offset"], error="BadRecordError", reason=row["reason"]
            )
