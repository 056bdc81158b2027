"""What a sink of Kafka needs is asked for before the start, and what a row cannot be is said with its field."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.errors import SinkError
from rs_assets.testing import KafkaRecord

DELIVERIES = ["at_least_once", "exactly_once"]
# Rows of fields a topic does not take, and what is said of them.
WRONG = {
    "null topic": ({"to": None}, {"topic_field": "to"}, "to", "its topic is null"),
    "bad topic": ({"to": "a b"}, {"topic_field": "to"}, "to", "the name of its topic, a b, cannot be one"),
    "internal": ({"to": "rs-assets-commits"}, {"topic_field": "to"}, "to", "is an internal one"),
    "partition -1": ({"p": -1}, {"partition": "p"}, "p", "there is no partition -1, and the topic has 2"),
    "nameless": ({"h": [{"key": None, "value": "v"}]}, {"headers": "h"}, "h", "one of its headers has no name"),
    "null header": ({"h": [None]}, {"headers": "h"}, "h", "one of its headers has no name"),
    "partition 2": ({"p": 2}, {"partition": "p"}, "p", "there is no partition 2, and the topic has 2"),
}


def sending(broker, job, row, wanted="true", **sink):
    rows = [{"to": "x", "p": 0, "k": "k", "v": "v", "h": None, **row}]
    source = StreamBuilder.data_stream("test", job.replace("-", "_")).from_array(
        rows, schema="to string, p bigint, k string, v string, h array<struct<key: string, value: string>>"
    )
    topic = {} if "topic_field" in sink else {"topic": job}
    return source.filter(wanted).to_kafka(broker.bootstrap_servers, value="v", name="out", **topic, **sink).build()


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_row_that_no_topic_takes_names_step_and_field(broker, topic, options, delivery):
    for number, (row, sink, field, said) in enumerate(WRONG.values()):
        job = f"{topic}-{number}"
        broker.create_topic(job, partitions=2)
        with pytest.raises(SinkError, match=said) as refused:
            sending(broker, job, row, delivery=delivery, **sink).run(options)
        assert (refused.value.facts["step"], refused.value.facts["field"]) == ("out", field)
    assert refused.value.remedy == "filter out such rows, or correct the field before the sink"
    afresh = replace(options, new_generation=True)
    assert sending(broker, job, row, "p < 2", delivery=delivery, **sink).run(afresh).rows_out == 0
    assert sending(broker, job, {"p": 1}, delivery=delivery, **sink).run(afresh).rows_out == 1


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_topic_that_is_not_there_is_said_before_the_start(broker, topic, options, delivery):
    pipeline = sending(broker, topic, {}, delivery=delivery)
    with pytest.raises(SinkError, match="does not exist") as refused:
        pipeline.run(options)
    # A producer would have asked for it for a minute, in the first batch.
    assert not list(options.home.root.rglob("offsets/0"))
    assert (refused.value.facts["step"], refused.value.facts["topic"]) == ("out", topic)
    assert refused.value.remedy.startswith("create it, or correct its name, then start again")
    broker.create_topic(topic)
    assert pipeline.run(options).rows_out == 1


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_records_that_the_brokers_do_not_take_name_step_and_topic(broker, topic, options, delivery):
    for job, row, settings, remedy in (
        (f"{topic}-compacted", {"k": None}, {"cleanup.policy": "compact"}, "name the field in key="),
        (f"{topic}-large", {"v": "v" * 2_000_000}, {}, "max.request.size"),
    ):
        broker.create_topic(job, settings=settings)
        with pytest.raises(SinkError) as refused:
            sending(broker, job, row, delivery=delivery, key="k").run(options)
        assert remedy in refused.value.remedy
        assert (refused.value.facts["step"], refused.value.facts["topic"]) == ("out", job)


def test_a_key_that_is_no_text_is_a_bad_record_under_each_policy(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, [KafkaRecord(key=b"\xff", value=b'{"a":1}'), KafkaRecord(key=b"ok", value=b'{"a":2}')])
    for policy in ("dead_letter", "quarantine", "skip"):
        out = MemoryChannel()
        source = StreamBuilder.data_stream("test", policy).from_kafka(
            broker.bootstrap_servers, topic, schema="a bigint", metadata=["key"], bad_records=policy
        )
        report = source.map(lambda row: {"k": row["kafka_key"]}, schema="k string").to_memory(out).build().run(options)
        assert (out.take(), report.rows_in, report.rows_dead) == ([{"k": "ok"}], 2, 1)


def test_more_partitions_of_a_shuffle_than_its_topic_has_are_refused_at_the_start(broker, topic, options):
    def counted(partitions):
        job = StreamBuilder.data_stream("test", "raised").from_array([{"k": "a"}, {"k": "b"}], schema="k string")
        shuffled = job.shuffle(partitions, keys=["k"], strategy="kafka", bootstrap_servers=broker.bootstrap_servers)
        return shuffled.to_print().build()

    counted(2).run(options)
    with pytest.raises(SinkError, match="has 2 partitions, the pipeline now needs 4") as refused:
        counted(4).run(options)
    assert refused.value.remedy.startswith("put shuffle(2, ...) back")
    counted(2).run(options)
