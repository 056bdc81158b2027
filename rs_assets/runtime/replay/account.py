"""What became of each record of a batch that is read again: the places that its rows reached, collected in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.catalog.batch_counts import BatchCounts
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.source import POISON
from rs_assets.connectors.nodes import Source
from rs_assets.records.admit import step_of
from rs_assets.records.columns import BATCH, LINE, OFFSET, RAW, SPLIT
from rs_assets.runtime.replay.replay import Replay
from rs_assets.runtime.replay.trace import DROPPED
from rs_assets.topology.nodes.step import Expect, MapBatches

# A record, whatever rows were made of it. The split begins with the name of its source; the offset has the text, too,
# since files of one name are one split.
RECORD: Final = (BATCH, SPLIT, LINE, OFFSET)
# How many times the record was read, and the rows of it that a stream counts as refused, or as late.
COUNTS: Final = ("_rs_read", "_rs_dead", "_rs_late_rows")
UNREAD: Final = "_rs_unread"
# Marks in one number, whose sign is not used.
BITS: Final = 62
# The marks of a record that a gate refused, and of one whose rows came to the end: in time, in a window that is still
# open, or late.
DEAD, TAKEN, WAITING, LATE = "dead", "taken", "waiting", "late"


@dataclass(frozen=True, slots=True)
class Account:
    """The records of one batch: how many have just these marks, and how many were never read but have some.

    `counts` are the rows as a stream counts them.
    """

    counts: BatchCounts
    records: Mapping[frozenset[str], int]
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Marks:
    """The bits of all marks."""

    names: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The columns that hold them."""
        return tuple(f"_rs_marks_{number}" for number in range(-(-len(self.names) // BITS)))

    def columns(self, true: Mapping[str, Column]) -> list[Column]:
        """The columns of rows that have a mark where its condition is true."""
        words = [F.lit(0).cast("bigint")] * len(self.words)
        for name, condition in true.items():
            word, bit = divmod(self.names.index(name), BITS)
            mark = F.when(condition, F.lit(1 << bit).cast("bigint")).otherwise(F.lit(0).cast("bigint"))
            words[word] = words[word].bitwiseOR(mark)
        return [column.alias(name) for name, column in zip(self.words, words, strict=True)]

    def of(self, row: Mapping[str, Any]) -> frozenset[str]:
        """The marks in a row of these columns."""
        words = [row[name] for name in self.words]
        return frozenset(name for at, name in enumerate(self.names) if words[at // BITS] >> at % BITS & 1)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps to `end`, and what a record has passed on the way there: `read` a source, `at` a step after its rows.

    A record was dropped by a step if it came to it and no row of it left.
    """

    replay: Replay
    end: str

    def names(self) -> Iterator[str]:
        """The marks of all steps that are needed for that."""
        topology = self.replay.topology
        yield from (f"read {name}" for name in self.replay.plan.sources)
        yield from (f"dropped {name}" for name in self.above if isinstance(topology[name], Expect))
        yield from (f"at {name}" for name in self.marked)

    @property
    def above(self) -> list[str]:
        """The steps to the end, sources first."""
        topology = self.replay.topology
        return [name for name in self.replay.plan.nodes if name in topology.ancestors(self.end) | {self.end}]

    @property
    def droppers(self) -> list[str]:
        """Those of them that may pass on no row of a record, by their type."""
        return [name for name in self.above if isinstance(self.replay.topology[name], (*DROPPED, MapBatches))]

    @property
    def marked(self) -> list[str]:
        """The steps whose rows are marked: droppers, and those upstream of them."""
        topology = self.replay.topology
        wanted = {*self.droppers, *(each for name in self.droppers for each in topology[name].inputs)}
        return [name for name in self.above if name in wanted and not isinstance(topology[name], Source)]

    def dropped_by(self, marks: Collection[str]) -> str | None:
        """The last step that got rows of a record and passed on none, None if it got lost in between."""
        for name in reversed(self.above):
            came = any(f"{way} {each}" in marks for each in self.replay.topology[name].inputs for way in ("read", "at"))
            if f"dropped {name}" in marks or (name in self.droppers and came and f"at {name}" not in marks):
                return name
        return None


@dataclass(frozen=True, slots=True)
class Reads:
    """The records of a batch by source, each with its own address; on disk, since each gate is a pass over them."""

    frames: dict[str, DataFrame] = field(default_factory=dict)

    def __call__(self, source: Source, rows: DataFrame) -> DataFrame:
        """The rows of a source, for a replay."""
        addressed = rows.withColumns(
            {
                SPLIT: F.concat(F.lit(f"{source.name} "), F.coalesce(F.col(SPLIT), F.lit(""))),
                LINE: F.coalesce(F.col(LINE).cast("bigint"), F.lit(0)),
                OFFSET: F.xxhash64(OFFSET, RAW),
                RAW: F.lit(None).cast("string"),
            }
        )
        self.frames[source.name] = addressed.persist(StorageLevel.DISK_ONLY)
        return self.frames[source.name]

    def release(self) -> None:
        """Remove them from the disk."""
        for rows in self.frames.values():
            rows.unpersist()


@dataclass(frozen=True, slots=True)
class Accounting:
    """The records of one batch, up to the step `steps.end`, whose rows have the marks in `true` where they are true."""

    steps: Steps
    reads: Reads
    rows: DataFrame
    true: Mapping[str, Column]

    def frames(self, marks: Marks) -> Iterator[DataFrame]:
        """The rows of each place, with their record, counts and marks."""
        wired, topology = self.steps.replay.wired, self.steps.replay.topology
        yes = F.lit(True)  # noqa: FBT003  a literal
        for name, rows in self.reads.frames.items():
            yield self._marked(marks, rows, {f"read {name}": yes}, COUNTS[0])
        above, gates = self.steps.above, counted_gates(self.steps.replay.plan)
        for dead in wired.dead:
            step = step_of(dead.step.removesuffix(POISON))
            mark = f"dropped {step}" if isinstance(topology[step], Expect) else DEAD
            true = {mark: yes} if step in above else {}
            yield self._marked(marks, dead.rows, true, COUNTS[1] if dead.step in gates else "")
        for late in wired.late:
            yield self._marked(marks, late.rows, {}, COUNTS[2])
        for name in self.steps.marked:
            yield self._marked(marks, wired.flows[name].df, {f"at {name}": yes}, "")
        yield self._marked(marks, self.rows, self.true, "")

    def _marked(self, marks: Marks, rows: DataFrame, true: Mapping[str, Column], counted: str) -> DataFrame:
        batch = F.lit(self.steps.replay.batch_id).cast("bigint").alias(BATCH)
        counts = (F.lit(int(name == counted)).cast("bigint").alias(name) for name in COUNTS)
        return rows.select(batch, *RECORD[1:], *counts, *marks.columns(true))


def counted_gates(plan: QueryPlan) -> frozenset[str]:
    """The gates whose refused rows a stream counts as records: of the sources, and of event times."""
    return frozenset({*plan.sources, *(f"{name}{POISON}" for name in plan.sources), *plan.watermark_inputs})


def accounts_of(batches: Sequence[Accounting]) -> Mapping[int, Account]:
    """The account of each batch, in one job of Spark; all of them have the same steps."""
    first = batches[0]
    marks = Marks(tuple(dict.fromkeys((DEAD, TAKEN, WAITING, LATE, *first.steps.names(), *first.true))))
    rows = reduce(DataFrame.unionAll, (frame for each in batches for frame in each.frames(marks)))
    words = [F.bit_or(name).alias(name) for name in marks.words]
    records = rows.groupBy(*RECORD).agg(*words, *(F.sum(name).alias(name) for name in COUNTS))
    unread = F.count_if(F.col(COUNTS[0]) == 0).alias(UNREAD)
    found = records.groupBy(BATCH, *marks.words).agg(*(F.sum(name).alias(name) for name in COUNTS), unread)
    groups: dict[int, list[Mapping[str, Any]]] = {each.steps.replay.batch_id: [] for each in batches}
    for row in found.toArrow().to_pylist():
        groups[row[BATCH]].append(row)
    return {batch: _account(marks, group) for batch, group in groups.items()}


def _account(marks: Marks, groups: Sequence[Mapping[str, Any]]) -> Account:
    read, dead, late = (sum(row[name] for row in groups) for name in COUNTS)
    records = Counter[frozenset[str]]()
    for row in groups:
        records[marks.of(row)] += row[COUNTS[0]]
    return Account(BatchCounts(read, dead, late), +records, sum(row[UNREAD] for row in groups))
