"""Why a record is, or is not, in a result: it is found in the batches that were read, and followed through them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.compile.planner.context import CompileContext
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.compile.readers import batch_reader
from rs_assets.connectors.nodes import Source
from rs_assets.errors import CheckpointError, ConfigurationError, DataError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.records.columns import ADDRESS, LINE, RAW, SPLIT, visible
from rs_assets.records.poison import digest
from rs_assets.runtime.batch.split_watermarks import split_watermarks_of
from rs_assets.runtime.identity import resumed
from rs_assets.runtime.job.dimensions import dimensions_of
from rs_assets.runtime.job.queries import context_of
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.replay.replay import Replay
from rs_assets.runtime.replay.trace import Found, StepTrace, Trace, limited_to
from rs_assets.runtime.translate import translate
from rs_assets.topology.nodes.shuffle import ShuffleRead
from rs_assets.topology.topology import Topology

# How many batches are read by one job of Spark while a record is sought.
TOGETHER = 16
BATCH, DIGEST = "_rs_batch", "_rs_digest"
# The width of a step's outcome in the text, and the most characters of its rows.
OUTCOME_WIDTH, ROW_WIDTH = 8, 120
CHANGED = "  the code has changed since the last run: these are the steps of now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """The records that are sought: those for which all that is given holds. `limit` is the most of them.

    `where` is SQL over the fields of the source, `text` a part of the record's text, `line` its number in `split`.
    """

    source: str | None = None
    where: str | None = None
    text: str | None = None
    split: str | None = None
    line: int | None = None
    batch: int | None = None
    limit: int = 1

    def __post_init__(self) -> None:
        """Refuse a search for any record."""
        if all(given is None for given in (self.where, self.text, self.split, self.line)):
            raise ConfigurationError(
                "nothing says which record is meant",
                remedy="name it by where='id = 17', by text='abc', or by split= and line=, as in its dead letter",
            )
        if self.limit < 1:
            raise ConfigurationError(f"limit={self.limit} must be at least 1", remedy="leave it out for one record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a query did with a record; its text is for people.

    `batch_id` is the batch that read it, at the time `at`. `steps` are those that rows of the record reached, up to the
    first state of each way, as the code of now has them. `refused` is the reason why the source does not use it.
    """

    pipeline: str
    query: str
    source: str
    split: str
    line: int
    text: str | None
    fields: Mapping[str, Any]
    batch_id: int
    at: datetime
    committed: bool
    code_changed: bool
    steps: tuple[StepTrace, ...]

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        """A line about the record, one with its text or fields, and one for each step."""
        when = f"{self.at:%Y-%m-%d %H:%M:%S}" + ("" if self.committed else ", not committed yet")
        head = f"line {self.line} of {self.split!r} ({self.source}), in batch {self.batch_id} of {self.query} at {when}"
        width = max((len(each.step) for each in self.steps), default=0)
        lines = [head, f"  {_cut(self.text) if self.text is not None else _in_short(self.fields)}"]
        before: tuple[Mapping[str, Any], ...] = ()
        for each in self.steps:
            # Rows that are as before are not repeated.
            rows = "; ".join(map(_in_short, each.rows)) if each.rows != before else ""
            said = "  ".join(filter(None, (each.because, rows)))
            lines.append(f"  {each.step:<{width}}  {each.outcome:<{OUTCOME_WIDTH}}  {said}".rstrip())
            before = each.rows
        return "\n".join([*lines, *([CHANGED] if self.code_changed else [])])


def why(topology: Topology, sought: Sought, options: RunOptions | None = None) -> tuple[Explanation, ...]:
    """What each query made of the records that are `sought`, the newest first; () if there is none.

    CheckpointError before the first run, ConfigurationError for an unknown source or a condition that Spark does not
    accept, DataError if the input of a batch is no longer there; StepError if a function raises on the record.
    """
    options = options or RunOptions()
    source = _source(topology, sought.source)
    session = JobSession(topology, options)
    stored = manifests.load(session.folder)
    if stored is None:
        raise CheckpointError(f"{topology.name} has not read anything yet", remedy="run it first", file=session.folder)
    session.manifest, session.folders = resumed(topology, session.plans, stored, options)
    changed = stored.code != topology.code

    def explained(spark: SparkSession) -> tuple[Explanation, ...]:
        found = (_Search(session, spark, plan, source, sought, changed).found() for plan in session.plans)
        return tuple(each for records in found for each in records)

    try:
        return options.driver.call(explained)
    except Exception as error:
        raise translate(error, query=topology.name) from error


def _source(topology: Topology, name: str | None) -> Source:
    known = {node.name: node for node in topology.sources if not isinstance(node, ShuffleRead)}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        what = "there are several sources" if name is None else f"there is no source {name!r}"
        raise ConfigurationError(what, remedy=f"name one of: {', '.join(known)}", pipeline=topology.name)
    return known[name]


@dataclass(frozen=True, slots=True)
class _Search:
    """The search of one query, on the driver's thread."""

    session: JobSession
    spark: SparkSession
    plan: QueryPlan
    source: Source
    sought: Sought
    code_changed: bool

    def found(self) -> list[Explanation]:
        """The explanations of this query; [] if it does not read the source."""
        if self.source.name not in self.plan.sources:
            return []
        context, log = self._context(), self.session.log(self.plan)
        records = islice(self._records(context, log), self.sought.limit)
        return [self._explained(context, log, batch, record) for batch, record in records]

    def _context(self) -> CompileContext:
        session, topology, folder = self.session, self.session.topology, self.session.query_folder(self.plan)
        pinned = session.manifest.schemas
        session.dimensions = dimensions_of(topology, session.options.home, self.spark, session.failures, pinned)
        context = context_of(session, self.spark, self.plan, folder)
        notes = session.dimensions.of_query(folder, self.plan.nodes).notes
        return replace(context, noted=notes.of, pinned=partial(_known, pinned), streaming=False)

    def _records(self, context: CompileContext, log: CheckpointLog) -> Iterator[tuple[int, Found]]:
        """The records that are sought, with their batch, the newest batch first."""
        planned = log.planned_batches()
        # The first offsets that Spark has kept are only the start of the next batch.
        whole = [batch for batch in reversed(planned) if batch == 0 or batch - 1 in planned]
        wanted = [batch for batch in whole if self.sought.batch in (None, batch)]
        for first in range(0, len(wanted), TOGETHER):
            together = wanted[first : first + TOGETHER]
            try:
                found = self._in(context, log, together)
            except DataError:
                # The input of one of them is gone: those after it can still be searched.
                yield from (record for batch in together for record in self._in(context, log, [batch]))
                continue
            yield from found

    def _in(self, context: CompileContext, log: CheckpointLog, batches: Sequence[int]) -> list[tuple[int, Found]]:
        frames = [self._rows(context, log, batch) for batch in batches]
        rows = frames[0]
        for frame in frames[1:]:
            rows = rows.unionByName(frame)
        newest = rows.orderBy(F.col(BATCH).desc(), SPLIT, LINE).limit(self.sought.limit)
        try:
            found = newest.toArrow().to_pylist()
        except Exception as error:
            raise translate(error, query=self.plan.name) from error
        return [(row[BATCH], _record(self.source.name, row)) for row in found]

    def _rows(self, context: CompileContext, log: CheckpointLog, batch: int) -> DataFrame:
        rows = batch_reader(log, batch)(context, self.source)
        fields = [F.col(f"`{name}`") for name in visible(rows.columns)]
        place = [F.col(name) for name in ADDRESS]
        made = rows.select(*fields, *place, digest(rows).alias(DIGEST), F.lit(batch).alias(BATCH))
        try:
            return made.filter(self._condition())
        except (AnalysisException, ParseException) as error:
            raise ConfigurationError(
                f"Spark does not accept {self.sought.where!r}: {str(error).strip().splitlines()[0]}",
                remedy=f"the fields of {self.source.name!r} are: {', '.join(visible(rows.columns))}",
            ) from error

    def _condition(self) -> Column:
        sought = self.sought
        conditions = [F.expr(f"({sought.where})")] if sought.where is not None else []
        conditions += [F.col(RAW).contains(sought.text)] if sought.text is not None else []
        conditions += [F.col(SPLIT) == sought.split] if sought.split is not None else []
        conditions += [F.col(LINE) == sought.line] if sought.line is not None else []
        together = conditions[0]
        for condition in conditions[1:]:
            together &= condition
        return together

    def _explained(self, context: CompileContext, log: CheckpointLog, batch: int, record: Found) -> Explanation:
        session, topology = self.session, self.session.topology
        marks = split_watermarks_of(topology, self.plan, log, session.query_folder(self.plan), session.options.home)
        judged = context if marks is None else replace(context, latest=marks.before(batch))
        only = limited_to(record, whole_splits=context.by_record)
        replay = Replay(topology, self.plan, judged, log, batch, only=only, effects=False)
        offsets = log.offsets(batch)
        assert offsets is not None  # noqa: S101  it is one of the planned batches
        return Explanation(
            pipeline=topology.name,
            query=self.plan.name,
            source=record.source,
            split=record.split,
            line=record.line,
            text=record.text,
            fields=record.fields,
            batch_id=batch,
            at=offsets.started,
            committed=batch <= log.last_committed(),
            code_changed=self.code_changed,
            steps=tuple(Trace(replay, record, log.watermark or EPOCH).steps()),
        )


def _record(source: str, row: Mapping[str, Any]) -> Found:
    fields = {name: row[name] for name in visible(list(row))}
    return Found(source, row[SPLIT], row[LINE], row[DIGEST], row[RAW], fields)


def _known(schemas: Mapping[str, str], source: Source, infer: object) -> StructType:  # noqa: ARG001  the context's form
    """The schema that was inferred before the first batch."""
    return StructType.fromJson(json.loads(schemas[source.name]))


def _in_short(fields: Mapping[str, Any]) -> str:
    return _cut(" ".join(f"{name}={value}" for name, value in fields.items()))


def _cut(text: str) -> str:
    return text if len(text) <= ROW_WIDTH else f"{text[: ROW_WIDTH - 3]}..."
