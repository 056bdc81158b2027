"""What a function returned for the keys of a batch, and what it raised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rs_assets.compile.process.touched import Shape, Touched
from rs_assets.compile.python.contract import remedy_for, text_of
from rs_assets.errors import StepError
from rs_assets.records.rows import MisfitError, to_arrays

Row = dict[str, Any]
# The most characters of a key that an error shows.
SHOWN = 500


@dataclass(slots=True)
class Answers:
    """The new states and the records of some keys of a batch; keys that were added without a state have none then."""

    touched: Touched
    keys: list[Row] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    states: list[Row] = field(default_factory=list)
    made: list[Row] = field(default_factory=list)
    makers: list[int] = field(default_factory=list)

    def add(self, key: Row, state: Row | None, made: list[Row]) -> None:
        """Those of the next key."""
        place = len(self.keys)
        self.keys.append(key)
        if state is not None:
            self.states.append(state)
            self.places.append(place)
        self.made += made
        self.makers += [place] * len(made)

    def content(self) -> bytes:
        """The answer for the batch; StepError for a value that does not fit."""
        shape = self.touched.shape
        kept = self._arrays(self.states, shape.state, "state", self.places)
        made = self._arrays(self.made, shape.made, "record", self.makers)
        table = pa.Table.from_arrays(made, names=shape.made.names)
        return self.touched.answer(pa.array(self.places, pa.int32()), kept, table)

    def _arrays(self, rows: list[Row], schema: pa.Schema, what: str, places: list[int]) -> list[pa.Array]:
        try:
            return to_arrays(rows, schema)
        except MisfitError as error:
            text = f"returned a {what} that does not fit its schema: {error.text}"
            raise self.touched.shape.error(clean(text), key=shown(self.keys[places[error.row]])) from error


def failed(shape: Shape, error: BaseException, key: Row, rows: list[Row]) -> StepError:
    """The error for what a function raised for a key."""
    if isinstance(error, StepError):
        return error
    if isinstance(error, MisfitError):
        return shape.error(clean(f"returned what does not fit its schema: {error.text}"), key=shown(key))
    what = clean(f"raised {type(error).__name__}: {text_of(error)}")
    return shape.error(what, remedy_for(error, list(rows[0]) if rows else ()), key=shown(key), rows=len(rows))


def shown(key: Row) -> str:
    """A key in an error."""
    return clean(repr(key))[:SHOWN]


def clean(text: str) -> str:
    """`text` without characters that cannot be sent."""
    return text.encode("utf-8", "backslashreplace").decode()
