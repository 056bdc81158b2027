"""The keys that a batch touches: their states and their rows, and what a function returned for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.compile.process.wire import answer_of
from rs_assets.errors import StepError


@dataclass(frozen=True, slots=True)
class Shape:
    """A step's name, and the fields of its keys, its states, its rows and its results."""

    step: str
    keys: tuple[str, ...]
    rows: pa.Schema
    state: pa.Schema
    made: pa.Schema

    def error(self, what: str, remedy: str = "", **facts: object) -> StepError:
        """An error of the user's function."""
        return StepError(f"step {self.step!r} {what}", remedy=remedy, step=self.step, **facts)


@dataclass(frozen=True, slots=True)
class Touched:
    """A batch: one row a key, with its state (null if it has none) and the list of its rows, in order."""

    shape: Shape
    keys: pa.RecordBatch
    states: pa.RecordBatch
    rows: pa.RecordBatch
    # Where the rows of each key begin in `rows`, and where the last ones end.
    bounds: Sequence[int]
    # Whether each key has a state.
    kept: pa.Array = field(repr=False)

    @classmethod
    def of(cls, batch: pa.RecordBatch, shape: Shape) -> Touched:
        """The keys of `batch`, whose columns are key, state and rows; fields are known by their place."""
        key, state, rows = batch.columns
        key_types = [pa.field(name, key.type.field(place).type) for place, name in enumerate(shape.keys)]
        return cls(
            shape,
            _unpacked(key, pa.schema(key_types)),
            _unpacked(state, shape.state),
            _unpacked(rows.flatten(), shape.rows),
            rows.offsets.to_pylist(),
            state.is_valid(),
        )

    def answer(self, places: pa.Array, states: Sequence[pa.Array], made: pa.Table) -> bytes:
        """The content of the answer: new `states` of the keys at `places` (others have none), and the rows `made`."""
        kind = pa.struct([pa.field(each.name, each.type) for each in self.shape.state])
        packed = pa.StructArray.from_arrays(list(states), fields=list(kind))
        return answer_of(pa.RecordBatch.from_arrays([places.cast(pa.int32()), packed], names=["place", "state"]), made)

    def places_of(self, keys: pa.Table) -> pa.Array:
        """For each row of `keys` the place of its key; null if the batch has no such key."""
        codes, wanted = pa.array(np.zeros(self.keys.num_rows, np.int64)), pa.array(np.zeros(keys.num_rows, np.int64))
        for name in self.shape.keys:
            ours, theirs = _coded(self.keys.column(name), keys.column(name))
            known = pc.max(ours).as_py() or 0
            # Two keys are equal if all their fields have equal codes.
            both = pa.concat_arrays([pc.add(pc.multiply(codes, known + 2), ours), _with(wanted, theirs, known)])
            dense = both.dictionary_encode().indices.cast(pa.int64())
            codes, wanted = dense.slice(0, len(codes)), dense.slice(len(codes))
        return pc.index_in(wanted, value_set=codes)


def _with(wanted: pa.Array, theirs: pa.Array, known: int) -> pa.Array:
    """The codes of wanted keys with one field more; a value that no key has gets a code that none has."""
    return pc.add(pc.multiply(wanted, known + 2), pc.min_element_wise(theirs, pa.scalar(known + 1, pa.int64())))


def _coded(ours: pa.Array, theirs: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Numbers for the values of two arrays: equal values, also nulls, have equal numbers, in the order of `ours`."""
    chunks = [_one_zero(chunk) for chunk in (ours, *(chunk.cast(ours.type) for chunk in theirs.chunks))]
    indices = pa.concat_arrays(chunks).dictionary_encode(null_encoding="encode").indices.cast(pa.int64())
    return indices.slice(0, len(ours)), indices.slice(len(ours))


def _one_zero(values: pa.Array) -> pa.Array:
    """The same values with one zero and one NaN, which codes distinguish by their bits."""
    if not pa.types.is_floating(values.type):
        return values
    nan, zero = (pa.scalar(each, values.type) for each in (float("nan"), 0.0))
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))


def _unpacked(packed: pa.StructArray, schema: pa.Schema) -> pa.RecordBatch:
    """The members of a struct as columns; those of a null are null."""
    arrays = [pc.struct_field(packed, [place]) for place in range(packed.type.num_fields)]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)
