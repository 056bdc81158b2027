"""python -m tests.statements --seed 7 --count 100 --minutes 20: random statements of SQL against DuckDB.

Each seed is one pipeline of `--together` statements. Prints how many of each kind were equal or refused, the
reasons of refusals, and each wrong statement with what differs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter

from rs_assets.spark.driver import SparkDriver
from rs_assets.spark.settings import SparkSettings
from tests.faults.processes import QUICK_START
from tests.statements.running import compared


def main() -> int:
    """The number of wrong statements, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--together", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=1e9)
    given = parser.parse_args()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_START)
    began, results, reasons, wrong = time.monotonic(), Counter[str](), Counter[str](), 0
    spark = SparkDriver.shared(SparkSettings(master="local[2]", partitions=2))
    for seed in range(given.seed, given.seed + given.count):
        try:
            outcomes = compared(seed, given.together, spark)
        except Exception as error:  # noqa: BLE001  the next seeds are to run
            wrong += 1
            print(f"failed, seed {seed}: {type(error).__name__} {error}\n", flush=True)
            continue
        for each in outcomes:
            kind = "refused" if each.reason else "wrong" if each.wrong else "equal"
            results[f"{kind} {each.statement.kind}"] += 1
            if each.reason:
                reasons[each.reason] += 1
            if each.wrong:
                wrong += 1
                _show(each)
        print(f"{time.monotonic() - began:.0f} s, seed {seed}: {sum(results.values())}, wrong {wrong}", flush=True)
        if time.monotonic() - began > given.minutes * 60:
            break
    for counted in (results, reasons):
        print("\n".join(f"{count:6} {what}" for what, count in sorted(counted.items())))
    return min(wrong, 1)


def _show(each) -> None:
    print(f"wrong, seed {each.seed}, {each.statement.kind}")
    for view in each.statement.views:
        print(f"  {view.ours};")
    print(f"  {each.statement.query.ours}\n  {each.statement.query.duck}")
    print(f"  only here: {list((each.found - each.wanted).items())[:5]}")
    print(f"  only in DuckDB: {list((each.wanted - each.found).items())[:5]}\n", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
