"""Remedies of sources, sinks, shuffles and their schemas."""

from __future__ import annotations

from datetime import UTC, datetime

from rs_assets import MemoryChannel, Time
from tests.topology.followed_programs import BROKER, MINUTE, Case, begin, built, counted, from_kafka, hits

MEMORY = "connectors/memory/channel.py"
FILE = "connectors/files/nodes.py::FileSource.__post_init__"
KAFKA = "connectors/kafka/nodes.py::KafkaSource.__post_init__"
DELTA = "connectors/delta/nodes.py::DeltaSource.__post_init__"
SINK = "connectors/delta/nodes.py::DeltaSink"
TABLE = f"{SINK}.__post_init__"
TOPIC = "connectors/kafka/nodes.py::KafkaSink.__post_init__"
CHAIN = "topology/chain.py"
TOPOLOGY = "topology/topology.py::Topology"


def from_delta(table="t", **how):
    return built(begin().from_delta(table, schema="page string", **how))


def to_delta(**how):
    return hits().to_delta("t", **how).build()


def to_kafka(**how):
    return hits().to_kafka(BROKER, "out", **how).build()


def shuffled(**how):
    return built(hits().shuffle(4, **how))


def channel(schema="page string"):
    return MemoryChannel(schema=schema)


def hits_and_pages(*chosen):
    builder = begin("united")
    one = builder.from_file("a.jsonl", schema="page string, ms bigint", name="a")
    other = builder.from_file("b.jsonl", schema="page string", name="b")
    return (one.select_fields(*chosen) if chosen else one).union(other)


CASES = [
    Case(
        f"{MEMORY}::checked_kind",
        lambda: begin().from_memory([{"page": "/"}]),
        "pass MemoryChannel(schema='page string'); for existing rows use .from_array([{...}])",
        lambda: (built(begin().from_memory(channel())), built(begin().from_array([{"page": "/"}]))),
    ),
    Case(
        f"{MEMORY}::checked_kind",
        lambda: hits().to_memory([]),
        "pass MemoryChannel(schema='page string')",
        lambda: hits().to_memory(channel()).build(),
    ),
    Case(
        "connectors/memory/nodes.py::ArraySource.__post_init__",
        lambda: begin().from_array([]),
        "pass schema='...'",
        lambda: built(begin().from_array([], schema="page string")),
    ),
    Case(
        FILE,
        lambda: hits(format="text", schema=None, pattern="a"),
        "pass schema='...'",
        lambda: built(hits(format="text", pattern="(?P<page>a)", schema="page string")),
    ),
    Case(
        FILE,
        lambda: hits(max_rows_per_batch=10),
        "use max_files_per_batch",
        lambda: built(hits(max_files_per_batch=10)),
    ),
    Case(
        FILE,
        lambda: hits(tail=True, max_files_per_batch=10),
        "use max_rows_per_batch",
        lambda: built(hits(tail=True, max_rows_per_batch=10)),
    ),
    Case(
        KAFKA,
        lambda: from_kafka(starting_offsets=datetime(2026, 1, 1)),  # noqa: DTZ001  that is what is refused
        "datetime(..., tzinfo=UTC)",
        lambda: built(from_kafka(starting_offsets=datetime(2026, 1, 1, tzinfo=UTC))),
    ),
    Case(
        KAFKA,
        lambda: from_kafka(starting_offsets="newest"),
        "use 'earliest', 'latest', 'committed', a datetime or {'topic': {0: 17}}",
        lambda: (
            built(from_kafka(starting_offsets="latest")),
            built(from_kafka(starting_offsets="committed", group="g")),
            built(from_kafka("topic", starting_offsets={"topic": {0: 17}})),
        ),
    ),
    Case(
        KAFKA,
        lambda: from_kafka(dead_letter_topic="bad"),
        "bad_records='dead_letter'",
        lambda: built(from_kafka(dead_letter_topic="bad", bad_records="dead_letter")),
    ),
    Case(DELTA, lambda: from_delta(starting_version="3"), "starting_version=3", lambda: from_delta(starting_version=3)),
    Case(
        DELTA,
        lambda: from_delta("hdfs://host/t"),
        "use a name, a path of a local or mounted file system, or an address: s3://bucket/table",
        lambda: (from_delta("t"), from_delta("/data/t"), from_delta("s3://bucket/table")),
    ),
    Case(
        TABLE,
        lambda: to_delta(connector="java"),
        "connector='native' or connector='jvm'",
        lambda: to_delta(connector="jvm"),
    ),
    Case(TABLE, lambda: to_delta(mode="merge"), "use one of: append, upsert", lambda: to_delta(mode="append")),
    Case(
        f"{SINK}._check_keys",
        lambda: to_delta(mode="upsert"),
        "keys=['page']",
        lambda: to_delta(mode="upsert", keys=["page"]),
    ),
    Case(
        f"{SINK}._check_keys",
        lambda: to_delta(order_by=["ms"]),
        "leave it out",
        lambda: (to_delta(), to_delta(mode="upsert", keys=["page"], order_by=["ms"])),
    ),
    Case(
        "connectors/messages.py::no_key",
        lambda: to_delta(mode="upsert", keys=["tags"]),
        "name fields of texts, whole numbers or times",
        lambda: to_delta(mode="upsert", keys=["page", "ms", "ts"]),
    ),
    Case(
        "connectors/messages.py::no_condition",
        lambda: to_delta(mode="upsert", keys=["page"], deletes="ms"),
        ".with_fields(ms='ms = 1')",
        lambda: hits().with_fields(ms="ms = 1").to_delta("t", mode="upsert", keys=["page"], deletes="ms").build(),
    ),
    Case(
        TOPIC,
        lambda: to_kafka(delivery="once"),
        "use one of: at_least_once, exactly_once",
        lambda: (to_kafka(delivery="at_least_once"), to_kafka(delivery="exactly_once")),
    ),
    Case(
        "topology/nodes/shuffle.py::ShuffleWrite.__post_init__",
        lambda: shuffled(strategy="kafka"),
        "shuffle(4, strategy='kafka', bootstrap_servers='localhost:9092')",
        lambda: shuffled(strategy="kafka", bootstrap_servers="localhost:9092"),
    ),
    Case(
        "connectors/files/nodes.py::FileSink.__post_init__",
        lambda: hits().to_file("out", "avro").build(),
        "use one of: json, csv, parquet, text",
        lambda: hits().to_file("out", "parquet").build(),
    ),
    Case(
        "connectors/files/nodes.py::FileSink.__post_init__",
        lambda: hits().to_file("out", compression="snappy").build(),
        "use one of: none, gzip, zstd",
        lambda: hits().to_file("out", compression="zstd").build(),
    ),
    Case(
        "connectors/files/nodes.py::FileSink.__post_init__",
        lambda: hits().to_file("out", delimiter=";").build(),
        "leave them out",
        lambda: hits().to_file("out").build(),
    ),
    Case(
        "connectors/files/nodes.py::FileSink.__post_init__",
        lambda: hits().select_fields("page", "ms").to_file("out", "csv", delimiter="::").build(),
        "use one character, such as ';'",
        lambda: hits().select_fields("page", "ms").to_file("out", "csv", delimiter=";").build(),
    ),
    Case(
        "connectors/files/nodes.py::FileSink.__post_init__",
        lambda: hits().to_file("out", partition_by=["page", "Page"]).build(),
        "name it once",
        lambda: hits().to_file("out", partition_by=["page"]).build(),
    ),
    Case(
        "connectors/files/nodes.py::FileSink.__post_init__",
        lambda: hits().with_fields(batch="ms").to_file("out", partition_by=["batch"]).build(),
        "rename it: .map('batch AS lot', ...)",
        lambda: hits().with_fields(batch="ms").map("batch AS lot", "page").to_file("out", partition_by=["lot"]).build(),
    ),
    Case(
        "connectors/files/connector.py::_refuse",
        lambda: hits().to_file("out", "csv").build(),
        "make it a text: with_fields(tags='to_json(tags)'), or use format='json' or 'parquet'",
        lambda: hits().with_fields(tags="to_json(tags)").to_file("out", "csv").build(),
    ),
    Case(
        "connectors/files/connector.py::_refuse",
        lambda: hits().to_file("out", partition_by=["tags"]).build(),
        "name fields of texts, whole numbers or times",
        lambda: hits().to_file("out", partition_by=["page"]).build(),
    ),
    Case(
        "connectors/files/connector.py::_refuse",
        lambda: hits().select_fields("page").to_file("out", partition_by=["page"]).build(),
        "keep one more field",
        lambda: hits().select_fields("page", "ms").to_file("out", partition_by=["page"]).build(),
    ),
    Case(
        "connectors/files/connector.py::_refuse",
        lambda: hits().to_file("out", "text").build(),
        "make it: .map('page AS value'), or use format='json'",
        lambda: hits().map("page AS value").to_file("out", "text").build(),
    ),
    Case(
        "connectors/sqlite/nodes.py::_check_place",
        lambda: hits().to_sqlite("a.db", "sqlite_rows"),
        "use another one",
        lambda: hits().to_sqlite("a.db", "rows").build(),
    ),
    Case(
        "topology/targets.py::check_targets",
        lambda: hits().to_file("out", name="a").to_file("out", name="b").build(),
        "give each its own target; a table takes several sinks that append, or upsert by equal keys",
        lambda: (
            hits().to_file("out", name="a").to_file("other", name="b").build(),
            hits().to_delta("t", name="a").to_delta("t", name="b").build(),
        ),
    ),
    Case(
        "topology/check/io_overlap.py::check_places",
        lambda: begin().from_file("/in", schema="page string").to_file("/in/out").build(),
        "write into a folder next to it",
        lambda: begin().from_file("/in", schema="page string").to_file("/out").build(),
    ),
    Case(
        f"{TOPOLOGY}._check_ends",
        lambda: hits().build(),
        "end it with a sink such as .to_delta('table')",
        lambda: hits().to_delta("table").build(),
    ),
    Case(
        f"{CHAIN}::_chainable",
        lambda: built(counted(counted(), MINUTE, "minutes").water_mark(Time.seconds(5))),
        "leave water_mark() and event_time() out",
        lambda: built(counted(counted(), MINUTE, "minutes")),
    ),
    Case(
        f"{CHAIN}::_nearest",
        lambda: built(counted(counted().with_fields(end_time="end_time + interval 1 hour"), MINUTE, "minutes")),
        "pass the field on as it is, or put .shuffle(n, strategy='delta') after",
        lambda: (
            built(counted(counted().with_fields(more="n + 1"), MINUTE, "minutes")),
            built(
                counted(
                    counted().with_fields(end_time="end_time + interval 1 hour").shuffle(2, strategy="delta"),
                    MINUTE,
                    "minutes",
                )
            ),
        ),
    ),
    Case(
        "topology/check/united.py::check_kinds",
        lambda: built(hits_and_pages()),
        "bring them to the same fields with select_fields or map",
        lambda: built(hits_and_pages("page")),
    ),
    Case(
        "records/schema.py::schema_text",
        lambda: hits(schema=5),
        "use DDL text, a StructType, a TypedDict, a dataclass or a Pydantic model",
        lambda: built(hits(schema="page string, ms bigint")),
    ),
]
