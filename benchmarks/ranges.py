"""Lookups by networks and intervals: what finding a row costs, beside DuckDB's join by the same ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.bench import Bench
from benchmarks.data import SEED
from benchmarks.measure import MICROSECONDS, DifferentResultsError, Figure
from rs_assets import Network, Range
from rs_assets.operators.dimension.ranges import build, open_index

NAME = "lookups by networks and ranges"
MOST, LEAST, BATCH = 1_000_000, 1_000, 10_000
# Of so many lookups one network; so many intervals follow one another for each key.
SHARE, EACH = 10, 10
# The share of addresses that are in a network that was drawn, and the prefixes of networks of IPv4 and of IPv6.
INSIDE, FOUR, SIX = 0.7, (12, 28), (24, 56)
# Addresses of IPv6 differ in their first 64 bits only, so that DuckDB has them as numbers.
BITS = {4: 32, 6: 64}
NETWORKS_SQL = """
    SELECT sum(n) FROM (
        SELECT nets.n, rank() OVER (PARTITION BY asked.a ORDER BY nets.prefix DESC) AS place
        FROM asked JOIN nets ON asked.family = nets.family AND asked.at BETWEEN nets.low AND nets.high
    ) WHERE place = 1
"""
INTERVALS_SQL = """
    SELECT sum(n) FROM asked JOIN spans ON asked.key = spans.key AND asked.at >= spans.since AND asked.at < spans.until
"""


def range_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    rows = max(min(bench.rows // 2, MOST), LEAST)
    for made in (_networks(rows), _intervals(rows)):
        bench.say(f"{NAME}: {made.what}")
        with bench.place() as folder:
            build_s, _ = _timed(partial(build, made.table, made.keys, folder))
            ours = _taken(partial(_in_ours, made, folder), rows)
        other = _taken(partial(_in_duckdb, made), rows)
        if ours[1] != other[1]:
            raise DifferentResultsError(f"our rows add up to {ours[1]}, those of DuckDB to {other[1]}")
        yield Figure(
            benchmark=NAME, what=f"processor time of finding {made.what}", value=ours[0], unit="µs",
            note=f"{MICROSECONDS / ours[0]:,.0f} rows/s on one core; the index took {build_s:.1f} s",
        )  # fmt: skip
        yield Figure(
            benchmark=NAME, what=f"the same by DuckDB's join, {made.other}", value=other[0], unit="µs",
            note=f"{MICROSECONDS / other[0]:,.0f} rows/s on one core",
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """A dimension, what is looked up in it, and the same for DuckDB: tables by name, and a query for the sum of `n`."""

    what: str
    other: str
    table: pa.Table
    keys: Sequence[str | Network | Range]
    probes: Sequence[pa.Array]
    given: Mapping[str, pa.Table]
    query: str


def _taken(run: Callable[[], int], rows: int) -> tuple[float, int]:
    """Processor microseconds a row of a second run, and its result."""
    run()
    seconds, found = _timed(run)
    return max(seconds / rows * MICROSECONDS, 0.001), found


def _timed(run: Callable[[], int]) -> tuple[float, int]:
    """Processor seconds of this process and its threads, and the result."""
    began = time.process_time()
    found = run()
    return time.process_time() - began, found


def _in_ours(made: Lookups, folder: Path) -> int:
    index, total = open_index(folder, made.keys), 0
    for begin in range(0, len(made.probes[0]), BATCH):
        _, rows = index.find([each.slice(begin, BATCH) for each in made.probes])
        total += pc.sum(index.values("n", rows)).as_py() or 0
    return total


def _in_duckdb(made: Lookups) -> int:
    with duckdb.connect() as connection:
        for name, table in made.given.items():
            connection.register(name, table)
        found = connection.execute(made.query).fetchone()
    return int(found[0] or 0) if found else 0


def _networks(rows: int) -> Lookups:
    drawn, count = Random(SEED), rows // SHARE
    nets = [_network(drawn, 4 if number % 2 else 6) for number in range(count)]
    asked = [_address(drawn, nets) for _ in range(rows)]
    low = [number for _, number, _ in nets]
    high = [number + (1 << (BITS[family] - prefix)) - 1 for family, number, prefix in nets]
    families, prefixes = [family for family, _, _ in nets], [prefix for _, _, prefix in nets]
    places = pa.array(range(count), pa.int64())
    numbers = {"family": families, "low": pa.array(low, pa.uint64()), "high": pa.array(high, pa.uint64())}
    texts = [f"{_text(family, number)}/{prefix}" for family, number, prefix in nets]
    wanted = {"family": [family for family, _ in asked], "at": pa.array([at for _, at in asked], pa.uint64())}
    return Lookups(
        what=f"the longest of {count:,} networks around an address, half of IPv6",
        other="with addresses and networks as numbers",
        table=pa.table({"cidr": texts, "n": places}),
        keys=[Network("cidr")],
        probes=[pa.array([_text(family, at) for family, at in asked])],
        given={"nets": pa.table({**numbers, "prefix": prefixes, "n": places}),
               "asked": pa.table({**wanted, "a": pa.array(range(rows), pa.int64())})},
        query=NETWORKS_SQL,
    )  # fmt: skip


def _network(drawn: Random, family: int) -> tuple[int, int, int]:
    """The family, the first address as a number, and the prefix."""
    prefix = drawn.randint(*(FOUR if family == 4 else SIX))
    free = BITS[family] - prefix
    return family, drawn.getrandbits(prefix) << free, prefix


def _address(drawn: Random, nets: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    family, first, prefix = drawn.choice(nets)
    if drawn.random() < INSIDE:
        return family, first | drawn.getrandbits(BITS[family] - prefix)
    return family, drawn.getrandbits(BITS[family])


def _text(family: int, number: int) -> str:
    if family == 4:
        return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
    # Eight groups at most, the last ones zero.
    return ":".join(f"{number >> shift & 65535:x}" for shift in (48, 32, 16, 0)) + "::"


def _intervals(rows: int) -> Lookups:
    pick, keys = np.random.default_rng(SEED), max(rows // EACH, 1)
    names = np.array([f"k{number}" for number in range(keys)])
    since = np.arange(keys * EACH) % EACH * 100
    table = pa.table({
        "key": np.repeat(names, EACH), "since": since, "until": since + pick.integers(50, 101, keys * EACH),
        "n": np.arange(keys * EACH),
    })  # fmt: skip
    asked = pa.table({"key": names[pick.integers(0, keys, rows)], "at": pick.integers(0, EACH * 100, rows)})
    return Lookups(
        what=f"one of {keys * EACH:,} intervals of {keys:,} keys around a value",
        other="by key and interval",
        table=table,
        keys=["key", Range("since", "until")],
        probes=[column.combine_chunks() for column in asked.columns],
        given={"spans": table, "asked": asked},
        query=INTERVALS_SQL,
    )
