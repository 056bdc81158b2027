"""Tests without an index of their own: a column of truths for a whole batch."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.expressions.condition.bind import NEAR
from rs_assets.expressions.condition.networks import ADDRESS, Network, inside, network_of
from rs_assets.expressions.rules.atoms import Check, Interval, Test
from rs_assets.expressions.rules.batch import Batch, Bools
from rs_assets.expressions.rules.portable import portable

NEARNESS = float(NEAR.rstrip("D"))
_COMPARE: Mapping[str, str] = MappingProxyType(
    {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "=": "equal", "!=": "not_equal"}
)


def truths_of(test: Test, batch: Batch) -> Bools:
    """Whether `test`, an interval or a check, holds in each row."""
    if isinstance(test, Interval):
        values, there = batch.number(test.field)
        made: Bools = there & (values >= test.low) & (values <= test.high)
        return made
    assert isinstance(test, Check)  # others have an index
    kind, _, sign = test.kind.partition(" ")
    return CHECKS[kind](test, sign, batch)


def _filled(check: Check, _sign: str, batch: Batch) -> Bools:
    column = batch.columns[check.view.field]
    if pa.types.is_string(column.type):
        return _bools(pc.greater(pc.binary_length(batch.text(check.view)), 0))
    return _bools(column.is_valid())


def _text(check: Check, sign: str, batch: Batch) -> Bools:
    text = batch.text(check.view)
    return _bools(pc.and_(pc.not_equal(text, ""), getattr(pc, _COMPARE[sign])(text, str(check.value))))


def _boolean(check: Check, sign: str, batch: Batch) -> Bools:
    numbers = batch.columns[check.view.field].cast(pa.int8())
    return _bools(getattr(pc, _COMPARE[sign])(numbers, int(check.value)))


def _near(check: Check, _sign: str, batch: Batch) -> Bools:
    values, there = batch.number(check.view.field)
    made: Bools = there & (np.abs(values - float(check.value)) < NEARNESS)
    return made


def _network(check: Check, _sign: str, batch: Batch) -> Bools:
    network = network_of(str(check.value))
    codes, distinct = batch.coded(check.view)
    found = np.array([_inside(text, network) for text in distinct.to_pylist()] or [False])
    made: Bools = (codes >= 0) & found[np.maximum(codes, 0)]
    return made


def _inside(text: str, network: Network) -> bool:
    if network.version == 6:
        return inside(text, network)
    if not _address().search(text):
        return False
    if network.prefixlen == network.max_prefixlen and text != str(network.network_address):
        return False
    return ipaddress.IPv4Address(text.strip()) in network


@functools.cache
def _address() -> re.Pattern[str]:
    return portable(ADDRESS).compiled()


def _bools(column: Any) -> Bools:
    made: Bools = pc.fill_null(column, False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return made


CHECKS: Mapping[str, Callable[[Check, str, Batch], Bools]] = MappingProxyType(
    {"filled": _filled, "text": _text, "boolean": _boolean, "near": _near, "network": _network}
)
