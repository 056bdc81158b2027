"""Python functions over Arrow batches: consecutive steps are fused, so rows cross from the JVM once.

Rows that a Python filter refuses never return to the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from pipelines.compile.lazy_row import Columns, LazyRow
from resources.errors import SchemaError, StepError
from resources.errors_wire import to_wire
from resources.source.columns import LABEL, LINE, OFFSET, REASON, SPLIT, hidden, visible
from resources.source.rows import to_table

Kind = Literal["map", "flat_map", "filter", "for_each", "label"]
# How much of a record an error shows, in characters.
SHOWN = 500
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PythonStep:
    """One call of a user's function; `schema` is what map and flat_map make."""

    kind: Kind
    name: str
    call: Callable[[Row], Any]
    schema: StructType | None = None


def apply_python(frame: DataFrame, steps: Sequence[PythonStep], *, quarantines: bool = False) -> DataFrame:
    """`frame` behind `steps`, in one pass. Hidden columns stay with the rows that they belong to.

    With `quarantines` a row on which a step raises comes out with REASON and without values; otherwise it ends the
    batch with StepError.
    """
    schema = frame.schema
    for step in steps:
        if step.schema is not None:
            kept = [f for f in schema.fields if f.name in hidden(schema.names)]
            schema = StructType([*step.schema.fields, *kept])
        elif step.kind == "label":
            schema = StructType([f for f in schema.fields if f.name != LABEL]).add(LABEL, StringType())
    if quarantines:
        schema = StructType([*schema.fields, StructField(REASON, StringType())])
    fused = FusedSteps(tuple(steps), to_arrow_schema(schema, timezone="UTC"), quarantines)
    return frame.mapInArrow(fused, schema)


@dataclass(frozen=True, slots=True)
class FusedSteps:
    """What a Python worker runs: batches in, batches of `schema` out."""

    steps: tuple[PythonStep, ...]
    schema: pa.Schema
    quarantines: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run all steps over each batch."""
        only_filters = all(step.kind == "filter" for step in self.steps)
        for batch in batches:
            if only_filters:
                yield self._filtered(batch)
            else:
                yield from self._rebuilt(batch)

    def _filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that pass, without a value being copied through Python."""
        columns = Columns(batch, visible(batch.schema.names))
        keep: Sequence[int] = range(batch.num_rows)
        poison: dict[int, str] = {}
        for step in self.steps:
            call = step.call
            index = 0
            passed: list[int] = []
            waiting = iter(keep)
            while True:
                try:
                    for index in waiting:
                        if call(LazyRow(columns, index)):
                            passed.append(index)
                    break
                except Exception as error:
                    if not self.quarantines:
                        raise self._failed(step, LazyRow(columns, index), batch, index, error) from error
                    poison[index] = _reason(step, error)
            keep = passed
        taken = batch.take(pa.array([*keep, *poison], pa.int64()))
        if not self.quarantines:
            return taken
        reasons = pa.array([*(None for _ in keep), *poison.values()], pa.string())
        return taken.append_column(REASON, reasons)

    def _rebuilt(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows as dicts through all steps, and back into Arrow."""
        columns = Columns(batch, visible(batch.schema.names))
        extra = hidden(batch.schema.names)
        empty: Row = dict.fromkeys(self.schema.names) if self.quarantines else {}
        out: list[Row] = []
        for index in range(batch.num_rows):
            beside = {name: columns[name][index] for name in extra} if extra else {}
            rows: list[Row] = [LazyRow(columns, index)]
            for step in self.steps:
                try:
                    rows = [made for row in rows for made in _applied(step, row, beside)]
                except Exception as error:
                    if not self.quarantines:
                        raise self._failed(step, rows[0], batch, index, error) from error
                    # All of the record goes, for a part of it would be a row that nobody asked for.
                    rows, beside[REASON] = [{}], _reason(step, error)
                    break
                if not rows:
                    break
            out.extend({**empty, **row, **beside} for row in rows)
        if out:
            try:
                yield from to_table(out, self.schema).to_batches()
            except SchemaError as error:
                maker = next((s for s in reversed(self.steps) if s.schema is not None), self.steps[-1])
                row = error.facts.get("row")
                shown = out[row] if isinstance(row, int) else {}
                wire = StepError(f"step {maker.name!r} returned a record that does not fit its schema: {error.what}",
                                 remedy=error.remedy, step=maker.name, record=repr(shown)[:SHOWN])  # fmt: skip
                raise RuntimeError(to_wire(wire)) from error

    @staticmethod
    def _failed(step: PythonStep, row: Row, batch: pa.RecordBatch, index: int, error: Exception) -> RuntimeError:
        """The error that travels to the driver as text."""
        address = {
            name.removeprefix("_rs_"): batch.column(name)[index].as_py()
            for name in (SPLIT, LINE, OFFSET)
            if name in batch.schema.names
        }
        wire = StepError(
            f"step {step.name!r} raised {type(error).__name__}: {error}",
            remedy="mend the function, or filter such records out before it",
            step=step.name,
            record=repr(row)[:SHOWN],
            **address,
        )
        return RuntimeError(to_wire(wire))


def _reason(step: PythonStep, error: Exception) -> str:
    """Why a record is in quarantine; `Replay` reads the step's name out of it."""
    return f"step '{step.name}' raised {type(error).__name__}: {error}"[:SHOWN]


def _applied(step: PythonStep, row: Row, beside: Row) -> Iterable[Row]:
    """What one step makes of one row."""
    match step.kind:
        case "map":
            return [_mapping(step.call(row))]
        case "flat_map":
            return [_mapping(made) for made in step.call(row) or ()]
        case "filter":
            return [row] if step.call(row) else []
        case "for_each":
            step.call(row)
            return [row]
        case "label":
            label = step.call(row)
            beside[LABEL] = None if label is None else str(label)
            return [row]


def _mapping(value: object) -> Row:
    if isinstance(value, dict):
        return value
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is None:
        raise TypeError(f"the function must return a dict or a dataclass, not {type(value).__name__}")
    return {name: getattr(value, name) for name in fields}
