"""Hints, /*+ ... */: those that change rows or state are refused, those that only change how rows are computed pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rs_assets.sql.read.source import Text

_NAME: Final = re.compile(r"([A-Za-z_]\w*)\s*(\([^)]*\))?")
# Ways to compute a join, or to spread rows, which are not SQL's matter here: rows are the same.
PASSED: Final = frozenset({
    "BROADCAST", "BROADCASTJOIN", "MAPJOIN", "SHUFFLE_HASH", "SHUFFLE_MERGE", "MERGE", "MERGEJOIN", "NEST_LOOP",
    "SHUFFLE_REPLICATE_NL", "COALESCE", "REPARTITION", "REPARTITION_BY_RANGE", "REBALANCE",
})  # fmt: skip
REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "OPTIONS": "write the options into WITH (...) of CREATE TABLE, of a second table if only this query needs them",
        "STATE_TTL": "leave it out, and bound what is kept: by a window, or in a join by a bound in time",
        "LOOKUP": "leave it out: a table is loaded when a batch begins, and a load that fails is repeated",
    }
)


def check_hints(text: Text) -> None:
    """SqlError, with its place, for a hint that is not read.

    >>> check_hints(Text("SELECT /*+ BROADCAST(d) */ a FROM t"))
    >>> check_hints(Text("SELECT a FROM t /*+ OPTIONS('path' = '/other') */"))
    Traceback (most recent call last):
    rs_assets.errors.SqlError: the hint OPTIONS is not supported [line=1, column=21]
      remedy: write the options into WITH (...) of CREATE TABLE, of a second table if only this query needs them
    """
    for remark in text.remarks():
        if not remark.group().startswith("/*+"):
            continue
        for name in _NAME.finditer(remark.group()[:-2], 3):
            if name[1].upper() not in PASSED:
                raise text.error(
                    f"the hint {name[1].upper()} is not supported",
                    remark.start() + name.start(),
                    remedy=REMEDIES.get(name[1].upper(), "leave it out"),
                )
