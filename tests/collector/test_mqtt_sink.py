"""MQTT as a sink: at least once, over brokers that are killed and paused; and its tables in SQL."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time

import pytest

from rs_assets import StreamBuilder, pipeline_from_sql
from rs_assets.connectors.collector.messages import Message
from rs_assets.connectors.collector.writing import LogWriter
from rs_assets.connectors.mqtt.nodes import MqttSink
from rs_assets.connectors.mqtt.topics import selects
from rs_assets.connectors.mqtt.writer import MqttWriter
from rs_assets.connectors.own.batch_sink import PartMark
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError, TopologyError
from rs_assets.testing import MqttBroker, SinkCase, check_sink
from tests.collector.collecting import running, wait_until
from tests.collector.test_mqtt import break_broker, mqtt_collector, payloads

TOPICS = itertools.count()


@pytest.fixture
def topic():
    return f"out-{next(TOPICS)}"


def begin(rows, job="alarms"):
    return StreamBuilder.data_stream("shop", job).from_array(rows)


def writer_of(broker, topic, **settings):
    made = begin([{"n": 1}]).to_mqtt(broker.url, topic, **settings).build().topology
    return MqttWriter(next(node for node in made if isinstance(node, MqttSink)))


def messages(topic, numbers):
    return [{"topic": topic, "body": b"%d" % n} for n in numbers]


MARK = PartMark(BatchMark("id", 1, "sink", 0), 0, final=True)


@pytest.mark.canary
def test_messages_should_be_acknowledged_before_a_call_returns(mqtt, topic):
    writer = writer_of(mqtt, topic, retain=True)
    with mqtt.listening(f"{topic}/#") as seen:
        writer.write(messages(f"{topic}/a", range(200)), MARK)
        writer.write(messages(f"{topic}/b", range(3)), MARK)
        writer.close()
        wait_until(lambda: len(seen) == 203)
    with mqtt.listening(f"{topic}/#") as kept:
        wait_until(lambda: sorted(kept) == [(f"{topic}/a", b"199"), (f"{topic}/b", b"2")])


@pytest.mark.parametrize("small", ["1", "2"])
def test_the_message_that_was_read_last_is_retained(mqtt, topic, options, tmp_path, small):
    """Spark hands out the larger files of a batch first."""
    for number in ("1", "2"):
        file, size = tmp_path / "in" / f"{number}.json", 0 if number == small else 200
        file.parent.mkdir(exist_ok=True)
        lines = [{"v": int(number) * 10 + n, "p": "x" * size} for n in range(3)]
        file.write_text("\n".join(map(json.dumps, lines)) + "\n")
        os.utime(file, (1e9 + int(number), 1e9 + int(number)))
    rows = StreamBuilder.data_stream("shop", "kept").from_file(tmp_path / "in", schema="v bigint, p string")
    rows.select_fields("v").to_mqtt(mqtt.url, topic, retain=True).build().run(options)
    with mqtt.listening(topic) as kept:
        wait_until(lambda: kept == [(topic, b'{"v":22}')])


def test_the_sink_should_keep_the_promises_of_sinks(mqtt, topic, home, driver, tmp_path):
    looks = itertools.count(1)
    with running(mqtt_collector(mqtt, topic, format="text", schema=None), tmp_path / "seen") as log:

        def rows():
            # The broker hands messages on in the order in which they came, so this one is the last.
            last = b'"looked for the %d. time"' % next(looks)
            mqtt.publish(f"{topic}/x", [last])
            wait_until(lambda: last in payloads(log))
            return [row for payload in payloads(log) if not isinstance(row := json.loads(payload), str)]

        case = SinkCase(
            write=lambda stream: stream.map("n", "text", f"if(text IS NULL, '', '{topic}/x') AS place").to_mqtt(
                mqtt.url, topic_field="place", refused="dead_letter"
            ),
            rows=rows,
            exactly_once=False,
            refused={"n": 1, "text": None},
        )
        check_sink(case, spark=driver, home=home.root)


def test_payloads_and_topics_should_be_fields(mqtt, topic, options):
    rows = [{"n": 1, "raw": b"\xff", "to": f"{topic}/a"}, {"n": 2, "raw": b"", "to": f"{topic}/b"}]
    with mqtt.listening(f"{topic}/#") as seen:
        begin(rows).to_mqtt(mqtt.url, topic_field="to", value="raw", qos=2).build().run(options)
        wait_until(lambda: len(seen) == 2)
    assert sorted(seen) == [(f"{topic}/a", b"\xff"), (f"{topic}/b", b"")]
    with pytest.raises(SinkError, match="'a/#' is not a topic"):
        begin([{"to": "a/#"}], "wrong").to_mqtt(mqtt.url, topic_field="to").build().run(options)
    with pytest.raises(TopologyError, match="not a text"):
        begin([{"n": 1}], "number").to_mqtt(mqtt.url, topic_field="n").build().run(options)
    texts = begin([{"n": 1}], "texts").with_fields(n="cast(n AS string)")
    assert texts.to_mqtt(mqtt.url, topic_field="n").build().run(options).rows_in == 1


def test_a_login_that_is_wrong_should_end_the_run(topic):
    with MqttBroker(username="me", password="secret") as broker:
        with pytest.raises(SinkError, match="refused the connection"):
            writer_of(broker, topic, username="me", password="wrong").write(messages(topic, [1]), MARK)
        writer = writer_of(broker, topic, username="me", password="secret")
        writer.write(messages(topic, [1]), MARK)
        writer.close()


@pytest.mark.faults
def test_a_broker_that_is_killed_and_paused_should_lose_nothing(mqtt, topic, tmp_path):
    survive(mqtt, topic, tmp_path, seed=1)


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.parametrize("seed", range(2, 12))
def test_a_broker_that_breaks_at_more_moments_should_lose_nothing(mqtt, topic, tmp_path, seed):
    survive(mqtt, topic, tmp_path, seed=seed)


def survive(mqtt, topic, folder, *, seed):
    rng = random.Random(seed)
    writer = writer_of(mqtt, topic)
    with running(mqtt_collector(mqtt, topic), folder / "log") as log:
        for first in (0, 40):
            part = messages(f"{topic}/x", range(first, first + 40))
            thread = threading.Thread(target=writer._attempt, args=(part, MARK))
            thread.start()
            time.sleep(rng.uniform(0, 0.2))
            break_broker(mqtt, rng)
            thread.join()
        writer.close()
        wait_until(lambda: {*payloads(log)} == {b"%d" % n for n in range(80)})


@pytest.mark.parametrize(
    ("settings", "what", "mended"),
    [
        ({}, "there must be a topic", {"topic": "plant/alarms"}),
        ({"topic": "a/#"}, "is not a topic", {"topic": "plant/alarms"}),
        ({"topic": "a", "qos": 3}, "must be one of 0, 1, 2", {"qos": 1}),
        ({"topic": "a", "rows_per_second": 0}, "above 0", {"rows_per_second": None}),
        ({"topic": "a", "refused": "skip"}, "one of fail, dead_letter", {"refused": "dead_letter"}),
    ],
)
def test_wrong_options_should_be_refused(settings, what, mended):
    with pytest.raises(TopologyError, match=what):
        begin([{"n": 1}]).to_mqtt("mqtt://localhost", **settings)
    begin([{"n": 1}]).to_mqtt("mqtt://localhost", **{**settings, **mended})


def test_a_pipeline_should_not_read_what_it_publishes():
    stream = StreamBuilder.data_stream("shop", "loop").from_mqtt("mqtt://localhost", "a/+/#", schema="n bigint")
    with pytest.raises(TopologyError, match="writes the topic"):
        stream.to_mqtt("tcp://localhost:1883", "a/b/c").build()
    stream.to_mqtt("mqtt://localhost", "b").build()


@pytest.mark.parametrize(
    ("wanted", "topic", "found"),
    [
        ("a/#", "a", True), ("a/#", "a/b/c", True), ("a/+", "a", False), ("a/+", "a/", True), ("+", "a/b", False),
        ("#", "a", True), ("#", "$SYS/a", False), ("$SYS/#", "$SYS/a", True), ("a", "a/b", False), ("a/b", "a", False),
    ],
)  # fmt: skip
def test_filters_should_select_topics(wanted, topic, found):
    assert selects(wanted, topic) is found
    from paho.mqtt.client import topic_matches_sub

    assert topic_matches_sub(wanted, topic) is found


TABLES = """
CREATE TABLE readings (
  n BIGINT, place STRING METADATA FROM 'topic', ts TIMESTAMP_LTZ(3) METADATA FROM 'received_at'
) WITH (
  'connector' = 'mqtt', 'url' = '{url}', 'topic' = '{topic}/#', 'clientId' = '{topic}', 'cleanSession' = 'false',
  'connectionTimeout' = '10', 'aliveInterval' = '60', 'automaticReconnect' = 'true', 'username' = 'me',
  'password' = '$MQTT_PASSWORD', 'bad-records' = 'skip'
);
CREATE TABLE alarms (n BIGINT, place STRING) WITH (
  'connector' = 'mqtt', 'url' = '{url}', 'topic' = 'alarms-{topic}', 'retain' = 'true', 'username' = 'me',
  'password' = '$MQTT_PASSWORD'
);
INSERT INTO alarms SELECT n, place FROM readings WHERE n > 1;
"""


def test_tables_of_sql_should_read_and_write(topic, options, home, monkeypatch):
    monkeypatch.setenv("MQTT_PASSWORD", "secret")
    with MqttBroker(username="me", password="secret") as broker:
        pipeline = pipeline_from_sql(TABLES.format(url=broker.url, topic=topic), namespace="shop", job="sql")
        (source,) = pipeline.topology.sources
        with LogWriter(source.folder(home)) as log:
            log.append([Message(b'{"n": %d}' % n, {"topic": f"{topic}/{n}"}) for n in range(3)])
        with broker.listening(f"alarms-{topic}") as seen:
            pipeline.run(options)
            wait_until(lambda: seen)
        assert [json.loads(payload) for _, payload in seen] == [{"n": 2, "place": f"{topic}/2"}]


def test_tables_of_webhooks_and_syslog_should_be_sources():
    text = """
    CREATE TABLE hooks (id BIGINT, at TIMESTAMP_LTZ(3) METADATA FROM 'received_at') WITH (
      'connector' = 'webhook', 'path' = '/orders', 'port' = '8080', 'token' = '$TOKEN');
    CREATE TABLE logs (severity INT, message STRING, peer STRING METADATA FROM 'address') WITH (
      'connector' = 'syslog', 'port' = '5514', 'protocol' = 'udp', 'time-zone' = 'Europe/Berlin');
    """
    for table, columns in (("hooks", "id, at"), ("logs", "message, peer")):
        kinds = "id BIGINT, at TIMESTAMP_LTZ(3)" if table == "hooks" else "message STRING, peer STRING"
        shown = f"CREATE TABLE shown ({kinds}) WITH ('connector' = 'print');"
        statements = f"{text} {shown} INSERT INTO shown SELECT {columns} FROM {table};"
        sources = pipeline_from_sql(statements, namespace="shop", job="sql").topology.sources
        assert [source.prefix for source in sources] == ["webhook" if table == "hooks" else "syslog"]
