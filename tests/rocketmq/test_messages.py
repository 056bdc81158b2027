"""Frames, messages and names without a server."""

from __future__ import annotations

import gzip
import struct
import zlib

import pyarrow as pa
import pytest

from rs_assets import pipeline_from_sql
from rs_assets.connectors.rocketmq.client.cluster import RocketMQCluster
from rs_assets.connectors.rocketmq.client.frames import Credentials, dumped, loaded
from rs_assets.connectors.rocketmq.client.messages import (
    Damaged,
    dump_properties,
    java_hash,
    properties_of,
    queue_of,
    stored,
)
from rs_assets.connectors.rocketmq.client.names import checked_group, checked_topic, commits_of, writable_topic
from rs_assets.errors import ConfigurationError, TopologyError


def packed(body=b"x", *, offset=7, flags=0, version=1, properties=b"TAGS\x01a\x02", topic=b"orders"):
    """A message as a broker stores it."""
    host = b"\x7f\0\0\1\0\0\0\1" if not flags & 0x10 else bytes(20)
    broker = b"\x7f\0\0\1\0\0\0\1" if not flags & 0x20 else bytes(20)
    front = struct.pack(">iiiqqiq", 0, 3, 0, offset, 99, flags, 1000) + host
    back = struct.pack(">q", 2000) + broker + struct.pack(">iqi", 0, 0, len(body)) + body
    name = len(topic).to_bytes(version, "big") + topic
    rest = front + back + name + len(properties).to_bytes(2, "big") + properties
    magic = {1: -626843481, 2: -626843477}[version]
    return struct.pack(">ii", 8 + len(rest), magic) + rest


@pytest.mark.parametrize("flags", [0, 0x10, 0x20, 0x30])
@pytest.mark.parametrize("version", [1, 2])
def test_messages_of_every_layout_are_read(flags, version):
    content = packed(flags=flags, version=version) + packed(b"second", offset=8, flags=flags, version=version)
    found = [*stored(content)]
    assert [(m.offset, m.body, m.born_ms, m.properties) for m in found] == [
        (7, b"x", 1000, b"TAGS\x01a\x02"),
        (8, b"second", 1000, b"TAGS\x01a\x02"),
    ]


@pytest.mark.parametrize(
    ("kind", "compress"),
    [
        (0x000, zlib.compress),
        (0x300, zlib.compress),
        (0x100, lambda body: framed(body, "lz4")),
        (0x200, lambda body: framed(body, "zstd")),
    ],
)
def test_compressed_bodies_are_decompressed(kind, compress):
    (found,) = stored(packed(compress(b"body" * 1000), flags=1 | kind))
    assert found.body == b"body" * 1000


def framed(body, codec):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "content",
    [packed()[:-3], b"\0\0\0\1abc", packed(gzip.compress(b"x"), flags=1), packed(flags=1 << 7)],
)
def test_bytes_that_are_not_messages_are_refused(content):
    with pytest.raises(Damaged):
        list(stored(content))


def test_hash_codes_are_those_of_java():
    # System.out.println("...".hashCode()) in Java.
    assert java_hash("") == 0
    assert java_hash("a") == 97
    assert java_hash("hello") == 99162322
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert java_hash("ключ") == 33309882
    assert [queue_of(key, 4) for key in ("hello", "polygenelubricants", "")] == [2, 0, 0]


def test_properties_survive():
    properties = {"KEYS": "k 1", "TAGS": "ü", "n": ""}
    assert properties_of(dump_properties(properties)) == properties


def test_frames_survive_and_foreign_ones_are_refused():
    frame = dumped(11, 5, {"topic": "t"}, b"\0body")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert loaded(frame[4:]).body == b"\0body"
    with pytest.raises(ValueError, match="instead of JSON"):
        loaded(b"\1" + frame[5:])


def test_signatures_cover_fields_in_order_and_the_body():
    mine = Credentials("me", "secret")
    # Base64 of HMAC-SHA1 over the values by the names of their fields, AccessKey among them, and the body.
    signed = [
        mine.signed(fields, body)["Signature"]
        for fields, body in (({"t": "1", "b": "2"}, b"x"), ({"b": "2", "t": "1"}, b"x"), ({"t": "1", "b": "2"}, b"y"))
    ]
    assert signed[0] == signed[1] != signed[2]
    assert "secret" not in repr(mine)


def test_names():
    assert checked_topic("a_b-C%1|x", step="s") == "a_b-C%1|x"
    for name in ("", "a.b", "x" * 128, None, "a b"):
        with pytest.raises(TopologyError, match="name of a RocketMQ topic"):
            checked_topic(name, step="s")
    for name in ("%RETRY%g", "rmq_sys_TRACE_DATA", "TBW102", commits_of("orders")):
        with pytest.raises(TopologyError, match="belongs to"):
            writable_topic(name, step="s")
    assert writable_topic("RETRY-g", step="s") == "RETRY-g"
    assert len(commits_of("x" * 127)) <= 127
    with pytest.raises(TopologyError, match="name of a consumer group"):
        checked_group("a b", step="s")
    assert checked_group("a_b-1", step="s") == "a_b-1"


def test_a_cluster_hides_its_secrets_and_checks_addresses():
    cluster = RocketMQCluster(name_server="a:1;b:2", access_key="me-key", secret_key="my-secret")
    assert cluster.servers == ("a:1", "b:2")
    assert "me-key" not in repr(cluster)
    assert "my-secret" not in repr(cluster)
    assert "my-secret" not in repr(cluster.access())
    assert cluster == RocketMQCluster(name_server="a:1;b:2")
    for wrong in ("localhost", "a:0", "a:99999", "me:p@a:1", ""):
        with pytest.raises(ConfigurationError, match="address of a name server"):
            RocketMQCluster(name_server=wrong)
    with pytest.raises(ConfigurationError, match="belong together"):
        RocketMQCluster(name_server="a:1", access_key="me")
    assert RocketMQCluster.of("a:1;b:2").access().servers == ("a:1", "b:2")


def test_sql_reads_messages_with_a_key_as_a_table():
    options = "'connector' = 'rocketmq', 'topic' = 't', 'nameServerAddress' = 'a:1'"
    table = f"CREATE TABLE hits (page STRING{{}}) WITH ({options});"
    rest = "CREATE TABLE out1 (page STRING) WITH ('connector' = 'print'); INSERT INTO out1 SELECT page FROM hits"
    assert "to_table" in pipeline_from_sql(table.format(", PRIMARY KEY (page) NOT ENFORCED") + rest).describe()
    assert "to_table" not in pipeline_from_sql(table.format("") + rest).describe()
