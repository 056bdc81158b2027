"""What a compile function needs from outside, and what it hands on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.engine.home import Home
from rs_assets.engine.source.columns import ADDRESS, REASON
from rs_assets.engine.source.lines.reading import MAX_LINE_BYTES
from rs_assets.engine.source.policy import BadRecords
from rs_assets.errors import SchemaError
from rs_assets.pipeline.compile.python_step import PythonStep, apply_python
from rs_assets.pipeline.topology.source import Source


@dataclass(frozen=True, slots=True)
class Flow:
    """A lazy frame with Python steps that wait to be fused into one pass over Arrow batches."""

    frame: DataFrame
    waiting: tuple[PythonStep, ...] = ()
    guard: Callable[[DataFrame], DataFrame] | None = None

    @property
    def df(self) -> DataFrame:
        """The frame behind all waiting steps, and behind the gate that keeps out what they raised on."""
        if not self.waiting:
            return self.frame
        frame = apply_python(self.frame, self.waiting, quarantines=self.guard is not None)
        return self.guard(frame) if self.guard is not None else frame

    def then(self, step: PythonStep, wiring: Wiring) -> Flow:
        """This flow with one more Python step; where records are quarantined, behind a gate of that step's name."""

        def guard(frame: DataFrame) -> DataFrame:
            return wiring.gates.admit(frame, step=step.name, policy=BadRecords.QUARANTINE, counted=True)

        return replace(self, waiting=(*self.waiting, step), guard=guard if wiring.quarantines else None)


class Gates(Protocol):
    """What becomes of rows that cannot be used."""

    def admit(self, frame: DataFrame, *, step: str, policy: BadRecords, counted: bool) -> DataFrame:
        """`frame` (with REASON) without bad rows."""
        ...


@dataclass(frozen=True, slots=True)
class Dead:
    """Rows that a step of a replayed batch cannot use: their ADDRESS and REASON."""

    step: str
    rows: DataFrame


@dataclass(frozen=True, slots=True)
class CollectingGates:
    """Keeps the bad rows of a replay, with their addresses, instead of dropping them."""

    dead: list[Dead] = field(default_factory=list)

    def admit(self, frame: DataFrame, *, step: str, policy: BadRecords, counted: bool) -> DataFrame:  # noqa: ARG002
        """Split good from bad; bad rows are kept in `dead`."""
        bad = frame.filter(F.col(REASON).isNotNull())
        if step not in {known.step for known in self.dead}:
            self.dead.append(Dead(step, bad.select(*ADDRESS, REASON)))
        return frame.filter(F.col(REASON).isNull()).drop(REASON)


SourceReader = Callable[["Wiring", Source], DataFrame]


def _nothing_behind(step: str) -> StructType:
    raise KeyError(step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Spark, the folders of a query, and how its sources are read: as streams, or one batch again.

    `policy` is the strictest of the pipeline's sources. `folder` is for a query's control rows and arrays. `pinned`
    gives the schema of a source, inferred once, `stored_name` the name under which the checkpoint knows a source.
    `behind` gives the schema of what goes into a durable shuffle, by the name of the step that writes it. `now` is the
    clock of the batch. `quarantines`: a record on which a Python step raises is kept out of the batch. `poisons` are
    records that were found to fail: by stored name of the source and digest, with the reason.
    `ordered`: rows carry where they were read.
    """

    spark: SparkSession
    folder: Path
    read: SourceReader
    gates: Gates
    pinned: Callable[[Source, Callable[[], StructType]], StructType]
    stored_name: Callable[[str], str] = str
    home: Home = field(default_factory=Home.default)
    behind: Callable[[str], StructType] = _nothing_behind
    policy: BadRecords = BadRecords.FAIL
    quarantines: bool = False
    ordered: bool = False
    poisons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    streaming: bool = True
    now: Callable[[], Column] = F.current_timestamp
    max_line_bytes: int = MAX_LINE_BYTES

    def schema_of(self, source: Source, infer: Callable[[], StructType]) -> StructType:
        """The declared schema of `source`, or the pinned one; SchemaError if the text does not parse."""
        return parse_ddl(self.spark, source.schema, step=source.name) if source.schema else self.pinned(source, infer)


def parse_ddl(spark: SparkSession, ddl: str, *, step: str) -> StructType:  # noqa: ARG001  parsing needs a session
    """DDL text as a schema; SchemaError names the step and what Spark says."""
    from pyspark.errors import ParseException

    try:
        made = StructType.fromDDL(ddl)
    except ParseException as error:
        first = str(error).strip().splitlines()[0]
        raise SchemaError(
            f"the schema of step {step!r} does not parse: {first}",
            remedy="write it as 'page string, ms bigint'",
            step=step,
        ) from error
    return made if isinstance(made, StructType) else StructType().add("value", made)
