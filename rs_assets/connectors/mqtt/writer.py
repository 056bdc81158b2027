"""The MQTT sink: the driver publishes a batch when it is committed, and waits for the broker's acknowledgements."""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType

from rs_assets.common.plural import count_of
from rs_assets.connectors.mqtt.nodes import MqttSink
from rs_assets.connectors.mqtt.topics import is_topic
from rs_assets.connectors.own.batch_sink import BatchSink, PartMark, RowsRefused
from rs_assets.connectors.sink import BatchMark, Staged
from rs_assets.errors import SinkError, TopologyError
from rs_assets.records.columns import check_fields, hidden, visible
from rs_assets.records.newest import in_read_order
from rs_assets.records.poison import exact_text
from rs_assets.records.schema import quoted

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessageInfo

# How long the broker may need for the acknowledgements of one call, in seconds, and how often it is looked at.
PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.2
# The most messages that may wait for an answer in the protocol.
MOST_AT_ONCE: Final = 65_535
# The most bytes of a payload in the protocol, less what a topic may need.
MOST_BYTES: Final = (1 << 28) - (1 << 17)


class MqttWriter(BatchSink):
    """At least once with QoS 1 and 2: what is not acknowledged is published again, and so is a repeated batch."""

    attempts = 10

    def __init__(self, node: MqttSink) -> None:
        self.node, self.name = node, node.name
        self.refused = node.refused
        self.rows_per_second = node.rows_per_second
        self._client: Client | None = None
        # Why the broker has refused messages of this call, by their numbers; version 5 says it.
        self._refusals: dict[int, str] = {}
        self._at_once = MOST_AT_ONCE

    def location(self) -> str:
        """The broker and the topic."""
        return f"{self.node.broker.url}/{self.node.topic or f'({self.node.topic_field})'}"

    def check_begin(self, begun: BatchMark) -> str:
        """A warning for each generation but the first: its rows are published again."""
        again = f"a new generation publishes all rows of {self.name!r} again"
        return again if begun.generation > 1 else ""

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """Always possible."""

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:  # noqa: ARG002  the protocol's form
        """Does nothing: published messages stay."""
        return "publishes rows again"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute topics and payloads; they wait in memory. Retained ones are in the order of reading."""
        rows = in_read_order(as_messages(batch, self.node).toArrow())
        return Staged(lambda: self._commit(rows, mark))

    def write(self, rows: list[dict[str, Any]], mark: PartMark) -> None:  # noqa: ARG002  at least once
        """Publish the messages of one call; OSError if the broker has not acknowledged all of them."""
        faults = {at: why for at, row in enumerate(rows) if (why := fault_of(row))}
        if faults:
            raise RowsRefused(faults)
        client = self._connected()
        self._refusals.clear()
        sent: list[MQTTMessageInfo] = []
        try:
            for first in range(0, len(rows), self._at_once):
                part = rows[first : first + self._at_once]
                sent += (self._published(client, row) for row in part)
                self._await(client, sent[first:])
        except (OSError, RuntimeError, ValueError) as error:
            self.close()
            # Some brokers end the connection after a refusal.
            self._check_refusals(sent)
            raise ConnectionError(
                f"the MQTT broker has not acknowledged {count_of(len(rows), 'message')}: {error}"
            ) from error
        self._check_refusals(sent)

    def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
            client.loop_stop()

    def _connected(self) -> Client:
        if self._client is None:
            broker, answers = self.node.broker, queue.SimpleQueue[Any]()
            client = broker.client("", clean_session=True)
            client.max_inflight_messages_set(self.rows_per_call or 1)
            client.on_connect = lambda _client, _data, _flags, code, said: answers.put((code, said))
            client.on_publish = lambda _client, _data, mid, code, _: self._answered(mid, code)
            broker.connect(client)
            client.loop_start()
            self._client = client
            try:
                code, said = answers.get(timeout=broker.connect_timeout.total_seconds())
            except queue.Empty:
                self.close()
                raise ConnectionError("the MQTT broker does not answer") from None
            if code.is_failure:
                self.close()
                raise SinkError(
                    f"the MQTT broker has refused the connection: {code}",
                    remedy="check url, username and password",
                    step=self.name,
                )
            # In version 5 the broker says how many messages may wait for its answer.
            self._at_once = getattr(said, "ReceiveMaximum", MOST_AT_ONCE)
        return self._client

    def _answered(self, mid: int, code: Any) -> None:
        if code.is_failure:
            self._refusals[mid] = f"the MQTT broker has refused it: {code}"

    def _check_refusals(self, sent: Sequence[MQTTMessageInfo]) -> None:
        """RowsRefused if the broker has refused messages of a call; the others are published again."""
        refused = {at: why for at, each in enumerate(sent) if (why := self._refusals.get(each.mid))}
        if refused:
            raise RowsRefused(refused)

    def _published(self, client: Client, row: dict[str, Any]) -> MQTTMessageInfo:
        return client.publish(row["topic"], row["body"], qos=self.node.qos, retain=self.node.retain)

    def _await(self, client: Client, sent: Sequence[MQTTMessageInfo]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        for each in sent:
            while not each.is_published():
                each.wait_for_publish(LOOK_S)
                if each.is_published():
                    break
                if not client.is_connected():
                    raise ConnectionError("the connection is lost")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no answer within {PATIENCE_S:g} s")


def fault_of(row: dict[str, Any]) -> str:
    """Why a message cannot be published; empty if it can.

    >>> fault_of({"topic": "a/b", "body": b""}), fault_of({"topic": "a/#", "body": b""})
    ('', "'a/#' is not a topic")
    """
    if not is_topic(row["topic"]):
        return f"{row['topic']!r} is not a topic"
    if row["body"] is None:
        return "the payload is null"
    return "" if len(row["body"]) <= MOST_BYTES else f"the payload has more than {MOST_BYTES} bytes"


def as_messages(rows: DataFrame, node: MqttSink) -> DataFrame:
    """Topic, body and hidden columns. UnknownFieldError or TopologyError for fields that cannot be those."""
    check_fields(rows, node.named, step=node.name)
    for field, kinds in ((node.topic_field, StringType), (node.value, (StringType, BinaryType))):
        if field is not None and not isinstance(rows.schema[field].dataType, kinds):
            raise TopologyError(
                f"step {node.name!r}: the field {field!r} is {rows.schema[field].dataType.simpleString()}, not a text",
                remedy=f"convert it first: .with_fields({field}='cast({field} AS string)')",
                step=node.name,
            )
    topic = F.lit(node.topic) if node.topic_field is None else F.col(quoted(node.topic_field))
    return rows.select(topic.alias("topic"), _body(rows, node).alias("body"), *hidden(rows.columns))


def _body(rows: DataFrame, node: MqttSink) -> Column:
    if node.value is not None:
        return F.col(quoted(node.value)).cast("binary")
    return exact_text([name for name in visible(rows.columns) if name != node.topic_field]).cast("binary")
