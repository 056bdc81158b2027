"""The gates of a running query."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from resources.source.admit import admit
from resources.source.policy import BadRecords


@dataclass(frozen=True, slots=True)
class StreamGates:
    """Bad rows fail the batch, or are counted in the first pass and written from a second one over that batch."""

    def admit(self, frame: DataFrame, *, step: str, policy: BadRecords, counted: bool) -> DataFrame:
        """`frame` without bad rows; the gate's counters carry the name of the step."""
        return admit(frame, gate=step, step=step, policy=policy, counted=counted)
