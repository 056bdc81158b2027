"""The context and the result of a compile function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.common.folder import Folder
from rs_assets.common.home import Home
from rs_assets.compile.python.python_step import PythonStep, apply_python
from rs_assets.connectors.files.lines.reading import MAX_LINE_BYTES
from rs_assets.connectors.nodes import Source
from rs_assets.errors import SchemaError
from rs_assets.operators.dimension.notes import Versions
from rs_assets.operators.window.batch_time import batch_time
from rs_assets.operators.window.splits import Latest
from rs_assets.records.admit import ROWS, admit, expected, step_of
from rs_assets.records.columns import ADDRESS, PREFIX, REASON, SOURCE
from rs_assets.records.policy import BadRecords, OnFail
from rs_assets.topology.chain import Link
from rs_assets.topology.nodes.versioned import VersionedTable


@dataclass(frozen=True, slots=True)
class Flow:
    """A lazy frame with Python steps that wait to be fused into one pass over Arrow batches."""

    frame: DataFrame
    waiting: tuple[PythonStep, ...] = ()
    guard: Callable[[DataFrame], DataFrame] | None = None

    @property
    def df(self) -> DataFrame:
        """The frame after all waiting steps, and after the filter of records on which they raised."""
        return self.computed(lambda frame: frame).frame

    def computed(self, kept: Callable[[DataFrame], DataFrame]) -> Flow:
        """This flow over what all waiting steps have made, as `kept` keeps it for the filter and for later steps."""
        if not self.waiting:
            return self
        frame = kept(apply_python(self.frame, self.waiting, quarantines=self.guard is not None))
        return Flow(self.guard(frame) if self.guard is not None else frame)

    @property
    def schema(self) -> StructType:
        """The visible fields after all waiting steps."""
        made = next((step.schema for step in reversed(self.waiting) if step.schema is not None), self.frame.schema)
        return StructType([field for field in made.fields if not field.name.startswith(PREFIX)])

    def then(self, step: PythonStep, context: CompileContext) -> Flow:
        """This flow with one more Python step; where records are quarantined, followed by a filter with its name."""

        def guard(frame: DataFrame) -> DataFrame:
            return guarded(context, frame, step=step.name)

        return replace(self, waiting=(*self.waiting, step), guard=guard if context.quarantines else None)


class BadRecordFilter(Protocol):
    """Filters bad records."""

    def filter_bad_records(self, frame: DataFrame, *, step: str, policy: BadRecords, counted: bool) -> DataFrame:
        """`frame` (with REASON) without bad rows."""
        ...

    def expect(self, frame: DataFrame, *, step: str, on_fail: OnFail) -> DataFrame:
        """The rows of `frame` (with REASON) that the expectation `step` lets pass."""
        ...

    @property
    def gates(self) -> Collection[str]:
        """The names of the filters that count rows; they come while frames are made."""
        return ()


@dataclass(frozen=True, slots=True)
class Dead:
    """Rows that a step of a replayed batch rejects: their SOURCE, ADDRESS and REASON.

    Whether a row is `late` depends on the batches of the query, so the result holds for this query only.
    """

    step: str
    rows: DataFrame
    late: bool = False

    @classmethod
    def of(cls, step: str, rows: DataFrame, *, late: bool = False) -> Dead:
        """Those of `rows`, which have a REASON; the source of rows of a window is null."""
        source = F.col(SOURCE) if SOURCE in rows.columns else F.lit(None).cast("string").alias(SOURCE)
        return cls(step, rows.select(source, *ADDRESS, REASON), late)


@dataclass(frozen=True, slots=True)
class BadRecordCollector(BadRecordFilter):
    """Collects the bad rows of a replay, with their addresses, instead of dropping them.

    `label` distinguishes the replays of several batches in one frame. Under `strict` a row that ends a run raises. Rows
    that are not `addressed` are only dropped.
    """

    dead: list[Dead] = field(default_factory=list)
    label: str = "replay"
    strict: bool = False
    addressed: bool = True

    def filter_bad_records(self, frame: DataFrame, *, step: str, policy: BadRecords, counted: bool) -> DataFrame:  # noqa: ARG002
        """Separate good from bad rows; bad rows are collected in `dead`."""
        if self.strict and policy is BadRecords.FAIL:
            return admit(frame, gate=f"{self.label} {step}", step=step_of(step), policy=policy)
        # Observing stops the optimizer from pulling up the filter, which would duplicate the expression of the reason.
        frame = frame.observe(f"{self.label} {step}", F.count(F.lit(1)).alias(ROWS))
        if self.addressed and step not in {known.step for known in self.dead}:
            self.dead.append(Dead.of(step, frame.filter(F.col(REASON).isNotNull())))
        return frame.filter(F.col(REASON).isNull()).drop(REASON)

    def expect(self, frame: DataFrame, *, step: str, on_fail: OnFail) -> DataFrame:
        """Collect rows that do not meet an expectation, unless they are passed on."""
        if on_fail is OnFail.WARN:
            return frame.drop(REASON)
        if self.strict and on_fail is OnFail.FAIL:
            return expected(frame, step=step, on_fail=on_fail, counted=False)
        return self.filter_bad_records(frame, step=step, policy=BadRecords.DEAD_LETTER, counted=True)


Read = Callable[["CompileContext", Source], DataFrame]


def _nothing_behind(step: str) -> StructType:
    raise KeyError(step)


@dataclass(frozen=True, slots=True)
class HeldDimension:
    """The folder with the versions of a dimension, and the schema that all of them share.

    `prepare` gets the fields of the stream, with their types, before rows are looked up.
    """

    root: Path
    schema: StructType
    prepare: Callable[[Mapping[str, str | None]], None] = lambda fields: None  # noqa: ARG005


def _nothing_noted(_batch_id: int) -> Versions:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileContext:
    """The context for compiling a query: Spark, folders, and how its sources are read (as streams, or one batch again).

    `policy` is the strictest of the pipeline's sources. `folder` is for a query's arrays, `control_root` for its
    control rows. `pinned` returns the schema of a source, inferred once, `stored_name` the name of a source in the
    checkpoint. `behind` returns the schema of the rows in a durable shuffle, by the name of the step that writes it.
    `now` is the clock of the batch. `quarantines`: a record on which a Python step raises is kept out of the batch.
    `poisons` are records that were found to fail: by stored name of the source and digest, with the reason. `ordered`:
    rows carry ORDER, with `scattered` all of it: they change their tasks. `by_split`: rows of a stream carry their
    ORIGIN, `by_record`: all of them ORIGIN and PLACE. `latest` is the progress of the splits before a batch that is
    read again. `links` say how stateful steps follow others of the query, `controls` the name of the source of control
    rows for each that follows none. `watermarks` are filled while frames are made: the operator of each input's
    watermark, by its id. `late` are steps whose late rows a sink gets, `called` those whose function another query
    calls for its side effect. `dimension` returns the dimension of a step, `noted` the versions recorded for a batch,
    by step, and `versions` those to look into; None: those in the local properties of a batch's tasks. `trace`: Python
    functions are compiled as far as possible. `located` are the steps at which a record may end the batch in Spark,
    because a replay finds it. `addressed`: the records of a batch that is read again have their ADDRESS.
    """

    spark: SparkSession
    folder: Path
    control_root: Folder
    read: Read
    record_filter: BadRecordFilter
    pinned: Callable[[Source, Callable[[], StructType]], StructType]
    stored_name: Callable[[str], str] = str
    home: Home = field(default_factory=Home.default)
    behind: Callable[[str], StructType] = _nothing_behind
    policy: BadRecords = BadRecords.FAIL
    quarantines: bool = False
    ordered: bool = False
    scattered: bool = False
    by_split: bool = False
    by_record: bool = False
    latest: Latest = field(default_factory=dict)
    poisons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    controls: Mapping[str, str] = field(default_factory=dict)
    watermarks: dict[str, str] = field(default_factory=dict)
    late: frozenset[str] = frozenset()
    called: frozenset[str] = frozenset()
    dimension: Callable[[VersionedTable], HeldDimension] = lambda node: declared_dimension(node)  # noqa: PLW0108  it is defined below
    noted: Callable[[int], Versions] = _nothing_noted
    versions: Versions | None = None
    streaming: bool = True
    now: Callable[[], Column] = batch_time
    max_line_bytes: int = MAX_LINE_BYTES
    trace: bool = True
    located: frozenset[str] = frozenset()
    addressed: bool = True

    def schema_of(self, source: Source, infer: Callable[[], StructType]) -> StructType:
        """The declared schema of `source`, or the pinned one; SchemaError if the text does not parse."""
        return parse_ddl(self.spark, source.schema, step=source.name) if source.schema else self.pinned(source, infer)


def guarded(context: CompileContext, frame: DataFrame, *, step: str) -> DataFrame:
    """`frame` without the records on which the Python function of `step` failed, which have a REASON."""
    return context.record_filter.filter_bad_records(frame, step=step, policy=BadRecords.QUARANTINE, counted=True)


def declared_dimension(node: VersionedTable) -> HeldDimension:
    """The schema of a dimension that is not loaded; SchemaError if the first load infers it."""
    if node.dimension.schema is None:
        raise SchemaError(
            f"the schema of the dimension of step {node.name!r} is inferred at the first start: nothing can be checked"
            " before",
            remedy="declare it: schema='user string, tier string'",
            step=node.name,
        )
    return HeldDimension(Path(), ddl_type(node.dimension.schema, step=node.name))


def parse_ddl(_spark: SparkSession, ddl: str, *, step: str) -> StructType:  # parsing needs a session
    """DDL text as a schema; SchemaError names the step and Spark's message."""
    return ddl_type(ddl, step=step)


def ddl_type(ddl: str, *, step: str) -> StructType:
    """DDL text as a schema, with an active session; SchemaError names the step and Spark's message."""
    from pyspark.errors import ArithmeticException, ParseException

    try:
        made = StructType.fromDDL(ddl)
    # ValueError for decimals of too many digits.
    except (ParseException, ArithmeticException) as error:
        first = str(error).strip().splitlines()[0]
        raise SchemaError(
            f"the schema of step {step!r} does not parse: {first}",
            remedy="write it as 'page string, ms bigint'",
            step=step,
        ) from error
    return made if isinstance(made, StructType) else StructType().add("value", made)
