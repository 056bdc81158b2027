"""Collects messages of MQTT: each is on the disk before the broker gets its acknowledgement.

Each connection has a client of its own. So an acknowledgement can never reach a later connection, in which its number
belongs to another message.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import orjson

from rs_assets.common.background import LOG
from rs_assets.common.files import write_atomically
from rs_assets.connectors.collector.collecting import Fatal
from rs_assets.connectors.collector.messages import Message
from rs_assets.connectors.collector.writing import LogWriter
from rs_assets.connectors.mqtt.broker import MqttBroker
from rs_assets.errors import SourceReadError

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

# The subscriptions of the session, which the broker keeps while no collector runs.
SUBSCRIBED: Final = "subscribed.json"
# The most messages of one write, and how long a look for more takes.
MOST: Final = 10_000
LOOK_S: Final = 0.2
ANSWER_S: Final = 30.0
# How long the last acknowledgements may take to leave.
LAST_S: Final = 2.0
# The answer of a broker that refuses a subscription.
REFUSED: Final = 0x80


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttCollector:
    """Subscribes to `topics`, with a session that the broker keeps unless `clean_session`.

    `reconnect`: whether it connects again when the connection is lost.
    """

    broker: MqttBroker
    topics: tuple[str, ...]
    qos: int
    client_id: str
    clean_session: bool
    reconnect: bool

    def collect(self, log: LogWriter, ready: Callable[[], None], stop: threading.Event) -> None:
        """Collect over one connection; SourceReadError if the broker refuses or the connection is lost."""
        try:
            with _Session(self, log.folder) as session:
                session.subscribe()
                ready()
                while not stop.is_set():
                    session.store(log)
        except SourceReadError as error:
            if self.reconnect:
                raise
            raise Fatal(str(error)) from error


@dataclass(slots=True)
class _Session:
    """One connection, and what has arrived over it; None is its end."""

    settings: MqttCollector
    folder: Path
    arrived: queue.SimpleQueue[MQTTMessage | None] = field(default_factory=queue.SimpleQueue)
    answers: queue.SimpleQueue[tuple[str, Any]] = field(default_factory=queue.SimpleQueue)
    ended: str = ""  # why the broker has ended the connection, which version 5 says
    _client: Client | None = None

    @property
    def client(self) -> Client:
        """The client of the connection."""
        assert self._client is not None  # within the block
        return self._client

    def __enter__(self) -> Self:
        """Connect."""
        settings = self.settings
        self._client = client = settings.broker.client(
            settings.client_id, clean_session=settings.clean_session, manual_ack=True
        )
        client.on_message = lambda _client, _data, message: self.arrived.put(message)
        client.on_connect = lambda _client, _data, *answer: self.answers.put(("connect", answer))
        client.on_subscribe = lambda _client, _data, _mid, codes, _: self.answers.put(("subscribe", codes))
        client.on_unsubscribe = lambda *_: self.answers.put(("unsubscribe", None))
        client.on_disconnect = lambda _client, _data, flags, code, _: self._ended(flags, code)
        try:
            settings.broker.connect(client, clean_session=settings.clean_session)
        except OSError as error:
            raise SourceReadError(
                f"the MQTT broker cannot be reached: {error}",
                remedy="start it, or correct the url",
                broker=settings.broker.url,
            ) from error
        client.loop_start()
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect; what was not acknowledged is sent again to the next connection."""
        until = time.monotonic() + LAST_S
        while self.client.want_write() and time.monotonic() < until:
            time.sleep(LOOK_S / 100)
        self.client.disconnect()
        self.client.loop_stop()

    def subscribe(self) -> None:
        """Bring the session's subscriptions to those of the settings: a repeated one would send retained messages."""
        flags, code, granted = self._answer("connect")
        if code.is_failure:
            raise SourceReadError(
                f"the MQTT broker has refused the connection: {code}",
                remedy="check url, username and password",
                broker=self.settings.broker.url,
            )
        self._check_kept(getattr(granted, "SessionExpiryInterval", None))
        noted = self._known()
        known = noted if flags.session_present else {}
        if noted and not known and not self.settings.clean_session:
            lost = "the MQTT broker %s has no session of %r any more: messages that came since are lost"
            LOG.warning(lost, self.settings.broker.url, self.settings.client_id)
        wanted = dict.fromkeys(self.settings.topics, self.settings.qos)
        gone = [topic for topic in known if topic not in wanted]
        if gone:
            self.client.unsubscribe(gone)
            self._answer("unsubscribe")
        new = [(topic, qos) for topic, qos in wanted.items() if known.get(topic) != qos]
        if new:
            self.client.subscribe(new)
            self._check(new, self._answer("subscribe"))
        if known != wanted:
            write_atomically(self.folder / SUBSCRIBED, orjson.dumps(wanted))

    def store(self, log: LogWriter) -> None:
        """Write what has arrived, then acknowledge it; SourceReadError if the connection is lost."""
        found = self._taken()
        messages = [each for each in found if each is not None]
        if messages:
            log.append([Message(bytes(each.payload), _facts(each)) for each in messages])
            for each in messages:
                self.client.ack(each.mid, each.qos)
        if len(messages) < len(found):
            raise self._lost()

    def _taken(self) -> list[MQTTMessage | None]:
        try:
            found = [self.arrived.get(timeout=LOOK_S)]
        except queue.Empty:
            return []
        with suppress(queue.Empty):
            while len(found) < MOST:
                found.append(self.arrived.get_nowait())
        return found

    def _answer(self, to: str) -> Any:
        """What the broker answers; messages of the session may come before."""
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until:
            with suppress(queue.Empty):
                kind, answer = self.answers.get(timeout=LOOK_S)
                if kind == "end":
                    raise self._lost()
                if kind == to:
                    return answer
        raise self._lost()

    def _ended(self, flags: Any, code: Any) -> None:
        if self.settings.broker.five and flags.is_disconnect_packet_from_server:
            self.ended = f": {code}"
        self.answers.put(("end", None))
        self.arrived.put(None)

    def _check_kept(self, granted: int | None) -> None:
        """Say that the broker keeps the session for less time than it was asked to; None: for as long as that."""
        settings = self.settings
        if granted is None or settings.clean_session or granted >= settings.broker.expiry_s:
            return
        LOG.warning(
            "the MQTT broker %s keeps the session of %r for %s without a collector, and not for %s as it was asked:"
            " messages are lost after that",
            settings.broker.url, settings.client_id, timedelta(seconds=granted),
            settings.broker.session_expiry or "ever",
        )  # fmt: skip

    def _check(self, wanted: Sequence[tuple[str, int]], codes: Sequence[Any]) -> None:
        for (topic, qos), code in zip(wanted, codes, strict=True):
            if code.value >= REFUSED:
                why = str(code) if self.settings.broker.five else "its user may not read that"
                raise SourceReadError(
                    f"the MQTT broker has refused the subscription to {topic!r}: {why}",
                    broker=self.settings.broker.url,
                )
            if code.value < qos:
                raise SourceReadError(
                    f"the MQTT broker delivers {topic!r} with QoS {code.value} at most, which loses messages",
                    remedy="let it grant QoS 1 (max_qos of Mosquitto); or say so with qos=0",
                    broker=self.settings.broker.url,
                )

    def _known(self) -> Mapping[str, int]:
        """The subscriptions of the session that the broker has kept."""
        try:
            found: dict[str, int] = orjson.loads((self.folder / SUBSCRIBED).read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            return {}
        return found

    def _lost(self) -> SourceReadError:
        return SourceReadError(
            f"the connection to the MQTT broker is lost{self.ended}",
            remedy="start the broker, or check whether another client has the same client_id",
            broker=self.settings.broker.url,
        )


def _facts(message: MQTTMessage) -> dict[str, object]:
    return {"topic": message.topic, "qos": message.qos, "retain": bool(message.retain)}
