"""How a pipeline is run."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from rs_assets.catalog.lease import DEFAULT_TTL
from rs_assets.catalog.offsets import default_storage, default_url
from rs_assets.catalog.tidying import kept_for
from rs_assets.common.home import Home
from rs_assets.connectors.files.lines.reading import MAX_LINE_BYTES
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.report import BatchProgress
from rs_assets.spark.driver import SparkDriver
from rs_assets.topology.nodes.sink import Connector

# Less often than this a driver would mostly poll; more often helps no file or table.
DEFAULT_INTERVAL = timedelta(seconds=1)
LAST_PORT = 65535


def default_metrics_port() -> int | None:
    """The port of RS_METRICS_PORT; None if it is not set. ConfigurationError if it is no port."""
    text = os.environ.get("RS_METRICS_PORT", "")
    if not text:
        return None
    if not text.isdecimal() or int(text) > LAST_PORT:
        raise ConfigurationError(f"RS_METRICS_PORT is {text!r}", remedy=f"use a port from 0 to {LAST_PORT}")
    return int(text)


def default_metrics_endpoint() -> str:
    """The address of RS_METRICS_ENDPOINT; empty if it is not set."""
    return os.environ.get("RS_METRICS_ENDPOINT", "")


def _ignore(progress: BatchProgress) -> None:
    """Nobody asked for progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointPolicy:
    """When savepoints are taken without being asked for, and how many stay.

    `every` is the time between two of a started pipeline, `at_end` takes one when a run ends that had batches; None and
    False: never. The newest `keep` stay, and of those the ones younger than `max_age`; the newest stays always. `uri`
    is where they go (None: RS_SAVEPOINTS, else the home). `local_storage_only` keeps checkpoints on this disk alone: no
    savepoint is taken by itself, and a lost disk is not recovered from one. With `state_rows` state is written out as
    rows whenever a savepoint is taken by itself.
    """

    every: timedelta | None = None
    at_end: bool = False
    keep: int = 10
    max_age: timedelta | None = None
    uri: str | None = field(default=None, repr=False)
    local_storage_only: bool = False
    state_rows: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Where and with what a pipeline runs.

    `home` defaults to RS_HOME; `driver` to the process's own Spark. `on_progress` is called after each batch, from a
    thread of the runtime. `interval` is the least time between two batches of a started pipeline. In one, a side of a
    join that had no rows for `idle_timeout` does not hold the watermark back any more (None: it does), and in a query
    that had none for `close_on_idle` event time goes on with the wall clock, so that windows close (None: they wait).
    `new_generation` begins a fresh checkpoint, `reset_steps` one for the named stateful steps only; `keep_state` uses
    state that another version of the pipeline made. `run_id` names the run in the catalog and in reports. `partitions`
    is the number of state partitions of a new checkpoint (None: what Spark's session says). `max_line_bytes` caps the
    lines of followed files. `connector` overrides the writer of all Delta sinks. `lease_ttl` is how long a silent
    driver keeps its pipeline before another may take over. `checkpoint_storage` is delta, memory or db, `storage_url`
    the SQLAlchemy URL of db: offsets are noted there for others to read, and no start reads them; `catalog_keep` is how
    long rows of the catalog are kept. `preview_rows` is how many open windows of each step the report shows.
    `savepoints` says when savepoints are taken by themselves. `max_poisons` is how many different records of a batch
    may go into quarantine because a step cannot compute them; more end the run. Without `trace` every Python function
    runs in Python, also where it is understood well enough for Spark's plan. `metrics_port` is a port of loopback that
    serves the run's numbers to Prometheus (0: any free one; None: none does), `metrics_endpoint` the address of a
    collector of OpenTelemetry that gets them, `http://host:4318/v1/metrics`.
    """

    home: Home = field(default_factory=Home.default)
    driver: SparkDriver = field(default_factory=SparkDriver.shared)
    on_progress: Callable[[BatchProgress], None] = _ignore
    interval: timedelta = DEFAULT_INTERVAL
    idle_timeout: timedelta | None = None
    close_on_idle: timedelta | None = None
    new_generation: bool = False
    reset_steps: tuple[str, ...] = ()
    keep_state: bool = False
    partitions: int | None = None
    max_line_bytes: int = MAX_LINE_BYTES
    connector: Connector | None = None
    lease_ttl: timedelta = DEFAULT_TTL
    preview_rows: int = 0
    checkpoint_storage: str = field(default_factory=default_storage)
    storage_url: str | None = field(default_factory=default_url, repr=False)
    catalog_keep: timedelta = field(default_factory=kept_for)
    savepoints: SavepointPolicy = field(default_factory=SavepointPolicy)
    max_poisons: int = 100
    trace: bool = True
    metrics_port: int | None = field(default_factory=default_metrics_port)
    metrics_endpoint: str = field(default_factory=default_metrics_endpoint, repr=False)
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def __post_init__(self) -> None:
        """Refuse the address of a collector that is none."""
        if self.metrics_endpoint and not self.metrics_endpoint.startswith(("http://", "https://")):
            raise ConfigurationError(
                "the address of the collector is none of HTTP", remedy="write it as http://collector:4318/v1/metrics"
            )
