"""Options of a run."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from rs_assets.catalog.lease import DEFAULT_TTL
from rs_assets.catalog.offsets import default_storage, default_url
from rs_assets.catalog.tidying import kept_for
from rs_assets.common.home import Home
from rs_assets.connectors.delta.nodes import DeltaConnector
from rs_assets.connectors.files.lines.reading import MAX_LINE_BYTES
from rs_assets.errors import ConfigurationError
from rs_assets.records.policy import BadRecords
from rs_assets.runtime.option_checks import RUN_RULES, SAVEPOINT_RULES, check_options
from rs_assets.runtime.report import BatchProgress
from rs_assets.spark.driver import SparkDriver

# More often, a driver would mostly poll, and no file or table is ready sooner.
DEFAULT_INTERVAL = timedelta(seconds=1)
LAST_PORT, LONGEST_LEASE_S = 65535, 3600
_YES, _NO = frozenset({"1", "true", "yes"}), frozenset({"", "0", "false", "no"})


def default_lease_ttl() -> timedelta:
    """The seconds of RS_LEASE_SECONDS, else 30; ConfigurationError for another number than 1 to 3600."""
    text = os.environ.get("RS_LEASE_SECONDS", "")
    if not text:
        return DEFAULT_TTL
    if not text.isdecimal() or not 1 <= int(text) <= LONGEST_LEASE_S:
        raise ConfigurationError(f"RS_LEASE_SECONDS is {text!r}", remedy=f"use 1 to {LONGEST_LEASE_S} seconds")
    return timedelta(seconds=int(text))


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


def default_upload() -> bool:
    """Whether RS_UPLOAD asks for uploads; ConfigurationError for a value that is neither yes nor no."""
    return _switched_on("RS_UPLOAD")


def default_openlineage() -> bool:
    """Whether RS_OPENLINEAGE asks for events; ConfigurationError for a value that is neither yes nor no."""
    return _switched_on("RS_OPENLINEAGE")


def _switched_on(name: str) -> bool:
    text = os.environ.get(name, "").lower()
    if text not in _YES | _NO:
        raise ConfigurationError(f"{name} is {text!r}", remedy="use 1 or 0")
    return text in _YES


def _ignore(progress: BatchProgress) -> None:
    """The default, which ignores progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointPolicy:
    """When savepoints are taken automatically, and how many are kept.

    - `every` (timedelta, default None: never): the time between two savepoints of a started pipeline.
    - `at_end` (bool, default False): take one at the end of a run that had batches.
    - `keep` (int, savepoints, default 10): the newest ones are kept, the very newest always.
    - `max_age` (timedelta, default None: any age): older ones are removed, even among the newest `keep`.
    - `uri` (str, path or fsspec URI, default RS_SAVEPOINTS, else in the home): where they are stored.
    - `upload` (bool, default RS_UPLOAD, else False): store the checkpoint of each batch at `uri` before its rows are
      committed, and continue from there if the home is lost: at most one batch is computed again.
    - `local_storage_only` (bool, default False): no automatic savepoints, no uploads, and no recovery from them.
    - `state_rows` (bool, default True): also write the state as rows with each automatic savepoint.

    >>> from rs_assets import Time
    >>> SavepointPolicy(every=Time.minutes(10), keep=3).keep
    3
    """

    every: timedelta | None = None
    at_end: bool = False
    keep: int = 10
    max_age: timedelta | None = None
    uri: str | None = field(default=None, repr=False)
    upload: bool = field(default_factory=default_upload)
    local_storage_only: bool = False
    state_rows: bool = True

    def __post_init__(self) -> None:
        """Refuse values of other types."""
        check_options(self, SAVEPOINT_RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Where and with what a pipeline runs.

    Place and Spark:

    - `home` (Home, default RS_HOME; `Home.at('/data/rs')`): catalog, checkpoints and tables.
    - `driver` (SparkDriver, default: the process's own).
    - `run_id` (str, default random): the name of the run in the catalog and in reports.
    - `lease_ttl` (timedelta, default RS_LEASE_SECONDS, else 30 seconds): a driver without a sign of life for so long
      loses its pipeline to another.

    Batches:

    - `interval` (timedelta, default 1 second): least time between two batches of a started pipeline.
    - `on_progress` (function of a BatchProgress, default none): called after each batch, from a thread of the runtime.
    - `idle_timeout` (timedelta, default None: never): in a started pipeline a side of a join without rows for so long
      no longer holds the watermark back.
    - `close_on_idle` (timedelta, default None: never): in a started pipeline the event time of a query without rows for
      so long continues with the wall clock, so that windows close.
    - `max_rows_per_batch` (int, rows, default None: as each source says): the limit of a batch for all sources that
      have one of rows.
    - `max_files_per_batch` (int, files, default None: as each source says): the same for whole files.
    - `bad_records` ("fail", "dead_letter", "quarantine" or "skip", default None: as each source says): the policy of
      all sources. A run with another one counts as another version of the pipeline.
    - `max_line_bytes` (int, bytes, default 10 MiB): a longer line of a followed file is a bad record.
    - `connector` ("native" or "jvm", default None: as each step says): the writer of all Delta sinks.
    - `max_poisons` (int, records, default 100): how many records of a batch may be quarantined because a step fails on
      them; more end the run.
    - `trace` (bool, default True): translate Python functions into Spark expressions where possible.
    - `preview_rows` (int, rows, default 0): how many open windows of each step the report shows.

    Checkpoints and state:

    - `new_generation` (bool, default False): begin a new checkpoint and read the input again.
    - `reset_steps` (tuple of str, default none): begin a new state for these stateful steps only.
    - `keep_state` (bool, default False): use state that another version of the pipeline wrote.
    - `partitions` (int, default: that of Spark's session): state partitions of a new checkpoint.
    - `savepoints` (SavepointPolicy, default: none are taken automatically).

    Catalog and metrics:

    - `checkpoint_storage` ("delta", "memory", "db" or "package.module:Class", default RS_CHECKPOINT_STORAGE, else
      "delta"): where offsets are published. Starts do not read them. A class of your own is a CheckpointStorage.
    - `storage_url` (str, default RS_STORAGE_URL): the SQLAlchemy URL for "db".
    - `flush_batches` (int, default 50) and `flush_after` (timedelta, default 10 seconds): batches are written to the
      catalog and to `checkpoint_storage` together, when so many wait, or the first one has waited so long.
    - `catalog_keep` (timedelta, default RS_CATALOG_DAYS): how long rows of the catalog are kept.
    - `metrics_port` (int, default RS_METRICS_PORT, else None: off): a port on loopback for Prometheus; 0 is any free
      port.
    - `metrics_endpoint` (str, default RS_METRICS_ENDPOINT, else off): the address of an OpenTelemetry collector,
      `http://host:4318/v1/metrics`.
    - `openlineage` (bool, default RS_OPENLINEAGE, else False): send events of lineage; OpenLineage's own variables,
      such as OPENLINEAGE_URL, say where to.

    ConfigurationError for a value of another type, for one below its least, and for a `metrics_endpoint` that is not an
    http(s) URL.

    >>> from rs_assets import Time
    >>> RunOptions(interval=Time.seconds(5), partitions=4).max_poisons
    100
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
    max_rows_per_batch: int | None = None
    max_files_per_batch: int | None = None
    bad_records: BadRecords | str | None = None
    max_line_bytes: int = MAX_LINE_BYTES
    connector: DeltaConnector | None = None
    lease_ttl: timedelta = field(default_factory=default_lease_ttl)
    preview_rows: int = 0
    checkpoint_storage: str = field(default_factory=default_storage)
    storage_url: str | None = field(default_factory=default_url, repr=False)
    flush_batches: int = 50
    flush_after: timedelta = timedelta(seconds=10)
    catalog_keep: timedelta = field(default_factory=kept_for)
    savepoints: SavepointPolicy = field(default_factory=SavepointPolicy)
    max_poisons: int = 100
    trace: bool = True
    metrics_port: int | None = field(default_factory=default_metrics_port)
    metrics_endpoint: str = field(default_factory=default_metrics_endpoint, repr=False)
    openlineage: bool = field(default_factory=default_openlineage)
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    @classmethod
    def of(cls, options: RunOptions | None) -> RunOptions:
        """The options that a caller gave; None: RunOptions(). ConfigurationError for anything else."""
        if options is None:
            return cls()
        if isinstance(options, cls):
            return options
        raise ConfigurationError(
            f"options must be RunOptions, not {repr(options)[:100]}",
            remedy="RunOptions(home=Home.at('/data/rs')) runs in that home",
        )

    def apart(self) -> RunOptions:
        """For a temporary run: its checkpoints are neither published nor uploaded, and no metrics or events are sent.

        All that it stores is in the folder of its home, whatever the environment says.
        """
        unseen = replace(self, metrics_port=None, metrics_endpoint="", openlineage=False)
        local = SavepointPolicy(upload=False, local_storage_only=True)
        home = replace(self.home, apart=True)
        return replace(unseen, home=home, checkpoint_storage="memory", storage_url=None, savepoints=local)

    def __post_init__(self) -> None:
        """Refuse values of other types, and an invalid address of a collector."""
        check_options(self, RUN_RULES)
        if self.metrics_endpoint and not self.metrics_endpoint.startswith(("http://", "https://")):
            raise ConfigurationError(
                "metrics_endpoint must be an http(s) URL", remedy="write it as http://collector:4318/v1/metrics"
            )
