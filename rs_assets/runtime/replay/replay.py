"""Reads a batch again, with the position of every record: to count late rows, for dead letters and failing records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.checkpoint.log import BatchOffsets, CheckpointLog
from rs_assets.compile.late_rows import late_rows
from rs_assets.compile.planner.context import BadRecordCollector, CompileContext, Dead, Flow
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.planner.table import COMPILE, LATE
from rs_assets.compile.readers import batch_reader
from rs_assets.compile.source import POISON
from rs_assets.connectors.dead_letters import SCHEMA
from rs_assets.connectors.nodes import Source
from rs_assets.errors import BadRecordError, RsError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.records.admit import MET, refusing_step, step_of
from rs_assets.records.columns import LATE as CAME_BEHIND
from rs_assets.records.columns import LINE, OFFSET, PASSED, RAW, REASON, SOURCE, SPLIT
from rs_assets.records.policy import BadRecords
from rs_assets.topology.nodes.step import Expect, ForEach
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.redrive import refusing_whole
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import function_of

PASSED_FORMAT = "yyyy-MM-dd HH:mm:ss.SSSSSS"
REMEDY = "correct the input, or choose bad_records='dead_letter' or 'skip'"
CAME_LATE = {
    "window": "late: the last window of the row had closed; the watermark was",
    "join": "late: the watermark had passed the row, or the last of its windows; it was",
}


@dataclass(frozen=True, slots=True)
class Wired:
    """A batch that was wired again: the flows up to the first state, the bad rows of each gate, and the late rows.

    `late_rows` are those of each step, with all fields that the context keeps.
    """

    flows: Mapping[str, Flow]
    dead: Sequence[Dead]
    late: Sequence[Dead]
    late_rows: Mapping[str, DataFrame]


def _all_rows(_source: Source, rows: DataFrame) -> DataFrame:
    return rows


@dataclass(frozen=True)
class Replay:
    """One batch of a query, wired again over a bounded read of the same input, once for all its uses.

    `only` limits it to some rows of each source. Without `effects` no function is called for its side effect. Under
    `strict` a record that ends a run ends the pass over the rows, with BadRecordError. `label` distinguishes the
    replays of one batch in one frame. Without `addressed` only the flows are wired, of which bad and late rows are not
    known: some sources are read faster without the positions of their records.
    """

    topology: Topology
    plan: QueryPlan
    context: CompileContext
    log: CheckpointLog
    batch_id: int
    only: Callable[[Source, DataFrame], DataFrame] = _all_rows
    effects: bool = True
    strict: bool = False
    label: str = ""
    addressed: bool = True

    def letters(self, *, clean: frozenset[str], late: bool, namespace: str, job: str, generation: int) -> pa.Table:
        """The bad and late records of the batch as dead letters, except for those that another query writes.

        Each gate is a pass over the batch. Those known to be `clean` are skipped, and with `late` false those for late
        rows.
        """
        refused = [each for each in self.wired.dead if each.step not in clean]
        told = (*refused, *self.wired.late) if late else refused
        dead = [each for each in told if self.policy_of(each.step).keeps_dead_letters]
        return self.dead_letters_of(dead, namespace=namespace, job=job, generation=generation)

    def dead_letters_of(self, dead: Sequence[Dead], *, namespace: str, job: str, generation: int) -> pa.Table:
        """`dead` as rows of the dead-letter table."""
        offsets = self._offsets()
        made = [self._letter(each, offsets, namespace, job, generation) for each in dead]
        return pa.concat_tables([SCHEMA.empty_table(), *(frame.toArrow().cast(SCHEMA) for frame in made)])

    def late_rows(self) -> Mapping[str, int]:
        """How many rows of the batch came after all their windows had closed, by step."""
        return {each.step: each.rows.count() for each in self.wired.late}

    def rows_late_for(self, step: str) -> DataFrame:
        """The rows that were late for `step`, as in a table of late rows."""
        return late_rows(self.wired.late_rows[step])

    def first_bad(self) -> BadRecordError | None:
        """The first record that ends the batch, with its position; None if there is none."""
        for dead in self.wired.dead:
            if self.policy_of(dead.step) is not BadRecords.FAIL:
                continue
            row = dead.rows.orderBy(SOURCE, SPLIT, LINE).limit(1).collect()
            if row:
                return BadRecordError(
                    f"a record cannot be used: {row[0][REASON]}",
                    remedy=self._remedy(dead.step),
                    step=step_of(dead.step),
                    split=row[0][SPLIT],
                    line=row[0][LINE],
                    offset=row[0][OFFSET],
                    record=(row[0][RAW] or "")[:500],
                )
        return None

    def _remedy(self, gate: str) -> str:
        node = self.topology[step_of(gate)]
        if isinstance(node, Expect):
            return MET
        judging = self.plan.judging(self.topology)
        if isinstance(node, Source) or len(judging) == 1:
            return REMEDY
        strict = ", ".join(source.name for source in judging if source.bad_records is BadRecords.FAIL)
        return f"{REMEDY} for {strict}: the strictest policy of the sources of a query decides" if strict else REMEDY

    def failing(self, translate: Callable[[BaseException], RsError]) -> RsError | None:
        """The error of a Python step, raised again with the record's position; None if the batch succeeds."""
        for node in self.plan.nodes:
            flow = self.wired.flows.get(node)
            # A partly compiled map runs its function immediately: it never waits.
            if flow is None or not (flow.waiting or function_of(self.topology[node])):
                continue
            try:
                flow.df.write.format("noop").mode("overwrite").save()
            except Exception as error:  # noqa: BLE001  whatever the user's function raises
                return translate(error)
        return None

    @cached_property
    def wired(self) -> Wired:
        """The steps up to the first state, compiled."""
        offsets = self._offsets()
        label = f"replay of {self.batch_id}{self.label}"
        collector = BadRecordCollector(label=label, strict=self.strict, addressed=self.addressed)
        read = batch_reader(self.log, self.batch_id)
        context = replace(
            self.context,
            read=lambda context, node: self.only(node, read(context, node)),
            record_filter=collector,
            streaming=False,
            now=batch_clock(offsets),
            versions=self.context.noted(self.batch_id),
            addressed=self.addressed,
        )
        flows: dict[str, Flow] = {}
        late: list[Dead] = []
        came_late = dict[str, DataFrame]()
        for name in self.plan.nodes:
            node = self.topology[name]
            root = name in self.plan.watermark_steps
            if self.plan.follows_state(self.topology, name) and not root:
                continue
            if not self.plan.stateful and name in self.plan.sinks:
                # Python steps are compiled when their frame is first used; only then their gate is reached.
                _ = [flows[i].df for i in node.inputs]
                continue
            # The flow of a state is what came to it, not what it emits.
            inputs = tuple(flows[i] for i in node.inputs if i in flows and i not in self.plan.states)
            if isinstance(node, ForEach) and not self.effects:
                flows[name] = inputs[0]
                continue
            flow = COMPILE[type(node)](context, node, inputs)
            # Branches that part here share a gate, as in the stream: a record is refused once.
            flows[name] = Flow(flow.df) if name == self.plan.streaming_output or name in self._forks else flow
            judged = root and self.addressed
            if judged and isinstance(node, TimedState) and node.sides and node.family in CAME_LATE:
                rows = came_late[name] = self._late(name, flows[name].df)
                reason = F.concat(F.lit(f"{CAME_LATE[node.family]} "), F.date_format(PASSED, PASSED_FORMAT))
                late.append(Dead.of(name, rows.withColumn(REASON, reason), late=True))
        return Wired(flows, collector.dead, late, came_late)

    @cached_property
    def _forks(self) -> frozenset[str]:
        """The steps at which branches part, if records are quarantined: before a state they are one frame."""
        read = Counter(each for name in self.plan.nodes for each in self.topology[name].inputs)
        return frozenset(name for name, times in read.items() if times > 1 and self.context.quarantines)

    def _late(self, step: str, rows: DataFrame) -> DataFrame:
        """Those of `rows` that were late for `step`, with the watermark that rejected them as PASSED."""
        node, passed = self.topology[step], F.lit(self.passed(step))
        late = LATE[type(node)](node, passed)
        if PASSED in rows.columns:
            late, passed = late | F.col(CAME_BEHIND), F.greatest(passed, PASSED)
        return rows.filter(late).withColumn(PASSED, passed)

    def passed(self, step: str) -> datetime:
        """The watermark by which Spark judges rows of `step`: in a chain that of the previous batch.

        Delays of earlier steps, and the time that it waits for their rows, are subtracted.
        """
        chained = len(self.plan.states) > 1
        offsets = self.log.offsets(self.batch_id - 1) if chained else self._offsets()
        return self.reaching(step, offsets.watermark if offsets is not None else EPOCH)

    def reaching(self, step: str, watermark: datetime) -> datetime:
        """The watermark that reaches `step` when that of the query is `watermark`."""
        link = self.context.links.get(step)
        return watermark if link is None else watermark - link.held - link.lag

    def _offsets(self) -> BatchOffsets:
        offsets = self.log.offsets(self.batch_id)
        assert offsets is not None  # the batch is running or done
        return offsets

    def policy_of(self, step: str) -> BadRecords:
        """What happens to the records that the gate `step` refuses."""
        if step.endswith(POISON):
            return BadRecords.QUARANTINE
        node = self.topology[step_of(step)]
        if isinstance(node, Source):
            return node.bad_records
        if isinstance(node, Expect):
            return BadRecords.of(node.on_fail)
        if isinstance(node, TimedState):
            return node.bounds.policy or self.context.policy
        return self.context.policy

    def _letter(self, dead: Dead, offsets: BatchOffsets, namespace: str, job: str, generation: int) -> DataFrame:
        # Fused steps share a gate; the reason names the step that raised.
        by = F.lit(dead.step) if dead.late else refusing_step(step_of(dead.step))
        shared = frozenset() if dead.late else self.plan.shared(self.topology)
        told = dead.rows.filter(~by.isin(*shared)) if shared else dead.rows
        return told.select(
            F.lit(namespace).alias("namespace"),
            F.lit(job).alias("job"),
            F.lit(generation).cast("bigint").alias("generation"),
            F.lit(self.log.stored_name).alias("query"),
            F.lit(self.batch_id).cast("bigint").alias("batch_id"),
            by.alias("step"),
            F.col(SPLIT).alias("split"),
            F.col(LINE).alias("line"),
            F.col(OFFSET).alias("offset"),
            F.col(REASON).alias("reason"),
            F.col(RAW).alias("record"),
            F.lit(offsets.started).alias("at"),
            F.col(SOURCE).alias("source"),
            self._is_whole(dead, by).alias("whole"),
            F.lit(self.topology.code).alias("code"),
        )

    def _is_whole(self, dead: Dead, by: Column) -> Column:
        """Whether no row of the record has reached an output of the query."""
        if dead.step.endswith(POISON):
            return F.lit(True)  # noqa: FBT003
        whole = () if dead.late else refusing_whole(self.topology)
        return by.isin(*whole) if whole else F.lit(False)  # noqa: FBT003


def batch_clock(offsets: BatchOffsets) -> Callable[[], Column]:
    """The clock of the batch as Spark recorded it, so that a replay gives the same result as the first pass."""
    return lambda: F.lit(offsets.started)
