"""Where a pipeline keeps what it has: one answer for its runs, jobs, sensors, checks and the compaction."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.offsets import CheckpointStorage, default_storage, default_url, storage_named
from rs_assets.common.home import Home
from rs_assets.dagster.resources.resource_keys import RUN
from rs_assets.runtime.options import RunOptions, SavepointPolicy
from rs_assets.topology.topology import Topology

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Home, savepoints and the storage of checkpoints; what is not given is as the environment has it."""

    home: Home = field(default_factory=Home.default)
    savepoints: str | None = field(default=None, repr=False)
    checkpoint_storage: str = field(default_factory=default_storage)
    storage_url: str | None = field(default_factory=default_url, repr=False)

    @classmethod
    def of(
        cls, *, home: str = "", savepoints_uri: str = "", checkpoint_storage: str = "", storage_url: str = ""
    ) -> Place:
        """The place that the settings of a run name; an empty one is as the environment has it."""
        return cls(
            home=Home.at(home) if home else Home.default(),
            savepoints=savepoints_uri or None,
            checkpoint_storage=checkpoint_storage or default_storage(),
            storage_url=storage_url or default_url(),
        )

    @property
    def catalog(self) -> Catalog:
        """The catalog of the home."""
        return Catalog(self.home.catalog)

    def job(self, topology: Topology) -> Path:
        """The folder of a pipeline's checkpoints."""
        return self.home.job(topology.namespace, topology.job)

    def options(self, **others: Any) -> RunOptions:
        """Options for whatever is done to a pipeline here, with `others` as they are."""
        return RunOptions(
            **{
                "home": self.home,
                "savepoints": SavepointPolicy(uri=self.savepoints),
                "checkpoint_storage": self.checkpoint_storage,
                "storage_url": self.storage_url,
                **others,
            }
        )

    @contextmanager
    def storage(self) -> Iterator[CheckpointStorage]:
        """The storage of checkpoints, closed at the end."""
        opened = storage_named(self.checkpoint_storage, catalog=self.home.catalog, url=self.storage_url)
        try:
            yield opened
        finally:
            opened.finish()


def place_of(context: Any, topology: Topology) -> Place:
    """Where the pipeline's run keeps what it has, or its newest run if none is going; else as the environment has it.

    `context` is one of Dagster's, of an op, a sensor or a check.
    """
    instance = instance_of(context)
    return place_of_run(None if instance is None else newest_run(instance, topology))


def place_of_run(run: DagsterRun | None) -> Place:
    """Where a run keeps what it has; without one as the environment has it."""
    return Place() if run is None else Place.of(**_settings(run))


def newest_run(instance: DagsterInstance, topology: Topology) -> DagsterRun | None:
    """The run of the pipeline that goes on, else its newest one; None if Dagster knows of none."""
    from dagster import RunsFilter
    from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

    tags = {"rs/pipeline": topology.name, "rs/mode": ["run", "start"]}
    for statuses in (NOT_FINISHED_STATUSES, ()):
        runs = instance.get_runs(RunsFilter(tags=tags, statuses=statuses), limit=1)
        if runs:
            return runs[0]
    return None


def instance_of(context: Any) -> DagsterInstance | None:
    """The instance of a context; None for one that was made without, as tests do."""
    from dagster import DagsterInvariantViolationError

    try:
        instance: DagsterInstance = context.instance
    except DagsterInvariantViolationError:
        return None
    return instance


def _settings(run: DagsterRun) -> dict[str, str]:
    """What was set in the Launchpad, under the resource of the run."""
    found: Any = run.run_config
    for key in ("resources", RUN, "config"):
        found = found.get(key, {}) if isinstance(found, Mapping) else {}
    names = ("home", "savepoints_uri", "checkpoint_storage", "storage_url")
    return {name: _resolved(found[name]) for name in names if isinstance(found, Mapping) and name in found}


def _resolved(value: object) -> str:
    """A setting as text; one that names an environment variable as that has it."""
    if isinstance(value, Mapping):
        return os.environ.get(str(value.get("env")), "")
    return str(value or "")
