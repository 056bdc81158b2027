"""Records of a topic in proofs and tries: each is accounted for, and its batches are read again in their cuts."""

import json
from collections import Counter

import pytest
from deltalake import DeltaTable

from rs_assets import EventTimePartitions, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.runtime.recorded.equation import TERMS
from rs_assets.testing import KafkaRecord

pytestmark = pytest.mark.long

HOUR = "2026-01-05-10:00"
# The records of each run: partition, id and clock; None is no JSON.
RUNS = (
    ((0, 1, "10:05"), (0, -1, "10:06"), (1, 2, "10:17"), (1, None, "")),
    ((0, 1, "11:15"),),
    # The first two are late, in both partitions.
    ((0, 1, "10:06"), (1, 3, "10:59"), (1, 3, "11:20")),
    ((0, 4, "13:00"),),
)


def text(key, at):
    return b"{" if key is None else json.dumps({"id": key, "ts": f"2026-01-05 {at}:00"}).encode()


def test_records_of_a_topic_are_accounted_for_and_tried_as_a_stream(broker, topic, options):
    broker.create_topic(topic, partitions=2)

    def read(job):
        begin = StreamBuilder.data_stream("proof", job)
        servers = broker.bootstrap_servers
        source = begin.from_kafka(servers, topic, schema="id bigint, ts timestamp", bad_records="skip", name="topic")
        return source.filter("id >= 0", name="kept")

    def visits(condition):
        windows = (
            read("visits").filter(condition, name="some").window(SessionWindow.of(Time.minutes(5), "ts"), name="v")
        )
        return windows.group_by("id").count("n").to_data_stream().to_delta("visits").build()

    hours = EventTimePartitions.hourly("start_time", since="2026-01-01")
    counts = read("hits").window(TumblingWindow.of(Time.minutes(10), "ts"), name="windows").group_by("id").count("n")
    pipeline = counts.to_data_stream().to_delta("hits", partitions=hours).build()
    for records in RUNS:
        broker.produce(topic, [KafkaRecord(value=text(key, at), partition=part) for part, key, at in records])
        pipeline.run(options)
        visits("id > 0").run(options)
    (proof,) = pipeline.prove(options, partition=HOUR)
    assert (proof.holds, proof.records.miscounted, proof.records.counted) == (True, (), proof.batches)
    # The batches without a record in reach of the hour are not read.
    found = +Counter({name: getattr(proof.records, name) for name in TERMS})
    assert found == Counter({"used": 2, "late": 2, "dead": 1, "filtered": 1, "elsewhere": 1})
    assert visits("id > 0").compare(options).empty
    rows = DeltaTable(options.home.table("proof", "visits")).to_pyarrow_table()["id"].to_pylist()
    other = visits("id > 1").compare(options)
    assert (other.streamed, other.only_before, other.only_after) == (True, rows.count(1), 0)
    assert other.only_before > 0
