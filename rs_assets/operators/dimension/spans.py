"""Addresses, networks and intervals as arrays of values that have an order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from socket import AF_INET, AF_INET6, inet_pton
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from rs_assets.operators.dimension.hashing import comparable
from rs_assets.operators.dimension.keys import Containing, Network, Range

# An address is its family in a byte, then its bytes: so those of one family are together, in their order.
FOUR, SIX = b"\4", b"\6"
ADDRESS = "S17"
MAPPED, MAPPED_BITS = b"\0" * 10 + b"\xff\xff", 96

Values = np.ndarray[Any, Any]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Spans:
    """The interval of each row of a dimension, `low` to `high`.

    `opens` and `ends` say where an end exists, `closed` whether `high` is included. `width` orders intervals by how
    much they contain; `valid` says which rows have an interval at all, `given` which should have.
    """

    low: Values
    high: Values
    opens: Bools
    ends: Bools
    width: Values
    closed: bool
    valid: Bools
    given: Bools

    def only_valid(self) -> Self:
        """The spans of the rows that have one."""
        arrays = {name: getattr(self, name)[self.valid] for name in ARRAYS}
        return replace(self, **arrays)


ARRAYS = ("low", "high", "opens", "ends", "width", "given", "valid")


def values_of(column: pa.Array, key: Containing) -> tuple[Values, Bools]:
    """The values of a stream in the order of the spans of `key`, and where there is one.

    >>> values, there = values_of(pa.array(["10.0.0.1", "::ffff:10.0.0.1", "no", None]), Network("cidr"))
    >>> bool(values[0] == values[1]), there.tolist()
    (True, [True, True, False, False])
    """
    if isinstance(key, Network):
        found = _addresses(column.to_pylist())
        return found, found != b""
    return _numbers(column)


def spans_of(table: pa.Table, key: Containing) -> Spans:
    """The span of each row of a dimension."""
    columns = [table[name].combine_chunks() for name in key.fields]
    return _networks(columns[0]) if isinstance(key, Network) else _intervals(columns[0], columns[1], key)


def packed_address(text: str | None) -> bytes:
    r"""An address as its family and its bytes; empty if it is not one. An IPv4-mapped one is one of IPv4.

    >>> packed_address("1.2.3.4"), packed_address("::ffff:1.2.3.4"), packed_address("1.2.3")
    (b'\x04\x01\x02\x03\x04', b'\x04\x01\x02\x03\x04', b'')
    """
    plain = (text or "").strip()
    try:
        if ":" not in plain:
            return FOUR + inet_pton(AF_INET, plain)
        whole = inet_pton(AF_INET6, plain)
    except (OSError, ValueError):
        return b""
    return FOUR + whole[12:] if whole.startswith(MAPPED) else SIX + whole


def packed_network(text: str | None) -> tuple[bytes, bytes, int] | None:
    r"""The first and the last address of a network, and how many bits they may differ in; None if it is not one.

    >>> packed_network("10.1.2.3/8")
    (b'\x04\n\x00\x00\x00', b'\x04\n\xff\xff\xff', 24)
    """
    plain, slash, length = (text or "").strip().partition("/")
    address = packed_address(plain)
    bits = 128 if ":" in plain else 32
    prefix = int(length) if re.fullmatch("[0-9]{1,3}", length) else -1 if slash else bits
    if not address or not 0 <= prefix <= bits:
        return None
    if bits == 128 and address.startswith(FOUR):
        # A mapped network that has other addresses as well is one of IPv6.
        address = address if prefix >= MAPPED_BITS else SIX + MAPPED + address[1:]
    free = bits - prefix
    number, mask = int.from_bytes(address[1:], "big"), (1 << free) - 1
    ends = ((number & ~mask), (number | mask))
    low, high = (address[:1] + each.to_bytes(len(address) - 1, "big") for each in ends)
    return low, high, free


def _addresses(texts: Iterable[str | None]) -> Values:
    return np.array([packed_address(text) for text in texts], ADDRESS)


def _networks(column: pa.Array) -> Spans:
    found = [packed_network(text) for text in column.to_pylist()]
    low, high = (np.array([each[end] if each else b"" for each in found], ADDRESS) for end in (0, 1))
    valid = np.array([each is not None for each in found], np.bool_)
    every = np.ones(len(found), np.bool_)
    width = np.array([each[2] if each else 0 for each in found], np.int64)
    return Spans(low, high, every, every, width, closed=True, valid=valid, given=_valid(column))


def _intervals(low: pa.Array, high: pa.Array, key: Range) -> Spans:
    (first, opens), (last, ends) = (_numbers(each) for each in (low, high))
    known = (opens | ~_valid(low)) & (ends | ~_valid(high))
    inside = first <= last if key.closed else first < last
    valid = known & (inside | ~(opens & ends))
    if first.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            width = np.where(ends, last, np.inf) - np.where(opens, first, -np.inf)
        # Between two equal infinities is nothing.
        width = np.where(np.isnan(width), 0.0, width)
    else:
        most = np.iinfo(first.dtype)
        # The difference of two signed numbers fits an unsigned one.
        width = (np.where(ends, last, most.max).astype(np.int64).view(np.uint64)
                 - np.where(opens, first, most.min).astype(np.int64).view(np.uint64))  # fmt: skip
    every = np.ones(len(first), np.bool_)
    return Spans(first, last, opens, ends, width, closed=key.closed, valid=valid, given=every)


def _numbers(column: pa.Array) -> tuple[Values, Bools]:
    """Numbers and times as numbers; a null and a NaN are not there."""
    there = _valid(column)
    if kinds.is_floating(column.type):
        floats = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
        return floats, there & ~np.isnan(floats)
    whole = pc.fill_null(comparable(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return whole, there


def _valid(column: pa.Array) -> Bools:
    made: Bools = column.is_valid().to_numpy(zero_copy_only=False).astype(np.bool_)
    return made
