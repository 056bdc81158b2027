"""Topics that are made while a pipeline runs, and those of its shuffles: one that is made again is noticed, too."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rs_assets import MemoryChannel, RunOptions, StreamBuilder
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.common.home import Home
from rs_assets.connectors.kafka.client.admin import connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.source.topics import TopicWatch, Watched, check_topics
from rs_assets.errors import ConfigurationError, DataLossError, TopologyError
from rs_assets.runtime.places import placed
from tests.kafka.reader import Reader, as_numbers, numbered, until
from tests.kafka.test_topics import made_again

NAME, SCHEMA = "kafka", "id bigint"
HOME = Home(Path("/data/rs"))


@pytest.fixture(autouse=True)
def _collected():
    yield
    gc.collect()


class Written:
    """What Spark's log and the manifest of a query hold, without either."""

    def __init__(self, folder, **watched):
        self.log, self.inputs = CheckpointLog(folder), {}
        self.source = Watched(name=NAME, **watched)
        for kind in ("offsets", "commits"):
            (folder / kind).mkdir()

    def batch(self, number, offsets):
        text = f'v2\n{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{{}}}}\n{NAME}:{offsets}'
        (self.log.folder / "offsets" / str(number)).write_text(text.replace("'", '"'))
        return number

    def committed(self, number):
        (self.log.folder / "commits" / str(number)).write_text("v1\n{}")

    def keep(self, source, facts):
        self.inputs[source] = {**self.inputs.get(source, {}), **facts}

    def watch(self):
        return TopicWatch(
            sources=[self.source], known=lambda: self.inputs, log=self.log, keep=self.keep, note=lambda *_: None
        )


@pytest.fixture
def cluster(broker):
    return KafkaCluster.of(broker.bootstrap_servers)


def test_should_know_a_topic_again_that_came_while_it_ran(broker, cluster, topic, tmp_path):
    written = Written(tmp_path, cluster=cluster, topics=(), pattern=f"{topic}-.*")
    watch = written.watch()
    broker.create_topic(f"{topic}-a")
    broker.produce(f"{topic}-a", numbered(0, 5))
    watch.check(written.batch(0, {f"{topic}-a": {"0": 5}}))
    written.committed(0)
    made_again(broker, f"{topic}-a", numbered(10, 18))
    with pytest.raises(DataLossError, match=f"{topic}-a-0: offsets 5 to an unknown end"):
        watch.check(written.batch(1, {f"{topic}-a": {"0": 8}}))
    watch.close()
    with pytest.raises(DataLossError, match="created again"):
        check_topics(written.source, written.inputs[NAME], written.log)


def test_should_know_that_a_query_has_begun_when_its_first_batches_were_removed(tmp_path):
    written = Written(tmp_path, cluster=KafkaCluster.of("localhost:9092"), topics=("in",))
    assert not written.log.begun
    # As Spark leaves a log behind more than a hundred batches.
    written.committed(written.batch(150, {"in": {"0": 5}}))
    assert written.log.begun


def test_should_notice_a_shuffles_topic_that_is_made_again_or_gone(broker, cluster, topic, tmp_path):
    written = Written(tmp_path, cluster=cluster, topics=(topic,), owned=True)
    watch = written.watch()
    broker.create_topic(topic, 2)
    watch.begin()
    # Nothing was read yet, so only the id tells that rows are missing.
    made_again(broker, topic, numbered(0, 3))
    with pytest.raises(DataLossError, match="rows of a durable shuffle") as refused:
        check_topics(written.source, written.inputs[NAME], written.log)
    assert "--new-generation" in refused.value.remedy
    written.batch(0, {topic: {"0": 0, "1": 0}})
    written.committed(0)
    with pytest.raises(DataLossError, match="created again"):
        watch.check(written.batch(1, {topic: {"0": 3, "1": 0}}))
    broker.delete_topic(topic)
    with pytest.raises(DataLossError, match="the partition is gone"):
        watch.check(1)
    watch.close()


def shuffled(broker, topic):
    stream = StreamBuilder.data_stream("test", "homes").from_kafka(broker.bootstrap_servers, topic, schema=SCHEMA)
    stream = stream.shuffle(2, keys=["id"], strategy="kafka", bootstrap_servers=broker.bootstrap_servers)
    return stream.to_delta("kept").build()


def kept(options):
    return sorted(DeltaTable(options.home.table("test", "kept")).to_pyarrow_table().column("id").to_pylist())


def records(first, last):
    return [b'{"id": %d}' % number for number in range(first, last)]


def test_should_share_no_shuffle_with_another_home_and_notice_when_its_own_is_made_again(
    broker, topic, driver, tmp_path
):
    one, other = (RunOptions(home=Home(tmp_path / name), driver=driver) for name in ("one", "other"))
    broker.create_topic(topic)
    broker.produce(topic, records(0, 10))
    pipeline = shuffled(broker, topic)
    pipeline.run(one)
    pipeline.run(other)
    broker.produce(topic, records(10, 25))
    pipeline.run(one)
    assert (kept(one), kept(other)) == (list(range(25)), list(range(10)))
    with connected(KafkaCluster.of(broker.bootstrap_servers)) as admin:
        ours = [name for name in admin.client.list_topics() if name.startswith("rs-assets-shuffle.test.homes.")]
        assert len(ours) == 2
        for name in ours:
            broker.delete_topic(name)
            broker.create_topic(name, 2)
    with pytest.raises(DataLossError, match="rows of a durable shuffle"):
        pipeline.run(one)


def test_should_go_on_with_the_topic_that_an_older_release_has_filled():
    topology = shuffled_topology("kafka")
    old = Manifest.new()
    made, manifest = placed(topology, old, HOME, lambda _: (NAME, True))
    assert manifest.places == {"shuffle_1_write": "rs.test.homes.shuffle_1"}
    assert {made["shuffle_1"].place, made["shuffle_1_write"].place} == {"rs.test.homes.shuffle_1"}
    begun, kept_since = placed(topology, manifest.next_generation(), HOME, lambda _: (NAME, False))
    assert begun["shuffle_1"].place == f"rs-assets-shuffle.test.homes.shuffle_1.{old.pipeline_id}"
    assert placed(topology, kept_since, HOME, lambda _: (NAME, True))[0] == begun


def test_should_find_the_place_of_a_shuffle_that_was_renamed():
    known = Manifest(pipeline_id="p1", generation=3, queries={NAME: QueryFacts(generation=2)})
    _, manifest = placed(shuffled_topology("delta"), known, HOME, lambda _: (NAME, True))
    assert manifest.places == {"shuffle_1_write": "kafka/shuffles/shuffle_1_write"}
    aliases = {"by_id": "shuffle_1", "by_id_write": "shuffle_1_write"}
    renamed = replace(manifest, aliases=aliases)
    made, _ = placed(shuffled_topology("delta", name="by_id"), renamed, HOME, lambda _: (NAME, True))
    assert made["by_id"].place == "test.homes.shuffle_1"
    folder = HOME.job("test", "homes") / "g0002" / NAME / "shuffles" / "shuffle_1_write"
    assert {made["by_id"].folder, made["by_id_write"].folder} == {str(folder)}


def test_should_move_the_table_that_an_older_release_has_filled(tmp_path):
    home = Home(tmp_path)
    facts, places = {NAME: QueryFacts(generation=1)}, {"shuffle_1_write": "test.homes.shuffle_1"}
    old = Manifest(pipeline_id="p1", queries=facts, places=places)
    former = home.shuffles / "test" / "homes" / "shuffle_1"
    former.mkdir(parents=True)
    for _ in range(2):
        made, _ = placed(shuffled_topology("delta"), old, home, lambda _: (NAME, True))
        assert Path(made["shuffle_1"].folder).is_dir()
    assert not former.exists()


def shuffled_topology(strategy, **how):
    servers = {"bootstrap_servers": "localhost:9092"} if strategy == "kafka" else {}
    stream = StreamBuilder.data_stream("test", "homes").from_array([{"id": 1}])
    return stream.shuffle(2, strategy=strategy, **servers, **how).to_delta("kept").build().topology


@pytest.mark.parametrize("field", ["map<int,string>", "array<struct<a: map<date,int>>>", "map<string,map<bigint,int>>"])
def test_should_say_at_the_start_that_a_kafka_shuffle_takes_no_such_map(broker, options, field):
    stream = StreamBuilder.data_stream("test", "maps").from_array([{"m": None}], schema=f"m {field}")
    stream = stream.shuffle(2, strategy="kafka", bootstrap_servers=broker.bootstrap_servers)
    with pytest.raises(TopologyError, match=r"the field 'm(\.a)?' holds map<") as refused:
        stream.to_memory(MemoryChannel()).build().run(options)
    assert "strategy='delta'" in refused.value.remedy
    with connected(KafkaCluster.of(broker.bootstrap_servers)) as admin:
        assert not [name for name in admin.client.list_topics() if ".test.maps." in name]


def test_should_bring_headers_through_a_kafka_shuffle(broker, topic, options):
    broker.create_topic(topic)
    broker.produce(topic, records(0, 2))
    stream = StreamBuilder.data_stream("test", "headers").from_kafka(
        broker.bootstrap_servers, topic, schema=SCHEMA, metadata=["headers"]
    )
    channel = MemoryChannel()
    stream = stream.shuffle(1, strategy="kafka", bootstrap_servers=broker.bootstrap_servers)
    stream.to_memory(channel).build().run(options)
    rows = channel.take()
    assert sorted(row["id"] for row in rows) == [0, 1]
    assert {"id", "kafka_headers"} == set(rows[0])


def test_should_refuse_the_next_start_when_a_topic_that_came_while_it_ran_was_made_again(broker, topic, options):
    broker.create_topic(f"{topic}-a")
    read = Reader(broker, options, pattern=f"{topic}-.*", format="text")
    with read.start() as running:
        broker.create_topic(f"{topic}-b")
        broker.produce(f"{topic}-b", numbered(0, 5))
        until(lambda: len(read.kept()) == 5, running=running)
    made_again(broker, f"{topic}-b", numbered(10, 18))
    with pytest.raises(DataLossError, match=f"{topic}-b-0"):
        read.start()
    assert as_numbers(read.kept()) == list(range(5))


def test_should_end_real_time_mode_when_partitions_outnumber_the_slots(broker, topic, options):
    for name in (topic, f"{topic}-out"):
        broker.create_topic(name)
    stream = StreamBuilder.data_stream("test", "slots").from_kafka(broker.bootstrap_servers, topic, schema=SCHEMA)
    pipeline = stream.to_kafka(broker.bootstrap_servers, f"{topic}-out").build()
    with pipeline.start(options, latency="real-time") as running:
        # Spark has two slots: one more partition is read from the next of its batches on, two more are one too many.
        broker.add_partitions(topic, 2)
        until(lambda: running.query.work.watches["kafka"].splits == 2)
        until(lambda: arrived(broker, topic, records_of=1), running=running)
        broker.add_partitions(topic, 3)
        with pytest.raises(ConfigurationError, match="a slot for each of the 3 partitions, Spark has 2"):
            running.await_termination(60)
        assert not running.active


def arrived(broker, topic, *, records_of):
    """Whether a record of this partition came out; one is sent for each look."""
    from rs_assets.testing import KafkaRecord

    broker.produce(topic, [KafkaRecord(value=b'{"id": 1}', partition=records_of)])
    return bool(broker.read(f"{topic}-out"))
