"""Which versions of the deployed pipelines people should see."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rs_assets.catalog.deployments import Version, stamp_of
from rs_assets.common.home import Home
from rs_assets.deploy.history import TABLE, Standing, standings
from rs_assets.deploy.texts import pipeline_of
from rs_assets.errors import RsError
from rs_assets.stream.pipeline import Pipeline

if TYPE_CHECKING:
    from rs_assets.dagster.assets.stream_assets import StreamAssets

Pairs = tuple[tuple[Version, Pipeline], ...]


@dataclass(frozen=True, slots=True)
class VisibleVersion:
    """A version whose assets the code location has."""

    version: Version
    assets: StreamAssets


def visible_pipelines(home: Home, taken: Collection[str]) -> Pairs:
    """The versions that people should see, with their pipelines, by name; none of a label in `taken`.

    What cannot be built, or read, is left out: the sensor tells of it.
    """
    try:
        return _shown(home, stamp_of(home.deployments), stamp_of(home.catalog / TABLE), frozenset(taken))
    except RsError:
        return ()


@lru_cache(maxsize=4)
def _shown(home: Home, deployed: str, happened: str, taken: frozenset[str]) -> Pairs:  # noqa: ARG001  the tables as they are now
    return tuple(_built(standings(home), set(taken)))


def _built(every: Mapping[str, Standing], labels: set[str]) -> list[tuple[Version, Pipeline]]:
    found: list[tuple[Version, Pipeline]] = []
    for _, state in sorted(every.items(), key=lambda each: precedence(*each)):
        version = state.shown
        if version is None:
            continue
        try:
            pipeline = pipeline_of(version)
        except RsError:
            continue
        if pipeline.topology.label not in labels:
            labels.add(pipeline.topology.label)
            found.append((version, pipeline))
    return sorted(found, key=lambda each: each[0].pipeline)


def precedence(name: str, state: Standing) -> tuple[bool, str]:
    """Which of pipelines that have one name in Dagster has it: the least, so one that people see already."""
    return not state.rooted, name
