"""Compact storage for text and bytes of a version: packs a column, and unpacks some of its values."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.operators.dimension.hashing import OFFSETS

# The key in a field's metadata with the encoding. Without it values are stored as they are.
FORM: Final = b"rs_form"
# All values have one length: no offsets. And all are lower-case hexadecimal digits: two in a byte.
FIXED, HEX = b"fixed", b"hex"
# The sample size when looking for frequent values.
SAMPLE = 100_000
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
# The digit of each byte, 255 for none; and the two bytes of each pair of digits.
_DIGIT_OF = np.full(256, 255, np.uint8)
_DIGIT_OF[_DIGITS] = np.arange(16, dtype=np.uint8)
_PAIRS = np.stack([np.repeat(_DIGITS, 16), np.tile(_DIGITS, 16)], axis=1).copy().view(np.uint16).ravel()
_WHOLE = (pa.int8(), pa.int16(), pa.int32())


def packed(column: pa.Array, name: str) -> tuple[pa.Array, pa.Field]:
    """`column` in its smallest encoding, and its field in the file.

    >>> array, field = packed(pa.array(["00ff", "abcd"]), "id")
    >>> array.type, unpacked(array, field).to_pylist()
    (FixedSizeBinaryType(fixed_size_binary[2]), ['00ff', 'abcd'])
    """
    kept, form = column, b""
    if column.type in OFFSETS and len(column):
        even, even_form = _even(column)
        few = _few(column)
        kept, form = min(((column, b""), (even, even_form), (few, b"")), key=lambda each: each[0].nbytes)
    told = {FORM: form + b" " + str(column.type).encode()} if form else None
    return kept, pa.field(name, kept.type, metadata=told)


def unpacked(column: pa.Array, field: pa.Field) -> pa.Array:
    """Values taken out of a packed column, in their original form."""
    form, _, kind = (field.metadata or {}).get(FORM, b"").partition(b" ")
    if isinstance(column, pa.DictionaryArray):
        return column.dictionary_decode()
    if not form:
        return column
    width = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * width : (column.offset + len(column)) * width]
    if form == HEX:
        data, width = _PAIRS[data].view(np.uint8), width * 2
    of = pa.type_for_alias(kind.decode())
    ends = np.arange(0, width * len(column) + 1, width, dtype=OFFSETS[of])
    return pa.Array.from_buffers(of, len(column), [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _even(column: pa.Array) -> tuple[pa.Array, bytes]:
    """`column` without offsets, if all values have one length."""
    places: Any = np.frombuffer(column.buffers()[1], OFFSETS[column.type])
    ends = places[column.offset : column.offset + len(column) + 1]
    width = int(ends[1] - ends[0])
    if column.null_count or not width or not (np.diff(ends) == width).all():
        return column, b""
    data = np.frombuffer(column.buffers()[2], np.uint8)[ends[0] : ends[-1]]
    digits = _DIGIT_OF[data] if width % 2 == 0 else None
    if digits is None or digits.max() == 255:
        return _fixed(data, width, len(column)), FIXED
    return _fixed((digits[0::2] << 4) | digits[1::2], width // 2, len(column)), HEX


def _fixed(data: Any, width: int, rows: int) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(np.ascontiguousarray(data))])


def _few(column: pa.Array) -> pa.Array:
    """`column` as numbers of its distinct values, if there are few."""
    sample = column.slice(0, SAMPLE)
    if pc.count_distinct(sample).as_py() > len(sample) // 2:
        return column
    made = column.dictionary_encode()
    kind = next(kind for kind in _WHOLE if len(made.dictionary) < 1 << (kind.bit_width - 1))
    return pa.DictionaryArray.from_arrays(made.indices.cast(kind), made.dictionary)
