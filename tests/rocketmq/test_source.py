"""A topic of RocketMQ as a source: exact offsets over restarts, filters, new queues, messages that are gone."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rs_assets import MemoryChannel, StreamBuilder, pipeline_from_sql
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.source import Lag
from rs_assets.dagster.sensors.inputs import ends_of
from rs_assets.errors import ConfigurationError, DataLossError, SealedError, SourceReadError, TopologyError
from rs_assets.testing import RocketMQMessage, SourceCase, check_source

SCHEMA = "n bigint"


class Topic:
    """A topic, and a pipeline that copies it; each run has a sink of its own, so that a repeated row shows."""

    def __init__(self, server, name, options):
        self.server, self.name, self.options = server, name, options

    def stream(self, **source):
        made = {"schema": SCHEMA} if source.get("format", "json") == "json" else {}
        begin = StreamBuilder.data_stream("shop", "orders")
        return begin.from_rocketmq(self.server.cluster, self.name, **{**made, **source})

    def rows(self, **source):
        out = MemoryChannel()
        self.stream(**source).to_memory(out).build().run(self.options)
        return out.rows()

    def numbers(self, **source):
        return sorted(row["n"] for row in self.rows(**source))

    def send(self, *numbers, **message):
        self.server.send(self.name, [RocketMQMessage(body=b'{"n": %d}' % n, **message) for n in numbers])

    @property
    def log(self):
        return CheckpointLog(self.options.home.job("shop", "orders") / "g0001" / "rocketmq" / "checkpoint")

    def forget_last_commit(self):
        """As after a kill: the last batch was planned, and Spark has not committed it."""
        last = self.log.last_committed()
        for name in (str(last), f".{last}.crc"):
            (self.log.folder / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def orders(rocketmq, topic, options):
    return Topic(rocketmq, topic, options)


def test_each_message_is_read_once_over_restarts_and_new_queues_are_found(orders):
    orders.send(*range(10))
    assert orders.numbers() == [*range(10)]
    assert orders.numbers() == []
    orders.send(*range(10, 13))
    orders.server.create_topic(orders.name, queues=6)
    orders.send(13, queue=5)
    assert orders.numbers() == [10, 11, 12, 13]
    orders.send(14, queue=5)
    # As after a kill: a planned batch is read again.
    orders.forget_last_commit()
    assert orders.numbers() == [10, 11, 12, 13, 14]


def test_brokers_select_by_tag_and_by_sql(orders):
    orders.send(1, 2, tags="a")
    orders.send(3, tags="b", properties={"ms": "120"})
    # "Aa" and "BB" have one hash code, which is all that a broker compares.
    orders.send(4, tags="Aa", properties={"ms": "9"})
    orders.send(5, tags="BB")
    orders.send(6)
    read = {}
    for name, selected in {
        "tag": {"tags": "a || b"}, "hash": {"tags": "Aa"}, "sql": {"sql": "ms > 100"}, "all": {},
    }.items():  # fmt: skip
        out = MemoryChannel()
        begin = StreamBuilder.data_stream("shop", f"by_{name}")
        source = begin.from_rocketmq(orders.server.cluster, orders.name, schema=SCHEMA, **selected)
        source.to_memory(out).build().run(orders.options)
        read[name] = sorted(row["n"] for row in out.rows())
    assert read == {"tag": [1, 2, 3], "hash": [4], "sql": [3], "all": [1, 2, 3, 4, 5, 6]}


def test_messages_that_were_deleted_before_they_were_read_are_an_error(orders):
    orders.send(*range(20), queue=0)
    assert len(orders.numbers()) == 20
    orders.server.delete_topic(orders.name)
    orders.server.create_topic(orders.name, queues=4)
    orders.send(1, queue=0)
    with pytest.raises(DataLossError, match="was read up to 20 and ends at 1") as lost:
        orders.numbers()
    assert "--new-generation" in lost.value.remedy
    new = replace(orders.options, new_generation=True)
    out = MemoryChannel()
    orders.stream().to_memory(out).build().run(new)
    assert [row["n"] for row in out.rows()] == [1]


def test_all_promises_of_a_source_hold(orders, driver):
    def lose():
        orders.server.delete_topic(orders.name)
        orders.server.create_topic(orders.name, queues=4)

    check_source(
        SourceCase(
            stream=lambda begin, policy: begin.from_rocketmq(
                orders.server.cluster, orders.name, schema="n bigint, text string", bad_records=policy
            ),
            row=lambda n: {"n": n, "text": f"ünï {n}"},
            add=lambda rows: orders.server.send(
                orders.name,
                [RocketMQMessage(body=b'{"n": %d, "text": "%s"}' % (r["n"], r["text"].encode())) for r in rows],
            ),
            lose=lose,
            add_bad=lambda: orders.server.send(orders.name, [b"no JSON"]),
        ),
        spark=driver,
    )


def test_an_ended_generation_takes_no_more(orders):
    orders.send(1)
    pipeline = orders.stream().to_memory(MemoryChannel()).build()
    pipeline.run(orders.options, finish=True)
    pipeline.run(orders.options, finish=True)
    orders.send(2)
    with pytest.raises(SealedError):
        pipeline.run(orders.options)
    pipeline.run(replace(orders.options, new_generation=True))


def test_metadata_and_formats(orders):
    sent = datetime.now(UTC)
    orders.server.send(
        orders.name, [RocketMQMessage(body=b"\xff", key="k 1", tags="a", properties={"n": "1"}, queue=2)]
    )
    (raw,) = orders.rows(format="raw")
    assert abs(raw.pop("timestamp") - sent) < timedelta(minutes=1)
    assert raw == {
        "value": b"\xff", "key": "k 1", "tags": "a", "properties": {"n": "1", "KEYS": "k 1", "TAGS": "a"},
        "topic": orders.name, "broker": "broker-a", "queue": 2, "offset": 0,
    }  # fmt: skip
    orders.send(7, queue=3)
    out = MemoryChannel()
    begin = StreamBuilder.data_stream("shop", "named").from_rocketmq(
        orders.server.cluster, orders.name, schema=SCHEMA, metadata=["key", "queue", "offset"], bad_records="skip"
    )
    begin.to_memory(out).build().run(orders.options)
    assert out.rows() == [{"n": 7, "rocketmq_key": None, "rocketmq_queue": 3, "rocketmq_offset": 0}]


@pytest.mark.parametrize("starting", ["latest", "moment"])
def test_a_first_start_may_leave_out_old_messages(orders, starting):
    orders.send(1, 2, queue=0)
    moment = datetime.now(UTC) + timedelta(hours=1) if starting == "moment" else None
    start = {"starting_offsets": moment or "latest"}
    assert orders.numbers(**start) == []
    orders.send(3, queue=0)
    orders.send(4, queue=1)
    assert orders.numbers(**start) == [3, 4]


def test_committed_offsets_are_shown_in_the_group_and_can_begin_a_pipeline(orders):
    group = f"g-{orders.name}"
    orders.send(*range(8))
    orders.rows(group=group)
    assert orders.server.group_offsets(group, orders.name) == {0: 2, 1: 2, 2: 2, 3: 2}
    orders.send(8, queue=0)
    out = MemoryChannel()
    begin = StreamBuilder.data_stream("shop", "second").from_rocketmq(
        orders.server.cluster, orders.name, schema=SCHEMA, group=group, starting_offsets="committed"
    )
    begin.to_memory(out).build().run(orders.options)
    assert [row["n"] for row in out.rows()] == [8]


def test_ends_lag_and_limits(orders):
    orders.send(*range(9))
    (source,) = orders.stream().to_print().build().topology.sources
    ends = {"broker-a/0": 3, "broker-a/1": 2, "broker-a/2": 2, "broker-a/3": 2}
    assert ends_of([source]) == {"rocketmq": ends}
    assert reader_of(source).lag(None, timedelta(seconds=5)) == Lag(records=9)
    batches = []
    orders.options = replace(orders.options, on_progress=batches.append)
    assert orders.numbers(max_rows_per_batch=4) == [*range(9)]
    assert [batch.rows_in for batch in batches if batch.rows_in] == [4, 4, 1]
    text = orders.log.offsets(orders.log.last_committed()).sources["rocketmq"]
    assert reader_of(source).lag(text, timedelta(seconds=5)) == Lag(records=0)


def test_a_schema_is_inferred_and_pinned(orders):
    with pytest.raises(ConfigurationError, match="contains no JSON"):
        orders.rows(schema=None)
    orders.server.send(orders.name, [b'{"page": "/a", "ms": 12}'])
    assert orders.rows(schema=None) == [{"ms": 12, "page": "/a"}]
    orders.server.send(orders.name, [b'{"page": "/b", "other": 1}'])
    assert orders.rows(schema=None) == [{"ms": None, "page": "/b"}]


def test_what_cannot_be_read_is_refused_before_the_start(rocketmq, options):
    begin, name = StreamBuilder.data_stream("shop", "orders"), f"n-{uuid.uuid4().hex[:12]}"
    missing = begin.from_rocketmq(rocketmq.cluster, name, schema=SCHEMA).to_print().build()
    with pytest.raises(SourceReadError, match=f"there is no topic '{name}'"):
        missing.run(options)
    rocketmq.create_topic(name)
    missing.run(options)
    for wrong, what in {
        "tags": ({"tags": ""}, "does not select tags"),
        "no tag": ({"tags": " || "}, "does not select tags"),
        "both": ({"tags": "a", "sql": "n > 1"}, "in two ways"),
        "format": ({"format": "avro"}, "is not a format"),
        "schema": ({"format": "text", "schema": SCHEMA}, "has fixed fields"),
        "metadata": ({"metadata": ["keys"]}, "no such metadata"),
        "raw": ({"format": "raw", "metadata": ["key"]}, "has all metadata"),
        "rows": ({"max_rows_per_batch": 0}, "positive number"),
        "group": ({"starting_offsets": "committed"}, "needs a group"),
        "start": ({"starting_offsets": "first"}, "is not a starting position"),
        "zone": ({"starting_offsets": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
        "name": ({"group": "a b"}, "name of a consumer group"),
    }.values():
        with pytest.raises(TopologyError, match=what):
            begin.from_rocketmq("localhost:1", "orders", **wrong)


def test_sql_reads_a_topic(orders):
    orders.server.send(
        orders.name,
        [RocketMQMessage(body=b'{"page": "/a", "ms": %d}' % n, tags="ab"[n % 2], queue=1) for n in range(4)],
    )
    out = MemoryChannel()
    text = f"""
        CREATE TABLE hits (page STRING, ms BIGINT, place BIGINT METADATA FROM 'offset') WITH (
            'type' = 'rocketmq', 'topic' = '{orders.name}', 'namesrvAddr' = '{orders.server.name_server}',
            'consumerGroup' = 'g-{orders.name}', 'tag' = 'b');
        CREATE TABLE slow (page STRING, ms BIGINT, place BIGINT) WITH ('connector' = 'memory');
        INSERT INTO slow SELECT page, ms, place FROM hits WHERE ms > 2;
    """
    pipeline_from_sql(text, namespace="shop", job="slow", tables={"slow": out}).run(orders.options)
    assert out.rows() == [{"page": "/a", "ms": 3, "place": 3}]
