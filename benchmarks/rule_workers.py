"""Sets of rules in a worker: a thousand patterns, lines that repeat, memory, and the next version of a set."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import psutil
import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.measure import MICROSECONDS, Figure
from rs_assets.expressions.rules.batch import Batch, batch_of
from rs_assets.expressions.rules.compiled import Compiled
from rs_assets.expressions.rules.match import matches
from rs_assets.expressions.rules.rule_set import Read, RuleSet, rule_set_of

# Rows of a batch, as Spark gives them to a worker.
BATCH = 10_000
# The repeated stream has so many different rows.
DIFFERENT = 5_000
CHANGED = 1_000
# What is asked: microseconds a line, a share of the cost, megabytes, seconds.
LINE_US, SHARE, MEMORY_MB, SWAP_S = 1.0, 0.2, 60.0, 10.0
MB = 1e6


def cost(rules: Compiled, table: pa.Table, names: Sequence[str]) -> tuple[float, int]:
    """Processor microseconds of judging a row once it runs, and how many rules held."""
    for batch in _batches(table, names)[:3]:
        matches(rules, batch)
    batches, began = _batches(table, names), time.process_time()
    held = sum(len(matches(rules, batch)[0]) for batch in batches)
    return (time.process_time() - began) / table.num_rows * MICROSECONDS, held


def worker_figures(
    bench: Bench, rules: RuleSet, given: dict[str, list[str]], others: dict[str, list[str]], table: pa.Table,
    types: dict[str, str],
) -> Iterator[Figure]:  # fmt: skip
    """The largest set `rules`, made of `given`; the rules of `others` replace some of them in the next version."""
    names, drawn, most = list(types), Random(2), len(rules)
    words = sorted({word for line in table["cmd"][:1_000].to_pylist() for word in line.split()[:-1]})
    patterns = [f"(cmd,regex,'{drawn.choice(words)}.*{drawn.choice(words)}')" for _ in range(CHANGED)]
    single = pa.table({"rule": [f"p{number}" for number in range(CHANGED)], "condition": patterns})
    line, held = cost(rule_set_of(single, types, step="judge").compiled, table, names)
    yield _figure(
        f"processor time of looking for {CHANGED:,} patterns in a line", line, "µs", LINE_US,
        f"{held / table.num_rows:.3f} of them found in a line of {_length(table):.0f} bytes",
    )  # fmt: skip
    fresh: RuleSet = pickle.loads(pickle.dumps(rules))
    apart, _ = cost(rules.compiled, table, names)
    few = table.slice(0, DIFFERENT)
    repeated = few.take(pa.array([drawn.randrange(few.num_rows) for _ in range(table.num_rows)]))
    again, _ = cost(fresh.compiled, repeated, names)
    yield _figure(
        f"a row by {most:,} rules, where {few.num_rows:,} rows repeat, against rows that do not", again / apart, "x",
        SHARE, f"{again:.2f} against {apart:.2f} µs",
    )  # fmt: skip
    with bench.place() as folder:
        yield _figure(f"memory of a worker for {most:,} rules", _memory(rules, few, folder), "MB", MEMORY_MB, "")
    yield _changed(given, others, types)


def _changed(given: dict[str, list[str]], others: dict[str, list[str]], types: dict[str, str]) -> Figure:
    known: Read = {}
    rule_set_of(pa.table(given), types, step="judge", known=known)
    changed = [*others["condition"][:CHANGED], *given["condition"][CHANGED:]]
    began = time.perf_counter()
    rule_set_of(pa.table({**given, "condition": changed}), types, step="judge", known=known)
    what = f"compiling a version in which {CHANGED:,} of {len(changed):,} rules are new"
    return _figure(what, time.perf_counter() - began, "s", SWAP_S, "on the clock, in the background of the stream")


def _figure(what: str, value: float, unit: str, target: float, note: str) -> Figure:
    return Figure(benchmark="rules", what=what, value=value, unit=unit, target=target, note=note)


def _length(table: pa.Table) -> float:
    lines = table["cmd"].to_pylist()
    return sum(map(len, lines)) / len(lines)


def _batches(table: pa.Table, names: Sequence[str]) -> list[Batch]:
    return [batch_of(names, each.columns) for each in table.to_batches(max_chunksize=BATCH)]


def _memory(rules: RuleSet, table: pa.Table, folder: Path) -> float:
    """Megabytes that a process of its own has more once it has judged rows by the rules, in a file as for workers."""
    for name, made in (("rules", rules), ("rows", table)):
        (folder / name).write_bytes(pickle.dumps(made))
    command = (sys.executable, "-m", "benchmarks.rule_workers", str(folder))
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(folder: Path) -> None:
    """Print by how many megabytes this process grows by the rules in `folder`, once they have judged the rows there."""
    table: pa.Table = pickle.loads((folder / "rows").read_bytes())
    process = psutil.Process()
    before = process.memory_full_info().uss
    rules: RuleSet = pickle.loads((folder / "rules").read_bytes())
    cost(rules.compiled, table, table.schema.names)
    sys.stdout.write(f"{(process.memory_full_info().uss - before) / MB}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
