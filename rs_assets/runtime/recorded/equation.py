"""The equation of a proof: what became of each record that its batches have read, and what the stream has counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.catalog.batch_counts import CountedBatch, counted
from rs_assets.common.chunks import in_chunks
from rs_assets.common.plural import count_of
from rs_assets.compile.window import late_for_window
from rs_assets.connectors.delta.files.event_partitions import PartitionValue
from rs_assets.connectors.delta.files.partitions import event_partition, with_event_partition
from rs_assets.operators.window.assign import EDGES, WINDOW, assigned, copied, last_end, later
from rs_assets.operators.window.durations import EPOCH
from rs_assets.records.columns import LATE as CAME_LATE
from rs_assets.records.columns import PASSED
from rs_assets.records.schema import quoted
from rs_assets.runtime.recorded.recompute import Recompute, Way
from rs_assets.runtime.recorded.recorded import RecordedQuery
from rs_assets.runtime.replay.account import DEAD, LATE, TAKEN, WAITING, Account, Accounting, Reads, Steps, accounts_of
from rs_assets.runtime.replay.replay import Replay
from rs_assets.topology.nodes.timed import NONE
from rs_assets.topology.nodes.window import WindowAggregate

# Batches that are accounted for by one job of Spark: each has a plan of its own for every gate.
AT_ONCE: Final = 8
# How many batches that the stream has counted otherwise are named.
SHOWN: Final = 20
TERMS: Final = ("used", "dead", "late", "filtered", "waiting", "elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """What became of the records that the batches of a partition have read, each counted once.

    `rows_in` = `used` + `dead` + `late` + `filtered` + `waiting` + `elsewhere` + `unaccounted`. `used`: in a row of the
    partition, or of the window that makes it. `late`: too late for the partition, or for all of its windows.
    `filtered`: no row of it was left after a step (`filtered_by`) or met an expectation. `waiting`: in a window of
    another partition that is still open. `elsewhere`: in other partitions. Of `counted` batches it is known what the
    stream has counted; `miscounted` are those in which that was something else, at most SHOWN of them. Of `unknown`
    ones it is not: a release without counts has read them, the stream was killed before it wrote the counts, or they
    were removed with old rows of the catalog.
    """

    rows_in: int
    used: int
    dead: int
    late: int
    filtered: int
    waiting: int
    elsewhere: int
    unaccounted: int
    filtered_by: Mapping[str, int]
    counted: int
    miscounted: tuple[str, ...] = ()
    unknown: int = 0

    @property
    def holds(self) -> bool:
        """Whether each record is accounted for, and the stream has counted the same."""
        return not (self.unaccounted or self.miscounted)

    def __str__(self) -> str:
        """A line, and one for each batch that the stream has counted otherwise."""
        by = ", ".join(f"{step} {rows:,}" for step, rows in self.filtered_by.items())
        terms = [f"{rows:,} {name}" for name in TERMS if (rows := getattr(self, name)) or name == TERMS[0]]
        said = " + ".join(terms) + (f" (filtered by {by})" if by else "")
        lost = f"; {self.unaccounted:,} unaccounted for" if self.unaccounted else ""
        unknown = [f"of {count_of(self.unknown, 'batch')} there are no counts of the stream"] if self.unknown else []
        return "\n".join([f"{count_of(self.rows_in, 'record')} = {said}{lost}", *self.miscounted, *unknown])


@dataclass
class Accounts:
    """The records of a query's batches, for the equations of several partitions of one output; each is read once."""

    query: RecordedQuery
    way: Way
    values: Sequence[PartitionValue]
    known: dict[int, Account] = field(default_factory=dict)
    steps: Steps | None = None

    def equation(self, made: Recompute, batches: Sequence[int]) -> Equation:
        """That of the partition of `made`, over the batches that it reads."""
        self._read([batch for batch in batches if batch not in self.known])
        place, found, filtered = self.values.index(made.value), Counter[str](), Counter[str]()
        for batch in batches:
            takes_late = made.takes_late(batch)
            for marks, records in self.known[batch].records.items():
                became = _became(marks, place, takes_late=takes_late)
                by = self.steps.dropped_by(marks) if self.steps is not None and not became else None
                filtered.update({by: records} if by else {})
                found[became or ("filtered" if by else "unaccounted")] += records
        found["unaccounted"] += sum(self.known[batch].unread for batch in batches)
        checked = [each for each in batches if self._counted(each) is not None]
        return Equation(
            rows_in=sum(self.known[batch].counts.rows_in for batch in batches),
            **{name: found[name] for name in (*TERMS, "unaccounted")},
            filtered_by=dict(sorted(filtered.items())),
            counted=len(checked),
            unknown=len(batches) - len(checked),
            miscounted=tuple(said for batch in checked for said in self._differences(batch))[:SHOWN],
        )

    def _differences(self, batch: int) -> Iterator[str]:
        stream, now = self._counted(batch), self.known[batch].counts
        assert stream is not None  # it is one of those that are known
        names = {"rows_in": "records", "dead": "refused rows", "late": "late rows"}
        # Other code may refuse other rows.
        same = stream.code == self.way.topology.code
        for name, said in names.items() if same else [("rows_in", names["rows_in"])]:
            had, has = getattr(stream.counts, name), getattr(now, name)
            if had != has:
                yield f"batch {batch}: the stream has counted {had:,} {said}, there are {has:,}"

    def _counted(self, batch: int) -> CountedBatch | None:
        offsets = self.query.log.offsets(batch)
        return None if offsets is None else self._stream.get((batch, offsets.started))

    @cached_property
    def _stream(self) -> Mapping[tuple[int, Any], CountedBatch]:
        session = self.query.recorded.session
        return counted(session.catalog, pipeline=session.topology.name, query=self.query.log.stored_name)

    def _read(self, batches: Sequence[int]) -> None:
        for together in in_chunks(batches, AT_ONCE):
            made = [self._accounting(batch, Reads()) for batch in together]
            try:
                self.known.update(accounts_of(made))
            finally:
                for each in made:
                    each.reads.release()

    def _accounting(self, batch: int, reads: Reads) -> Accounting:
        replay = self.query.replay(batch, reads, strict=True)
        window, sink = self.way.window, self.way.sink
        self.steps = steps = Steps(replay, sink.inputs[0] if window is None else window.name)
        flow = replay.wired.flows[steps.end].df
        rows, true = self._written(flow) if window is None else self._windowed(replay, window, flow)
        return Accounting(steps, reads, rows, true)

    def _written(self, rows: DataFrame) -> tuple[DataFrame, Mapping[str, Column]]:
        """The rows for an output without state: each in its partition."""
        placed = with_event_partition(rows, self.way.partitions)
        yes = F.lit(True)  # noqa: FBT003  a literal
        return placed, {TAKEN: yes, **self._places(F.col(quoted(self.way.partitions.column)), ~yes)}

    def _windowed(
        self, replay: Replay, window: WindowAggregate, rows: DataFrame
    ) -> tuple[DataFrame, Mapping[str, Column]]:
        """A row of each window of the rows that come to it, in the partition of the window."""
        passed, late = F.lit(replay.passed(window.name)), F.lit(False)  # noqa: FBT003  a literal
        if PASSED in rows.columns:
            passed, late = F.greatest(passed, PASSED), F.coalesce(F.col(CAME_LATE), late)
        late = late | late_for_window(window, passed)
        placed = copied(rows, window.window, NONE).withColumn(WINDOW, assigned(window.window, NONE))
        # A window fires after its end by the delay.
        edge = EDGES.get(self.way.partitions.field)
        at = F.col(WINDOW)[edge] if edge else later(F.col(WINDOW)["end"], window.delay)
        now = F.lit(replay.reaching(window.name, self.query.log.watermark or EPOCH))
        ended = {TAKEN: ~late, LATE: late, WAITING: ~late & (last_end(window.window) > now)}
        missed = late | (F.col(WINDOW)["end"] <= passed)
        return placed, {**ended, **self._places(event_partition(at, self.way.partitions), missed)}

    def _places(self, value: Column, missed: Column) -> Mapping[str, Column]:
        """The marks of the partitions: whether a row is in one, or would have been if it had come in time."""
        places = {number: value == F.lit(each) for number, each in enumerate(self.values)}
        came = {f"in {number}": here & ~missed for number, here in places.items()}
        return {**came, **{f"missed {number}": here & missed for number, here in places.items()}}


def _became(marks: Collection[str], place: int, *, takes_late: bool) -> str:
    """The term of a record with these marks in the equation of a partition; empty if no row of it came to the end."""
    late = f"missed {place}" in marks
    terms = (
        ("used", f"in {place}" in marks or (late and takes_late)),
        ("late", late),
        ("waiting", WAITING in marks),
        ("elsewhere", TAKEN in marks),
        ("late", LATE in marks),
        ("dead", DEAD in marks),
    )
    return next((term for term, true in terms if true), "")
