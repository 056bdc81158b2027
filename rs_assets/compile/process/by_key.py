"""Functions that are called once for each key of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from rs_assets.compile.process.answers import Answers, Row, failed
from rs_assets.compile.process.touched import Shape, Touched
from rs_assets.compile.process.wire import NO_TIME
from rs_assets.compile.python.contract import RAISED
from rs_assets.compile.python.record import Columns
from rs_assets.compile.python.results import mapping, mappings
from rs_assets.topology.user_code.stores import own

PAIR = 2


@dataclass(frozen=True, slots=True)
class ByKey:
    """Calls `function(key, state, rows)` for each key; runs in a Python worker."""

    function: Callable[[Row, Row | None, list[Row]], Any]
    shape: Shape

    def __call__(self, batch: pa.RecordBatch, watermark_ms: int = NO_TIME) -> bytes:  # noqa: ARG002  it has no time
        """The answer for a batch; StepError for what the function raised, or for results that do not fit."""
        touched = Touched.of(batch, self.shape)
        answers = Answers(touched)
        state_names, made_names = frozenset(self.shape.state.names), frozenset(self.shape.made.names)
        for key, state, rows in each_key(touched):
            try:
                now, told = _pair(self.function(key.copy(), state, rows))
                # Values of their own: what a function returned may be what it changes for the next key.
                kept = None if now is None else own(mapping(now, state_names))
                answers.add(key, kept, mappings(told, made_names))
            except RAISED as error:
                raise failed(self.shape, error, key, rows) from error
        return answers.content()


def each_key(touched: Touched) -> Iterator[tuple[Row, Row | None, list[Row]]]:
    """Each key of a batch with its state and its rows."""
    keys, states, rows = (list(_rows(each)) for each in (touched.keys, touched.states, touched.rows))
    kept = touched.kept.to_pylist()
    for place, (first, last) in enumerate(pairwise(touched.bounds)):
        yield keys[place], states[place] if kept[place] else None, rows[first:last]


def _pair(answer: Any) -> tuple[Any, Any]:
    if not isinstance(answer, tuple) or len(answer) != PAIR or isinstance(answer, Mapping):
        raise TypeError("the function must return two values, the new state (None: none) and a list of records")
    return answer


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    return Columns.of_batch(batch, batch.schema.names).rows()
