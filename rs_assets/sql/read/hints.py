"""Hints, /*+ ... */: refused if they change rows or state, ignored if they only change how rows are computed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rs_assets.sql.read.source import Text

_NAME: Final = re.compile(r"([A-Za-z_]\w*)\s*(\([^)]*\))?")
# Hints for join algorithms and partitioning are ignored: the result is the same.
PASSED: Final = frozenset({
    "BROADCAST", "BROADCASTJOIN", "MAPJOIN", "SHUFFLE_HASH", "SHUFFLE_MERGE", "MERGE", "MERGEJOIN", "NEST_LOOP",
    "SHUFFLE_REPLICATE_NL", "COALESCE", "REPARTITION", "REPARTITION_BY_RANGE", "REBALANCE",
})  # fmt: skip
REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "OPTIONS": "put the options into WITH (...) of CREATE TABLE; if only this query needs them, of a second table",
        "STATE_TTL": "remove it, and bound the state with a window, or with a time bound in a join",
        "LOOKUP": "remove it: a table is loaded at the start of a batch, and a failed load is retried",
    }
)


def check_hints(text: Text) -> None:
    """SqlError, with its position, for an unsupported hint.

    >>> check_hints(Text("SELECT /*+ BROADCAST(d) */ a FROM t"))
    >>> check_hints(Text("SELECT a FROM t /*+ OPTIONS('path' = '/other') */"))
    Traceback (most recent call last):
    rs_assets.errors.SqlError: the hint OPTIONS is not supported [line=1, column=21]
      remedy: put the options into WITH (...) of CREATE TABLE; if only this query needs them, of a second table
    """
    for remark in text.remarks():
        if not remark.group().startswith("/*+"):
            continue
        for name in _NAME.finditer(remark.group()[:-2], 3):
            if name[1].upper() not in PASSED:
                raise text.error(
                    f"the hint {name[1].upper()} is not supported",
                    remark.start() + name.start(),
                    remedy=REMEDIES.get(name[1].upper(), "remove it"),
                )
