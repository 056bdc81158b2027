"""Reading a batch again, with the address of every record: to write dead letters, and to find what failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.engine.checkpoint.log import BatchOffsets, CheckpointLog
from rs_assets.engine.sink.dead_letters import SCHEMA
from rs_assets.engine.source.admit import refusing_step
from rs_assets.engine.source.columns import ADDRESS, LINE, OFFSET, RAW, REASON, SPLIT
from rs_assets.engine.source.policy import BadRecords
from rs_assets.engine.window.aggregate import last_end
from rs_assets.errors import BadRecordError, RsError
from rs_assets.pipeline.compile.plan import QueryPlan
from rs_assets.pipeline.compile.readers import batch_reader
from rs_assets.pipeline.compile.source import POISON
from rs_assets.pipeline.compile.table import COMPILE
from rs_assets.pipeline.compile.wiring import CollectingGates, Dead, Flow, Wiring
from rs_assets.pipeline.topology.source import Source
from rs_assets.pipeline.topology.topology import Topology
from rs_assets.pipeline.topology.window import WindowAggregate

LATE = "late: the last window of the row had closed"


@dataclass(frozen=True, slots=True)
class Replay:
    """One batch of a query, wired again over a bounded read of the same input."""

    topology: Topology
    plan: QueryPlan
    wiring: Wiring
    log: CheckpointLog
    batch_id: int

    def letters(self, *, namespace: str, job: str, generation: int) -> pa.Table:
        """The bad and late records of the batch as rows of the dead-letter table, but for what another query tells."""
        _, gates, _, late = self._wired()
        dead = [each for each in gates.dead if self._policy(each.step).keeps_letters]
        if late is not None and self._policy(self.plan.stateful or "").keeps_letters:
            dead.append(Dead(self.plan.stateful or "", late))
        return self.letters_of(dead, namespace=namespace, job=job, generation=generation)

    def letters_of(self, dead: Sequence[Dead], *, namespace: str, job: str, generation: int) -> pa.Table:
        """`dead` as rows of the dead-letter table."""
        offsets = self._offsets()
        made = [self._letter(each.rows, each.step, offsets, namespace, job, generation) for each in dead]
        return pa.concat_tables([SCHEMA.empty_table(), *(frame.toArrow().cast(SCHEMA) for frame in made)])

    def late_rows(self) -> int:
        """How many rows of the batch came after all their windows had closed."""
        late = self._wired()[3]
        return late.count() if late is not None else 0

    def first_bad(self) -> BadRecordError | None:
        """The first record that cannot be used, with its address; None if all can."""
        _, gates, _, _ = self._wired()
        for dead in gates.dead:
            row = dead.rows.orderBy(SPLIT, LINE).limit(1).collect()
            if row:
                return BadRecordError(
                    f"a record cannot be used: {row[0][REASON]}",
                    remedy="mend the input, or choose bad_records='dead_letter' or 'skip'",
                    step=dead.step,
                    split=row[0][SPLIT],
                    line=row[0][LINE],
                    offset=row[0][OFFSET],
                    record=(row[0][RAW] or "")[:500],
                )
        return None

    def failing(self, translate: Callable[[BaseException], RsError]) -> RsError | None:
        """The error of a Python step, raised again with the record's address; None if the batch runs through."""
        flows, _, _, _ = self._wired()
        for node in self.plan.nodes:
            flow = flows.get(node)
            if flow is None or not flow.waiting:
                continue
            try:
                flow.df.write.format("noop").mode("overwrite").save()
            except Exception as error:  # noqa: BLE001  whatever the user's function raises
                return translate(error)
        return None

    def _wired(self) -> tuple[dict[str, Flow], CollectingGates, BatchOffsets, DataFrame | None]:
        offsets = self._offsets()
        gates = CollectingGates()
        wiring = replace(
            self.wiring,
            read=batch_reader(self.log, self.batch_id),
            gates=gates,
            streaming=False,
            now=batch_clock(offsets),
        )
        flows: dict[str, Flow] = {}
        late: DataFrame | None = None
        for name in self.plan.nodes:
            node = self.topology[name]
            if self.plan.stateful and (self.plan.stateful in self.topology.ancestors(name)):
                continue
            if not self.plan.stateful and name in self.plan.sinks:
                # Python steps wait for somebody who wants their frame; only then their gate is met.
                _ = [flows[i].df for i in node.inputs]
                continue
            flows[name] = COMPILE[type(node)](wiring, node, tuple(flows[i] for i in node.inputs))
            if isinstance(node, WindowAggregate):
                passed = F.lit(offsets.watermark)
                rows = flows[name].df.filter(last_end(node.window) <= passed)
                late = rows.select(*ADDRESS, F.lit(LATE).alias(REASON))
        return flows, gates, offsets, late

    def _offsets(self) -> BatchOffsets:
        offsets = self.log.offsets(self.batch_id)
        assert offsets is not None  # noqa: S101  the batch is running or done
        return offsets

    def _policy(self, step: str) -> BadRecords:
        if step.endswith(POISON):
            return BadRecords.QUARANTINE
        node = self.topology[step]
        if isinstance(node, Source):
            return node.bad_records
        if isinstance(node, WindowAggregate):
            return node.bounds.policy or self.wiring.policy
        return self.wiring.policy

    def _letter(
        self, rows: DataFrame, step: str, offsets: BatchOffsets, namespace: str, job: str, generation: int
    ) -> DataFrame:
        # Fused steps share a gate; the reason names the one that raised.
        by, shared = refusing_step(step), self.plan.shared(self.topology)
        told = rows.filter(~by.isin(*shared)) if shared else rows
        return told.select(
            F.lit(namespace).alias("namespace"),
            F.lit(job).alias("job"),
            F.lit(generation).cast("bigint").alias("generation"),
            F.lit(self.plan.name).alias("query"),
            F.lit(self.batch_id).cast("bigint").alias("batch_id"),
            by.alias("step"),
            F.col(SPLIT).alias("split"),
            F.col(LINE).alias("line"),
            F.col(OFFSET).alias("offset"),
            F.col(REASON).alias("reason"),
            F.col(RAW).alias("record"),
            F.lit(offsets.started).alias("at"),
        )


def batch_clock(offsets: BatchOffsets) -> Callable[[], Column]:
    """The clock of the batch as Spark wrote it down, so that a replay judges as the first pass did."""
    return lambda: F.lit(offsets.started)
