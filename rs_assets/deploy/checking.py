"""Checks of a version before it replaces the running one, and whether a rollback to that one is possible."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from rs_assets.catalog.deployments import Version
from rs_assets.common.background import LOG
from rs_assets.deploy.change import Change, change_of, moved_ends
from rs_assets.deploy.texts import pipeline_of
from rs_assets.errors import ConfigurationError, EngineError, RsError
from rs_assets.runtime.job.analysis import analyse
from rs_assets.runtime.options import RunOptions
from rs_assets.stream.pipeline import Pipeline
from rs_assets.topology.topology import Topology


def checked(version: Version, good: Version | None, options: RunOptions) -> tuple[Pipeline, Change]:
    """The pipeline of a version that Spark accepts and whose state would fit; `good` is the previous version.

    UserError, StartRefused or EngineError otherwise. No other error is raised, whatever is wrong with the version.
    """
    pipeline = pipeline_of(version)
    before = way_back(good)
    change = change_of(pipeline.topology, version, options, before)
    if before is not None:
        change = replace(change, moved=moved_ends(before, pipeline.topology))
    if pipeline.topology.shuffled and not change.steady:
        raise ConfigurationError(
            f"a pipeline with a durable shuffle cannot be rolled back after a trial, and this version {change}",
            remedy="drop the pipeline, and deploy this version under another name",
        )
    try:
        analyse(pipeline.topology, options.driver)
    except RsError:
        raise
    except Exception as error:
        raise EngineError(
            f"Spark cannot analyse the pipeline: {type(error).__name__}: {str(error)[:500]}",
            remedy="write it in another way",
        ) from error
    return pipeline, change


def way_back(good: Version | None) -> Topology | None:
    """The pipeline of the version to roll back to; None if there is none or its text can no longer be read."""
    if good is None:
        return None
    try:
        return pipeline_of(good).topology
    except RsError as error:
        LOG.warning("cannot roll back to version %d of %s: %s", good.version, good.pipeline, error.what)
        return None


def left_behind(version: Version, good: Version | None, written: Collection[str]) -> str:
    """Text about outputs whose rows of a failed trial of `version` a rollback to `good` leaves.

    These are outputs that it has added, and those that it has `written` by queries that did not fail, or that cannot go
    back.
    """
    before, tried = way_back(good), way_back(version)
    if tried is None:
        return ""
    known = {sink.name for sink in before.sinks} if before is not None else {sink.name for sink in tried.sinks}
    begun = [sink.name for sink in tried.sinks if sink.name not in known or sink.name in written]
    return f"; rows that it wrote to {', '.join(begun)} stay there" if begun else ""
