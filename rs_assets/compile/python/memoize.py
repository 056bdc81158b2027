"""Calls a pure function of one field once for each distinct value, if those are few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

# Values are few if they are at most one in FEWER rows, checked on the first rows first.
SAMPLE, FEWER = 1_000, 4


def once_each(column: pa.Array, told: Callable[[Any], Any], kind: type) -> np.ndarray | None:
    """The result of `told` for the value of each row, as an array of `kind`; raises what it raises.

    Values are evaluated in the order of their first occurrence. Returns None, without a call, if they are not few, or
    of a type whose equal values may differ, as 0.0 and -0.0 do.

    >>> once_each(pa.array(["/a", "/b", None, "/a"] * 4), lambda value: value == "/a", bool)[:4].tolist()
    [True, False, False, True]
    """
    if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
        return None
    first = column.slice(0, SAMPLE)
    if not _are_few(first.unique(), first):
        return None
    encoded = column.dictionary_encode(null_encoding="encode")
    if not _are_few(encoded.dictionary, column):
        return None
    answers = [told(value) for value in encoded.dictionary.to_pylist()]
    each: np.ndarray = np.array(answers, kind)[encoded.indices.to_numpy()]
    return each


def _are_few(values: pa.Array, rows: pa.Array) -> bool:
    return len(values) * FEWER <= len(rows)
