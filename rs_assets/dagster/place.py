"""Where a pipeline stores its data: one answer for its runs, jobs, sensors, checks and the compaction."""

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
from rs_assets.dagster.runs.run_tags import FEW, first_of_stream, settings_of
from rs_assets.runtime.options import RunOptions, SavepointPolicy
from rs_assets.topology.topology import Topology

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Home, savepoints and the storage of checkpoints; defaults are from the environment."""

    home: Home = field(default_factory=Home.default)
    savepoints: str | None = field(default=None, repr=False)
    checkpoint_storage: str = field(default_factory=default_storage)
    storage_url: str | None = field(default_factory=default_url, repr=False)

    @classmethod
    def of(
        cls, *, home: str = "", savepoints_uri: str = "", checkpoint_storage: str = "", storage_url: str = ""
    ) -> Place:
        """The place in the settings of a run; empty settings are from the environment."""
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
        """Run options for this place, with `others` added."""
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
    """The place of the pipeline's current run, else of its newest one; else from the environment.

    `context` is that of an op, a sensor or a check of Dagster.
    """
    instance = instance_of(context)
    return place_of_run(None if instance is None else newest_run(instance, topology))


def place_of_run(run: DagsterRun | None) -> Place:
    """The place of a run; without a run, from the environment."""
    return Place() if run is None else Place.of(**_settings(run))


def newest_run(instance: DagsterInstance, topology: Topology) -> DagsterRun | None:
    """The current run of the pipeline, else its newest one; None if Dagster has none. Standbys come last."""
    from dagster import RunsFilter
    from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

    tags = {"rs/pipeline": topology.name, "rs/mode": ["run", "start"]}
    filters = (RunsFilter(tags=tags, statuses=statuses) for statuses in (NOT_FINISHED_STATUSES, ()))
    return first_of_stream(run for each in filters for run in instance.get_runs(each, limit=FEW))


def instance_of(context: Any) -> DagsterInstance | None:
    """The instance of a context; None for a context without one, as in tests."""
    from dagster import DagsterInvariantViolationError

    try:
        instance: DagsterInstance = context.instance
    except DagsterInvariantViolationError:
        return None
    return instance


def _settings(run: DagsterRun) -> dict[str, str]:
    """The settings that say where a run stores its data."""
    found = settings_of(run)
    names = ("home", "savepoints_uri", "checkpoint_storage", "storage_url")
    return {name: _resolved(found[name]) for name in names if name in found}


def _resolved(value: object) -> str:
    """A setting as text; the value of an environment variable if it names one."""
    if isinstance(value, Mapping):
        return os.environ.get(str(value.get("env")), "")
    return str(value or "")
