"""Sets of rules: what judging a row costs with ten, a thousand and ten thousand of them, and in Spark and DuckDB."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.bench import Bench
from benchmarks.data import SEED
from benchmarks.measure import MICROSECONDS, Figure, timed
from benchmarks.rule_workers import cost, worker_figures
from rs_assets.expressions.condition.bind import condition_sql
from rs_assets.expressions.rules.rule_set import rule_set_of

NAME = "rules"
TYPES = {"cmd": "string", "user": "string", "city": "string", "ms": "bigint", "size": "double"}
FEW, MANY, MOST = 10, 1_000, 10_000
# What each set may cost a row, as a multiple of the smallest one.
TARGETS = {MANY: 1.5, MOST: 3.0}
# Systems that test each rule alone get fewer of them.
ALONE = 100


def rule_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    rows = min(bench.rows // 20, 100_000)
    table = _table(max(rows, 1_000), Random(SEED))
    first = 0.0
    for count in (FEW, MANY, MOST):
        bench.say(f"{NAME}: {count:,} rules")
        began = time.perf_counter()
        made = rule_set_of(pa.table(_rules(count)), TYPES, step="judge")
        compiled = time.perf_counter() - began
        each, held = cost(made.compiled, table, list(TYPES))
        first = first or each
        yield Figure(
            benchmark=NAME, what=f"processor time of judging a row by {count:,} rules, in Python's part of the step",
            value=each, unit="µs", target=None if count == FEW else TARGETS[count] * first,
            note=f"{held / table.num_rows:.3f} rules hold a row; compiled in {compiled:.1f} s",
        )  # fmt: skip
    bench.say(f"{NAME}: in a worker")
    yield from worker_figures(bench, made, _rules(MOST), _rules(MOST - 1), table, TYPES)
    bench.say(f"{NAME}: Spark and DuckDB, {ALONE} rules")
    alone: Sequence[tuple[str, Callable[[], int]]] = (
        ("Spark, a filter each", lambda: bench.driver.call(lambda spark: _in_spark(spark, table))),
        ("DuckDB, a filter each", lambda: _in_duckdb(table)),
    )
    for name, run in alone:
        run()
        taken = timed(run)[0].cpu_s / table.num_rows * MICROSECONDS
        what = f"processor time of judging a row by {ALONE} rules: {name}"
        yield Figure(benchmark=NAME, what=what, value=taken, unit="µs")


def _in_spark(spark: SparkSession, table: pa.Table) -> int:
    each = [F.when(F.expr(condition_sql(text, TYPES, step="judge")), name) for name, text in _pairs(ALONE)]
    frame = spark.createDataFrame(table).select(F.size(F.array_compact(F.array(*each))).alias("held"))
    return int(frame.agg(F.sum("held")).first()[0] or 0)  # type: ignore[index]


def _in_duckdb(table: pa.Table) -> int:
    each = " + ".join(f"CAST(({_duck(text)}) AS int)" for _, text in _pairs(ALONE))
    with duckdb.connect() as connection:
        connection.register("lines", table)
        found = connection.execute(f"SELECT sum({each}) FROM lines").fetchone()
    return int(found[0]) if found else 0


def _duck(condition: str) -> str:
    """A generated condition in DuckDB's words."""
    made = re.sub(
        r"(trim\(`cmd`\)) rlike ('[^']*')", r"regexp_matches(\1, \2)", condition_sql(condition, TYPES, step="judge")
    )
    return re.sub(r"(\d)D\b", r"\1", made).replace("`", '"').replace("\\\\", "\\")


def _pairs(count: int) -> list[tuple[str, str]]:
    made = _rules(count)
    return list(zip(made["rule"], made["condition"], strict=True))


def _words() -> list[str]:
    drawn = Random(1)
    return ["".join(drawn.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(4_000)]


def _rules(count: int) -> dict[str, list[str]]:
    """Rules of a pattern or a user, most with limits and lists."""
    drawn, words = Random(count), _words()
    made = []
    for _ in range(count):
        pattern = drawn.choice([f"{drawn.choice(words)}.*{drawn.choice(words)}", rf"/tmp/{drawn.choice(words)}\.sh$"])
        tests = [f"(cmd,regex,'{pattern}')" if drawn.random() < 0.6 else f"(user,=,u{drawn.randrange(2_000)})"]
        tests += [f"(ms,>,{drawn.randrange(0, 10_000, 100)})"] * (drawn.random() < 0.7)
        cities = ",".join(f"c{each}" for each in drawn.sample(range(200), 5))
        tests += [f"(city,in,'{cities}')"] * (drawn.random() < 0.5)
        tests += [f"(size,<,{drawn.randrange(0, 1_000_000, 1_000)})"] * (drawn.random() < 0.3)
        tests += [f"(user,!=,u{drawn.randrange(2_000)})"] * (drawn.random() < 0.2)
        made.append("&".join(tests))
    return {"rule": [f"r{number}" for number in range(count)], "condition": made}


def _table(rows: int, drawn: Random) -> pa.Table:
    words = _words()
    return pa.table({
        "cmd": [f"{' '.join(drawn.choices(words, k=8))} /tmp/{drawn.choice(words)}.sh" for _ in range(rows)],
        "user": [f"u{drawn.randrange(2_000)}" for _ in range(rows)],
        "city": [f"c{drawn.randrange(200)}" for _ in range(rows)],
        "ms": [drawn.randrange(10_000) for _ in range(rows)],
        "size": [drawn.random() * 1e6 for _ in range(rows)],
    })  # fmt: skip
