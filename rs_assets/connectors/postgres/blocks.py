"""Rows of many messages at once: their values become JSON column by column, in Arrow and without a loop over rows.

Values that are not written as most are (a text with a quote, the date infinity) are encoded one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.connectors.postgres.pgoutput import NEW, NO_VALUE, TEXT
from rs_assets.connectors.postgres.values import NULL, encoder

Places = npt.NDArray[np.int64]
# Messages that are mostly a whole row.
INSERT, UPDATE = b"IU"
# More bytes of messages have offsets of more than 32 bits, and few rows.
MOST_BYTES: Final = 1 << 28
# The bytes of a row before its first column.
_LEAST: Final = 8
# The bytes that may be read beyond a message that is shorter than those of rows.
_MARGIN: Final = 16
# Values of more bytes, on the whole, are taken one by one: the places of their bytes need far more memory than they do.
_SMALL: Final = 64


class PlainRows(NamedTuple):
    """Which messages are whole rows; of these which are Updates, and the texts of each column, null for no value."""

    plain: npt.NDArray[np.bool_]
    updates: npt.NDArray[np.bool_]
    columns: list[pa.BinaryArray]


@dataclass(frozen=True, slots=True)
class Page:
    """Messages that lie one after the other in `data`: where each begins, and its size."""

    data: npt.NDArray[np.uint8]
    starts: Places
    sizes: Places

    @classmethod
    def of(cls, messages: Sequence[bytes]) -> Page:
        """The messages, with a margin after them for what is read beyond short ones."""
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
        data = np.frombuffer(b"".join((*messages, bytes(_MARGIN))), np.uint8)
        return cls(data, np.cumsum(sizes) - sizes, sizes)

    def find(self, kind: int) -> list[int]:
        """Which messages have that first byte."""
        return np.flatnonzero(self.data[self.starts] == kind).tolist()

    def part(self, begin: int, end: int) -> Page:
        """The messages from `begin` up to `end`."""
        return Page(self.data, self.starts[begin:end], self.sizes[begin:end])

    def rows(self, relation: int, read: Sequence[bool]) -> PlainRows:
        """The Inserts, and the Updates without an old row, of a relation whose columns are `read` or not.

        Messages that need more care are not among them: an Update with its old row, or with values that it has not
        changed. None are if `read` is empty, or if the messages are very large.
        """
        data, starts = self.data, self.starts
        if not read or self.sizes.sum() > MOST_BYTES:
            none = np.zeros(len(starts), np.bool_)
            return PlainRows(none, none[:0], [])
        kinds = data[starts]
        plain = (self.sizes >= _LEAST) & ((kinds == INSERT) | (kinds == UPDATE)) & (data[starts + 5] == NEW)
        plain &= (_number(data, starts + 1, 4) == relation) & (_number(data, starts + 6, 2) == len(read))
        at, spans = starts + _LEAST, []
        for wanted in read:
            text = data[at] == TEXT
            plain &= text | (data[at] == NO_VALUE)
            size = np.where(plain & text, _number(data, at + 1, 4), 0)
            if wanted:
                spans.append((at + 5, size, text))
            at = np.where(plain, at + 1 + np.where(text, 4 + size, 0), starts)
        columns = [_texts(data, begin[plain], size[plain], text[plain]) for begin, size, text in spans]
        return PlainRows(plain, kinds[plain] == UPDATE, columns)


class Head(NamedTuple):
    """What lines of a transaction have before their number, those of an Insert and of an Update, and after it."""

    insert: bytes
    update: bytes
    tail: bytes


@dataclass(slots=True)
class Heads:
    """The heads of rows, and the number that each row has in its transaction."""

    heads: list[Head] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    # Of each row the place of its head.
    places: list[int] = field(default_factory=list)

    def add(self, head: Head, seq: int, count: int) -> None:
        """So many rows of a transaction, from the number `seq` on."""
        if count:
            self.places += [len(self.heads)] * count
            self.heads.append(head)
            self.seqs += range(seq, seq + count)

    def parts(self, updates: npt.NDArray[np.bool_]) -> list[pa.BinaryArray | bytes]:
        """What each row begins with: operation and place, number, time."""
        places = np.array(self.places, np.int64)
        inserts, changed, tails = zip(*self.heads, strict=True)
        heads = pa.array((*inserts, *changed), pa.binary()).take(pa.array(places + updates * len(inserts)))
        numbers = pa.array(self.seqs, pa.int64()).cast(pa.string()).cast(pa.binary())
        return [heads, numbers, pa.array(tails, pa.binary()).take(pa.array(places))]


def encoded(kind: str, values: pa.BinaryArray) -> pa.BinaryArray:
    r"""The JSON of texts of a column, for a field of the type `kind`; each is what `encoder` makes of it, or equal.

    >>> encoded("int", pa.array([b"7", None], pa.binary())).to_pylist()
    [b'7', b'null']
    """
    sure, made = _BY_KIND.get(kind, (_is_plain, _quoted))
    odd = pc.fill_null(pc.invert(sure(values)), fill_value=False)
    found = made(values)
    if pc.any(odd).as_py():
        encode = encoder(kind)
        others = pa.array([encode(value) for value in values.filter(odd).to_pylist()], pa.binary())
        found = pc.replace_with_mask(found, odd, others)
    return pc.fill_null(found, NULL)


def joined(*parts: pa.BinaryArray | bytes) -> pa.BinaryArray:
    """The parts of each row, one after the other; texts are in each row.

    >>> joined(b"<", pa.array([b"a", b"b"], pa.binary()), b">").to_pylist()
    [b'<a>', b'<b>']
    """
    made = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*made, pa.scalar(b"", pa.binary()))


def _number(data: npt.NDArray[np.uint8], at: Places, size: int) -> Places:
    found: Places = data[at[:, None] + np.arange(size)].view(f">u{size}").ravel().astype(np.int64)
    return found


def _texts(data: npt.NDArray[np.uint8], begin: Places, size: Places, valid: npt.NDArray[np.bool_]) -> pa.BinaryArray:
    """The bytes from each `begin` on, so many; null where it is not valid."""
    ends = np.cumsum(size)
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    if offsets[-1] > _SMALL * len(begin):
        view = data.data
        values = b"".join(view[at:end] for at, end in zip(begin.tolist(), (begin + size).tolist(), strict=True))
    else:
        values = data[np.repeat(begin - (ends - size), size) + np.arange(offsets[-1])]
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.BinaryArray.from_buffers(pa.binary(), len(begin), [bits, pa.py_buffer(offsets), pa.py_buffer(values)])


Test = Callable[[pa.BinaryArray], pa.BooleanArray]
Make = Callable[[pa.BinaryArray], pa.BinaryArray]


def _matching(pattern: str) -> Test:
    return lambda values: pc.match_substring_regex(values, pattern)


def _is_plain(values: pa.BinaryArray) -> pa.BooleanArray:
    """Whether a text needs no escapes; none is sure if one is not UTF-8."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([False] * len(values), pa.bool_())
    return pc.invert(pc.match_substring_regex(values, r'["\\\x00-\x1f]'))


def _quoted(values: pa.BinaryArray) -> pa.BinaryArray:
    return joined(b'"', values, b'"')


def _same(values: pa.BinaryArray) -> pa.BinaryArray:
    return values


def _truth(values: pa.BinaryArray) -> pa.BinaryArray:
    return pc.if_else(pc.equal(values, b"t"), b"true", b"false")


def _moment(values: pa.BinaryArray) -> pa.BinaryArray:
    made = pc.replace_substring(pc.replace_substring(values, " ", "T"), "+00", "Z")
    return _quoted(made)


_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME: Final = rf"{_DAY} [0-9:.]+"
_WHOLE: Final = (_matching("^(0|-?[1-9][0-9]{0,17})$"), _same)
# Not -0: as a whole number of JSON it would have no sign.
_REAL: Final = (_matching(r"^(0|-?[1-9][0-9]{0,15}|-?(0|[1-9][0-9]{0,15})\.[0-9]{1,17})$"), _same)
_MOMENT: Final = (_matching(rf"^{_TIME}(\+00)?$"), _moment)
# Which texts of a kind are sure to be written so.
_BY_KIND: Final[Mapping[str, tuple[Test, Make]]] = MappingProxyType(
    dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE)
    | dict.fromkeys(("float", "double"), _REAL)
    | dict.fromkeys(("timestamp", "timestamp_ntz"), _MOMENT)
    | {"boolean": (_matching("^[tf]$"), _truth), "date": (_matching(f"^{_DAY}$"), _quoted)}
    | {"binary": (_matching("^$"), _quoted)}
)
