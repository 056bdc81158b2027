"""Why a record is, or is not, in a result: it is found in the batches that were read, and followed through them."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import reduce
from itertools import islice
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rs_assets.common.chunks import in_chunks
from rs_assets.compile.readers import batch_reader
from rs_assets.connectors.nodes import Source
from rs_assets.errors import ConfigurationError, DataError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.records.columns import ADDRESS, BATCH, DIGEST, LINE, RAW, SPLIT, visible
from rs_assets.records.poison import digest
from rs_assets.records.schema import quoted
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.recompute import TOGETHER
from rs_assets.runtime.recorded.recorded import Recorded, RecordedQuery, named, translated
from rs_assets.runtime.recorded.where import asked, condition
from rs_assets.runtime.replay.refused_rows import RefusedRows
from rs_assets.runtime.replay.trace import Found, StepTrace, Trace, limited_to
from rs_assets.topology.nodes.shuffle import ShuffleRead
from rs_assets.topology.topology import Topology

# The width of a step's outcome in the text, and the most characters of its rows.
OUTCOME_WIDTH, ROW_WIDTH = 8, 120
CHANGED = "  the code has changed since that batch: these are the current steps"


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
    first state of each way, as the current code has them. `code_changed`: it is not the code that computed the batch.
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
    sources = [node for node in topology.sources if not isinstance(node, ShuffleRead)]
    source = named(sources, sought.source, what="source", pipeline=topology.name)
    recorded = Recorded.of(topology, RunOptions.of(options))
    plans = [plan for plan in recorded.session.plans if source.name in plan.sources]

    def explained(spark: SparkSession) -> tuple[Explanation, ...]:
        found = (_Search(recorded.query(spark, plan), source, sought).found() for plan in plans)
        return tuple(each for records in found for each in records)

    return recorded.on_driver(explained)


@dataclass(frozen=True, slots=True)
class _Search:
    """The search of one query that reads the source, on the driver's thread."""

    query: RecordedQuery
    source: Source
    sought: Sought

    def found(self) -> list[Explanation]:
        """The explanations of this query."""
        return [self._explained(batch, record) for batch, record in islice(self._records(), self.sought.limit)]

    def _records(self) -> Iterator[tuple[int, Found]]:
        """The records that are sought, with their batch, the newest batch first."""
        wanted = [batch for batch in self.query.batches() if self.sought.batch in (None, batch)]
        for together in in_chunks(wanted, TOGETHER):
            try:
                found = self._in(together)
            except DataError:
                # The input of one of them is gone: those after it can still be searched.
                yield from (record for batch in together for record in self._in([batch]))
                continue
            yield from found

    def _in(self, batches: Sequence[int]) -> list[tuple[int, Found]]:
        rows = reduce(DataFrame.unionByName, map(self._rows, batches))
        newest = rows.orderBy(F.col(BATCH).desc(), SPLIT, LINE).limit(self.sought.limit)
        with translated(self.query.plan.name), asked(self.sought.where, (), repr(self.source.name)):
            found = newest.toArrow().to_pylist()
        return [(row[BATCH], _record(self.source.name, row)) for row in found]

    def _rows(self, batch: int) -> DataFrame:
        rows = batch_reader(self.query.log, batch)(self.query.context, self.source)
        fields = [F.col(quoted(name)) for name in visible(rows.columns)]
        place = [F.col(name) for name in ADDRESS]
        made = rows.select(*fields, *place, digest(rows).alias(DIGEST), F.lit(batch).alias(BATCH))
        with asked(self.sought.where, visible(rows.columns), repr(self.source.name)):
            return made.filter(self._condition())

    def _condition(self) -> Column:
        sought = self.sought
        conditions = [condition(sought.where)] if sought.where is not None else []
        conditions += [F.col(RAW).contains(sought.text)] if sought.text is not None else []
        conditions += [F.col(SPLIT) == sought.split] if sought.split is not None else []
        conditions += [F.col(LINE) == sought.line] if sought.line is not None else []
        return reduce(operator.and_, conditions)

    def _explained(self, batch: int, record: Found) -> Explanation:
        query, log = self.query, self.query.log
        replay = query.replay(batch, limited_to(record, whole_splits=query.context.by_record))
        offsets = log.offsets(batch)
        assert offsets is not None  # it is one of the planned batches
        return Explanation(
            pipeline=replay.topology.name,
            query=query.plan.name,
            source=record.source,
            split=record.split,
            line=record.line,
            text=record.text,
            fields=record.fields,
            batch_id=batch,
            at=offsets.started,
            committed=batch <= log.last_committed(),
            code_changed=query.recorded.code_changed(query.plan, batch),
            steps=tuple(Trace(replay, record, log.watermark or EPOCH, self._refused(batch)).steps()),
        )

    def _refused(self, batch: int) -> RefusedRows:
        """The rows of a batch that sinks of the query have refused."""
        topology, home = self.query.recorded.session.topology, self.query.context.home
        return RefusedRows.of(
            home.dead_letters,
            namespace=topology.namespace,
            job=topology.job,
            sinks=self.query.plan.sinks,
            batch=batch,
        )


def _record(source: str, row: Mapping[str, Any]) -> Found:
    fields = {name: row[name] for name in visible(list(row))}
    return Found(source, row[SPLIT], row[LINE], row[DIGEST], row[RAW], fields)


def _in_short(fields: Mapping[str, Any]) -> str:
    return _cut(" ".join(f"{name}={value}" for name, value in fields.items()))


def _cut(text: str) -> str:
    return text if len(text) <= ROW_WIDTH else f"{text[: ROW_WIDTH - 3]}..."
