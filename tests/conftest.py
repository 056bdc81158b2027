"""One Spark session for the fast part of the suite, and homes that vanish."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rs_assets.engine.home import Home
from rs_assets.engine.spark.driver import SparkDriver
from rs_assets.engine.spark.settings import SparkSettings
from rs_assets.pipeline.runtime.options import RunOptions
from rs_assets.testing import KafkaBroker
from tests.faults.processes import QUICK_START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
# For every Java that a test starts, too.
os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_START)
# Doctests and tests share the process's session, so its settings are made before the first use.
DRIVER = SparkDriver.shared(SparkSettings(master="local[2]", partitions=2))

# What a test asks for that starts a Java process, and marks of those that start one themselves.
WITH_JAVA = {"driver", "spark", "broker"}
HEAVY = {"slow", "cluster", "browser", "faults", "long", "bench"}

# Files of a minute and more, the slowest first: workers that begin with them end together.
LONG_FILES = (
    "tests/dagster/test_browser.py",
    "tests/faults/test_kill_poison.py",
    "tests/faults/test_kill.py",
    "tests/project/test_benchmarks.py",
    "tests/deploy/test_supervisor.py",
    "tests/operators/test_late_by_record.py",
    "tests/torture/test_crashes.py",
    "tests/faults/test_kafka_kill.py",
    "tests/faults/test_processes.py",
    "tests/cluster/test_cluster.py",
    "tests/nexmark/test_queries.py",
    "tests/torture/test_ledger.py",
    "tests/dagster/test_cli.py",
    "tests/dagster/test_dagster.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--plain` leaves out what starts Java."""
    parser.addoption("--plain", action="store_true", help="only tests that start no Java process (make check)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--plain` only the tests without Java stay; a worker begins with the long files."""
    if config.getoption("--plain"):
        items[:] = [item for item in items if not _needs_java(item)]
    if hasattr(config, "workerinput"):
        items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    file = item.nodeid.partition("::")[0]
    return LONG_FILES.index(file) if file in LONG_FILES else len(LONG_FILES)


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
