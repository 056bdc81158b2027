"""What is wrong with the networks and intervals of a dimension, for people."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rs_assets.operators.dimension.keys import Key, Network, Range, parted
from rs_assets.operators.dimension.ranges import Line, numbered, usable_spans
from rs_assets.operators.dimension.spans import spans_of


def unusable(table: pa.Table, keys: Sequence[Key]) -> str | None:
    """How many rows have a network that is not one, or an empty interval, with an example; None if all are usable.

    >>> unusable(pa.table({"cidr": ["10.0.0.0/8", "10.0.0.0/40", None]}), [Network("cidr")])
    "1 of its rows has no network, '10.0.0.0/40'"
    """
    _, containing = parted(keys)
    if containing is None:
        return None
    spans = spans_of(table, containing)
    bad = np.flatnonzero(spans.given & ~spans.valid)
    if not len(bad):
        return None
    first = _shown(table, containing.fields, int(bad[0]))
    what = "no network" if isinstance(containing, Network) else "an empty interval"
    if len(bad) == 1:
        return f"1 of its rows has {what}, {first}"
    return f"{len(bad)} of its rows have {what}, first {first}"


def crossing(table: pa.Table, keys: Sequence[Key]) -> str | None:
    """Two intervals that overlap while neither contains the other; None if there are none.

    >>> rows = pa.table({"low": [1, 3, 4], "high": [9, 5, 7]})
    >>> crossing(rows, [Range("low", "high")])
    '3 to 5 and 4 to 7'
    """
    equal, containing = parted(keys)
    if not isinstance(containing, Range):
        return None
    table, spans = usable_spans(table, equal, containing)
    line_of, _ = numbered(table, equal)
    first, last = Line.of(spans, line_of).cells_of(spans, line_of)
    order = np.lexsort((-last, first))
    # The intervals that contain the present one, the widest first.
    around: list[int] = []
    for row in order.tolist():
        while around and last[around[-1]] < first[row]:
            around.pop()
        if around and last[around[-1]] < last[row]:
            return " and ".join(_shown(table, containing.fields, each) for each in (around[-1], row))
        around.append(row)
    return None


def _shown(table: pa.Table, fields: Sequence[str], row: int) -> str:
    values = [table[name][row].as_py() for name in fields]
    if len(values) == 1:
        return repr(values[0])
    return " to ".join("open" if each is None else str(each) for each in values)
