"""What a run was asked for: tags by which runs that recovery launches are told from those of people."""

from __future__ import annotations

from collections.abc import Mapping

# The tag of a run that starts a stream again: the id of the last word on that stream then, empty without one.
ANSWERS = "rs/answers"
# The tag of a run that starts a stream again: the run that it follows.
RECOVERS = "rs/recovers"
# The tag of a run that starts a stream again: when that run ended, in seconds since the epoch.
ENDED = "rs/ended"
# Dagster's tag of a run that was made of another one, with all tags of that one.
PARENT = "dagster/parent_run_id"


def answers_of(tags: Mapping[str, str]) -> str | None:
    """The last word on the stream that a run is to start again; None if a person asked for the run."""
    return None if PARENT in tags else tags.get(ANSWERS)
