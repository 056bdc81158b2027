"""The versions of deployed pipelines that are visible in Dagster."""

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
    """A version with assets in the code location."""

    version: Version
    assets: StreamAssets


def visible_pipelines(home: Home, taken: Collection[str]) -> Pairs:
    """The visible versions with their pipelines, by name; none with a label in `taken`.

    Versions that cannot be read or built are left out; the sensor reports them.
    """
    try:
        return _shown(home, stamp_of(home.deployments), stamp_of(home.catalog / TABLE), frozenset(taken))
    except RsError:
        return ()


@lru_cache(maxsize=4)
def _shown(home: Home, _deployed: str, _happened: str, taken: frozenset[str]) -> Pairs:  # the tables as they are now
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
    """The smallest of the pipelines with one label in Dagster has it; visible ones come first."""
    return not state.rooted, name
