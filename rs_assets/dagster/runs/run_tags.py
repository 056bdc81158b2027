"""Tags of runs, which distinguish runs that recovery launched from those that people launched."""

from __future__ import annotations

from collections.abc import Mapping

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


def answers_of(tags: Mapping[str, str]) -> str | None:
    """The id of the desired state that a restart is for; None if a person launched the run."""
    return None if PARENT in tags else tags.get(ANSWERS)
