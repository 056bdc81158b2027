"""MQTT as a source: what a broker acknowledged is in the log at least once, and read from it exactly once."""

from __future__ import annotations

import errno
import itertools
import json
import random
import signal
import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.cli.run.collect import collected_sources
from rs_assets.connectors.collector.collecting import CollectorState, Fatal, collect
from rs_assets.connectors.collector.log import CollectedLog
from rs_assets.connectors.collector.messages import Message
from rs_assets.connectors.collector.writing import LogWriter
from rs_assets.connectors.registry import SOURCES
from rs_assets.errors import BadRecordError, ConfigurationError, SealedError, TopologyError
from rs_assets.recovery.savepoints import SavepointStore
from rs_assets.runtime.job.needed import needed_offsets
from rs_assets.testing import MqttBroker, SourceCase, check_source
from rs_assets.testing.servers import mqtt as mqtt_server
from tests.collector.collecting import collected, payloads, running, wait_until
from tests.collector.process import CollectorProcess

TOPICS = itertools.count()


@pytest.fixture
def topic():
    return f"plant-{next(TOPICS)}"


def stream_of(mqtt, topic, **settings):
    settings = {"schema": "n bigint", "client_id": topic, **settings}
    return StreamBuilder.data_stream("shop", "plant").from_mqtt(mqtt.url, f"{topic}/#", **settings)


def run(stream, options):
    out = MemoryChannel()
    stream.to_memory(out).build().run(options)
    return out.rows()


def numbers(first, end):
    return [json.dumps({"n": n}) for n in range(first, end)]


@pytest.mark.canary
def test_messages_should_be_read_once_over_restarts(mqtt, topic, options, home):
    stream = stream_of(mqtt, topic, metadata=["topic", "retain"], collect=False)
    with collected(stream, home) as log:
        mqtt.publish(f"{topic}/7", numbers(0, 30))
        wait_until(lambda: log.end() == 30)
    assert run(stream, options) == [{"n": n, "mqtt_topic": f"{topic}/7", "mqtt_retain": False} for n in range(30)]
    assert run(stream, options) == []
    # What comes while nothing collects waits at the broker.
    mqtt.publish(f"{topic}/7", numbers(30, 40))
    with collected(stream, home) as log:
        wait_until(lambda: log.end() == 40)
    assert [row["n"] for row in run(stream, options)] == [*range(30, 40)]


def test_the_source_should_keep_the_promises_of_sources(mqtt, topic, home, driver):
    def put(*texts):
        log = home.collected / "x"
        end = CollectedLog(log).end()
        with running(mqtt_collector(mqtt, topic), log) as collecting:
            mqtt.publish(f"{topic}/x", texts)
            wait_until(lambda: collecting.end() == end + len(texts))

    def lose():
        log = CollectedLog(home.collected / "x")
        log.segments()[-1].file.unlink()

    case = SourceCase(
        stream=lambda begun, bad: begun.from_mqtt(
            mqtt.url,
            f"{topic}/#",
            client_id=topic,
            schema="page string, ms bigint",
            bad_records=bad,
            collect=False,
            log=str(home.collected / "x"),
        ),
        row=lambda n: {"page": f"/é{n}", "ms": n},
        add=lambda rows: put(*map(json.dumps, rows)),
        lose=lose,
        add_bad=lambda: put('{"page": "/", "ms": "soon"}'),
    )
    with running(mqtt_collector(mqtt, topic), home.collected / "x"):
        pass
    check_source(case, spark=driver, home=home.root)


def mqtt_collector(mqtt, topic, **settings):
    node = stream_of(mqtt, topic, **settings).step.node
    return SOURCES[type(node)].collector(node)


@pytest.mark.parametrize(
    ("settings", "sent", "found"),
    [
        ({"format": "text", "schema": None}, [b"a\nb", b" ", "é".encode()], [("a\nb",), ("é",)]),
        ({"format": "raw", "schema": None}, [b"\xff\n", b""], [(b"\xff\n",), (b"",)]),
        ({"format": "csv", "schema": "a int, b string", "delimiter": ";"}, [b'1;"x;y"'], [(1, "x;y")]),
        ({"format": "text", "pattern": r"(?P<a>\d+) (?P<b>\w+)", "schema": "a int, b string"}, [b"7 x"], [(7, "x")]),
        ({"schema": None}, [b'{"n": 1}', b'{"n": 2, "s": "x"}'], [(1, None), (2, "x")]),
    ],
)
def test_each_format_should_be_read(mqtt, topic, options, home, settings, sent, found):
    stream = stream_of(mqtt, topic, collect=False, **settings)
    with LogWriter(home.collected / "shop" / "plant" / "mqtt") as log:
        log.append([Message(payload, {"topic": topic}) for payload in sent])
    assert [tuple(row.values()) for row in run(stream, options)] == found


def test_a_bad_message_should_be_named_by_its_number(mqtt, topic, options, home):
    with LogWriter(home.collected / "shop" / "plant" / "mqtt") as log:
        log.append([Message(payload) for payload in (b'{"n": 1}', b"{", b"\xff")])
    with pytest.raises(BadRecordError) as raised:
        run(stream_of(mqtt, topic, collect=False), options)
    assert raised.value.facts["line"] == 1
    out = run(stream_of(mqtt, topic, collect=False, bad_records="skip"), options)
    assert out == [{"n": 1}]


def test_a_run_should_collect_unless_another_process_does(mqtt, topic, options, home):
    out = MemoryChannel()
    stream = stream_of(mqtt, topic)
    with stream.to_memory(out).build().start(options):
        folder = home.collected / "shop" / "plant" / "mqtt"
        wait_until(lambda: CollectorState.of(folder).state == "collecting")
        mqtt.publish(f"{topic}/1", numbers(0, 5))
        wait_until(lambda: len(out.rows()) == 5)
    assert CollectorState.of(folder).state == "stopped"


def test_retained_messages_should_not_come_again_with_each_start(mqtt, topic, home, tmp_path):
    mqtt.publish(f"{topic}/1", [b"kept"], retain=True)
    for more in (False, True):
        settings = {"metadata": ["retain"]} if more else {}
        with running(mqtt_collector(mqtt, topic, **settings), tmp_path / "log") as log:
            wait_until(lambda: log.end() == 1)
    mqtt.publish(f"{topic}/1", [b""], retain=True)
    with running(mqtt_collector(mqtt, topic), tmp_path / "log") as log:
        wait_until(lambda: log.end() == 2)
    assert payloads(log) == [b"kept", b""]


def test_changed_topics_should_change_the_session(mqtt, topic, tmp_path):
    def collector(*topics):
        return replace(mqtt_collector(mqtt, topic), topics=topics)

    with running(collector(f"{topic}/a", f"{topic}/b"), tmp_path / "log"):
        pass
    with running(collector(f"{topic}/b", f"{topic}/c"), tmp_path / "log") as log:
        for level in "abc":
            mqtt.publish(f"{topic}/{level}", [level])
        wait_until(lambda: log.end() == 2)
    assert payloads(log) == [b"b", b"c"]


def test_a_full_disk_should_leave_messages_at_the_broker(mqtt, topic, tmp_path, monkeypatch):
    full = [True]
    real = LogWriter._write

    def write(self, lines, count):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, lines, count)

    monkeypatch.setattr(LogWriter, "_write", write)
    with running(mqtt_collector(mqtt, topic), tmp_path / "log") as log:
        mqtt.publish(f"{topic}/1", [b"%d" % n for n in range(30)])
        wait_until(lambda: "No space left" in CollectorState.of(tmp_path / "log").problem)
        assert log.end() == 0
        full[0] = False
        wait_until(lambda: {*payloads(log)} == {b"%d" % n for n in range(30)})


def test_a_broker_that_refuses_should_be_named(topic, tmp_path):
    with MqttBroker(username="me", password="secret") as broker:
        broker.publish(f"{topic}/1", [b"x"])
        state = CollectorState.of
        stop = threading.Event()
        collector = mqtt_collector(broker, topic, username="me", password="wrong")
        thread = threading.Thread(target=collect, args=(collector, LogWriter(tmp_path), stop))
        thread.start()
        wait_until(lambda: "refused the connection" in state(tmp_path).problem)
        stop.set()
        thread.join()
        assert "wrong" not in repr(collector)
        assert "wrong" not in (tmp_path / "collector.json").read_text()
        with running(mqtt_collector(broker, topic, username="me", password="secret"), tmp_path):
            pass


def test_a_broker_that_grants_less_than_was_asked_for_should_be_named(topic, tmp_path):
    """With QoS 0 what comes while no collector is connected is lost, without a word."""
    with MqttBroker(settings={"max_qos": "0"}) as broker:
        stop = threading.Event()
        thread = threading.Thread(
            target=collect, args=(mqtt_collector(broker, topic), LogWriter(tmp_path / "one"), stop)
        )
        thread.start()
        wait_until(lambda: "with QoS 0 at most" in CollectorState.of(tmp_path / "one").problem)
        stop.set()
        thread.join()
        with running(mqtt_collector(broker, topic, qos=0), tmp_path / "two"):
            pass


def test_a_session_that_the_broker_has_lost_should_be_said(topic, tmp_path, caplog):
    with MqttBroker() as broker:
        with running(mqtt_collector(broker, topic), tmp_path):
            pass
        assert "are lost" not in caplog.text
        client = broker._address().client(mqtt_collector(broker, topic).client_id, clean_session=True)
        broker._address().connect(client)
        client.loop_start()
        wait_until(client.is_connected)
        client.disconnect()
        client.loop_stop()
        with running(mqtt_collector(broker, topic), tmp_path):
            wait_until(lambda: "messages that came since are lost" in caplog.text)


@pytest.mark.parametrize(
    ("settings", "what", "mended"),
    [
        ({"qos": 2}, "must be one of 0, 1", {"qos": 1}),
        ({"clean_session": True}, "loses what comes", {"qos": 0}),
        ({"topics": "a/#/b"}, "not one that clients can subscribe to", {"topics": "a/+/b"}),
        ({"topics": []}, "no topic", {"topics": "plant/+/temperature"}),
    ],
)
def test_wrong_options_of_mqtt_should_be_refused(settings, what, mended):
    refused_and_mended(settings, what, mended)


@pytest.mark.parametrize(
    ("settings", "what", "mended"),
    [
        ({"format": "avro"}, "not a format", {"format": "json"}),
        ({"format": "csv", "schema": None}, "need a schema", {"schema": "n bigint"}),
        ({"metadata": ["queue"]}, "no such metadata", {"metadata": ["topic", "received_at", "qos", "retain"]}),
        ({"format": "text"}, "the one field 'value'", {"schema": None}),
        ({"pattern": "(?P<n>.*)"}, "needs format='text'", {"pattern": None}),
        ({"delimiter": ";"}, "needs format='csv'", {"delimiter": ","}),
        ({"keep": 7}, "keep must be a time", {"keep": timedelta(days=7)}),
        ({"max_rows_per_batch": 0}, "a limit", {"max_rows_per_batch": 1}),
    ],
)
def test_wrong_options_of_messages_should_be_refused(settings, what, mended):
    refused_and_mended(settings, what, mended)


def refused_and_mended(settings, what, mended):
    def stream(**settings):
        settings = {"schema": "n bigint", "topics": "a/#", **settings}
        begin().from_mqtt("mqtt://localhost", settings.pop("topics"), **settings)

    with pytest.raises(TopologyError, match=what):
        stream(**settings)
    stream(**{**settings, **mended})


@pytest.mark.parametrize("url", ["localhost", "http://localhost", "mqtt://me:secret@localhost", "mqtt://localhost:x"])
def test_a_wrong_address_should_be_refused_without_its_secret(url):
    with pytest.raises(ConfigurationError, match="not the address of an MQTT broker") as raised:
        begin().from_mqtt(url, "a", schema="n bigint")
    assert "secret" not in str(raised.value)
    begin().from_mqtt("mqtts://localhost:8883", "a", username="me", password="secret", ca="ca.pem")


def test_a_broker_that_is_away_should_be_waited_for(topic, tmp_path):
    with MqttBroker() as broker:
        with running(mqtt_collector(broker, topic), tmp_path) as log:
            for problem in ("is lost", "cannot be reached"):
                broker.stop()
                wait_until(lambda: problem in CollectorState.of(tmp_path).problem)  # noqa: B023
            broker.start()
            broker.publish(f"{topic}/1", [b"x"])
            wait_until(lambda: log.end() == 1)
        broker.stop()
        collector = mqtt_collector(broker, topic, reconnect=False)
        with pytest.raises(Fatal, match="cannot be reached"):
            collect(collector, LogWriter(tmp_path), threading.Event())


def test_the_end_of_a_generation_should_be_kept(topic, mqtt, options, home):
    folder = home.collected / "shop" / "plant" / "mqtt"
    stream = stream_of(mqtt, topic, collect=False)
    out = MemoryChannel()
    pipeline = stream.to_memory(out).build()
    with LogWriter(folder) as log:
        log.append([Message(b'{"n": 1}')])
    pipeline.run(options, finish=True)
    with LogWriter(folder) as log:
        log.append([Message(b'{"n": 2}')])
    with pytest.raises(SealedError):
        pipeline.run(options)
    pipeline.run(replace(options, new_generation=True))
    assert [row["n"] for row in out.rows()] == [1, 1, 2]


def test_what_batches_and_savepoints_can_go_back_to_should_stay(topic, mqtt, options, home):
    stream = stream_of(mqtt, topic, collect=False, keep=timedelta(0))
    log = CollectedLog(stream.step.node.folder(home))
    pipeline = stream.to_memory(MemoryChannel()).build()

    def add(count):
        with LogWriter(log.folder, roll_bytes=1) as writer:
            for _ in range(count):
                writer.append([Message(b'{"n": 1}')])

    add(3)
    pipeline.run(options)
    # The last segment stays, for the number of the next record.
    assert log.begin() == 2
    add(2)
    pipeline.run(options)
    # The first batch of the checkpoint can still be gone back to.
    assert (log.begin(), log.end()) == (3, 5)
    pipeline.savepoint(options)
    query = home.job("shop", "plant") / "g0001" / "mqtt"
    checkpoint = SourceLog(CheckpointLog(query / "checkpoint"), "mqtt")
    store = SavepointStore(home.savepoints)
    needed = [
        number
        for offset in needed_offsets(store, "shop", "plant", [checkpoint])
        for number in json.loads(offset).values()
    ]
    assert needed == [3, 5]
    assert needed_offsets(store, "shop", "plant", [replace(checkpoint, source="other")]) == [None, None]


def test_the_command_should_collect_what_a_pipeline_needs(mqtt, topic):
    pipeline = stream_of(mqtt, topic).to_print().build()
    assert [*collected_sources(pipeline, None)] == ["mqtt"]
    with pytest.raises(ConfigurationError, match="no source 'x'") as raised:
        collected_sources(pipeline, "x")
    assert raised.value.remedy == "name one of: mqtt"
    assert [*collected_sources(pipeline, "mqtt")] == ["mqtt"]
    with pytest.raises(ConfigurationError, match="needs a collector"):
        collected_sources(begin().from_array([{"n": 1}]).to_print().build(), None)


def test_a_broker_for_tests_should_be_found_in_path(tmp_path, monkeypatch):
    with pytest.raises(ConfigurationError, match="was not started"):
        _ = MqttBroker().url
    monkeypatch.setattr(mqtt_server, "INSTALLED", ())
    monkeypatch.setattr(mqtt_server, "fetched_folder", lambda: tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="there is no Mosquitto"):
        mqtt_server.fetch()
    binary = tmp_path / "mosquitto"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    assert mqtt_server.fetch() == binary


def begin():
    return StreamBuilder.data_stream("shop", "plant")


@pytest.mark.canary
@pytest.mark.faults
def test_kills_and_pauses_should_lose_nothing(mqtt, topic, options, home, request):
    survive(mqtt, topic, options, home, seed=1, moments=2)


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.parametrize("seed", range(2, 12))
def test_kills_and_pauses_at_more_moments_should_lose_nothing(mqtt, topic, options, home, seed):
    survive(mqtt, topic, options, home, seed=seed, moments=2)


def survive(mqtt, topic, options, home, *, seed, moments):
    """Publish while the collector's process and the broker are killed or paused; each message is in the log.

    Duplicates are allowed in the log, and the rows of the pipeline are exactly those of the log.
    """
    rng = random.Random(seed)
    stream = stream_of(mqtt, topic, collect=False)
    folder = home.collected / "shop" / "plant" / "mqtt"
    log = CollectedLog(folder)
    sent, rows = 0, []
    with CollectorProcess(stream.step.node, folder) as process:
        for _ in range(moments):
            more = rng.randrange(20, 60)
            publisher = threading.Thread(target=publish_all, args=(mqtt, f"{topic}/1", numbers(sent, sent + more)))
            publisher.start()
            time.sleep(rng.uniform(0, 0.15))
            rng.choice([process.kill, lambda: pause(process), lambda: break_broker(mqtt, rng)])()
            publisher.join()
            sent += more
            process.start()
            wait_until(lambda: {json.loads(p)["n"] for p in payloads(log)} >= {*range(sent)})  # noqa: B023
    rows = [row["n"] for row in run(stream, options)]
    assert rows == [json.loads(payload)["n"] for payload in payloads(log)]
    assert {*rows} == {*range(sent)}
    # Without duplicates they are in the order in which they were sent.
    assert len(rows) <= sent + 200


def break_broker(mqtt, rng):
    if rng.random() < 0.5:
        mqtt.pause()
        time.sleep(0.3)
        mqtt.resume()
    else:
        mqtt.kill()
        time.sleep(0.05)
        mqtt.start()


def publish_all(mqtt, topic, texts):
    """Publish each message until the broker has acknowledged it: what was under way is sent again."""
    left = [*texts]
    while left:
        try:
            mqtt.publish(topic, left)
        except (ConfigurationError, OSError, RuntimeError, ValueError):
            time.sleep(0.05)
        else:
            left = []


def pause(process):
    process.send(signal.SIGSTOP)
    time.sleep(0.2)
    process.send(signal.SIGCONT)
