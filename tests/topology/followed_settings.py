"""Remedies of settings, of what a program passes, and of pipelines that Dagster is to show; no Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import dagster as dg
import pyarrow as pa
from pyspark.sql.types import DayTimeIntervalType, LongType, StructField, StructType

from rs_assets import (
    MemoryChannel,
    StreamBuilder,
    StreamStep,
    StreamTranslator,
    Time,
    build_definitions,
)
from rs_assets.catalog.deployments import DeploymentTable
from rs_assets.catalog.offsets.base import CheckpointRow
from rs_assets.catalog.offsets.merge import parse_row_key, row_key, source_key
from rs_assets.catalog.tidying import kept_for
from rs_assets.cli.base import fields_of
from rs_assets.common.database import parsed_url
from rs_assets.common.secrets import Hidden, revealed
from rs_assets.compile.planner.realtime import check_real_time, check_slots
from rs_assets.compile.python.contract import check_sendable
from rs_assets.connectors.kafka.client.names import writable_topic
from rs_assets.connectors.kafka.sink.settings import check_java_settings, python_settings
from rs_assets.connectors.memory.channel import checked_channel
from rs_assets.deploy.supervisor import Supervisor
from rs_assets.records.rows import to_table
from rs_assets.recovery.savepoints.model import checked_id
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run.rescaled import check_partitions
from rs_assets.runtime.upkeep.shuffles import refuse_topics
from rs_assets.spark.processor.session import check_types
from rs_assets.spark.settings import SparkSettings
from rs_assets.testing import PipelineDriver, run_rows
from rs_assets.testing.servers.kafka import KafkaBroker
from rs_assets.testing.servers.kafka_security import BrokerSecurity
from rs_assets.topology.topology import Topology
from tests.topology.followed_files import within
from tests.topology.followed_programs import BROKER, Case, built, counted, from_kafka, hits, two

SHUFFLED: dict[str, dict[str, str]] = {"delta": {}, "kafka": {"bootstrap_servers": BROKER}}
ROW = {"namespace": "shop", "group": "g", "topic": "t", "name": "n", "queue": "0", "offset": "1", "pipeline": "p"}
MERGE = "catalog/offsets/merge.py"
BASE = "catalog/offsets/base.py"
SETTINGS = "connectors/kafka/sink/settings.py"
KAFKA = "connectors/kafka/nodes.py::KafkaSink.__post_init__"
FROM_DAGSTER = "dagster/definitions_of.py"
TESTING = "testing"


@contextmanager
def environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def with_days(text: str) -> object:
    with environment(RS_CATALOG_DAYS=text):
        return kept_for()


def checkpoint(**facts: object) -> CheckpointRow:
    at = {"at": datetime(2026, 1, 1, tzinfo=UTC), "query": "q", "run_id": "r", "generation": 1, "batch_id": 0}
    return CheckpointRow(**{**ROW, **at, **facts})  # type: ignore[arg-type]


def to_kafka(**how: object) -> object:
    return hits().to_kafka(BROKER, "out", value="page", **how).build()  # type: ignore[arg-type]


class Writer:
    """Half of a sink."""

    def stage(self, *_: object) -> None: ...


class Lake(StreamTranslator):
    """Describes steps by what it is given."""

    def __init__(self, describe: Callable[[StreamStep, dg.AssetSpec], object]) -> None:
        self._describe = describe

    def get_asset_spec(self, step: StreamStep) -> dg.AssetSpec:
        return self._describe(step, super().get_asset_spec(step))  # type: ignore[return-value]


def shown(describe: Callable[[StreamStep, dg.AssetSpec], object]) -> object:
    pipeline = hits(job="shown").to_delta("t").build()
    return build_definitions([pipeline], translator=Lake(describe)).resolve_all_asset_specs()


def named(job: str, namespace: str = "shop") -> object:
    return StreamBuilder.data_stream(namespace, job).from_array([{"n": 1}]).to_delta("t").build()


def with_letters(topic: str) -> object:
    source = from_kafka(bad_records="dead_letter", dead_letter_topic="bad")
    return source.to_kafka(BROKER, topic, value="page").build()


def united() -> object:
    one, other = two()
    return one.union(other)


def unsendable() -> object:
    import threading

    lock = threading.Lock()
    return lambda: lock


def sendable() -> object:
    import threading

    return lambda: threading.Lock().locked()


def rescaled(stream: object, number: int = 4) -> None:
    check_partitions(built(stream).topology, number)  # type: ignore[no-untyped-call]


def shuffled(strategy: str) -> object:
    return from_kafka(schema="page string, ts timestamp").shuffle(2, strategy=strategy, **SHUFFLED[strategy])


CASES = [
    Case(
        f"{MERGE}::row_key",
        lambda: row_key("a;b", "0"),
        "make it with source_key()",
        lambda: row_key(source_key("shop", "g", "clicks", "read"), "0"),
    ),
    Case(f"{MERGE}::parse_row_key", lambda: parse_row_key("a"), "remove that row from the storage", None),
    Case(
        f"{MERGE}::_refuse",
        lambda: source_key("shop", "a;b", "clicks", "read"),
        "in a source's key without ;",
        lambda: source_key("shop", "a_b", "clicks", "read"),
    ),
    Case(
        f"{BASE}::CheckpointRow.__post_init__",
        lambda: checkpoint(at=datetime(2026, 1, 1)),  # noqa: DTZ001  that is the fault
        "use UTC",
        lambda: checkpoint(at=datetime(2026, 1, 1, tzinfo=UTC)),
    ),
    Case(
        f"{BASE}::_check_text",
        lambda: checkpoint(offset=7),
        "use text (UTF-8)",
        lambda: checkpoint(offset="7"),
    ),
    Case(
        f"{BASE}::_check_counts",
        lambda: checkpoint(batch_id=-1),
        "count from 0",
        lambda: checkpoint(batch_id=0),
    ),
    Case(
        "catalog/tidying.py::kept_for",
        lambda: with_days("0"),
        "set it to a number of days, 1 or more",
        lambda: with_days("1"),
    ),
    Case(
        "catalog/deployments.py::DeploymentTable.add",
        within(lambda folder: DeploymentTable(folder / "d").add("orders")),
        "use namespace.job",
        within(lambda folder: DeploymentTable(folder / "d").add("shop.orders", text="SELECT 1")),
    ),
    Case(
        "deploy/supervisor.py::Supervisor.__init__",
        lambda: Supervisor("orders", RunOptions()),
        "use namespace.job",
        lambda: Supervisor("shop.orders", RunOptions()),
    ),
    Case(
        "cli/base.py::fields_of",
        lambda: fields_of("--key", ["page"], example="page=/index"),
        "write --key page=/index",
        lambda: fields_of("--key", ["page=/index"], example="page=/index"),
    ),
    Case(
        "common/database.py::parsed_url",
        lambda: parsed_url("postgresql+psycopg://me:p@ss@host/name", what="the dimension"),
        "a password's : is %3A, its @ %40",
        lambda: parsed_url("postgresql+psycopg://me:p%40s%3As@host:5432/name", what="the dimension"),
    ),
    Case(
        "common/secrets.py::revealed",
        lambda: revealed(dg.EnvVar("RS_FOLLOWED_SECRET"), what="password"),
        "set the environment variable that it is read from",
        lambda: revealed(Hidden("p"), what="password"),
    ),
    Case(
        "compile/planner/realtime.py::check_real_time",
        lambda: check_real_time(counted().to_print().build().topology),
        "start it without latency='real-time'",
        None,
    ),
    Case(
        "compile/planner/realtime.py::check_slots",
        lambda: check_slots(8, 2),
        "RS_SPARK_MASTER='local[8]'",
        lambda: check_slots(8, 8),
    ),
    Case(
        "compile/python/contract.py::check_sendable",
        lambda: check_sendable(unsendable(), "f"),
        "create locks, connections and open files inside the function",
        lambda: check_sendable(sendable(), "f"),
    ),
    Case(
        "connectors/kafka/client/names.py::writable_topic",
        lambda: writable_topic("__consumer_offsets", step="out"),
        "write to a topic of another name",
        lambda: writable_topic("offsets", step="out"),
    ),
    Case(
        KAFKA,
        lambda: to_kafka(options={"bootstrap.servers": "other:9092"}),
        "addresses and credentials go into KafkaCluster, delivery into delivery=",
        lambda: to_kafka(delivery="at_least_once", options={"linger.ms": "20"}),
    ),
    Case(
        f"{SETTINGS}::check_java_settings",
        lambda: check_java_settings({"lingr.ms": "20"}, step="out"),
        "did you mean 'linger.ms'?",
        lambda: check_java_settings({"linger.ms": "20"}, step="out"),
    ),
    Case(
        f"{SETTINGS}::check_java_settings",
        lambda: check_java_settings({"compression.type": "rar"}, step="out"),
        "zstd",
        lambda: check_java_settings({"compression.type": "zstd"}, step="out"),
    ),
    Case(
        f"{SETTINGS}::check_java_settings",
        lambda: check_java_settings({"linger.ms": "soon"}, step="out"),
        "give it a whole number, as text",
        lambda: check_java_settings({"linger.ms": "20"}, step="out"),
    ),
    Case(
        f"{SETTINGS}::python_settings",
        lambda: python_settings({"lingr.ms": "20"}, step="out"),
        "did you mean 'linger.ms'?",
        lambda: python_settings({"linger.ms": "20"}, step="out"),
    ),
    Case(
        "connectors/memory/channel.py::checked_channel",
        lambda: checked_channel(MemoryChannel(), step="read"),
        "MemoryChannel(schema='page string')",
        lambda: checked_channel(MemoryChannel(schema="page string"), step="read"),
    ),
    Case(
        "connectors/own/nodes.py::WriterSink.__post_init__",
        lambda: hits().to(Writer()).build(),
        "write it as rs_assets.sinks.SinkWriter (and Rewinding) describe",
        None,
    ),
    Case(
        "dagster/assets/stream_assets.py::_spec",
        lambda: shown(lambda *_: "page"),
        "return an AssetSpec for each step",
        lambda: shown(lambda _, spec: spec),
    ),
    Case(
        "dagster/assets/stream_assets.py::_check_keys",
        lambda: shown(lambda _, spec: spec.replace_attributes(key="one")),
        "include the name of the step: step.node.name",
        lambda: shown(lambda step, spec: spec.replace_attributes(key=["lake", step.node.name])),
    ),
    Case(
        f"{FROM_DAGSTER}::_check_names",
        lambda: build_definitions([named("a_b"), named("b", "shop_a")]),
        "give one another job name",
        lambda: build_definitions([named("a_b"), named("c", "shop_a")]),
    ),
    Case(
        f"{FROM_DAGSTER}::_built",
        lambda: build_definitions(named("alone")),  # type: ignore[arg-type]
        "build_definitions([pipeline]), with brackets",
        lambda: build_definitions([named("alone")]),
    ),
    Case(
        f"{FROM_DAGSTER}::_built",
        lambda: build_definitions([hits(job="unbuilt")]),  # type: ignore[list-item]
        "end it with a sink and .build()",
        lambda: build_definitions([hits(job="unbuilt").to_delta("t").build()]),
    ),
    Case(
        "recovery/savepoints/model.py::checked_id",
        lambda: checked_id("newest"),
        "an id looks like 20261121T004512.123456Z-b000042-0a1b2c",
        lambda: checked_id("20261121T004512.123456Z-b000042-0a1b2c"),
    ),
    Case(
        "records/rows.py::to_table",
        lambda: to_table([{"b": 1}], pa.schema([("a", pa.int64())])),
        "the schema has: a",
        lambda: to_table([{"a": 1}], pa.schema([("a", pa.int64())])),
    ),
    Case(
        "runtime/run/rescaled.py::check_partitions",
        lambda: rescaled(hits()),
        "set the parallelism of Spark instead: RS_SPARK_MASTER='local[4]'",
        lambda: SparkSettings(master="local[4]"),
    ),
    Case(
        "runtime/upkeep/shuffles.py::refuse_topics",
        lambda: refuse_topics(built(counted(shuffled("kafka"))).topology),
        "write shuffle(n, strategy='delta')",
        lambda: refuse_topics(built(counted(shuffled("delta"))).topology),
    ),
    Case(
        "spark/processor/session.py::check_types",
        lambda: check_types(StructType([StructField("a", DayTimeIntervalType())])),
        "convert it to a number first",
        lambda: check_types(StructType([StructField("a", LongType())])),
    ),
    Case(
        "spark/settings.py::SparkSettings.address",
        lambda: SparkSettings(master="spark://far:7077").address,
        "set RS_DRIVER_HOST, or spark.driver.host",
        lambda: SparkSettings(master="spark://far:7077", extra={"spark.driver.host": "10.0.0.1"}).address,
    ),
    Case(
        "stream/data_stream.py::_check_fresh",
        lambda: hits().to_delta("t").build(fresh_within=Time.minutes(5)),
        "leave it out, or add a window",
        lambda: [hits().to_delta("t").build(), counted().to_delta("t").build(fresh_within=Time.minutes(5))],
    ),
    Case(
        "stream/pipeline.py::Pipeline.start",
        lambda: hits().to_delta("t").build().start(latency="low"),
        "use 'micro-batch' or 'real-time'",
        None,
    ),
    Case(
        f"{TESTING}/driver.py::PipelineDriver._running",
        lambda: PipelineDriver(hits().to_delta("t").build()).step(),
        "use it in a with statement",
        None,
    ),
    Case(
        f"{TESTING}/servers/kafka.py::KafkaBroker.bootstrap_servers",
        lambda: KafkaBroker().bootstrap_servers,
        "use it in a with statement",
        None,
    ),
    Case(
        f"{TESTING}/servers/kafka_security.py::BrokerSecurity.__post_init__",
        lambda: BrokerSecurity(protocol="PLAINTEXT"),  # type: ignore[arg-type]
        "use SASL_SSL, SASL_PLAINTEXT or SSL",
        lambda: [BrokerSecurity(protocol=each) for each in ("SASL_SSL", "SASL_PLAINTEXT", "SSL")],  # type: ignore[arg-type]
    ),
    Case(
        f"{TESTING}/rows.py::_check",
        lambda: run_rows(counted().to_data_stream(), []),
        "use rs_assets.testing.PipelineDriver",
        None,
    ),
    Case(
        f"{TESTING}/rows.py::given_rows",
        lambda: run_rows(united(), []),
        "rows={'a': [...], ...}",
        None,
    ),
    Case(
        f"{TESTING}/rows.py::given_rows",
        lambda: run_rows(hits().filter("ms > 1"), {"b": []}),
        "the sources are: file",
        None,
    ),
    Case(
        "topology/topology.py::Topology._check_ends",
        lambda: Topology(namespace="shop", job="empty", nodes=()),
        "begin with .from_file(...) or another",
        None,
    ),
    Case(
        "topology/check/io_overlap.py::_check_topics",
        lambda: from_kafka().to_kafka(BROKER, "in", value="page").build(),
        "write to another topic",
        lambda: from_kafka().to_kafka(BROKER, "out", value="page").build(),
    ),
    Case(
        "topology/check/io_overlap.py::_check_topics",
        lambda: with_letters("bad"),
        "write to another topic",
        lambda: with_letters("out"),
    ),
]
