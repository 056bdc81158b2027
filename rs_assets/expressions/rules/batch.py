"""The columns of an Arrow batch as rules look at them, each prepared once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.expressions.rules.atoms import LOWER, RAW, View

Bools = np.ndarray[Any, np.dtype[np.bool_]]
Ints = np.ndarray[Any, np.dtype[np.int64]]


class Batch:
    """One batch; `columns` are its fields by name, of equal length."""

    def __init__(self, columns: Mapping[str, pa.Array], rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._texts: dict[View, pa.Array] = {}
        self._coded: dict[View, tuple[Ints, pa.Array]] = {}
        self._numbers: dict[str, tuple[Any, Bools]] = {}

    def text(self, view: View) -> pa.Array:
        """The field as text."""
        if view not in self._texts:
            made = self.columns[view.field]
            made = made if pa.types.is_string(made.type) else made.cast(pa.string())
            if view.form != RAW:
                made = pc.utf8_trim(made, characters=" ")
            if view.form == LOWER:
                # Arrow's own lower maps characters one by one.
                made = pa.array([None if text is None else text.lower() for text in made.to_pylist()], pa.string())
            self._texts[view] = made
        return self._texts[view]

    def coded(self, view: View) -> tuple[Ints, pa.Array]:
        """The number of each row's text among the distinct ones, -1 for null, and the distinct texts."""
        if view not in self._coded:
            made = self.text(view).dictionary_encode()
            codes = pc.fill_null(made.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
            self._coded[view] = codes, made.dictionary
        return self._coded[view]

    def number(self, name: str) -> tuple[Any, Bools]:
        """The field as 64-bit numbers, with infinity for NaN, and where it is there."""
        if name not in self._numbers:
            column = self.columns[name]
            there = column.is_valid().to_numpy(zero_copy_only=False)
            floating = pa.types.is_floating(column.type)
            filled = pc.fill_null(column, 0).cast(pa.float64() if floating else pa.int64())
            values = filled.to_numpy(zero_copy_only=False)
            self._numbers[name] = (np.where(np.isnan(values), np.inf, values) if floating else values), there
        return self._numbers[name]


def batch_of(names: Sequence[str], columns: Sequence[pa.Array]) -> Batch:
    """The batch of these columns."""
    return Batch(dict(zip(names, columns, strict=True)), len(columns[0]))
