"""Accumulators in Python over the rows of a window: each row begins one, and a worker merges those of a window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StructField, StructType

from rs_assets.compile.planner.context import CompileContext, guarded, parse_ddl
from rs_assets.compile.process import merge_worker
from rs_assets.compile.process.answers import clean
from rs_assets.compile.python.batch_step import apply_to_batches
from rs_assets.compile.python.contract import RAISED, check_sendable, remedy_for, text_of
from rs_assets.compile.python.record import Columns
from rs_assets.compile.python.sent import sent
from rs_assets.compile.python.udf import shaped
from rs_assets.errors import StepError
from rs_assets.operators.window.accumulated import merged
from rs_assets.records.columns import PREFIX, visible
from rs_assets.records.encoded import decoded, encoded
from rs_assets.records.rows import MisfitError
from rs_assets.records.schema import quoted
from rs_assets.records.values import converters_of
from rs_assets.topology.nodes.fold import Kept, Mergeable
from rs_assets.topology.nodes.process import TIMEOUT

# The only field of a schema with the type of an accumulator.
FIELD = "accumulator"


def begin(context: CompileContext, kept: Sequence[Kept], df: DataFrame, fields: Sequence[str]) -> DataFrame:
    """`fields` and hidden columns of `df`, and for each of `kept` a hidden column: the accumulator of the row alone.

    A row on which one cannot be begun ends the batch with StepError, or is kept out of it where records are
    quarantined.
    """
    for each in kept:
        check_sendable(each.accumulator, f"of step {each.step!r}", step=each.step)
        made = StructType([*(df.schema[name] for name in fields), StructField(_column(each), BinaryType())])
        read = each.fields or tuple(fields)
        begins = Begin(each.accumulator, read, _column(each), _kind(df.sparkSession, each))
        df = apply_to_batches(df, begins, fields, made, step=each.step, quarantines=context.quarantines)
        df = guarded(context, df, step=each.gate) if context.quarantines else df
    return df


def read_by(kept: Sequence[Kept], df: DataFrame) -> list[str]:
    """The fields of `df` that accumulators read."""
    return [name for each in kept for name in each.fields or visible(df.columns)]


def merged_columns(spark: SparkSession, kept: Sequence[Kept]) -> Mapping[str, Column]:
    """The accumulators of all rows of a window, by the name of their column."""
    made = {}
    for each in kept:
        merge: Any = Merge(each.step, each.accumulator, _kind(spark, each))
        made[each.column] = merged(
            spark,
            F.col(quoted(_column(each))),
            step=each.step,
            module=merge_worker.__name__,
            function=cloudpickle.dumps(sent(merge, each.accumulator)),  # type: ignore[no-untyped-call]
            timeout=TIMEOUT,
        )
    return made


def _column(kept: Kept) -> str:
    return f"{PREFIX}{kept.column}"


def _kind(spark: SparkSession, kept: Kept) -> pa.DataType:
    kind: DataType = parse_ddl(spark, f"{FIELD} {kept.kind}", step=kept.step)[FIELD].dataType
    return to_arrow_type(kind, timezone="UTC")


@dataclass(frozen=True, slots=True)
class Begin:
    """Adds to a batch the accumulators of each row alone in `column`; null for one that is None."""

    accumulator: Mergeable
    fields: tuple[str, ...]
    column: str
    kind: pa.DataType

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Call the accumulator for each row."""
        own, settle = self.accumulator, settled(self.kind)
        made = (own.accumulate(own.create(), row) for row in Columns.of_batch(rows, self.fields).rows())
        begun = [None if each is None else encoded(settle(each)) for each in made]
        arrays = [*rows.columns, pa.array(begun, pa.binary())]
        return pa.RecordBatch.from_arrays(arrays, names=[*rows.schema.names, self.column])


@dataclass(frozen=True, slots=True)
class Merge:
    """Merges the accumulators of one window; runs in a worker of the step."""

    step: str
    accumulator: Mergeable
    kind: pa.DataType

    def __call__(self, content: bytes) -> bytes:
        """The accumulator of all in `content`; StepError for what it raises."""
        every = decoded(content)
        made = next(every)
        try:
            for other in every:
                made = self.accumulator.merge(made, other)
            return encoded(settled(self.kind)(made))
        except MisfitError as error:
            raise self._error(f"merged accumulators into one that does not fit its type: {error.text}") from error
        except RAISED as error:
            what = f"raised {type(error).__name__}: {text_of(error)}"
            raise self._error(what, remedy_for(error)) from error

    def _error(self, what: str, remedy: str = "") -> StepError:
        return StepError(f"step {self.step!r} {clean(what)}", remedy=remedy, step=self.step)


@cache
def settled(kind: pa.DataType) -> Callable[[Any], Any]:
    """What gives an accumulator its type, as a value of its own; MisfitError if it does not fit."""
    shape, exact = shaped(kind), converters_of(pa.schema([pa.field(FIELD, kind)]))[FIELD]
    return lambda value: exact(shape(value))
