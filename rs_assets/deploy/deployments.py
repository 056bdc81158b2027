"""Deployment from Python: versions of pipelines in the table that the Dagster sensor reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.deployments import DeploymentTable, Version
from rs_assets.common.home import Home
from rs_assets.deploy.history import Event, History, Standing, standings
from rs_assets.deploy.texts import pipeline_of
from rs_assets.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Deployments:
    """The deployed pipelines of a home: their desired state and their history.

    Each request is a new version, a row of the Delta table `catalog/deployments`; the Dagster sensor `rs_deployments`
    acts on it. Versions are never changed or removed.

    >>> import tempfile
    >>> text = '''
    ...     CREATE TABLE hits (page STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
    ...     CREATE TABLE pages (page STRING) WITH ('connector' = 'delta', 'table' = 'pages');
    ...     INSERT INTO pages SELECT page FROM hits'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     deployed = Deployments(Home.at(folder))
    ...     first = deployed.deploy("shop.pages", text, note="all of them")
    ...     numbers = first, deployed.stop("shop.pages"), deployed.rollback("shop.pages", to=1)
    ...     states = [version.state for version in deployed.versions("shop.pages")]
    >>> numbers, states
    ((1, 2, 3), ['running', 'stopped', 'running'])
    """

    home: Home = field(default_factory=Home.default)

    def deploy(
        self,
        pipeline: str,
        text: str,
        *,
        variables: Mapping[str, str] | None = None,
        reset: Sequence[str] = (),
        note: str = "",
    ) -> int:
        """Have `pipeline` (`namespace.job`) run the statements `text`; returns the number of the new version.

        `variables` are the values for `${NAME}` in it; keep passwords in the environment of the runs. `reset` names the
        steps whose state the version drops; `["*"]` drops all state. UserError if the text cannot be read: no version
        is added.
        """
        pipeline_of(Version(pipeline=pipeline, version=1, text=text, variables=variables or {}))
        return self._add(pipeline, text=text, variables=variables, state="running", reset=reset, note=note)

    def rollback(self, pipeline: str, *, to: int, reset: Sequence[str] = (), note: str = "") -> int:
        """Have `pipeline` run the statements of version `to` again, as a new version; returns its number."""
        old = next((version for version in self.versions(pipeline) if version.version == to), None)
        if old is None:
            there = ", ".join(str(version.version) for version in self.versions(pipeline)) or "none"
            raise ConfigurationError(f"{pipeline} has no version {to}", remedy=f"use one of: {there}")
        pipeline_of(old)
        return self._add(
            pipeline,
            text=old.text,
            variables=old.variables,
            state="running",
            reset=reset,
            note=note or f"rollback to version {to}",
        )

    def start(self, pipeline: str, *, note: str = "") -> int:
        """Have the newest statements run; returns the number of the new version."""
        return self._again(pipeline, "running", note)

    def stop(self, pipeline: str, *, note: str = "") -> int:
        """Drain and stop `pipeline`; returns the number of the new version. Its assets, tables and state stay."""
        return self._again(pipeline, "stopped", note)

    def drop(self, pipeline: str, *, note: str = "") -> int:
        """Stop `pipeline` and remove its assets; returns the number of the new version. Its tables and state stay."""
        return self._again(pipeline, "dropped", note)

    def versions(self, pipeline: str) -> tuple[Version, ...]:
        """All versions, oldest first."""
        return DeploymentTable(self.home.deployments).of(pipeline)

    def events(self, pipeline: str | None = None) -> Sequence[Event]:
        """The history of the versions of one pipeline, or of all, oldest first."""
        return History(Catalog(self.home.catalog)).of(pipeline)

    def standings(self) -> Mapping[str, Standing]:
        """The status of each pipeline, by name."""
        return standings(self.home)

    def _again(self, pipeline: str, state: str, note: str) -> int:
        known = self.versions(pipeline)
        if not known:
            raise ConfigurationError(
                f"no version of {pipeline!r} is deployed",
                remedy=f"use one of: {', '.join(self.standings()) or 'none'}",
            )
        last = known[-1]
        return self._add(pipeline, text=last.text, variables=last.variables, state=state, reset=(), note=note)

    def _add(self, pipeline: str, *, variables: Mapping[str, str] | None, reset: Sequence[str], **row: object) -> int:
        return DeploymentTable(self.home.deployments).add(
            pipeline, variables=dict(variables or {}), reset=",".join(reset) or None, **row
        )
