"""python -m tests.programs --seed 7 --count 100 --minutes 20: random programs against plain Python.

Each program runs batch by batch, and as SQL if it has a form there. With `--stored` they read files and write Delta
tables instead, while runs are killed, rescaled, taken back and moved. Prints how many there were of each kind of step,
what was refused when it was built and what has no other form, and each wrong program as code.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rs_assets.spark.driver import SparkDriver
from rs_assets.spark.settings import SparkSettings
from tests.faults.processes import QUICK_START
from tests.programs import histories, stored
from tests.programs.campaign import FAILED, REFUSED, RIGHT, WRONG, built_of_sql, shrunk, verdicts
from tests.programs.drawing import FAMILIES, GROUP, drawn
from tests.programs.sql_form import Unwritten, as_sql, script
from tests.tables.camera import Camera

# A folder in memory, where checkpoints cost no writes to a disk.
MEMORY = Path("/dev/shm")


def groups(first, count):
    """The seeds in groups that restart after the same batch, and run in one process."""
    seeds = range(first, first + count)
    for group in range(first // GROUP, (first + count - 1) // GROUP + 1):
        yield [seed for seed in range(group * GROUP, (group + 1) * GROUP) if seed in seeds]


class Told:
    """What became of programs: counted, and printed if it is wrong."""

    def __init__(self):
        self.began, self.kinds, self.results, self.reasons = time.monotonic(), Counter(), Counter(), Counter()
        self.bad, self.wrong = [], 0

    def passed(self):
        return time.monotonic() - self.began

    def take(self, programs, found, form="", text=lambda program: program.body()):
        """Verdicts by label."""
        for program in programs:
            kind, what = found[program.label]
            self.results[f"{kind}{form}"] += 1
            if kind == REFUSED:
                self.reasons[f"refused{form}: {what}"] += 1
            if kind in (WRONG, FAILED):
                self.wrong += 1
                self.bad += [program] * (not form)
                print(f"{kind}{form} seed {program.seed}: {what}\n{text(program)}\n", flush=True)

    def end(self):
        print(f"steps: {dict(self.kinds.most_common())}")
        for text, times in self.reasons.most_common():
            print(f"{times} {text}")
        right = {form: times for form, times in self.results.items() if form.startswith(RIGHT)}
        print(f"{self.results.total()} in {self.passed():.0f} s: {dict(self.results)}; right {sum(right.values())}")


def in_batches(programs, driver, told, args):
    """The programs batch by batch, and in SQL."""
    told.take(programs, verdicts(programs, driver))
    in_sql = []
    for program in programs:
        try:
            in_sql.append(as_sql(program))
        except Unwritten as error:
            told.reasons[f"not in SQL: {error}"] += 1
    told.take(in_sql, verdicts(in_sql, driver, built_of_sql), " in SQL", script)


def in_histories(programs, driver, told, args):
    """The programs from files into tables, through kills and ways back."""
    for program in programs:
        if reason := stored.why_not(program):
            told.reasons[f"not stored: {reason}"] += 1
    programs = [program for program in programs if not stored.why_not(program)]
    if not programs:
        return
    with tempfile.TemporaryDirectory(prefix="programs-", ignore_cleanup_errors=True) as folder:
        found, done = histories.verdicts(programs, driver, Path(folder), args.camera, programs[0].seed)
    for act in done:
        what, _, refusal = act.partition(" refused: ")
        told.results[what.split()[0]] += not refusal
        if refusal:
            told.reasons[f"{what} refused: {refusal}"] += 1
    told.take(programs, found, " stored", lambda program: f"{done}\n{program.body()}")


def main(args):
    """How many programs were wrong or failed."""
    # As for tests: no second compiler for a JVM that computes small batches.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_START)
    tempfile.tempdir = args.folder
    local = {"spark.local.dir": args.folder} if args.folder else {}
    driver, told = SparkDriver.shared(SparkSettings(master="local[2]", partitions=2, extra=local)), Told()
    run = in_histories if args.stored else in_batches
    args.camera = Camera() if args.stored else None
    for seeds in groups(args.seed, args.count):
        if told.passed() > 60 * args.minutes:
            break
        programs = [drawn(seed, args.family or (stored.families(seed) if args.stored else ())) for seed in seeds]
        told.kinds.update(type(step).__name__ for program in programs for step in program.steps)
        run(programs, driver, told, args)
        print(f"{told.passed():.0f} s, {dict(told.results)}", flush=True)
    for program in told.bad[: args.shrink]:
        less = shrunk(program, driver)
        print(f"{less.text()}\n{verdicts([less], driver)[less.label]}", flush=True)
    told.end()
    if args.camera:
        args.camera.close()
    driver.stop()
    return told.wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--family", nargs="*", default=(), choices=sorted(FAMILIES), help="only programs of these")
    parser.add_argument("--stored", action="store_true", help="from files into tables, with kills and ways back")
    parser.add_argument("--shrink", type=int, default=0, help="how many wrong programs are made smaller")
    parser.add_argument(
        "--folder", default=str(MEMORY) if MEMORY.is_dir() else None, help="of homes (default: in memory)"
    )
    sys.exit(main(parser.parse_args()) > 0)
