"""The bad-record filter of a running query."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from rs_assets.records.admit import admit, expected, refusing_step, step_of
from rs_assets.records.policy import BadRecords, OnFail


@dataclass(frozen=True, slots=True)
class StreamRecordFilter:
    """Bad rows fail the batch, or are counted in the first pass and written by a second pass over that batch.

    `shared` are the steps whose rejected rows another query counts: see `QueryPlan.shared`. `gates` is filled while
    frames are made: the names of the filters that count rows.
    """

    shared: frozenset[str] = frozenset()
    gates: set[str] = field(default_factory=set)

    def filter_bad_records(self, frame: DataFrame, *, step: str, policy: BadRecords, counted: bool) -> DataFrame:
        """`frame` without bad rows; the filter's counters have the name `step`: of a step, or of one of its sides."""
        own = step_of(step)
        self.gates.add(step)
        shared = refusing_step(own).isin(*self.shared) if self.shared else None
        return admit(frame, gate=step, step=own, policy=policy, counted=counted, shared=shared)

    def expect(self, frame: DataFrame, *, step: str, on_fail: OnFail) -> DataFrame:
        """The rows that an expectation lets pass; its counters have the name `step`."""
        return expected(frame, step=step, on_fail=on_fail)
