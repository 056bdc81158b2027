"""The bad-record filter (gate) after a source or before state: bad records are refused or counted, never passed on."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.common.errors_wire import to_wire
from rs_assets.errors import BadRecordError
from rs_assets.records.columns import REASON, visible
from rs_assets.records.policy import BadRecords, OnFail
from rs_assets.records.schema import quoted

# The names of a gate's counters in Spark's observed metrics; the last exists only where it can be above zero.
ROWS, DEAD, SHARED = "rows", "dead", "shared"
ASKED = "asked"
# The remedy for a row that ends the run.
MET = "correct the input or the condition, or choose on_fail='warn', 'skip' or 'dead_letter'"
# The start of a row's REASON when a step's function failed, with the name of that step.
BLAMED = "^step '([a-z0-9_]+)' (?:raised|returned) "


def step_of(gate: str) -> str:
    """The step of a gate; a gate of one side of a join has the side after a point.

    >>> step_of("join.left")
    'join'
    """
    return gate.partition(".")[0]


def refusing_step(gate: str) -> Column:
    """The step that refused a row, read from its REASON: fused steps share one gate, named after one of them."""
    return F.coalesce(F.nullif(F.regexp_extract(REASON, BLAMED, 1), F.lit("")), F.lit(gate))


def admit(
    frame: DataFrame,
    *,
    gate: str,
    step: str,
    policy: BadRecords,
    counted: bool = True,
    shared: Column | None = None,
) -> DataFrame:
    """The rows of `frame` without a REASON; that column is dropped.

    Under FAIL a row with a reason ends the batch with BadRecordError. Otherwise rows and dead rows are counted in
    the same pass, as the observed metric `gate`. Without `counted` a FAIL gate counts nothing; Spark may then push a
    downstream filter through the gate, and bad rows that this filter drops go unnoticed. `shared` is true for refused
    rows that another query counts as well.
    """
    if policy is BadRecords.FAIL:
        if counted:
            # A parser skips fields that no step reads. So all fields are read, but only of rows that are bad anyway.
            fields = F.struct(*(F.col(quoted(name)) for name in visible(frame.columns)))
            asked = F.count(F.when(F.col(REASON).isNotNull(), fields)).alias(ASKED)
            frame = frame.observe(gate, F.count(F.lit(1)).alias(ROWS), F.lit(0).cast("bigint").alias(DEAD), asked)
        return _refusing(frame, BadRecordError("a record cannot be used", step=step))
    counts = [F.count(F.lit(1)).alias(ROWS), F.count(F.col(REASON)).alias(DEAD)]
    if shared is not None:
        counts.append(F.count(F.when(F.col(REASON).isNotNull() & shared, F.lit(1))).alias(SHARED))
    return frame.observe(gate, *counts).filter(F.col(REASON).isNull()).drop(REASON)


def expected(frame: DataFrame, *, step: str, on_fail: OnFail, counted: bool = True) -> DataFrame:
    """The rows of `frame` that an expectation lets pass, without REASON, which the others have.

    If `counted`, rows and those with a REASON are the observed metric `step`.
    """
    if counted:
        frame = frame.observe(step, F.count(F.lit(1)).alias(ROWS), F.count(F.col(REASON)).alias(DEAD))
    if on_fail is OnFail.FAIL:
        return _refusing(frame, BadRecordError("a row does not meet an expectation", remedy=MET, step=step))
    return (frame.filter(F.col(REASON).isNull()) if on_fail.removes else frame).drop(REASON)


def _refusing(frame: DataFrame, error: BadRecordError) -> DataFrame:
    """The rows of `frame`; one with a REASON ends the batch with `error`."""
    # The reason may hold quotes that would break the marker; the replay of the batch determines it again.
    refuse = F.raise_error(F.lit(to_wire(error))).cast("boolean")
    return frame.filter(F.col(REASON).isNull() | refuse).drop(REASON)
