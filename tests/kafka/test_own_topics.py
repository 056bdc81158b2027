"""Topics of ours, and transactions of others, beside what a source is to read."""

from __future__ import annotations

from kafka import KafkaProducer

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.connectors.kafka.client.admin import connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.sink import commits
from tests.kafka.reader import Reader


def test_should_not_read_what_the_pipeline_itself_notes_when_a_pattern_fits_it(broker, topic, options):
    for name in (f"{topic}-in", f"{topic}-out"):
        broker.create_topic(name)
    broker.produce(f"{topic}-in", [b"one"])
    stream = StreamBuilder.data_stream("test", "own").from_kafka(
        broker.bootstrap_servers, pattern=f"({topic}-in|rs).*", format="text"
    )
    pipeline = stream.to_kafka(broker.bootstrap_servers, f"{topic}-out", delivery="exactly_once").build()
    assert pipeline.run(options).rows_in == 1
    assert pipeline.run(options).rows_in == 0


def test_should_read_a_topic_of_ours_that_is_named_and_others_that_are_called_alike(broker, topic, options):
    with connected(KafkaCluster.of(broker.bootstrap_servers)) as admin:
        commits.ensure_topic(admin)
        ours = [commits.TOPIC, f"rs-assets-shuffle.{topic}"]
        theirs = [f"rs-assets-commits-{topic}", f"rs-assets-shuffles-{topic}", f"rs.{topic}"]
        for name in (ours[1], *theirs):
            broker.create_topic(name)
        assert set(admin.topics(ours)) == set(ours)
        found = admin.topics(pattern=r"rs[-.].*")
        assert set(theirs) <= set(found)
        assert not set(ours) & set(found)
    broker.produce(ours[1], [b"one"])
    assert Reader(broker, options, ours[1], format="text").values() == ["one"]


def test_should_infer_a_schema_beside_an_open_transaction(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, [b'{"id": 1}', b'{"id": 2}'])
    other = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic)
    other.init_transactions()
    other.begin_transaction()
    other.send(topic, b'{"other": 3}')
    other.flush()
    channel = MemoryChannel()
    stream = StreamBuilder.data_stream("test", "infer").from_kafka(broker.bootstrap_servers, topic)
    # Kafka's own client would wait for the record that is held back, and give up with an error.
    stream.to_memory(channel).build().run(options)
    other.abort_transaction()
    other.close()
    assert channel.take() == [{"id": 1}, {"id": 2}]
