"""Options of a run."""

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

# More often, a driver would mostly poll, and no file or table is ready sooner.
DEFAULT_INTERVAL = timedelta(seconds=1)
LAST_PORT = 65535


def default_metrics_port() -> int | None:
    """The port of RS_METRICS_PORT; None if it is not set. ConfigurationError for an invalid port."""
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
    """The default, which ignores progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointPolicy:
    """When savepoints are taken automatically, and how many are kept.

    `every` is the time between two savepoints of a started pipeline, `at_end` takes one when a run with batches ends;
    None and False: never. The newest `keep` are kept, unless they are older than `max_age`; the newest is always kept.
    `uri` is their location (None: RS_SAVEPOINTS, else the home). `local_storage_only` keeps checkpoints on this disk
    alone: no savepoint is taken automatically, and a lost disk is not recovered from one. With `state_rows` each
    automatic savepoint also exports state as rows.
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
    """The environment and the settings of a run.

    `home` defaults to RS_HOME; `driver` to the process's own Spark. `on_progress` is called after each batch, from a
    thread of the runtime. `interval` is the least time between two batches of a started pipeline. In a started
    pipeline, a side of a join that had no rows for `idle_timeout` no longer holds the watermark back (None: it does),
    and the event time of a query that had no rows for `close_on_idle` advances with the wall clock, so that windows
    close (None: they wait). `new_generation` begins a new checkpoint, `reset_steps` one for the named stateful steps
    only; `keep_state` uses state of another version of the pipeline. `run_id` names the run in the catalog and in
    reports. `partitions` is the number of state partitions of a new checkpoint (None: the setting of Spark's session).
    `max_line_bytes` caps the lines of followed files. `connector` overrides the writer of all Delta sinks. `lease_ttl`
    is how long a silent driver keeps its pipeline before another may take over. `checkpoint_storage` is delta, memory
    or db, `storage_url` the SQLAlchemy URL of db: offsets are stored there for other programs, and not read by starts;
    `catalog_keep` is the retention of catalog rows. `preview_rows` is how many open windows of each step the report
    shows. `savepoints` is the policy of automatic savepoints. `max_poisons` is how many different records of a batch
    may be quarantined because a step cannot compute them; more end the run. Without `trace` every Python function runs
    in Python, even if it could be translated to Spark's plan. `metrics_port` is a loopback port that serves the run's
    metrics to Prometheus (0: any free one; None: no metrics), `metrics_endpoint` the address of an OpenTelemetry
    collector that gets them, `http://host:4318/v1/metrics`.
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
        """Refuse an invalid address of a collector."""
        if self.metrics_endpoint and not self.metrics_endpoint.startswith(("http://", "https://")):
            raise ConfigurationError(
                "metrics_endpoint must be an http(s) URL", remedy="write it as http://collector:4318/v1/metrics"
            )
