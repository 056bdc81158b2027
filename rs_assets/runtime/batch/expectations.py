"""Expectations among the steps that are applied to each batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.common.plural import count_of
from rs_assets.compile.planner.context import BadRecordCollector, Dead
from rs_assets.errors import BadRecordError
from rs_assets.records.admit import MET, expected
from rs_assets.records.columns import ADDRESS, REASON, visible
from rs_assets.records.poison import exact_text
from rs_assets.records.policy import OnFail


@dataclass(frozen=True, slots=True)
class BatchRecordFilter(BadRecordCollector):
    """Counts the rows of each expectation in a pass of its own, over rows that are kept for the batch.

    `judged` are the rows of each, and those that failed. Rows with an ADDRESS that become dead letters are collected.
    """

    judged: dict[str, tuple[int, int]] = field(default_factory=dict)

    def expect(self, frame: DataFrame, *, step: str, on_fail: OnFail) -> DataFrame:
        """The rows that an expectation lets pass; BadRecordError for one that ends the run."""
        found = frame.agg(F.count(F.lit(1)), F.count(REASON)).head()
        assert found is not None  # without groups there is one row
        rows, failed = self.judged[step] = found[0], found[1]
        unmet = frame.filter(F.col(REASON).isNotNull())
        if failed and on_fail is OnFail.FAIL:
            raise _error(unmet, step, f"{failed:,} of {count_of(rows, 'row')}")
        if failed and on_fail is OnFail.DEAD_LETTER and set(ADDRESS) <= set(frame.columns):
            self.dead.append(Dead.of(step, unmet))
        return expected(frame, step=step, on_fail=on_fail, counted=False)


def _error(unmet: DataFrame, step: str, share: str) -> BadRecordError:
    """The error for rows that do not meet an expectation, with the first of them."""
    row = unmet.select(REASON, exact_text(visible(unmet.columns)).alias("row")).head()
    assert row is not None  # they were counted
    return BadRecordError(f"{row[0]}: {share} failed", remedy=MET, step=step, record=row[1][:500])
