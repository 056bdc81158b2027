"""The broker that tests, demonstrations and benchmarks run on: its life, and what it keeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

from rs_assets.errors import ConfigurationError
from rs_assets.testing import KafkaBroker, KafkaRecord
from rs_assets.testing.servers import kafka_node
from rs_assets.testing.servers.kafka_node import properties
from rs_assets.testing.servers.process import ServerProcess

# Prints the ids of the broker and of its folder's parent, then waits to be killed.
ORPHANED = """
import sys
from rs_assets.testing import KafkaBroker
broker = KafkaBroker().start()
print(broker.pid, broker.log_file.parent, flush=True)
sys.stdin.read()
"""


def values(records):
    return [record.value for record in records]


def gone(pid, seconds=120):
    deadline = time.monotonic() + seconds
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_what_is_produced_is_read_as_it_was(broker, topic):
    broker.create_topic(topic, partitions=2)
    records = [
        KafkaRecord(
            value=b"v", key=b"k", headers=(("h", b"1"), ("h", b"")), partition=1, timestamp_ms=1_700_000_000_000
        ),
        KafkaRecord(value=None, key=b"k", partition=1, timestamp_ms=5),
        KafkaRecord(value=b"", partition=0, timestamp_ms=0),
    ]
    assert broker.produce(topic, records) == 3
    read = broker.read(topic)
    assert [(r.partition, r.offset, r.key, r.value, r.headers, r.timestamp_ms) for r in read] == [
        (0, 0, None, b"", (), 0),
        (1, 0, b"k", b"v", (("h", b"1"), ("h", b"")), 1_700_000_000_000),
        (1, 1, b"k", None, (), 5),
    ]


def test_bytes_alone_are_values_and_get_the_time_of_now(broker, topic):
    broker.create_topic(topic)
    before = time.time_ns() // 1_000_000
    broker.produce(topic, [b"a", b"b"])
    read = broker.read(topic)
    assert values(read) == [b"a", b"b"]
    assert all(before <= record.timestamp_ms <= before + 60_000 for record in read)


def test_many_records_keep_their_order(broker, topic):
    broker.create_topic(topic)
    assert broker.produce(topic, (b"%d" % number for number in range(20_000))) == 20_000
    assert values(broker.read(topic)) == [b"%d" % number for number in range(20_000)]


def test_an_empty_topic_reads_as_nothing_and_an_unknown_one_is_an_error(broker, topic):
    broker.create_topic(topic)
    assert broker.read(topic) == []
    assert broker.produce(topic, []) == 0
    with pytest.raises(UnknownTopicOrPartitionError):
        broker.read(f"{topic}-unknown")


def test_a_record_that_the_broker_refuses_is_an_error(broker, topic):
    broker.create_topic(topic, settings={"max.message.bytes": "1000"})
    with pytest.raises(Exception, match="RecordTooLarge|MessageSizeTooLarge|larger"):
        broker.produce(topic, [b"x" * 5_000])
    assert broker.read(topic) == []


def test_only_committed_transactions_are_read_unless_asked(broker, topic):
    broker.create_topic(topic)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic)
    producer.init_transactions()
    for value, end in ((b"kept", producer.commit_transaction), (b"dropped", producer.abort_transaction)):
        producer.begin_transaction()
        producer.send(topic, value)
        producer.flush()
        end()
    assert values(broker.read(topic)) == [b"kept"]
    assert values(broker.read(topic, isolation="read_uncommitted")) == [b"kept", b"dropped"]
    producer.begin_transaction()
    producer.send(topic, b"open")
    producer.flush()
    assert values(broker.read(topic)) == [b"kept"]
    assert values(broker.read(topic, isolation="read_uncommitted")) == [b"kept", b"dropped", b"open"]
    producer.abort_transaction()
    producer.close()


def test_a_topic_is_made_once(broker, topic):
    broker.create_topic(topic)
    with pytest.raises(TopicAlreadyExistsError):
        broker.create_topic(topic)


def test_partitions_can_be_added(broker, topic):
    broker.create_topic(topic)
    broker.produce(topic, [b"old"])
    broker.add_partitions(topic, 3)
    broker.produce(topic, [KafkaRecord(value=b"new", partition=2)])
    assert [(record.partition, record.value) for record in broker.read(topic)] == [(0, b"old"), (2, b"new")]


def test_a_deleted_topic_is_gone_and_comes_back_empty(broker, topic):
    broker.create_topic(topic)
    broker.produce(topic, [b"a"])
    broker.delete_topic(topic)
    with pytest.raises(UnknownTopicOrPartitionError):
        broker.delete_topic(topic)
    broker.create_topic(topic)
    assert broker.read(topic) == []


@pytest.mark.parametrize("end", [KafkaBroker.kill, KafkaBroker.stop], ids=["kill", "stop"])
def test_a_restart_keeps_the_address_and_the_data(broker, topic, end):
    broker.create_topic(topic)
    broker.produce(topic, [b"before"])
    address, pid = broker.bootstrap_servers, broker.pid
    end(broker)
    assert broker.pid is None
    assert gone(pid)
    broker.restart()
    assert broker.bootstrap_servers == address
    assert broker.pid not in (None, pid)
    broker.produce(topic, [b"after"])
    assert values(broker.read(topic)) == [b"before", b"after"]


def test_a_paused_broker_answers_nothing_until_it_is_resumed(broker, topic):
    broker.create_topic(topic)
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"a").get(timeout=120)
        broker.pause()
        try:
            sent = producer.send(topic, b"b")
            with pytest.raises(KafkaTimeoutError):
                sent.get(timeout=1)
        finally:
            broker.resume()
        sent.get(timeout=120)
    assert values(broker.read(topic)) == [b"a", b"b"]


def test_start_of_a_running_broker_changes_nothing(broker):
    pid = broker.pid
    broker.start()
    assert broker.pid == pid


def test_a_broker_leaves_no_process_and_no_folder_paused_or_not():
    with KafkaBroker(partitions_default=3) as broker:
        pid, folder = broker.pid, broker.log_file.parent
        broker.create_topic("t")
        broker.produce("t", [KafkaRecord(value=b"a", partition=2)])
        assert (folder / "data").is_dir()
        broker.pause()
    assert gone(pid)
    assert not folder.exists()
    assert broker.pid is None
    broker.close()


def test_a_folder_that_was_given_is_kept_and_used_again(tmp_path):
    with KafkaBroker(folder=tmp_path / "kept") as first:
        first.create_topic("t")
        first.produce("t", [b"a"])
    with KafkaBroker(folder=tmp_path / "kept") as second:
        assert values(second.read("t")) == [b"a"]


def test_a_broker_does_not_outlive_a_parent_that_was_killed():
    command = [sys.executable, "-c", ORPHANED]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid, folder = parent.stdout.readline().split(maxsplit=1)
    parent.kill()
    parent.communicate()
    assert gone(int(pid))
    deadline = time.monotonic() + 120
    while os.path.exists(folder.strip()) and time.monotonic() < deadline:  # noqa: PTH110
        time.sleep(0.05)
    assert not os.path.exists(folder.strip())  # noqa: PTH110


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"num.io.threads": "0"}, "num.io.threads"),
        ({"listeners": "junk"}, "junk"),
        # Not seen by the formatter, but by the broker.
        ({"authorizer.class.name": "org.example.Missing"}, "org.example.Missing"),
    ],
)
def test_settings_that_the_broker_refuses_are_an_error_that_says_why(settings, told):
    broker = KafkaBroker(settings=settings)
    with pytest.raises(ConfigurationError, match=told) as caught:
        broker.start()
    assert "\tat " not in str(caught.value)
    assert broker.pid is None
    with pytest.raises(ConfigurationError, match="not started"):
        _ = broker.log_file


def test_a_damaged_archive_of_classes_only_costs_time(monkeypatch, tmp_path):
    (tmp_path / "classes.jsa").write_bytes(b"junk" * 10_000)
    monkeypatch.setattr(kafka_node, "class_archive", lambda: tmp_path / "classes.jsa")
    with KafkaBroker() as broker:
        assert "jsa" not in broker.log_file.read_text()


def test_a_log_without_the_lines_of_stack_traces_is_told(tmp_path):
    (tmp_path / "log").write_text("one\n\nBad: news\n\tat org.example.A\n\t... 12 more\nCaused by: junk\n")
    server = ServerProcess(["true"], log_file=tmp_path / "log")
    assert server.log_tail() == "one\nBad: news\nCaused by: junk"


def test_a_broker_that_was_not_started_says_so():
    broker = KafkaBroker()
    with pytest.raises(ConfigurationError, match="not started"):
        _ = broker.bootstrap_servers
    broker.stop()
    broker.kill()
    broker.close()
    assert broker.pid is None


@pytest.mark.parametrize(
    "value", ["C:\\data", "a\nb=c", "käse", 'org.x required user="a" password="b\\c";', "a=b:c#d!"]
)
def test_settings_reach_java_as_they_are(value):
    # What Java's Properties reads: escapes as in JSON, and nothing else is special inside a value.
    line = properties({"k": value})
    assert line.count("\n") == 1
    assert line.isascii()
    assert line.removeprefix("k=").rstrip("\n").encode().decode("unicode_escape") == value


def test_a_server_that_ignores_the_request_to_stop_can_be_killed(tmp_path):
    server = ServerProcess(
        ["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"], log_file=tmp_path / "log"
    )
    server.start()
    while "up" not in server.log_tail():
        assert not server.ended_within(0.02)
    server.send(signal.SIGTERM)
    assert not server.ended_within(0.3)
    server.kill()
    assert not server.running
    server.close()
