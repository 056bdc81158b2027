"""python -m tests.programs --seed 7 --count 100 --minutes 20: random programs against plain Python.

Prints how many there were of each kind of step, what was refused when it was built, and each wrong program as code.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

from rs_assets.spark.driver import SparkDriver
from rs_assets.spark.settings import SparkSettings
from tests.faults.processes import QUICK_START
from tests.programs.campaign import FAILED, REFUSED, RIGHT, WRONG, built_of_sql, shrunk, verdicts
from tests.programs.drawing import FAMILIES, GROUP, drawn
from tests.programs.sql_form import as_sql, script


def groups(first, count):
    """The seeds in groups that restart after the same batch, and run in one process."""
    seeds = range(first, first + count)
    for group in range(first // GROUP, (first + count - 1) // GROUP + 1):
        yield [seed for seed in range(group * GROUP, (group + 1) * GROUP) if seed in seeds]


def main(args):
    """How many programs were wrong or failed."""
    # As for tests: no second compiler for a JVM that computes small batches.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_START)
    driver = SparkDriver.shared(SparkSettings(master="local[2]", partitions=2))
    kinds, results, refused, bad, began = Counter(), Counter(), Counter(), [], time.monotonic()
    wrong_sql = 0
    for seeds in groups(args.seed, args.count):
        if time.monotonic() - began > 60 * args.minutes:
            break
        programs = [drawn(seed, args.family) for seed in seeds]
        kinds.update(type(step).__name__ for program in programs for step in program.steps)
        found = verdicts(programs, driver)
        for program in programs:
            kind, text = found[program.label]
            results[kind] += 1
            if kind == REFUSED:
                refused[text] += 1
            if kind in (WRONG, FAILED):
                bad.append(program)
                print(f"{kind} seed {program.seed}: {text}\n{program.body()}\n", flush=True)
        in_sql = [plain for program in programs if (plain := as_sql(program)) is not None]
        for label, (kind, text) in verdicts(in_sql, driver, built_of_sql).items():
            results[f"{kind} in SQL"] += 1
            wrong_sql += kind != RIGHT
            if kind != RIGHT:
                print(f"{kind} in SQL {label}: {text}", flush=True)
                print(next(script(program) for program in in_sql if program.label == label), flush=True)
        print(f"{time.monotonic() - began:.0f} s, {dict(results)}", flush=True)
    for program in bad[: args.shrink]:
        less = shrunk(program, driver)
        print(f"{less.text()}\n{verdicts([less], driver)[less.label]}", flush=True)
    print(f"steps: {dict(kinds.most_common())}")
    for text, times in refused.most_common():
        print(f"refused {times}: {text}")
    print(f"{results.total()} programs in {time.monotonic() - began:.0f} s: {dict(results)}; right {results[RIGHT]}")
    driver.stop()
    return len(bad) + wrong_sql


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--family", nargs="*", default=(), choices=sorted(FAMILIES), help="only programs of these")
    parser.add_argument("--shrink", type=int, default=0, help="how many wrong programs are made smaller")
    sys.exit(main(parser.parse_args()) > 0)
