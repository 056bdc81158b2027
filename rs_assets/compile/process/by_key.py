"""Functions that are called once for each key of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from rs_assets.compile.process.touched import Shape, Touched
from rs_assets.compile.python.contract import RAISED, remedy_for, text_of
from rs_assets.compile.python.record import Columns, Row
from rs_assets.compile.python.results import mapping, mappings
from rs_assets.errors import StepError
from rs_assets.records.rows import MisfitError, to_arrays

# The most characters of a key that an error shows.
SHOWN = 500
PAIR = 2


@dataclass(frozen=True, slots=True)
class ByKey:
    """Calls `function(key, state, rows)` for each key; runs in a Python worker."""

    function: Callable[[Row, Row | None, list[Row]], Any]
    shape: Shape

    def __call__(self, batch: pa.RecordBatch) -> bytes:
        """The answer for a batch; StepError for what the function raised, or for results that do not fit."""
        touched = Touched.of(batch, self.shape)
        keys, places, states, made, makers = list[Row](), list[int](), list[Row](), list[Row](), list[int]()
        state_names, made_names = frozenset(self.shape.state.names), frozenset(self.shape.made.names)
        for place, (key, state, rows) in enumerate(_each(touched)):
            keys.append(key)
            try:
                now, told = _pair(self.function(key.copy(), state, rows))
                if now is not None:
                    states.append(mapping(now, state_names))
                    places.append(place)
                new = mappings(told, made_names)
            except RAISED as error:
                raise self._failed(error, key, rows) from error
            made += new
            makers += [place] * len(new)
        kept = self._arrays(states, self.shape.state, "state", keys, places)
        rows_made = self._arrays(made, self.shape.made, "record", keys, makers)
        table = pa.Table.from_arrays(rows_made, names=self.shape.made.names)
        return touched.answer(pa.array(places, pa.int32()), kept, table)

    def _arrays(
        self, rows: list[Row], schema: pa.Schema, what: str, keys: list[Row], places: list[int]
    ) -> list[pa.Array]:
        try:
            return to_arrays(rows, schema)
        except MisfitError as error:
            text = f"returned a {what} that does not fit its schema: {error.text}"
            raise self.shape.error(_clean(text), key=_shown(keys[places[error.row]])) from error

    def _failed(self, error: BaseException, key: Row, rows: list[Row]) -> StepError:
        if isinstance(error, MisfitError):
            return self.shape.error(_clean(f"returned what does not fit its schema: {error.text}"), key=_shown(key))
        what = _clean(f"raised {type(error).__name__}: {text_of(error)}")
        remedy = remedy_for(error, list(rows[0]) if rows else ())
        return self.shape.error(what, remedy, key=_shown(key), rows=len(rows))


def _pair(answer: Any) -> tuple[Any, Any]:
    if not isinstance(answer, tuple) or len(answer) != PAIR or isinstance(answer, Mapping):
        raise TypeError("the function must return two values, the new state (None: none) and a list of records")
    return answer


def _each(touched: Touched) -> Iterator[tuple[Row, Row | None, list[Row]]]:
    keys, states, rows = (list(_rows(each)) for each in (touched.keys, touched.states, touched.rows))
    kept = touched.kept.to_pylist()
    for place, (first, last) in enumerate(pairwise(touched.bounds)):
        yield keys[place], states[place] if kept[place] else None, rows[first:last]


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    return Columns.of_batch(batch, batch.schema.names).rows()


def _shown(key: Row) -> str:
    return _clean(repr(key))[:SHOWN]


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
