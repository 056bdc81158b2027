"""For tests of runs that do nothing: a driver that must not be called, and why a start would need Spark."""

from __future__ import annotations

from rs_assets.checkpoint import manifest as manifests
from rs_assets.runtime.identity import resumed
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.job.unchanged import needs_spark


class NoSpark:
    """Takes the place of a SparkDriver."""

    def call(self, function):
        raise AssertionError("Spark was called")


def reason(job, options, *, finish=None):
    """Why a start of the pipeline `job`, which ran before, would need Spark; empty if it would do nothing."""
    session = JobSession(job.topology, options)
    stored = manifests.load(session.folder)
    session.manifest, session.folders = resumed(job.topology, session.plans, stored, options)
    return needs_spark(session, finish=finish)
