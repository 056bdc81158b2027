"""Recorded batches read again: the records of their sources, and the rows that tables got of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.common.chunks import in_chunks
from rs_assets.common.plural import count_of
from rs_assets.compile.planner.query_plan import CONTROL_SOURCE
from rs_assets.compile.readers import batch_reader
from rs_assets.connectors.delta.log.history import Change, change_of
from rs_assets.connectors.delta.log.store import rows_at
from rs_assets.connectors.delta.log.versions import files_added
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.generations import Point
from rs_assets.connectors.nodes import Source
from rs_assets.errors import ConfigurationError, DataLossError, SchemaError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.event_time import END_OF_TIME, has_ended
from rs_assets.records.columns import BATCH, PREFIX, REASON, visible
from rs_assets.records.ddl import arrow_schema
from rs_assets.records.rows import as_dicts
from rs_assets.records.schema import quoted, schema_text
from rs_assets.runtime.capture.masks import Masks
from rs_assets.runtime.recorded.recompute import TOGETHER, Written, emits_once, union
from rs_assets.runtime.recorded.recorded import RecordedQuery
from rs_assets.topology.nodes.window import WindowAggregate

REFUSED = f"{PREFIX}refused"
# Spark's watermark is in whole milliseconds.
MILLISECOND: Final = timedelta(milliseconds=1)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reach:
    """The first batch whose records matter, and the event time at which it begins; None: at the first record."""

    first: int
    begins: datetime | None = None

    @classmethod
    def of(cls, query: RecordedQuery, asked: int) -> Reach:
        """Those for the rows of the batch `asked` and later ones; DataLossError if earlier batches are needed and gone.

        Without state none before it. Of windows of a fixed length that emit once, those since a batch before which all
        records are in windows that had closed by then; otherwise all batches.
        """
        if not query.plan.states:
            return cls(asked)
        known = [batch for batch in query.batches(older=query.recalls) if batch <= asked]
        found = next(filter(None, (cls._since(query, batch, asked) for batch in known)), None)
        if found is not None:
            return found
        if known[-1] > 0:
            raise DataLossError(
                f"the batches before {known[-1]} are no longer recorded, and the state of batch {asked} may hold their"
                " records",
                remedy="capture a batch soon after it was read; the catalog keeps batches for RS_CATALOG_DAYS",
                pipeline=query.recorded.session.topology.name,
                query=query.plan.name,
            )
        return cls(0)

    @classmethod
    def _since(cls, query: RecordedQuery, batch: int, asked: int) -> Reach | None:
        """That from a batch on, None if windows with earlier records may have been open in the batch before `asked`."""
        window = query.recorded.session.topology[query.plan.states[-1]]
        if len(query.plan.states) > 1 or not isinstance(window, WindowAggregate) or not emits_once(window):
            return None
        begun, before = query.log.offsets(batch), query.log.offsets(asked - 1)
        if window.by_split is not None or begun is None or before is None:
            return None
        # The watermark is the greatest event time before the batch, less the delay.
        closed = begun.watermark + MILLISECOND + window.delay + window.window.longest <= before.watermark
        return cls(batch, begun.watermark + window.delay) if begun.watermark > EPOCH and closed else None


def control_of(query: RecordedQuery, batch: int) -> datetime | None:
    """The event time to which a batch has moved the watermark by a control row, as far as that is known."""
    after = _moved_to(query, batch)
    if after is None or has_ended(after):
        return after and END_OF_TIME
    sides = query.plan.sides(query.recorded.session.topology)
    return after + sides[0].water_mark if len(sides) == 1 else None


def is_left_out(query: RecordedQuery, batch: int) -> bool:
    """Whether control rows of a batch have moved the watermark of one of several inputs: a replay does not do that."""
    return _moved_to(query, batch) is not None and control_of(query, batch) is None


def _moved_to(query: RecordedQuery, batch: int) -> datetime | None:
    """The watermark after a batch, if control rows have moved it, or the end of the input has; else None."""
    planned, before = query.log.offsets(batch), query.log.offsets(batch - 1)
    after = query.watermark_after(batch)
    if planned is None or after is None or after <= planned.watermark:
        return None
    ends = before.sources if before is not None else {}
    controls = [name for name in planned.sources if name.startswith(CONTROL_SOURCE)]
    moved = any(planned.sources[name] != ends.get(name) for name in controls)
    return after if moved or has_ended(after) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The records of batches, by batch and source, without those that a source has `refused`."""

    schemas: Mapping[str, str]
    rows: Mapping[tuple[int, str], Sequence[Row]]
    refused: int

    @property
    def fields(self) -> Mapping[str, pa.Schema]:
        """The fields of each source."""
        return {name: _arrow(ddl) for name, ddl in self.schemas.items()}

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.rows.values()))

    @classmethod
    def of(cls, query: RecordedQuery, batches: range, masks: Masks, most: int) -> Records:
        """Those of some batches, masked; ConfigurationError for more than `most`, DataLossError if one is edited."""
        for batch in batches:
            query.refuse_removed(batch)
            query.verify(batch)
        topology = query.recorded.session.topology
        sources = [source for source in topology.sources if source.name in query.plan.sources]
        frames = {each.name: [_frame(query, each, batch) for batch in batches] for each in sources}
        schemas = {each.name: ddl_of(each, frames[each.name][0]) for each in sources}
        masks.check({name: _arrow(ddl) for name, ddl in schemas.items()})
        parts = [(name, some) for name, every in frames.items() for some in _together(every)]
        total = sum(some.count() for _, some in parts)
        if total > most:
            raise ConfigurationError(
                f"the batches {batches[0]} to {batches[-1]} have read {count_of(total, 'record')}, more than {most:,}",
                remedy=f"capture fewer batches, or all of these records: --max-records {total}",
                pipeline=topology.name,
            )
        rows, refused = defaultdict[tuple[int, str], list[Row]](list), 0
        for name, some in parts:
            for row in as_dicts(some.toArrow()):
                batch, bad = row.pop(BATCH), row.pop(REFUSED)
                refused += bad
                if not bad:
                    rows[batch, name].append(masks.row(row))
        return cls(schemas=schemas, rows=rows, refused=refused)


def ddl_of(source: Source, rows: DataFrame) -> str:
    """The fields of a source; SchemaError if one has a type that JSON does not give back."""
    ddl = source.row_schema or schema_text(rows.drop(BATCH, REFUSED).schema, step=source.name) or ""
    if arrow_schema(ddl) is None:
        raise SchemaError(
            f"records of {source.name!r} cannot be captured: {ddl}",
            remedy="use types of docs/capture.md in its schema: a variant as string",
            step=source.name,
        )
    return ddl


def _arrow(ddl: str) -> pa.Schema:
    """The fields of a text that `ddl_of` has returned."""
    schema = arrow_schema(ddl)
    assert schema is not None  # others are refused there
    return schema


def _frame(query: RecordedQuery, source: Source, batch: int) -> DataFrame:
    """The records that a batch has read from a source."""
    rows = batch_reader(query.log, batch)(query.context, source)
    fields = [F.col(quoted(name)) for name in visible(rows.columns)]
    return rows.select(*fields, F.col(REASON).isNotNull().alias(REFUSED), F.lit(batch).alias(BATCH))


def _together(frames: Sequence[DataFrame]) -> Iterator[DataFrame]:
    return map(union, in_chunks(frames, TOGETHER))


def written_rows(
    query: RecordedQuery, sinks: Sequence[str], batches: Sequence[int]
) -> tuple[Mapping[tuple[int, str], Sequence[Row]], Sequence[str]]:
    """The rows that tables got of committed batches, by batch and output; and for which outputs that is not known."""
    rows, notes = dict[tuple[int, str], Sequence[Row]](), list[str]()
    for name in sinks:
        node = query.recorded.session.topology[name]
        if isinstance(node, DeltaSink) and node.mode == "append":
            found = dict(_appended(query, node, batches))
            rows.update({(batch, name): each for batch, each in found.items()})
            unknown = [batch for batch in batches if batch not in found]
            if unknown:
                notes.append(f"rows of {name!r} are not compared in {_spoken(unknown)}: it may not have been there yet")
        elif batches:
            notes.append(f"rows of {name!r} are not compared, as no appended Delta table has them: see --expect replay")
    return rows, notes


def _spoken(batches: Sequence[int]) -> str:
    """Batches in words.

    >>> _spoken([3]), _spoken([3, 4, 5])
    ('batch 3', 'the batches 3 to 5')
    """
    return f"batch {batches[0]}" if len(batches) == 1 else f"the batches {batches[0]} to {batches[-1]}"


def _appended(query: RecordedQuery, sink: DeltaSink, batches: Sequence[int]) -> Iterator[tuple[int, Sequence[Row]]]:
    """The rows that a table got of batches; of one before its first rows, by other code, nothing is known."""
    session = query.recorded.session
    if not batches or open_table(session.options.home.table(session.topology.namespace, sink.table)) is None:
        # Without a row there is no table yet.
        yield from ((batch, ()) for batch in batches if not query.recorded.code_changed(query.plan, batch))
        return
    written = Written.by(query, sink)
    changes = [change_of(entry, written.mark) for entry in written.table.history()]
    for batch in batches:
        point = Point(written.mark.generation, batch)
        version = version_of(changes, point)
        begun = any(each.kind == "batch" and each.point is not None and each.point <= point for each in changes)
        if not begun and query.recorded.code_changed(query.plan, batch):
            continue
        if version is None and _forgotten(changes, batch):
            raise DataLossError(
                f"the history of the table no longer has batch {batch}",
                remedy="take the rows of the current code: --expect replay",
                step=sink.name,
                table=written.path,
            )
        yield batch, () if version is None else _added(query, written.path, version)


def version_of(changes: Sequence[Change], point: Point) -> int | None:
    """The version in which a table got the rows of a batch; None if it got none.

    A batch before a return was written by the generation from which that went back.
    """
    own = (each.version for each in changes if each.kind == "batch" and each.point == point and not each.accepts)
    version = max(own, default=None)
    for each in changes if version is None else ():
        begun, kept = each.point, each.kept
        if each.kind == "return" and begun is not None and kept is not None and begun.generation == point.generation:
            return version_of(changes, Point(kept.generation, point.batch)) if point.batch <= begun.batch else None
    return version


def _forgotten(changes: Sequence[Change], batch: int) -> bool:
    """Whether the history begins after a batch may have been written."""
    points = [each.point for each in changes if each.point is not None]
    return min(each.version for each in changes) > 0 and all(point.batch > batch for point in points)


def _added(query: RecordedQuery, path: str, version: int) -> Sequence[Row]:
    names = files_added(path, version)
    rows = rows_at(query.context.spark, path, version)
    return as_dicts(rows.filter(F.col("_metadata.file_name").isin(names)).toArrow()) if names else ()
