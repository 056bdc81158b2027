"""Python functions of whole Arrow batches, which make a row of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from rs_assets.common.errors_wire import to_wire
from rs_assets.common.plural import count_of
from rs_assets.compile.python.contract import RAISED, check_sendable, text_of
from rs_assets.compile.python.failure import raised, reason_of
from rs_assets.compile.python.fitted import UnfitError, fitted
from rs_assets.compile.python.placeholders import blank
from rs_assets.compile.python.sent import sent
from rs_assets.errors import StepError
from rs_assets.records.casts import whole
from rs_assets.records.columns import REASON, hidden, visible
from rs_assets.records.rows import as_dicts
from rs_assets.records.schema import quoted
from rs_assets.spark.arrow import map_in_arrow

RETURN = "return an Arrow batch or table, a data frame, or a dict of columns, with one row for each row"


def apply_to_batches(
    frame: DataFrame,
    call: Callable[[pa.RecordBatch], Any],
    fields: Sequence[str],
    schema: StructType,
    *,
    step: str,
    quarantines: bool,
) -> DataFrame:
    """`frame` after `call`, which gets `fields` (all if there are none) of the rows of a batch and makes `schema`.

    Hidden columns stay with their rows. With `quarantines` a row on which the function raises comes out with REASON;
    otherwise it ends the batch with StepError.
    """
    check_sendable(call, f"of step {step!r}", step=step)
    kept = hidden(frame.columns)
    wanted = fields or visible(frame.columns)
    asked = frame.select(*map(quoted, [*wanted, *kept]))
    reasons = [StructField(REASON, StringType())] if quarantines else []
    out = StructType([*schema.fields, *(asked.schema[name] for name in kept), *reasons])
    made = BatchStep(step, call, tuple(wanted), to_arrow_schema(schema, timezone="UTC"), quarantines)
    return map_in_arrow(asked, sent(made, call), out)


@dataclass(frozen=True, slots=True)
class BatchStep:
    """Calls `call` with the `fields` of each batch; runs in a Python worker. `schema` is that of its results."""

    step: str
    call: Callable[[pa.RecordBatch], Any]
    fields: tuple[str, ...]
    schema: pa.Schema
    quarantines: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of each batch, with its hidden columns."""
        for batch in batches:
            if batch.num_rows:
                yield self._out(batch)

    def _out(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.select(list(self.fields))
        try:
            answer, reasons = self.call(rows), dict[int, str]()
        except RAISED as error:
            reasons = self._reasons(batch, rows, error)
            good = rows.take(pa.array([place for place in range(rows.num_rows) if place not in reasons], pa.int64()))
            answer = self.call(good) if good.num_rows else self.schema.empty_table()
        made = self._fitted(answer, rows.num_rows - len(reasons))
        if reasons:
            made = _with_gaps(made, rows.num_rows, reasons)
        kept = [name for name in batch.schema.names if name not in self.fields]
        columns = [*map(whole, made.columns), *(batch.column(name) for name in kept)]
        names = [*self.schema.names, *kept]
        if self.quarantines:
            columns.append(pa.array([reasons.get(place) for place in range(rows.num_rows)], pa.string()))
            names.append(REASON)
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _reasons(self, batch: pa.RecordBatch, rows: pa.RecordBatch, error: BaseException) -> dict[int, str]:
        """Why the function fails on some of `rows`, by their place; raised for the first of them, or for the batch.

        Without quarantine the first ends the batch, and so does an error that no row causes alone.
        """
        culprits = Culprits(self.call, first_only=not self.quarantines)
        culprits.search(rows, 0, error)
        if not culprits.found:
            raise self._error(f"raised {type(error).__name__}: {text_of(error)}", "mend the function") from error
        if not self.quarantines:
            place, own = next(iter(culprits.found.items()))
            raise raised(self.step, own, batch.slice(place, 1), as_dicts(rows.slice(place, 1))[0]) from own
        return {place: reason_of(self.step, own) for place, own in culprits.found.items()}

    def _fitted(self, answer: Any, count: int) -> pa.Table:
        try:
            made = fitted(answer, self.schema, what="rows", remedy=RETURN)
        except UnfitError as error:
            raise self._error(error.text, error.remedy) from error
        if made.num_rows != count:
            remedy = "return one row for each row; .filter() and .flat_map() drop and multiply records"
            raise self._error(f"returned {count_of(made.num_rows, 'row')} for {count}", remedy)
        return made

    def _error(self, text: str, remedy: str) -> RuntimeError:
        return RuntimeError(to_wire(StepError(f"step {self.step!r} {text}", remedy=remedy, step=self.step)))


@dataclass(slots=True)
class Culprits:
    """The rows on each of which alone a function fails, found by halves of a batch on which it has failed."""

    call: Callable[[pa.RecordBatch], Any]
    first_only: bool
    found: dict[int, BaseException] = field(default_factory=dict)

    def search(self, rows: pa.RecordBatch, first: int, error: BaseException) -> None:
        """Find those of `rows`, which begin at place `first` and on which the function raised `error`."""
        if rows.num_rows == 1:
            self.found[first] = error
            return
        middle = rows.num_rows // 2
        for start, count in ((0, middle), (middle, rows.num_rows - middle)):
            if self.found and self.first_only:
                return
            half = rows.slice(start, count)
            try:
                self.call(half)
            except RAISED as own:
                self.search(half, first + start, own)


def _with_gaps(made: pa.Table, count: int, gaps: Mapping[int, str]) -> pa.Table:
    """`count` rows: those of `made`, and a placeholder at each place of `gaps`."""
    placeholder = pa.table([pa.array([blank(of)], of.type) for of in made.schema], schema=made.schema)
    number = iter(range(made.num_rows))
    places = [made.num_rows if place in gaps else next(number) for place in range(count)]
    return pa.concat_tables([made, placeholder]).take(pa.array(places, pa.int64()))
