"""Finds the records on which a batch fails, by computing smaller and smaller parts of it again."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.errors_wire import from_wire
from rs_assets.compile.planner.context import BadRecordCollector, CompileContext, Flow
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.planner.table import COMPILE, PROBE
from rs_assets.compile.readers import batch_reader
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import RsError, StepError
from rs_assets.records.admit import BLAMED
from rs_assets.records.columns import DIGEST, LINE, OFFSET, RAW, REASON, SOURCE, SPLIT
from rs_assets.records.poison import digest
from rs_assets.runtime.replay.bisect import culprits
from rs_assets.runtime.replay.replay import batch_clock
from rs_assets.runtime.translate import OF_VALUES, translate
from rs_assets.topology.nodes.table import TableVersions
from rs_assets.topology.topology import Topology

# Java's own errors about values have no SQLSTATE.
OF_FUNCTIONS = ("org.apache.spark.api.python.PythonException", "java.lang.ArithmeticException")
# Spark logs each error of an expression to the terminal; an examination provokes them.
SPARK_LOGGER = "SQLQueryContextLogger"
# The most characters of Spark's message that are kept for a record.
SHOWN = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """A record that a step cannot compute. `source` is its stored name, `digest` that of its fields."""

    source: str
    digest: str
    step: str
    reason: str
    split: str
    line: int


@dataclass(frozen=True, slots=True)
class Extent:
    """The first and the last line of a split in a batch."""

    split: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Adjacent records of one source: whole splits, in order, or lines of one split, or one record of a line.

    Files of the same name in several folders are one split, so a line may have more than one record.
    """

    source: str
    extents: tuple[Extent, ...]
    digest: str | None = None

    def halves(self) -> tuple[Stretch, Stretch] | None:
        """Two halves, None for a single line."""
        if len(self.extents) > 1:
            middle = len(self.extents) // 2
            return replace(self, extents=self.extents[:middle]), replace(self, extents=self.extents[middle:])
        (one,) = self.extents
        if one.first >= one.last:
            return None
        line = (one.first + one.last) // 2
        return replace(self, extents=(replace(one, last=line),)), replace(self, extents=(replace(one, first=line + 1),))

    def of(self, rows: DataFrame) -> DataFrame:
        """The part of `rows` that belongs to it."""
        kept = rows.filter(F.col(SPLIT).between(self.extents[0].split, self.extents[-1].split))
        if len(self.extents) == 1:
            kept = kept.filter(F.col(LINE).between(self.extents[0].first, self.extents[0].last))
        return kept if self.digest is None else kept.filter(F.col(DIGEST) == self.digest)


def blames_a_record(error: BaseException | None) -> bool:
    """Whether `error` is about values that a step could not compute, not about the machine, the files or a sink.

    >>> blames_a_record(RuntimeError("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"))
    True
    >>> blames_a_record(RuntimeError("java.io.IOException: No space left on device"))
    False
    """
    if error is None:
        return False
    if isinstance(error, RsError):
        return isinstance(error, StepError)
    text = str(error).partition("=== Streaming Query ===")[0]
    carried = from_wire(text)
    if carried is not None:
        return isinstance(carried, StepError)
    return OF_VALUES.search(text) is not None or any(mark in text for mark in OF_FUNCTIONS)


@dataclass(slots=True, kw_only=True)
class Examination:
    """One planned batch of a stopped query, read again with positions; used on the Spark driver's thread.

    The steps of a part run as in the stream: the same gates, the same columns, and the aggregation after a window's own
    gate. User-defined functions are called again, with any side effects.
    """

    topology: Topology
    plan: QueryPlan
    context: CompileContext
    log: CheckpointLog
    batch_id: int
    found: list[Poison] = field(default_factory=list)
    _rows: dict[str, DataFrame] = field(default_factory=dict)

    def poisons(self) -> Generator[Poison, None, None]:
        """The records on which the batch fails; equal ones once. RsError if the batch cannot be read or computed."""
        with ExitStack() as stack, quiet():
            try:
                self._load(stack)
                yield from self._search()
            except Exception as error:
                raise translate(error, query=self.plan.name) from error

    def _search(self) -> Iterator[Poison]:
        for source, rows in self._rows.items():
            extents = _extents(rows)
            if extents:
                for part, error in culprits(Stretch(source, extents), self._fails, Stretch.halves):
                    yield from self._blamed(part, error)

    def _load(self, stack: ExitStack) -> None:
        """Cache the usable records of the batch, so that they are read and parsed once."""
        context = self._wired(self.context, batch_reader(self.log, self.batch_id), record_filter=BadRecordCollector())
        for name in self.plan.sources:
            node = self.topology[name]
            rows = COMPILE[type(node)](context, node, ()).df.drop(SOURCE, OFFSET, RAW)
            self._rows[name] = kept = rows.withColumn(DIGEST, digest(rows)).persist()
            stack.callback(kept.unpersist)

    def _wired(
        self, context: CompileContext, read: Callable[[CompileContext, Source], DataFrame], **changed: Any
    ) -> CompileContext:
        offsets = self.log.offsets(self.batch_id)
        assert offsets is not None  # the batch was planned
        noted = context.noted(self.batch_id)
        return replace(context, read=read, streaming=False, now=batch_clock(offsets), versions=noted, **changed)

    def _fails(self, part: Stretch) -> BaseException | None:
        """The error of computing `part`, None if it succeeds; RsError if the error is not about its records."""
        return next((error for _, error in self._failures(self._targets(part))), None)

    def _failures(self, frames: Mapping[str, DataFrame]) -> Iterator[tuple[str, BaseException]]:
        for name, frame in frames.items():
            try:
                frame.write.format("noop").mode("overwrite").save()
            except Exception as error:
                if not blames_a_record(error):
                    raise translate(error, query=self.plan.name) from error
                yield name, error

    def _targets(self, part: Stretch) -> Mapping[str, DataFrame]:
        """The frames that the stream computes: the windows, or the streaming output and the steps after it."""
        flows = self._flows(part)
        if self.plan.watermark_steps:
            nodes = [self.topology[name] for name in self.plan.watermark_steps]
            # The versions of a table have no state of their own, and the step that has it begins with its stream.
            versions = [name for name in self.plan.nodes if isinstance(self.topology[name], TableVersions)]
            made = {node.name: PROBE[type(node)](node, flows[node.name].df) for node in nodes}
            return {**{name: flows[name].df for name in versions if name in flows}, **made}
        inputs = [name for sink in self.plan.sinks for name in self.topology[sink].inputs]
        return {name: flows[name].df for name in dict.fromkeys([self.plan.streaming_output, *inputs])}

    def _flows(self, part: Stretch) -> dict[str, Flow]:
        def read(_context: CompileContext, node: Source) -> DataFrame:
            rows = self._rows[node.name]
            rows = part.of(rows) if node.name == part.source else rows.filter(F.lit(False))  # noqa: FBT003
            known = [poison.digest for poison in self.found]
            rows = rows.filter(~F.col(DIGEST).isin(known)) if known else rows
            return rows.drop(SPLIT, LINE, DIGEST).withColumn(REASON, F.lit(None).cast("string"))

        above = self._wired(self.context, read, poisons={})
        # After the streaming output the stream does not isolate a step that raises: such steps are searched here.
        behind = replace(above, quarantines=False)
        flows: dict[str, Flow] = {}
        for name in self.plan.nodes:
            node = self.topology[name]
            if isinstance(node, Sink) or (
                self.plan.follows_state(self.topology, name) and name not in self.plan.watermark_steps
            ):
                continue
            context = behind if self.plan.streaming_output in self.topology.ancestors(name) else above
            inputs = tuple(flows[i] for i in node.inputs if i in flows and i not in self.plan.states)
            flow = COMPILE[type(node)](context, node, inputs)
            flows[name] = Flow(flow.df) if name == self.plan.streaming_output else flow
        return flows

    def _blamed(self, part: Stretch, error: BaseException) -> Iterator[Poison]:
        """The failing records of one line: its only record, or some of several."""
        known = {poison.digest for poison in self.found}
        rows = part.of(self._rows[part.source]).select(DIGEST, SPLIT, LINE).distinct().collect()
        rows = [row for row in rows if row[DIGEST] not in known]
        for row in rows:
            one = replace(part, digest=row[DIGEST])
            raised = error if len(rows) == 1 else self._fails(one)
            if raised is not None:
                yield self._poison(one, row, raised)

    def _poison(self, one: Stretch, row: Row, error: BaseException) -> Poison:
        step = self._failing_step(one, error)
        poison = Poison(
            source=self.context.stored_name(one.source),
            digest=row[DIGEST],
            step=step,
            reason=_reason(step, error),
            split=row[SPLIT],
            line=row[LINE],
        )
        self.found.append(poison)
        return poison

    def _failing_step(self, part: Stretch, error: BaseException) -> str:
        """The first step that cannot compute `part`."""
        ours = translate(error, query=self.plan.name)
        if "step" in ours.facts:
            return str(ours.facts["step"])
        steps = {name: flow.df for name, flow in self._flows(part).items() if name not in self.plan.sources}
        return next(
            (name for name, _ in self._failures(steps)),
            next(iter(self.plan.watermark_steps), self.plan.streaming_output),
        )


def _extents(rows: DataFrame) -> tuple[Extent, ...]:
    """The lines of each split, in Spark's order of texts."""
    found = rows.groupBy(SPLIT).agg(F.min(LINE), F.max(LINE)).collect()
    return tuple(sorted((Extent(*row) for row in found), key=lambda extent: extent.split.encode()))


def _reason(step: str, error: BaseException) -> str:
    """In the format from which the step of a dead letter is parsed."""
    ours = translate(error, query="")
    if re.match(BLAMED, ours.what):
        return ours.what[:SHOWN]
    return f"step '{step}' raised {ours.what}"[:SHOWN]


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress Spark's log lines about errors of expressions."""
    # Requested by its own class: a plain logger of that name would break Spark's calls.
    logger = PySparkLogger.getLogger(SPARK_LOGGER)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
