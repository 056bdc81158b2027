"""Functions that keep a value for each key of a table, to which the rows of several inputs are added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rs_assets.compile.process.answers import Answers, Row, failed
from rs_assets.compile.process.by_key import each_key
from rs_assets.compile.process.touched import Shape, Touched
from rs_assets.compile.process.wire import NO_TIME
from rs_assets.compile.python.contract import RAISED
from rs_assets.compile.python.results import mapping
from rs_assets.records.columns import PREFIX, RETRACTED
from rs_assets.records.values import converters_of, same
from rs_assets.topology.nodes.table_reduce import Adders
from rs_assets.topology.user_code.stores import own

# The fields of a state besides the value: the number of rows of the key. Of a row: its input.
ROWS, INPUT = "rows of the key", f"{PREFIX}input"


def row_of(number: int) -> str:
    """The field with a row of an input."""
    return f"{PREFIX}row_{number}"


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a key (None: none), and the number of the rows that it was made of."""

    of: Row | None
    rows: int

    @classmethod
    def kept(cls, state: Row | None) -> Value:
        """That of a state: the fields of the value, and the number of rows, which is negative if there is no value."""
        if state is None:
            return cls(None, 0)
        rows = state[ROWS]
        return cls({name: value for name, value in state.items() if name != ROWS} if rows > 0 else None, abs(rows))

    def state(self, names: Iterable[str]) -> Row | None:
        """The state of the key; none is needed without rows."""
        if not self.rows:
            return None
        return {**dict.fromkeys(names), ROWS: -self.rows} if self.of is None else {**self.of, ROWS: self.rows}


@dataclass(frozen=True, slots=True)
class ByGroup:
    """Adds rows to the value of each key, and subtracts those that go; runs in a Python worker.

    The rows of a key come with those that go first, so that a value never has a row twice. A value has the types of its
    fields after each row, as in later batches. A function that returns None leaves the key without a value.
    """

    adders: Adders
    fields: frozenset[str]
    shape: Shape

    def __call__(self, batch: pa.RecordBatch, watermark_ms: int = NO_TIME) -> bytes:  # noqa: ARG002  it has no time
        """The answer for a batch; StepError for what a function raised, or for a value that does not fit."""
        touched = Touched.of(batch, self.shape)
        answers, converts = Answers(touched), converters_of(self.shape.state)
        for key, state, rows in each_key(touched):
            before = Value.kept(state)
            now = before if before.of is None else replace(before, of=own(before.of))
            try:
                for row in rows:
                    now = self._changed(key, now, row, converts)
            except RAISED as error:
                raise failed(self.shape, error, key, rows) from error
            answers.add(key, now.state(self.fields), _changes(key, before.of, now.of))
        return answers.content()

    def _changed(self, key: Row, before: Value, row: Row, converts: Mapping[str, Callable[[Any], Any]]) -> Value:
        """The value of a key after a row more, or less."""
        number = row[INPUT]
        adder, content = self.adders.of[number], row[row_of(number)]
        if not row[RETRACTED]:
            value = self._begin() if before.of is None else before.of
            now = self._typed(adder.add(key.copy(), content, value), converts)
            # The rows of a key without a value are counted only if they may go.
            return Value(now, before.rows + 1 if now is not None or self.adders.subtract else 0)
        if adder.subtract is None:
            raise self.shape.error("got a row that goes, and cannot subtract it")
        if before.of is None or before.rows == 1:
            return Value(None, before.rows - 1)
        return Value(self._typed(adder.subtract(key.copy(), content, before.of), converts), before.rows - 1)

    def _typed(self, value: Any, converts: Mapping[str, Callable[[Any], Any]]) -> Row | None:
        """A value of its own: what a function returned may be what it changes for the next key."""
        return None if value is None else {n: converts[n](each) for n, each in mapping(value, self.fields).items()}

    def _begin(self) -> Any:
        # A copy: it may be the same object for all keys, which functions change.
        return None if self.adders.initial is None else deepcopy(self.adders.initial())


def _changes(key: Row, before: Row | None, now: Row | None) -> list[Row]:
    """The row that goes and the row that comes; none if nothing has changed."""
    if same(before, now):
        return []
    return [
        {**key, **value, RETRACTED: retracted}
        for value, retracted in ((before, True), (now, False))
        if value is not None
    ]
