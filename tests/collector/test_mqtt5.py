"""MQTT 5: sessions that expire, shared subscriptions, and what the broker gives as its reason."""

from __future__ import annotations

import itertools
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from paho.mqtt.client import DisconnectFlags
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from rs_assets import StreamBuilder
from rs_assets.connectors.collector.collecting import CollectorState, collect
from rs_assets.connectors.collector.writing import LogWriter
from rs_assets.connectors.mqtt.broker import FOR_EVER_S, MqttBroker
from rs_assets.connectors.mqtt.collector import MqttCollector, _Session
from rs_assets.connectors.own.batch_sink import PartMark, RowsRefused
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import ConfigurationError, SourceReadError, TopologyError
from rs_assets.testing import MqttBroker as Broker
from tests.collector.collecting import payloads, running, wait_until
from tests.collector.test_mqtt import mqtt_collector
from tests.collector.test_mqtt_sink import messages, writer_of

TOPICS = itertools.count()
MARK = PartMark(BatchMark("id", 1, "sink", 0), 0, final=True)


@pytest.fixture
def topic():
    return f"five-{next(TOPICS)}"


@pytest.mark.canary
def test_a_session_of_version_5_keeps_what_comes_while_nothing_collects(mqtt, topic, tmp_path):
    collector = mqtt_collector(mqtt, topic, version="5", session_expiry=timedelta(days=7))
    for first in (0, 20):
        with running(collector, tmp_path) as log:
            mqtt.publish(f"{topic}/7", [b"%d" % n for n in range(first, first + 10)])
            wait_until(lambda first=first, log=log: log.end() >= first + 10)
        # The next collector gets these.
        mqtt.publish(f"{topic}/7", [b"%d" % n for n in range(first + 10, first + 20)])
    with running(collector, tmp_path) as log:
        wait_until(lambda: log.end() >= 40)
    assert payloads(log) == [b"%d" % n for n in range(40)]


def test_collectors_of_a_shared_subscription_share_its_messages(mqtt, topic, tmp_path):
    alone = replace(mqtt_collector(mqtt, topic, version="5"), topics=(f"$share/hot/{topic}/#",))
    shared = [replace(alone, client_id=f"{topic}-{name}") for name in ("a", "b")]
    with running(shared[0], tmp_path / "a") as one, running(shared[1], tmp_path / "b") as other:
        mqtt.publish(f"{topic}/7", [b"%d" % n for n in range(50)])
        wait_until(lambda: one.end() + other.end() == 50)
        assert sorted(payloads(one) + payloads(other)) == sorted(b"%d" % n for n in range(50))
        assert min(one.end(), other.end()) > 0


def test_the_reason_of_a_broker_that_ends_a_connection_is_said(topic, tmp_path):
    taken_over = ReasonCode(PacketTypes.DISCONNECT, "Session taken over")
    for version, reason in (("5", ": Session taken over"), ("3.1.1", "")):
        session = _Session(mqtt_collector(FakeServer, topic, version=version), tmp_path)
        session._ended(DisconnectFlags(is_disconnect_packet_from_server=True), taken_over)
        with pytest.raises(SourceReadError, match=f"the connection to the MQTT broker is lost{reason}( |$)"):
            session._answer("connect")


class Refusing:
    """A client whose broker refuses what is for `others`, and may end the connection then."""

    def __init__(self, *, stays):
        self.stays, self.there, self.sent = stays, True, []

    def max_inflight_messages_set(self, most):
        self.most = most

    def loop_start(self):
        said = Properties(PacketTypes.CONNACK)
        said.ReceiveMaximum = 20
        self.on_connect(self, None, None, ReasonCode(PacketTypes.CONNACK), said)

    def publish(self, topic, body, **_):
        self.sent.append((topic, body))
        refused = topic == "others"
        code = ReasonCode(PacketTypes.PUBACK, "Not authorized" if refused else "Success")
        self.on_publish(self, None, len(self.sent), code, None)
        self.there = self.there and (self.stays or not refused)
        return Sent(mid=len(self.sent), done=self.there)

    def is_connected(self):
        return self.there

    def disconnect(self):
        pass

    loop_stop = disconnect


@dataclass(frozen=True)
class Sent:
    mid: int
    done: bool

    def is_published(self):
        return self.done

    def wait_for_publish(self, timeout):
        pass


@pytest.mark.parametrize("stays", [True, False])
def test_messages_that_the_broker_refuses_are_named(topic, monkeypatch, stays):
    client = Refusing(stays=stays)
    monkeypatch.setattr(MqttBroker, "client", lambda *_, **__: client)
    monkeypatch.setattr(MqttBroker, "connect", lambda *_, **__: None)
    writer = writer_of(FakeServer, topic, version="5")
    with pytest.raises(RowsRefused) as refused:
        writer.write([*messages("a", [1]), *messages("others", [2]), *messages("a", [3])], MARK)
    assert refused.value.reasons == {1: "the MQTT broker has refused it: Not authorized"}
    assert len(client.sent) == 3


class FakeServer:
    url = "mqtt://localhost"


def test_no_more_messages_wait_for_an_answer_than_the_broker_takes(mqtt, topic):
    # Mosquitto takes 20 by default, and ends a connection with more.
    writer = writer_of(mqtt, topic, version="5")
    with mqtt.listening(f"{topic}/#") as seen:
        writer.write(messages(f"{topic}/a", range(400)), MARK)
        writer.close()
        wait_until(lambda: len(seen) == 400)
    assert {payload for _, payload in seen} == {b"%d" % n for n in range(400)}


@pytest.mark.parametrize(
    ("clean", "expiry", "seconds"),
    [(False, None, FOR_EVER_S), (False, timedelta(hours=1), 3600), (True, timedelta(hours=1), 0)],
)
def test_version_5_says_how_long_the_broker_keeps_the_session(clean, expiry, seconds):
    said = []

    class Client:
        def connect(self, host, port, **settings):
            said.append((settings["clean_start"], settings["properties"].SessionExpiryInterval))

    broker = MqttBroker(url="mqtt://localhost", version="5", session_expiry=expiry)
    broker.connect(Client(), clean_session=clean)
    assert said == [(clean, seconds)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"version": "4"}, "version must be one of 3.1.1, 5, not '4'"),
        ({"session_expiry": timedelta(days=1)}, "needs version 5"),
        ({"version": "5", "session_expiry": timedelta(0)}, "session_expiry must be a time of 1 s to 136 years"),
    ],
)
def test_settings_that_the_protocol_does_not_have_are_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        MqttBroker(url="mqtt://localhost", **settings)


@pytest.fixture
def answers():
    """A broker that answers CONNECT and then SUBSCRIBE as a test says; its address, and a list for the answers."""
    given = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        for answer in given:
                            asked = connection.recv(1_000)
                            connection.sendall(answer(asked))
                        while connection.recv(1_000):
                            pass

        threading.Thread(target=serve, daemon=True).start()
        yield f"mqtt://127.0.0.1:{server.getsockname()[1]}", given
        # Or `accept` waits for ever.
        server.shutdown(socket.SHUT_RDWR)


def connected(expiry):
    """The broker's answer to CONNECT, with the time for which it keeps a session."""
    properties = b"\x11" + expiry.to_bytes(4, "big")
    return lambda _: b"\x20" + bytes([3 + len(properties), 0, 0, len(properties)]) + properties


def subscribed(code):
    """The broker's answer to SUBSCRIBE."""
    return lambda asked: b"\x90\x04" + asked[2:4] + bytes([0, code])


def collector_at(url, **settings):
    broker = MqttBroker(url=url, version="5", **settings)
    return MqttCollector(
        broker=broker, topics=("$share/hot/a/#",), qos=1, client_id="c", clean_session=False, reconnect=False
    )


@pytest.mark.parametrize(("wanted", "kept", "warned"), [(None, 60, True), (timedelta(minutes=1), 60, False)])
def test_a_broker_that_keeps_the_session_for_less_time_is_said(answers, tmp_path, caplog, wanted, kept, warned):
    url, given = answers
    given += [connected(kept), subscribed(1)]
    with _Session(collector_at(url, session_expiry=wanted), tmp_path) as session:
        session.subscribe()
    assert ("for 0:01:00 without a collector, and not for" in caplog.text) == warned


def test_the_reason_of_a_broker_that_refuses_a_subscription_is_said(answers, tmp_path):
    url, given = answers
    given += [connected(FOR_EVER_S), subscribed(0x9E)]
    with (
        _Session(collector_at(url), tmp_path) as session,
        pytest.raises(SourceReadError, match="'\\$share/hot/a/#': Shared subscription not supported"),
    ):
        session.subscribe()


def test_a_shared_filter_without_a_group_is_refused():
    plant = StreamBuilder.data_stream("shop", "plant")
    with pytest.raises(TopologyError, match="not one that clients can subscribe to"):
        plant.from_mqtt("mqtt://localhost", "$share/+/plant", schema="n bigint")


def test_a_broker_that_refuses_the_connection_gives_its_reason(topic, tmp_path):
    with Broker(username="me", password="secret") as broker:
        stop = threading.Event()
        collector = mqtt_collector(broker, topic, username="me", password="wrong", version="5")
        thread = threading.Thread(target=collect, args=(collector, LogWriter(tmp_path), stop))
        thread.start()
        wait_until(lambda: "Not authorized" in CollectorState.of(tmp_path).problem)
        stop.set()
        thread.join()
