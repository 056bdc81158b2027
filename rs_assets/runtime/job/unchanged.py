"""Decides without Spark whether a run would do anything: whether one of its queries would make a batch.

Spark makes a batch of new input, of control rows, of a batch that was planned and not committed, and of a watermark
that was not applied yet. Each is looked for by the means with which Spark's sources look. In doubt Spark starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import MappingProxyType

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.source import Foreseeing
from rs_assets.operators.window.event_time import control_folder, waiting_controls
from rs_assets.runtime.identity import resumed
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.options import RunOptions
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.topology import Topology


def is_unchanged(session: JobSession, *, finish: bool | None) -> bool:
    """Whether no query of an opened session would make a batch; it is then recorded as unchanged, without Spark.

    `finish` None means: fire all windows if the topology is bounded.
    """
    if needs_spark(session, finish=finish):
        return False
    last = {plan.name: session.log(plan).last_committed() for plan in session.plans}
    session.unchanged_since = MappingProxyType(last)
    session.follow_sources()
    return True


def needs_spark(session: JobSession, *, finish: bool | None) -> str:
    """Why a run has to start Spark; empty if it would do nothing.

    The session needs no lease; without one the answer is a guess, since another run may be at work.
    """
    asked = next((why for why, holds in RULES.items() if holds(session)), "")
    if asked or session.manifest.sealed:
        # A start refuses more input after the end, and a sealed generation makes no batch.
        return asked
    if session.topology.bounded if finish is None else finish:
        return "open windows are to be fired"
    try:
        if over := session.ended_queries:
            return f"no run has recorded that the input of {min(over)} has ended"
        return next(filter(None, (_awaited(session, plan) for plan in session.plans)), "")
    except Exception as error:  # noqa: BLE001  whatever it is, Spark looks for itself
        return f"its input cannot be seen: {error}"


def seems_unchanged(topology: Topology, options: RunOptions, *, finish: bool | None) -> bool:
    """A guess before a start: whether it will be unchanged. False for what a start would refuse; raises nothing."""
    session = JobSession(topology, options)
    try:
        stored = manifests.load(session.folder)
        if stored is None:
            return False
        session.manifest, session.folders = resumed(topology, session.plans, stored, options)
    except Exception:  # noqa: BLE001  the start checks all of it, and says what is wrong
        return False
    return not needs_spark(session, finish=finish)


def _asked(session: JobSession) -> bool:
    """Whether an option of the run changes what it does, or needs Spark itself."""
    options, kept = session.options, session.manifest.partitions
    changes = (options.new_generation, options.reset_steps, options.keep_state, options.partitions not in (None, kept))
    needing = (options.savepoints.upload, options.openlineage, options.idle_timeout, options.close_on_idle)
    return any(map(bool, (*changes, *needing)))


def _by_clock(session: JobSession) -> bool:
    return any(isinstance(node, TimedState) and node.arrival_tick is not None for node in session.topology)


# Why a run starts Spark, whatever its input is.
RULES: Mapping[str, Callable[[JobSession], bool]] = MappingProxyType(
    {
        "an option of the run asks for it": _asked,
        "the checkpoint was recovered": lambda session: bool(session.recovered_from),
        "the number of state partitions is not settled": lambda session: (
            bool(session.manifest.rescaling) or not session.manifest.partitions
        ),
        "the pipeline has changed": lambda session: session.manifest.code != session.topology.code,
        "a step goes by the clock": _by_clock,
    }
)


def _awaited(session: JobSession, plan: QueryPlan) -> str:
    """What the query of `plan` would make a batch of; empty for nothing."""
    log = session.log(plan)
    last = log.last_committed()
    planned = log.offsets(last)
    if planned is None:
        return f"{plan.name} has read nothing yet"
    if log.offsets(last + 1) is not None:
        return f"{plan.name} has a batch that is not committed"
    if log.watermark_waits:
        return f"{plan.name} has not applied its watermark"
    if not planned.sources.keys() <= {*plan.sources, *plan.controls.values()}:
        return f"the sources of {plan.name} have changed"
    if any(_has_control(session, plan, log, control) for control in plan.controls.values()):
        return f"{plan.name} has a control row to read"
    return next((f"there is more of {name}" for name in plan.sources if _has_more(session, log, name)), "")


def _has_control(session: JobSession, plan: QueryPlan, log: CheckpointLog, control: str) -> bool:
    files, end = log.planned_files(control), log.source_offset(control, log.last_committed())
    waiting = waiting_controls(
        control_folder(session.query_folder(plan), control), {PurePath(file.place).name for file in files}
    )
    return any(file.batch > end for file in files) or next(waiting, None) is not None


def _has_more(session: JobSession, log: CheckpointLog, name: str) -> bool:
    reader = session.reader(name)
    return not isinstance(reader, Foreseeing) or reader.has_more(SourceLog(log, name))
