"""Lines of logs: grok of an access log, beside a pattern by hand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.bench import Bench
from benchmarks.data import SEED
from benchmarks.measure import Figure, compare
from rs_assets.compile.script import applied
from rs_assets.expressions.script.bind import bound_script

NAME = "lines of logs"
MOST, LEAST = 500_000, 1_000
GROK = "grok(line,'%{COMMONAPACHELOG}')"
FIELDS = ("clientip", "ident", "auth", "timestamp", "verb", "request", "httpversion", "response", "bytes")
# What a person would write for the same fields: it accepts more lines.
BY_HAND = r'^(\S+) (\S+) (\S+) \[([^\]]+)\] "(\S+) (\S+) HTTP/([0-9.]+)" ([0-9]{3}) ([0-9]+)$'
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def log_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    rows = max(min(bench.rows, MOST), LEAST)
    with bench.place() as folder:
        file = folder / "lines.parquet"
        pq.write_table(pa.table({"line": _lines(rows)}), file)
        bench.say(f"{NAME}: {rows:,} lines")
        result = compare(
            lambda: bench.driver.call(lambda spark: _digest(_by_grok(_read(spark, file)))),
            lambda: bench.driver.call(lambda spark: _digest(_by_hand(_read(spark, file)))),
            pairs=bench.pairs,
            warm_up=bench.warm_up,
        )
    note = f"{rows:,} lines: {result.note}"
    what = f"an access log by grok, {len(FIELDS)} fields, against regexp_extract for each field"
    yield Figure(benchmark=NAME, what=what, value=result.ratio, unit="x", note=note)


def _read(spark: SparkSession, file: Path) -> DataFrame:
    return spark.read.parquet(str(file))


def _by_grok(lines: DataFrame) -> DataFrame:
    return reduce(applied, bound_script(GROK, {"line": "string"}, step="grok").steps, lines)


def _by_hand(lines: DataFrame) -> DataFrame:
    return lines.select(*(F.regexp_extract("line", BY_HAND, n).alias(name) for n, name in enumerate(FIELDS, 1)))


def _digest(frame: DataFrame) -> int:
    """A number that all values of all rows decide."""
    found = frame.agg(F.bit_xor(F.xxhash64(*FIELDS))).first()
    assert found is not None
    return int(found[0])


def _lines(rows: int) -> list[str]:
    drawn = Random(SEED)
    return [
        f"10.{drawn.randrange(256)}.{drawn.randrange(256)}.{drawn.randrange(1, 255)} - u{drawn.randrange(1000)}"
        f" [{drawn.randrange(10, 29)}/{drawn.choice(MONTHS)}/2026:10:{drawn.randrange(10, 60)}:00"
        f' +0000] "{drawn.choice(["GET", "POST"])} /p/{drawn.randrange(10_000)}?q={drawn.random():.6f} HTTP/1.1"'
        f" {drawn.choice([200, 200, 304, 404, 500])} {drawn.randrange(100_000)}"
        for _ in range(rows)
    ]
