"""The plan of a topic for Spark: where the next batch ends, and the messages of a range as Arrow."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from rs_assets.connectors.files.lines.spark_source import SCHEMA_DDL
from rs_assets.connectors.own.plan import Offsets, Position
from rs_assets.connectors.rocketmq.client.client import Client, connected, rocketmq_errors
from rs_assets.connectors.rocketmq.client.cluster import Access
from rs_assets.connectors.rocketmq.client.connection import Unreachable
from rs_assets.connectors.rocketmq.client.messages import KEYS, TAGS, Message, properties_of
from rs_assets.connectors.rocketmq.client.names import TOOLS, Queue
from rs_assets.connectors.rocketmq.client.pulling import ALL, LOST, Filter, Reach, messages
from rs_assets.errors import DataLossError, SourceReadError

# How long a broker may be away while the topic is read: a restart of a large broker takes minutes.
AWAY: Final = timedelta(seconds=180)
# How long the planning of a batch waits for an answer; then the next trigger tries again, until AWAY.
PLANNING: Final = timedelta(seconds=2)
# How many messages go to Spark at once.
CHUNK: Final = 10_000
# The columns besides those of lines; they are made only if they are used.
EXTRAS: Final[Mapping[str, tuple[str, pa.DataType]]] = {
    "key": ("string", pa.string()),
    "tags": ("string", pa.string()),
    "timestamp": ("timestamp", pa.timestamp("us", tz="UTC")),
    "properties": ("map<string,string>", pa.map_(pa.string(), pa.string())),
}
LINES: Final[Sequence[tuple[str, pa.DataType]]] = (
    ("split", pa.string()),
    ("line", pa.int64()),
    ("offset", pa.int64()),
    ("length", pa.int64()),
    ("value", pa.binary()),
)
Starting = str | datetime


@dataclass(slots=True, kw_only=True)
class TopicPlan:
    """Plans and reads the queues of one topic; it holds a connection only while it plans.

    `starting` is where the first start begins: "earliest", "latest", "committed" (of `group`), or a moment. Queues that
    are found later are read from their first message. `extras` are the columns besides those of lines.
    """

    access: Access = field(repr=False)
    topic: str
    selected: Filter = ALL
    group: str | None = None
    starting: Starting = "earliest"
    extras: tuple[str, ...] = ()
    _client: Client | None = field(default=None, repr=False)
    _until: Mapping[str, int] | None = None
    _answered: float = 0.0

    @property
    def ddl(self) -> str:
        """The columns of `read`."""
        return ", ".join((SCHEMA_DDL, *(f"{name} {EXTRAS[name][0]}" for name in self.extras)))

    def freeze(self) -> None:
        """Leave messages that are sent from now on to the next run."""
        with connected(self.access, SourceReadError) as client:
            self._until = {str(queue): client.end(self.topic, queue) for queue in queues_of(client, self.topic)}

    def next(self, start: Offsets, rows: int | None) -> Offsets:
        """Up to the ends, or `rows` messages shared by the queues that have new ones; `start` while brokers are away.

        SourceReadError if they are away for longer than AWAY.
        """
        self._answered = self._answered or time.monotonic()
        try:
            with rocketmq_errors(self.access, SourceReadError):
                after = self._after(start, rows)
        except SourceReadError as error:
            away = isinstance(error.__cause__, Unreachable)
            if not away or self._until is not None or time.monotonic() - self._answered > AWAY.total_seconds():
                raise
            return start
        self._answered = time.monotonic()
        return after

    def read(self, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The messages of a range; see `pulling.messages` for what is checked."""
        reach = Reach(self.topic, Queue.of(split), start, end)
        with connected(self.access, SourceReadError, patience=AWAY) as client:
            chunk: list[Message] = []
            for found in messages(client, reach, self.selected, self.group or TOOLS):
                chunk += found
                if len(chunk) >= CHUNK:
                    yield self._columns(split, chunk)
                    chunk = []
            if chunk:
                yield self._columns(split, chunk)

    def committed(self, ends: Offsets) -> None:
        """Brokers keep messages by themselves."""

    def _after(self, start: Offsets, rows: int | None) -> Offsets:
        client = self._client = self._client or Client(self.access, patience=PLANNING)
        queues = queues_of(client, self.topic, known=start)
        ends = {str(queue): client.end(self.topic, queue) for queue in queues} if self._until is None else self._until
        check_there(self.topic, start, ends)
        begun = {str(q): begin_of(self, client, q, first=not start) for q in queues if str(q) not in start}
        since = {**{split: at.next for split, at in start.items()}, **begun}
        # Where a queue begins is noted, unless that is 0 in any case.
        noted = {split: Position(at, at) for split, at in begun.items() if at > 0 or self.starting != "earliest"}
        after = {**start, **noted}
        for split, end in shared({split: (since[split], end) for split, end in ends.items() if split in since}, rows):
            after[split] = Position(start[split].first if split in start else since[split], end)
        return after

    def _columns(self, split: str, found: Sequence[Message]) -> pa.RecordBatch:
        offsets = pa.array([message.offset for message in found], pa.int64())
        values = pa.array([message.body for message in found], pa.binary())
        lengths = pa.array([len(message.body) for message in found], pa.int64())
        lines = [pa.array([split] * len(found)), offsets, offsets, lengths, values]
        fields = [*LINES, *((name, EXTRAS[name][1]) for name in self.extras)]
        return pa.RecordBatch.from_arrays([*lines, *self._extras(found)], schema=pa.schema(fields))

    def _extras(self, found: Sequence[Message]) -> list[pa.Array]:
        parsed = [properties_of(message.properties) for message in found] if {*self.extras} - {"timestamp"} else []
        made: Mapping[str, Any] = {
            "key": lambda: [properties.get(KEYS) for properties in parsed],
            "tags": lambda: [properties.get(TAGS) for properties in parsed],
            "timestamp": lambda: [message.born_ms * 1000 for message in found],
            "properties": lambda: [list(properties.items()) for properties in parsed],
        }
        return [pa.array(made[name](), EXTRAS[name][1]) for name in self.extras]


def queues_of(client: Client, topic: str, known: Iterable[str] = ()) -> tuple[Queue, ...]:
    """The queues of a topic; SourceReadError if there is no such topic, Unreachable if a broker of `known` is away."""
    route = client.route(topic)
    away = {Queue.of(split).broker for split in known} - set(route.brokers if route is not None else ())
    if away:
        raise Unreachable(min(away), "the name servers do not know this broker now")
    if route is None or not route.read:
        raise SourceReadError(
            f"there is no topic {topic!r} in RocketMQ, or its brokers are away",
            remedy="create it, correct its name, or start its brokers",
            name_server=";".join(client.access.servers),
        )
    return route.read


def begin_of(plan: TopicPlan, client: Client, queue: Queue, *, first: bool) -> int:
    """Where a queue that was not read before begins; `first`: at the first start."""
    begin = client.begin(plan.topic, queue)
    if not first or plan.starting == "earliest":
        return begin
    if isinstance(plan.starting, datetime):
        return max(begin, client.offset_at(plan.topic, queue, int(plan.starting.timestamp() * 1000)))
    if plan.starting == "latest":
        return client.end(plan.topic, queue)
    known = client.group_offset(plan.group or TOOLS, plan.topic, queue)
    return begin if known is None or not begin <= known <= client.end(plan.topic, queue) else known


def shared(ranges: Mapping[str, tuple[int, int]], rows: int | None) -> Iterator[tuple[str, int]]:
    """The ends of a batch of at most `rows` messages (None: all), for the ranges that are not empty; small ones first.

    >>> dict(shared({"a/0": (0, 2), "a/1": (10, 90), "a/2": (5, 5)}, 10))
    {'a/0': 2, 'a/1': 18}
    """
    new = sorted((end - at, split) for split, (at, end) in ranges.items() if end > at)
    left = rows
    for place, (count, split) in enumerate(new):
        at, end = ranges[split]
        if left is not None:
            share = max(1, left // (len(new) - place))
            left -= min(share, count)
            end = min(end, at + share)
        yield split, end


def check_there(topic: str, read: Offsets, ends: Mapping[str, int]) -> None:
    """DataLossError if a queue is gone, or ends before what was read of it."""
    for split, at in read.items():
        end = ends.get(split)
        if end is None or end < at.next:
            found = "does not exist any more" if end is None else f"ends at {end}"
            raise DataLossError(
                f"the queue {split} of the topic {topic!r} was read up to {at.next} and {found}: the topic was created"
                " again, has fewer queues, or a broker has lost messages",
                remedy=LOST,
                queue=split,
            )
