"""What every source and every sink promises, as checks that can be run against one of your own.

Each check raises AssertionError with the promise that was broken. Crashes are errors raised at the steps of a batch, in
this process: the run ends there, and the next run goes on from what is on the disk. A check takes some seconds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import patch

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.home import Home
from rs_assets.common.scratch import scratch_folder
from rs_assets.compile.readers import reader_of
from rs_assets.compile.sink import writer_of
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.sink import BatchMark, Staged
from rs_assets.connectors.source import Reading
from rs_assets.errors import BadRecordError, DataError, SinkError, StartRefused
from rs_assets.records.columns import LINE, REASON, SPLIT, visible
from rs_assets.records.rows import as_dicts
from rs_assets.runtime.options import RunOptions
from rs_assets.spark.driver import SparkDriver
from rs_assets.stream.builder import DataStreamSource, StreamBuilder
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Row = Mapping[str, Any]
# Where a batch is cut off: before it is computed, before the sink commits, and before Spark notes that it did.
Point = Literal["planned", "computed", "committed"]
POINTS: tuple[Point, ...] = ("planned", "computed", "committed")
CRASH = "a crash that belongs to the check"
NAMESPACE = "conformance"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCase:
    """A source to check.

    `stream(begin, bad_records)` begins a stream of it: `begin.from_source(..., bad_records=bad_records)`. `row(n)` is
    a row that differs for each `n`, as the stream has it. `add(rows)` puts such rows into the system, for good before
    it returns. `lose()`, if rows can be lost, removes the rows of the last `add`. `add_bad()` adds one that does not
    fit the schema.
    """

    stream: Callable[[DataStreamSource, str], DataStream]
    row: Callable[[int], Row]
    add: Callable[[Sequence[Row]], None]
    lose: Callable[[], None] | None = None
    add_bad: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCase:
    """A sink to check.

    `write(stream)` hangs the sink on a stream: `stream.to(...)`. Rows have the fields `n` (bigint) and `text`.
    `rows()` is what the system has now, in any order. `exactly_once`: what its docs say. `refused` is a row that its
    system never accepts, which the sink sends to the dead letters.
    """

    write: Callable[[DataStream], DataStream]
    rows: Callable[[], Iterable[Row]]
    exactly_once: bool = True
    refused: Row | None = None


@dataclass(slots=True)
class Collecting:
    """A sink that keeps what it gets, by batch, and crashes once at `crash`; `computed` has the rows of every try."""

    name: str = "collected"
    crash: Point | None = None
    rows: dict[int, list[Row]] = field(default_factory=dict)
    computed: dict[int, list[list[Row]]] = field(default_factory=dict)

    def location(self) -> str:
        """The name shown to users."""
        return "memory of the check"

    def committed(self, mark: BatchMark) -> bool:
        """Whether the batch is there."""
        return mark.batch_id in self.rows

    def last_committed(self, mark: BatchMark) -> int | None:  # noqa: ARG002  the protocol's form
        """None: it ends with its process."""
        return None

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Collect the rows."""
        self._at("planned")
        rows: list[Row] = [*as_dicts(batch.toArrow())]
        self.computed.setdefault(mark.batch_id, []).append(rows)
        return Staged(lambda: self._commit(rows, mark))

    def _commit(self, rows: list[Row], mark: BatchMark) -> int:
        self._at("computed")
        self.rows[mark.batch_id] = rows
        self._at("committed")
        return len(rows)

    def _at(self, point: Point) -> None:
        if self.crash == point:
            self.crash = None
            raise SinkError(CRASH)

    @property
    def all_rows(self) -> list[Row]:
        """The rows of all batches."""
        return [row for rows in self.rows.values() for row in rows]


@dataclass(slots=True)
class SourceCheck:
    """One pipeline over a source, from run to run."""

    case: SourceCase
    options: RunOptions
    sink: Collecting = field(default_factory=Collecting)
    added: list[Row] = field(default_factory=list)

    def pipeline(self, bad_records: str = "fail") -> Pipeline:
        """The pipeline, made again."""
        begin = StreamBuilder.data_stream(NAMESPACE, "source")
        return self.case.stream(begin, bad_records).to(self.sink, name=self.sink.name).build()

    def add(self, count: int) -> None:
        """Put new rows into the system."""
        rows = [self.case.row(len(self.added) + n) for n in range(count)]
        self.case.add(rows)
        self.added += rows

    def crashed(self, point: Point) -> None:
        """A run that ends at `point`."""
        self.sink.crash = point
        try:
            self.pipeline().run(self.options)
        except SinkError as error:
            if error.what != CRASH:
                raise
            return
        raise AssertionError(f"new rows are read by the next run: nothing was read before {point!r}")

    def expect(self, when: str) -> None:
        """AssertionError if the sink has not each added row once."""
        _same("each row is read once", when, self.sink.all_rows, self.added)


def check_source(case: SourceCase, *, spark: SparkDriver | None = None, home: Path | None = None) -> None:
    """All checks that the case has what they need for, in one home (None: a temporary folder)."""
    with _options(spark, home) as options:
        check = SourceCheck(case, options)
        check_source_replay(check)
        check_source_crashes(check)
        if case.add_bad is not None:
            check_bad_rows(check)
        if case.lose is not None:
            check_source_loss(check)


def check_source_replay(check: SourceCheck) -> None:
    """Rows are read once over runs, and `batch` returns the rows that `stream` returned, each with a place."""
    for count in (3, 0, 2):
        if count:
            check.add(count)
        check.pipeline().run(check.options)
        check.expect("over restarts")
    topology = check.pipeline().topology
    (source,) = topology.sources
    assert isinstance(source, Source)  # a topology's sources are
    log = _log(check.options)
    for batch_id, rows in check.sink.rows.items():
        again = check.options.driver.call(partial(_batch, source, log, batch_id))
        fields = [{name: value for name, value in row.items() if name in visible([*row])} for row in again]
        _same("`batch` returns the rows that `stream` returned", f"batch {batch_id}", fields, rows)
        bad = [row for row in again if row[REASON] is not None]
        _true(not bad, "a row that `stream` can use has no reason in `batch`", bad[:1])
        places = Counter((row[SPLIT], row[LINE]) for row in again)
        _true(all(count == 1 for count in places.values()), "each row has a place of its own", places.most_common(1))


def check_source_crashes(check: SourceCheck) -> None:
    """A batch that was cut off comes again with the same rows, and none is lost or doubled."""
    for point in POINTS:
        check.add(2)
        check.crashed(point)
        # A planned batch has none of these.
        check.add(1)
        check.pipeline().run(check.options)
        check.expect(f"after a crash, batch {point}")
    for batch_id, tries in check.sink.computed.items():
        for rows in tries[1:]:
            _same("a planned batch comes again with the same rows", f"batch {batch_id}", rows, tries[0])


def check_source_loss(check: SourceCheck) -> None:
    """Rows that were planned and are gone end the run with an error; the pipeline cannot be used any more."""
    assert check.case.lose is not None  # for callers
    check.add(2)
    check.crashed("planned")
    check.case.lose()
    try:
        check.pipeline().run(check.options)
    except (DataError, StartRefused):
        return
    raise AssertionError("lost input is an error: rows that were planned are gone, and the run ended without one")


def check_bad_rows(check: SourceCheck) -> None:
    """A row that does not fit the schema is refused by name, or goes to the dead letters, and no other row with it."""
    assert check.case.add_bad is not None  # for callers
    own = SourceCheck(check.case, check.options, added=[*check.added])
    check.case.add_bad()
    own.add(1)
    try:
        own.pipeline().run(own.options)
    except BadRecordError as error:
        _true("line" in error.facts, "a bad row is named by its place", error.facts)
    else:
        raise AssertionError("a row that does not fit the schema ends the run with BadRecordError")
    own.pipeline("dead_letter").run(own.options)
    letters = dead_letters_of(own.options.home.dead_letters, NAMESPACE, "source")
    _true(letters.num_rows == 1, "one bad row is one dead letter", letters.num_rows)
    _same("good rows pass next to a bad one", "dead_letter", own.sink.all_rows, own.added[len(check.added) :])
    check.sink.rows |= own.sink.rows
    check.added[:] = own.added


def check_sink(case: SinkCase, *, spark: SparkDriver | None = None, home: Path | None = None) -> None:
    """Rows are invisible until the commit; after a crash at each step none is lost, and none doubled if it says so."""
    with _options(spark, home) as options:
        channel, expected = MemoryChannel(schema="n bigint, text string"), list[Row]()
        begin = StreamBuilder.data_stream(NAMESPACE, "sink").from_memory(channel)
        pipeline = case.write(begin).build()
        (node,) = pipeline.topology.sinks
        kind = type(writer_of(node, options.home, NAMESPACE))
        for point in (None, *POINTS):
            rows = [{"n": len(expected) + n, "text": f"ünï {point}"} for n in range(3)]
            channel.put(*rows)
            before = [*case.rows()]
            expected += rows
            if point is not None:
                with _crash(kind, point, partial(_unseen, case, before)):
                    _expect_crash(pipeline, options, point)
            pipeline.run(options)
            _kept(case, expected, f"after a crash, batch {point}" if point else "after a run")
        if case.refused is not None:
            channel.put(case.refused, {"n": -1, "text": "after"})
            pipeline.run(options)
            _kept(case, [*expected, {"n": -1, "text": "after"}], "next to a refused row")
            letters = dead_letters_of(options.home.dead_letters, NAMESPACE, "sink")
            _true(letters.num_rows == 1, "one refused row is one dead letter", letters.num_rows)


@contextmanager
def _crash(kind: type, point: Point, look: Callable[[], None]) -> Iterator[None]:
    """The next batch of the sinks of a class ends at `point`; `look` is called between stage and commit."""
    original = kind.stage  # type: ignore[attr-defined]

    def stage(sink: Any, batch: DataFrame, mark: BatchMark) -> Staged:
        if point == "planned":
            raise SinkError(CRASH)
        staged: Staged = original(sink, batch, mark)
        look()

        def commit() -> int:
            if point == "committed":
                staged.commit()
            raise SinkError(CRASH)

        return Staged(commit)

    with patch.object(kind, "stage", stage):
        yield


def _expect_crash(pipeline: Pipeline, options: RunOptions, point: Point) -> None:
    try:
        pipeline.run(options)
    except SinkError as error:
        if error.what != CRASH:
            raise
        return
    raise AssertionError(f"a run ends with the error of its sink: it did not, batch {point}")


def _unseen(case: SinkCase, before: Sequence[Row]) -> None:
    _same("a staged batch is invisible", "before the commit", [*case.rows()], before)


def _kept(case: SinkCase, expected: Sequence[Row], when: str) -> None:
    found = [*case.rows()]
    if case.exactly_once:
        _same("each row is written once", when, found, expected)
    else:
        _same("each row is written at least once, and no other", when, _distinct(found), _distinct(expected))


def _distinct(rows: Iterable[Row]) -> list[Row]:
    return list({_key(row): row for row in rows}.values())


@contextmanager
def _options(spark: SparkDriver | None, home: Path | None) -> Iterator[RunOptions]:
    with ExitStack() as held:
        root = home or held.enter_context(scratch_folder("rs-conformance-"))
        yield RunOptions(home=Home(root), driver=spark or SparkDriver.shared()).apart()


def _log(options: RunOptions) -> CheckpointLog:
    (folder,) = options.home.job(NAMESPACE, "source").glob("g*/*/checkpoint")
    return CheckpointLog(folder)


def _batch(source: Source, log: CheckpointLog, batch_id: int, spark: SparkSession) -> list[dict[str, Any]]:
    from pyspark.sql.types import StructType as Struct

    ddl = source.row_schema

    def schema_of(infer: Callable[[], StructType]) -> StructType:
        declared = Struct.fromDDL(ddl) if ddl else infer()
        assert isinstance(declared, Struct)  # DDL of fields is a struct
        return declared

    reading = Reading(
        spark=spark,
        name=source.name,
        folder=log.folder.parent,
        schema_of=schema_of,
        written_by=lambda _: Struct(),
        max_line_bytes=1 << 20,
    )
    rows = reader_of(source).batch(reading, SourceLog(log, source.name).batch(batch_id))
    return as_dicts(rows.toArrow())


def _same(promise: str, when: str, found: Sequence[Row], expected: Sequence[Row]) -> None:
    here, there = Counter(map(_key, found)), Counter(map(_key, expected))
    lost, more = [*(there - here).elements()], [*(here - there).elements()]
    if lost or more:
        raise AssertionError(f"{promise}: {when}, {len(lost)} are missing {lost[:2]}, {len(more)} too many {more[:2]}")


def _true(holds: bool, promise: str, found: object) -> None:  # noqa: FBT001  what is asserted
    if not holds:
        raise AssertionError(f"{promise}: found {found}")


def _key(row: Row) -> str:
    return json.dumps(dict(row), sort_keys=True, default=str, ensure_ascii=False)
