"""All queries by name, and as pipelines: nexmark.q0, nexmark.q1...

`python -m pipelines.nexmark.generator` writes their events. With NEXMARK_SOURCE=kafka they are read from the brokers in
RS_KAFKA, which `python -m pipelines.nexmark.topics` fills.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from pipelines.nexmark import joins, stateless, updates, windows
from pipelines.nexmark.sources import LONGEST_AUCTION, Events, Origin, default_origin
from rs_assets import StreamBuilder

if TYPE_CHECKING:
    from rs_assets import Pipeline
    from rs_assets.stream.data_stream import DataStream

QUERIES: Mapping[str, Callable[[Events], DataStream]] = MappingProxyType(
    {
        "q0": stateless.q0,
        "q1": stateless.q1,
        "q2": stateless.q2,
        "q3": joins.q3,
        "q4": joins.q4,
        "q5": windows.q5,
        "q6": joins.q6,
        "q7": windows.q7,
        "q8": windows.q8,
        "q9": joins.q9,
        "q10": stateless.q10,
        "q11": windows.q11,
        "q12": windows.q12,
        "q13": joins.q13,
        "q14": stateless.q14,
        "q15": updates.q15,
        "q16": updates.q16,
        "q17": updates.q17,
        "q18": stateless.q18,
        "q19": updates.q19,
        "q20": joins.q20,
        "q21": stateless.q21,
        "q22": stateless.q22,
    }
)


def nexmark(query: str, origin: Origin, *, longest_auction: timedelta = LONGEST_AUCTION) -> Pipeline:
    """The pipeline of one query over the events of `origin`, with no auction open for longer than `longest_auction`."""
    begin = StreamBuilder.data_stream("nexmark", query)
    return QUERIES[query](Events(begin=begin, origin=origin, longest_auction=longest_auction)).build()


PIPELINES = tuple(nexmark(query, default_origin()) for query in QUERIES)
