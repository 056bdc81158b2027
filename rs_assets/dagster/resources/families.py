"""The resources of all families. Each is one object, so that several definitions can be merged."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from rs_assets.dagster.resources.resource_keys import FAMILIES, IN_PROCESS, RUNTIME, key_of
from rs_assets.errors import ConfigurationError

# Dagster merges definitions only if each key has one object. So runtimes are kept by their resources.
_RUNTIMES: list[tuple[Mapping[str, Any], Any]] = []


def resources_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """All resources by key: for each family the given one, else one that is configured in the Launchpad.

    The same objects for the same `given`, in one process. ConfigurationError for an unknown family.
    """
    from dagster import mem_io_manager

    strays = sorted(given.keys() - set(FAMILIES))
    if strays:
        raise ConfigurationError(
            f"unknown families of resources: {', '.join(map(repr, strays))}", remedy=f"use: {', '.join(FAMILIES)}"
        )
    families = {**_defaults(), **given}
    return {
        **{key_of(name): families[name] for name in FAMILIES},
        RUNTIME: _runtime(families),
        IN_PROCESS: mem_io_manager,
    }


@cache
def _defaults() -> Mapping[str, Any]:
    from rs_assets.dagster.resources.join import JoinResource
    from rs_assets.dagster.resources.processor import ProcessorResource
    from rs_assets.dagster.resources.shuffle import ShuffleResource
    from rs_assets.dagster.resources.sink import SinkResource
    from rs_assets.dagster.resources.source import SourceResource
    from rs_assets.dagster.resources.spark import SparkResource
    from rs_assets.dagster.resources.step import StepResource
    from rs_assets.dagster.resources.table import TableResource
    from rs_assets.dagster.resources.window import WindowResource
    from rs_assets.dagster.runs.runtime import RunResource

    classes: dict[str, Any] = {
        "spark": SparkResource,
        "source": SourceResource,
        "step": StepResource,
        "shuffle": ShuffleResource,
        "window": WindowResource,
        "join": JoinResource,
        "table": TableResource,
        "processor": ProcessorResource,
        "sink": SinkResource,
        "run": RunResource,
    }
    return {name: made.configure_at_launch() for name, made in classes.items()}


def _runtime(families: Mapping[str, Any]) -> Any:
    """The runtime of `families`: the same object for the same resources."""
    from rs_assets.dagster.runs.runtime import RuntimeResource

    for tied, runtime in _RUNTIMES:
        if all(tied[name] is families[name] for name in FAMILIES):
            return runtime
    _RUNTIMES.append((families, RuntimeResource(**families)))
    return _RUNTIMES[-1][1]
