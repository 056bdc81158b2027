"""Functions that are called once for all keys of a batch, with Arrow tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.compile.process.touched import Shape, Touched
from rs_assets.compile.process.wire import NO_TIME
from rs_assets.compile.python.contract import RAISED, text_of
from rs_assets.compile.python.fitted import UnfitError, fitted
from rs_assets.records.casts import whole

PAIR = 2
RETURNED = "return two Arrow tables: the new state of the keys, and the rows to pass on"


@dataclass(frozen=True, slots=True)
class ByBatch:
    """Calls `function(state, rows)` with two tables; runs in a Python worker."""

    function: Callable[[pa.Table, pa.Table], Any]
    shape: Shape

    def __call__(self, batch: pa.RecordBatch, watermark_ms: int = NO_TIME) -> bytes:  # noqa: ARG002  it has no time
        """The answer for a batch; StepError for what the function raised, or for results that do not fit."""
        touched = Touched.of(batch, self.shape)
        there = pa.Table.from_batches([touched.keys]).filter(touched.kept)
        kept = pa.Table.from_batches([touched.states]).filter(touched.kept)
        state = pa.table([*there.columns, *kept.columns], names=[*there.column_names, *kept.column_names])
        try:
            answer = self.function(state, pa.Table.from_batches([touched.rows]))
        except RAISED as error:
            raise self.shape.error(f"raised {type(error).__name__}: {text_of(error)}", "mend the function") from error
        if not isinstance(answer, tuple) or len(answer) != PAIR:
            raise self.shape.error(f"returned {type(answer).__name__}", RETURNED)
        now = self._table(answer[0], pa.schema([*touched.keys.schema, *self.shape.state]), "state")
        made = self._table(answer[1], self.shape.made, "rows")
        return touched.answer(self._places(touched, now), [whole(now.column(n)) for n in self.shape.state.names], made)

    def _table(self, value: Any, schema: pa.Schema, what: str) -> pa.Table:
        """`value` with exactly the fields of `schema`."""
        try:
            return fitted(value, schema, what=what, remedy=RETURNED)
        except UnfitError as error:
            raise self.shape.error(error.text, error.remedy) from error

    def _places(self, touched: Touched, now: pa.Table) -> pa.Array:
        """The places of the keys of the new states."""
        places = touched.places_of(now)
        if places.null_count:
            row = now.select(self.shape.keys).slice(pc.index(places.is_null(), True).as_py(), 1)
            what = f"returned a state for a key without rows in this batch: {row.to_pylist()[0]}"
            raise self.shape.error(what, "return states of the keys in `rows` only")
        if len(places) != pc.count_distinct(places).as_py():
            raise self.shape.error("returned two states for one key", "return one row a key")
        return places
