"""Tags and settings of runs, which distinguish those of recovery, of people, and of standbys."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rs_assets.dagster.resources.resource_keys import RUN

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun

    from rs_assets.runtime.run.standby import Vacancy

# The tag of a restart of a stream: the id of the stream's latest desired state then, empty without one.
ANSWERS = "rs/answers"
# The tag of a restart of a stream: the previous run.
RECOVERS = "rs/recovers"
# The tag of a restart of a stream: the end of the previous run, in seconds since the epoch.
ENDED = "rs/ended"
# The tags of a restart of a stream: why the previous run ended, and how long the stream was away, in seconds.
RECOVERY_REASON = "rs/recovery_reason"
LOST_SECONDS = "rs/lost_seconds"
# The tags of a restart after an upkeep job: its request, what the job did, and its run.
RESUMES = "rs/resumes"
RESUMES_AFTER = "rs/resumes_after"
RESUMES_RUN = "rs/resumes_run"
# The tags of a run that an event led to: the reason, the event (its asset, and its number in Dagster's log), its time.
WHY = "rs/why"
EVENT = "rs/event"
EVENT_AT = "rs/event_at"
# Dagster's tag of a run that copies another run with all its tags.
PARENT = "dagster/parent_run_id"
# How many of the newest runs are searched for one that does not wait as a standby.
FEW = 5


def answers_of(tags: Mapping[str, str]) -> str | None:
    """The id of the desired state that a restart is for; None if a person launched the run."""
    return None if PARENT in tags else tags.get(ANSWERS)


def tags_now(instance: DagsterInstance, run: DagsterRun) -> Mapping[str, str]:
    """The tags of `run`, with those that it got after its begin, as a standby does."""
    return (instance.get_run_by_id(run.run_id) or run).tags


def takeover_tags(vacancy: Vacancy) -> dict[str, str]:
    """The tags of a standby from its takeover on."""
    lost = {
        RECOVERS: vacancy.run_id,
        ENDED: f"{time.time() - vacancy.silent_s:.6f}",
        LOST_SECONDS: f"{vacancy.silent_s:.0f}",
        RECOVERY_REASON: "its driver is gone; a standby has taken over",
    }
    return {ANSWERS: vacancy.answers, **(lost if vacancy.run_id else {})}


def waits(run: DagsterRun) -> bool:
    """Whether a run waits as a standby, or did until its end. It does not count as a run of the stream."""
    return bool(settings_of(run).get("standby")) and answers_of(run.tags) is None


def first_of_stream(runs: Iterable[DagsterRun]) -> DagsterRun | None:
    """The first run that does not wait as a standby; if all do, the first."""
    standby = None
    for run in runs:
        if not waits(run):
            return run
        standby = standby or run
    return standby


def settings_of(run: DagsterRun) -> Mapping[str, Any]:
    """The settings of the run's resource in the Launchpad."""
    found: Any = run.run_config
    for key in ("resources", RUN, "config"):
        found = found.get(key, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}
