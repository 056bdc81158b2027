"""What a user-defined function raised on a record, as the error of its step and as a reason in the dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rs_assets.common.errors_wire import to_wire
from rs_assets.compile.python.contract import remedy_for, text_of
from rs_assets.errors import StepError
from rs_assets.records.columns import LINE, OFFSET, SPLIT, visible
from rs_assets.records.rows import MisfitError

# The most characters of a record, or of a reason, that are shown.
SHOWN = 500


def reason_of(step: str, error: BaseException) -> str:
    """The reason of a dead letter: what `step` raised."""
    return _clean(_what(step, error))[:SHOWN]


def raised(step: str, error: BaseException, row: pa.RecordBatch, record: Mapping[str, Any]) -> RuntimeError:
    """The error, to be raised in a worker, for a `record` on which `step` failed.

    `row` is its only row in the batch, which may have the position of the record.
    """
    position = {
        name.removeprefix("_rs_"): row.column(name)[0].as_py()
        for name in (SPLIT, LINE, OFFSET)
        if name in row.schema.names
    }
    wire = StepError(
        _clean(_what(step, error)),
        remedy=remedy_for(error, visible(list(record))),
        step=step,
        record=_clean(repr(record))[:SHOWN],
        **position,
    )
    return RuntimeError(to_wire(wire))


def _what(step: str, error: BaseException) -> str:
    """The error text; the name of the step is parsed from it where steps share a filter: see `BLAMED`."""
    if isinstance(error, MisfitError):
        return f"step {step!r} returned a record that does not fit its schema: {error.text}"
    return f"step {step!r} raised {type(error).__name__}: {text_of(error)}"


def _clean(text: str) -> str:
    """`text` without lone surrogates, which no file and no table accepts."""
    return text.encode("utf-8", "backslashreplace").decode()
