"""One Spark session for the fast part of the suite, and homes that vanish."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from rs_assets.common.home import Home
from rs_assets.common.storage import use_storage
from rs_assets.runtime.options import RunOptions
from rs_assets.spark.driver import SparkDriver
from rs_assets.spark.object_store import S3
from rs_assets.spark.settings import SparkSettings
from rs_assets.testing import (
    KafkaBroker,
    MariaDbServer,
    PostgresServer,
    RedisServer,
    RocketMQServer,
    S3Server,
)
from rs_assets.testing.servers import mariadb_packages
from rs_assets.testing.servers.mqtt import FETCH as FETCH_MOSQUITTO
from rs_assets.testing.servers.mqtt import MqttBroker
from rs_assets.testing.servers.mqtt import find_binary as find_mosquitto
from rs_assets.testing.servers.postgres import INSTALL, find_binaries
from rs_assets.testing.servers.redis import FETCH as FETCH_REDIS
from rs_assets.testing.servers.redis import find_binary as find_redis
from rs_assets.testing.servers.rocketmq_node import ROCKETMQ
from tests.durations import Recorder, brief, longest_first, recorded
from tests.faults.processes import QUICK_START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
# Commands that run in this process would lower its priority.
os.environ["RS_NICE"] = "0"
# For every Java that a test starts, too.
os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_START)
# How long an example takes says something of the machine, and nothing of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
# Doctests and tests share the process's session, so its settings are made before the first use.
DRIVER = SparkDriver.shared(SparkSettings(master="local[2]", partitions=2))

# What a test asks for that starts a Java process, and marks of those that start one themselves.
WITH_JAVA = {"driver", "spark", "broker", "rocketmq"}
HEAVY = {"slow", "cluster", "browser", "faults", "long", "bench"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--plain` leaves out what starts Java, `--brief` what exceeds its file's budget, `--record` writes durations."""
    parser.addoption("--plain", action="store_true", help="only tests that start no Java process (make check)")
    parser.addoption("--brief", action="store_true", help="only tests within the budget of their file (make test)")
    parser.addoption("--record", action="store_true", help="write tests/durations.json (make durations)")


def pytest_configure(config: pytest.Config) -> None:
    """Durations are recorded by the process that hears of all tests."""
    if hasattr(config, "workerinput"):
        return
    if config.getoption("--record"):
        config.pluginmanager.register(Recorder())
    if os.environ.get("RS_REQUIRE_SERVERS") == "1":
        # A session that has begun takes no more jars.
        S3.fetch()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a name with an address, which is another one in each worker: then no test would run."""
    if " at 0x" in item.nodeid:
        raise pytest.UsageError(f"{item.nodeid} has an address in its name: give its parameters ids=[...]")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only the tests that the options leave, and the longest files first, by which workers share them evenly."""
    everything, durations = [*items], recorded()
    for item in items:
        for server in {"postgres", "mariadb"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(server)
    if config.getoption("--plain"):
        items[:] = [item for item in items if not _needs_java(item)]
    if config.getoption("--brief"):
        items[:] = brief(items, durations)
    left = {*items}
    config.hook.pytest_deselected(items=[item for item in everything if item not in left])
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items, durations)


def _needs_java(item: pytest.Item) -> bool:
    marks = {mark.name for mark in item.iter_markers()}
    return bool(marks & HEAVY or WITH_JAVA & set(getattr(item, "fixturenames", ())))


@pytest.fixture(scope="session")
def driver() -> Iterator[SparkDriver]:
    """The Spark driver of this process, with two cores and two state partitions."""
    yield DRIVER
    DRIVER.stop()


@pytest.fixture(scope="session")
def spark(driver: SparkDriver):
    """The session, for tests that call Spark themselves."""
    return driver.call(lambda session: session)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty RS_HOME."""
    return Home(tmp_path / "rs")


@pytest.fixture
def options(home: Home, driver: SparkDriver) -> RunOptions:
    """Run options over the shared session and an empty home."""
    return RunOptions(home=home, driver=driver)


@pytest.fixture(autouse=True)
def _streams_end_with_their_test() -> Iterator[None]:
    """A test that failed half way must not take the next ones with it: its stream has a name that they may use."""
    yield
    if DRIVER.started:
        DRIVER.call(_stop_streams)


def _stop_streams(session: SparkSession) -> None:
    for query in session.streams.active:
        query.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A running Kafka broker; a test that stops, kills or pauses it brings it back."""
    with KafkaBroker() as started:
        yield started


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running Postgres server; a test that stops or kills it brings it back."""
    if find_binaries() is None and os.environ.get("RS_REQUIRE_SERVERS") != "1":
        pytest.skip(f"needs a Postgres server: {INSTALL}")
    with PostgresServer() as started:
        yield started


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDbServer]:
    """A running MariaDB server; a test that stops, kills or pauses it brings it back."""
    if mariadb_packages.find_binaries() is None and os.environ.get("RS_REQUIRE_SERVERS") != "1":
        pytest.skip(f"needs a MariaDB server: {mariadb_packages.REMEDY}")
    with MariaDbServer() as started:
        yield started


@pytest.fixture
def shop(mariadb: MariaDbServer) -> str:
    """The URL of an empty database of MariaDB of the test's own."""
    return mariadb.create_database()


@pytest.fixture(scope="session")
def rocketmq() -> Iterator[RocketMQServer]:
    """A running RocketMQ server; a test that kills or pauses it brings it back."""
    if not ROCKETMQ.complete and os.environ.get("RS_REQUIRE_SERVERS") != "1":
        pytest.skip(f"needs the jars of RocketMQ: {ROCKETMQ.remedy}")
    with RocketMQServer() as started:
        yield started


@pytest.fixture(scope="session")
def mqtt() -> Iterator[MqttBroker]:
    """A running MQTT broker; a test that stops, kills or pauses it brings it back."""
    if find_mosquitto() is None and os.environ.get("RS_REQUIRE_SERVERS") != "1":
        pytest.skip(f"needs Mosquitto: {FETCH_MOSQUITTO}")
    with MqttBroker() as started:
        yield started


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A running S3 server; a test that pauses it brings it back."""
    with S3Server() as started:
        yield started


@pytest.fixture
def bucket(s3: S3Server) -> Iterator[str]:
    """The address of an empty bucket of the test's own, with access for the test."""
    s3.resume()
    use_storage(s3.options)
    yield s3.create_bucket()
    use_storage({})


@pytest.fixture
def s3_jars(driver: SparkDriver) -> None:
    """The session can read from S3."""
    if not S3.complete:
        pytest.skip(f"needs the jars for S3: {S3.remedy}")


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """The URL of an empty database of the test's own."""
    return postgres.create_database()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A running Redis server; a test that kills or pauses it brings it back."""
    if find_redis() is None and os.environ.get("RS_REQUIRE_SERVERS") != "1":
        pytest.skip(f"needs a Redis server: {FETCH_REDIS}")
    with RedisServer() as started:
        yield started


@pytest.fixture
def redis(redis_server: RedisServer) -> RedisServer:
    """An empty Redis server."""
    redis_server.client().flushall()
    return redis_server
