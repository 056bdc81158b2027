"""Batches that a pipeline has recorded, written into a folder of a project with a test that replays them."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any, Final

from pyspark.sql import SparkSession

from rs_assets.common.names import checked_name
from rs_assets.common.plural import count_of
from rs_assets.common.project import anchored
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.batch.split_watermarks import by_split_of
from rs_assets.runtime.capture.folder import EXPECTED, Captured, CapturedBatch, expected_file, records_file, write_rows
from rs_assets.runtime.capture.masks import Masks
from rs_assets.runtime.capture.reading import Reach, Records, control_of, is_left_out, written_rows
from rs_assets.runtime.capture.text import text_of
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.closed import closed_between
from rs_assets.runtime.recorded.partitions import Partition, parted
from rs_assets.runtime.recorded.recompute import Recompute, Way
from rs_assets.runtime.recorded.recorded import Recorded, RecordedQuery, named
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import chance_in, clock_in

MAX_RECORDS: Final = 100_000
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be captured, and into which folder: see `Pipeline.capture`."""

    batches: int | tuple[int, int] | None = None
    partition: str | None = None
    sink: str | None = None
    into: str | Path = "tests/captured"
    name: str | None = None
    mask: Collection[str] = ()
    expect: bool = True
    max_records: int = MAX_RECORDS

    def __post_init__(self) -> None:
        """Refuse two choices of batches."""
        if self.batches is not None and self.partition is not None:
            raise ConfigurationError("batches and a partition are named", remedy="leave one of them out")

    def folder(self, job: str, first: int, last: int) -> Path:
        """The new folder; ConfigurationError if it exists."""
        usual = f"{job}_{first}" if first == last else f"{job}_{first}_{last}"
        folder = Path(anchored(str(self.into))) / checked_name(self.name or usual, what="captured batch")
        if folder.exists():
            raise ConfigurationError(
                "the folder exists", remedy="remove it, or name another one: --name", folder=folder
            )
        return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What was written into `folder`: the batches that were asked for, and how many `earlier` ones for the state.

    `refused` records of the sources are left out. `test` is the file of the test, None if no module has the pipeline at
    its top level. `notes` say what a replay does otherwise than the batches did. Not `committed`: the last batch has
    failed, or is being computed.
    """

    pipeline: str
    folder: Path
    test: Path | None
    batches: tuple[int, ...]
    earlier: int
    records: int
    refused: int
    committed: bool
    masked: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def expected(self) -> int:
        """How many rows the test expects, as the folder has them now."""
        return sum(file.read_bytes().count(b"\n") for file in self.folder.glob(f"{EXPECTED}/*.jsonl"))

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        paths = {"folder": str(self.folder), "test": self.test and str(self.test)}
        return {**asdict(self), **paths, "expected": self.expected}

    def __str__(self) -> str:
        """What was written, what is left out, and a warning: these are records of production."""
        here, last = Path.cwd(), f" to {self.batches[-1]}" if len(self.batches) > 1 else ""
        folder = self.folder.relative_to(here) if self.folder.is_relative_to(here) else self.folder
        earlier = f", after {self.earlier:,} earlier ones for the state" if self.earlier else ""
        notes = [
            *([f"left out: {count_of(self.refused, 'record')} that a source refused"] if self.refused else []),
            *([] if self.committed else [f"batch {self.batches[-1]} is not committed: its rows are not compared"]),
            *self.notes,
            f"run it: python -m pytest {quote(str(folder))}"
            if self.test
            else "no module has the pipeline: replay it by code",
            "look at the records before they come into a repository: they are those of production",
        ]
        head = f"{self.pipeline}: batch {self.batches[0]}{last}{earlier}"
        counts = f"{count_of(self.records, 'record')}, {count_of(self.expected, 'expected row')} in {folder}"
        return "\n".join([f"{head}: {counts}", *(f"  {note}" for note in notes)])


def capture(pipeline: object, topology: Topology, asked: Asked, options: RunOptions | None = None) -> Capture:
    """Write recorded batches into a new folder, with a test that replays them through `pipeline`.

    ConfigurationError for an unknown batch, a folder that exists, and for too many records; DataLossError if batches or
    their input are no longer there, CheckpointError before the first run.
    """
    options = replace(RunOptions.of(options), keep_state=True)
    recorded = Recorded.of(topology, options)
    part = None if asked.partition is None else _closed(topology, options, asked.partition, asked.sink)
    plan = _plan(recorded, asked.sink if part is None else part[0].sink.name)

    def read(spark: SparkSession) -> _Read:
        query = recorded.query(spark, plan)
        if part is None:
            first, last = _asked(query, asked.batches)
        else:
            way, partition = part
            first, last = _of_partition(Recompute(spark, query, way, (partition,), lambda _: True))
        return _Read.of(query, asked, first, last)

    found = recorded.on_driver(read)
    return found.written(pipeline)


def _closed(topology: Topology, options: RunOptions, partition: str, sink: str | None) -> tuple[Way, Partition]:
    """A closed partition, and the way of rows to its output."""
    way = Way.to(topology, *parted(topology, sink))
    return way, closed_between(topology, options, way, partition, partition)[0]


def _plan(recorded: Recorded, sink: str | None) -> QueryPlan:
    """The query with the output `sink`, or the only one."""
    plans, topology = recorded.session.plans, recorded.session.topology
    if sink is None and len(plans) == 1:
        return plans[0]
    sinks = [node for node in topology.sinks if not isinstance(node, ShuffleWrite)]
    return recorded.plan_of(named(sinks, sink, what="output", pipeline=topology.name).name)


def _asked(query: RecordedQuery, batches: int | tuple[int, int] | None) -> tuple[int, int]:
    """The first and the last batch; ConfigurationError if one of them is not recorded."""
    known = {*query.batches(older=query.recalls)}
    if batches is None:
        # A batch that failed is planned, and not committed.
        batches = max(known, default=-1)
    first, last = (batches, batches) if isinstance(batches, int) else batches
    unknown = next((batch for batch in range(first, last + 1) if batch not in known), None)
    if unknown is not None or first > last:
        there = f"{min(known)} to {max(known)}" if known else "none"
        raise ConfigurationError(
            f"batch {last if unknown is None else unknown} of query {query.plan.name!r} cannot be captured",
            remedy=f"name batches that are recorded, the first one first: {there}",
            pipeline=query.recorded.session.topology.name,
        )
    return first, last


def _of_partition(made: Recompute) -> tuple[int, int]:
    """The batches that have read records of a closed partition, up to the one that closed it."""
    log, last = made.query.log, made.query.log.last_committed()
    read = made.batches(last)
    if made.way.window is None:
        return min(read), max(read)
    _, end = made.way.reach(made.partition)
    closed = (
        each for each in range(max(read), last + 1) if (planned := log.offsets(each)) and planned.watermark >= end
    )
    return min(read), next(closed, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What was read: the facts, the records by batch and source, and the rows by batch and output."""

    folder: Path
    facts: Captured
    records: Records
    expected: Mapping[tuple[int, str], Sequence[Row]]
    committed: bool

    @classmethod
    def of(cls, query: RecordedQuery, asked: Asked, first: int, last: int) -> _Read:
        """Read the batches of a query on the driver's thread."""
        topology, newest = query.recorded.session.topology, query.log.last_committed()
        folder, masks = asked.folder(topology.job, first, last), Masks.of(asked.mask)
        reach = Reach.of(query, first)
        batches = range(reach.first, last + 1)
        records = Records.of(query, batches, masks, asked.max_records)
        sinks = tuple(each for each in query.plan.sinks if not isinstance(topology[each], ShuffleWrite))
        done = range(first, min(last, newest) + 1)
        # The table has what the masked texts were.
        taken, left = written_rows(query, sinks, done) if asked.expect and not masks.fields else ({}, ())
        facts = Captured(
            pipeline=topology.name,
            query=query.plan.name,
            code=topology.code,
            begins=reach.begins,
            schemas=records.schemas,
            sinks=sinks,
            masked=masks.fields,
            notes=(*_limits(query, batches), *masks.left(records.fields), *left),
            batches=tuple(_batch(query, batch, first) for batch in batches),
        )
        return cls(folder=folder, facts=facts, records=records, expected=taken, committed=last <= newest)

    def written(self, pipeline: object) -> Capture:
        """Write all of it, or nothing."""
        self.folder.mkdir(parents=True)
        try:
            test = self._write(pipeline)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        facts, records = self.facts, self.records
        return Capture(
            pipeline=facts.pipeline,
            folder=self.folder,
            test=test,
            batches=facts.asked,
            earlier=len(facts.batches) - len(facts.asked),
            records=records.count,
            refused=records.refused,
            committed=self.committed,
            masked=facts.masked,
            notes=facts.notes,
        )

    def _write(self, pipeline: object) -> Path | None:
        folder = self.folder
        self.facts.write(folder)
        for (batch, source), rows in self.records.rows.items():
            write_rows(records_file(folder, batch, source), rows)
        for (batch, sink), rows in self.expected.items():
            write_rows(expected_file(folder, batch, sink), rows)
        text = text_of(pipeline, self.facts, folder.name)
        if text is None:
            return None
        test = folder / f"test_{folder.name}.py"
        test.write_text(text, encoding="utf-8")
        return test


def _limits(query: RecordedQuery, batches: range) -> Iterator[str]:
    """What a replay does otherwise than the batches did."""
    topology, plan = query.recorded.session.topology, query.plan
    if query.recorded.code_changed(plan, batches[-1]):
        yield f"the code has changed since batch {batches[-1]}"
    left_out = next((batch for batch in batches if is_left_out(query, batch)), None)
    if left_out is not None:
        yield f"the watermark of a silent input was moved, as in batch {left_out}; in the test it is not"
    for node in map(topology.__getitem__, plan.nodes):
        asked = clock_in(node)
        if asked is not None:
            yield f"step {node.name!r} asks for the clock ({asked}), which is that of the test"
        drawn = chance_in(node)
        if drawn is not None:
            yield f"step {node.name!r} draws values by chance ({drawn}), others in the test"
        if isinstance(node, VersionedTable):
            yield f"step {node.name!r} looks into its dimension as it is when the test runs"
        if isinstance(node, TimedState) and not node.untimed and any(each.time_field is None for each in node.sides):
            yield f"step {node.name!r} goes by the time of arrival, which is that of the test"
    if by_split_of(topology, plan) is not None:
        yield "the watermark followed each split of the input; in the test it follows the greatest time of all"


def _batch(query: RecordedQuery, batch: int, first: int) -> CapturedBatch:
    offsets = query.log.offsets(batch)
    assert offsets is not None  # it is one of the recorded batches
    return CapturedBatch(batch=batch, at=offsets.started, asked=batch >= first, control=control_of(query, batch))
