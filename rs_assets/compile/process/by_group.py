"""Functions that keep a value for each key of a table, to which the rows of several inputs are added."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rs_assets.compile.process.answers import Answers, Row, failed
from rs_assets.compile.process.by_key import each_key
from rs_assets.compile.process.touched import Shape, Touched
from rs_assets.compile.process.wire import NO_TIME
from rs_assets.compile.python.contract import RAISED
from rs_assets.compile.python.results import mapping
from rs_assets.records.columns import PREFIX, RETRACTED
from rs_assets.topology.nodes.table_reduce import Adders
from rs_assets.topology.user_code.stores import own

# The fields of a state besides the value: the number of rows of the key. Of a row: its input.
ROWS, INPUT = "rows of the key", f"{PREFIX}input"


def row_of(number: int) -> str:
    """The field with a row of an input."""
    return f"{PREFIX}row_{number}"


@dataclass(frozen=True, slots=True)
class ByGroup:
    """Adds rows to the value of each key, and subtracts those that go; runs in a Python worker.

    The rows of a key come with those that go first, so that a value never has a row twice.
    """

    adders: Adders
    fields: frozenset[str]
    shape: Shape

    def __call__(self, batch: pa.RecordBatch, watermark_ms: int = NO_TIME) -> bytes:  # noqa: ARG002  it has no time
        """The answer for a batch; StepError for what a function raised, or for a value that does not fit."""
        touched = Touched.of(batch, self.shape)
        answers = Answers(touched)
        for key, state, rows in each_key(touched):
            before = {name: state[name] for name in self.fields} if state else None
            try:
                value, count = self._reduced(key, before, state[ROWS] if state else 0, rows)
                # Values of their own: what a function returned may be what it changes for the next key.
                now = own(mapping(value, self.fields)) if count else None
            except RAISED as error:
                raise failed(self.shape, error, key, rows) from error
            answers.add(key, None if now is None else {**now, ROWS: count}, _changes(key, before, now))
        return answers.content()

    def _reduced(self, key: Row, before: Row | None, count: int, rows: list[Row]) -> tuple[Any, int]:
        value = own(before) if before is not None else self._begin()
        for row in rows:
            number = row[INPUT]
            adder, content = self.adders.of[number], row[row_of(number)]
            if not row[RETRACTED]:
                value, count = adder.add(key.copy(), content, value), count + 1
                continue
            if adder.subtract is None:
                raise self.shape.error("got a row that goes, and cannot subtract it")
            value, count = adder.subtract(key.copy(), content, value), count - 1
            if not count:
                value = self._begin()
        return value, count

    def _begin(self) -> Any:
        # A copy: it may be the same object for all keys, which functions change.
        return None if self.adders.initial is None else deepcopy(self.adders.initial())


def _changes(key: Row, before: Row | None, now: Row | None) -> list[Row]:
    """The row that goes and the row that comes; none if nothing has changed."""
    if before == now:
        return []
    return [
        {**key, **value, RETRACTED: retracted}
        for value, retracted in ((before, True), (now, False))
        if value is not None
    ]
