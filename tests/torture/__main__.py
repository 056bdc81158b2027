"""`make torture`: crash points, histories, commands, a Kafka ledger, stops, long runs. FAULTS.md says what they are."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from rs_assets.spark.driver import SparkDriver
from tests.faults.processes import QUICK_START
from tests.torture.commands.campaign import commands
from tests.torture.crashes import crashes
from tests.torture.endurance import KINDS, endurance
from tests.torture.gate import Gate, begin_again
from tests.torture.histories import done, planned, shrunk
from tests.torture.ledger import Ledger
from tests.torture.ledger import planned as kills_of
from tests.torture.operations import OPERATIONS
from tests.torture.recorder import ShimError, compile_shim
from tests.torture.site import SMALL
from tests.torture.stops import stops


def histories(folder: Path, how: argparse.Namespace) -> int:
    """Histories of seeds, one after the other in this process; how many had a finding."""
    try:
        if Gate.here() is None:
            begin_again(folder, folder / "site", compile_shim(folder))
    except ShimError as error:
        print(f"nothing is killed: {error}", flush=True)
    driver, wrong, began, steps = SparkDriver.shared(SMALL), 0, time.monotonic(), 0
    for seed in range(how.seed, how.seed + how.count):
        plan = planned(seed, how.steps, how.without)
        plan = [step for step in plan if how.only is None or step.number in how.only]
        result = done(seed, plan, folder / "site", driver)
        steps += result.steps
        if result.finding or how.told:
            print("\n".join(result.told), flush=True)
        took = f"{result.steps} steps in {result.seconds:.0f} s ({result.cpu_s:.0f} s CPU)"
        print(f"seed {seed}: {took}: {result.finding or 'right'}", flush=True)
        if result.finding and how.shrink:
            kept = shrunk(seed, plan[: result.steps], folder / "site", driver)
            print(f"  needed are: --only {' '.join(str(step.number) for step in kept)}", flush=True)
        wrong += bool(result.finding)
    spent = time.monotonic() - began
    print(f"{how.count} histories, {steps} steps in {spent:.0f} s ({spent / max(steps, 1):.2f} s each): {wrong} wrong")
    return wrong


def ledger(folder: Path, seed: int, count: int) -> int:
    """A ledger over Kafka with so many kills; how much is wrong with it."""
    place = folder / f"ledger-{seed}"
    place.mkdir()
    result = Ledger(place, say=lambda line: print(line, flush=True)).kept(kills_of(seed, count))
    print(f"seed {seed}: {result}", flush=True)
    return len(result.faults)


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where all of it lies and stays; else in a temporary folder")
    parts = parser.add_subparsers(dest="part", required=True)
    points = parts.add_parser("crashes", help="go on from every crash point of every operation")
    points.add_argument("--operation", action="append", choices=OPERATIONS, default=[], help="only those of this one")
    points.add_argument("--every", type=int, default=1, help="only one in so many, evenly")
    points.add_argument("--minutes", type=float, default=1e6, help="begin none behind that time")
    points.add_argument("--shuffled", action="store_true", help="of a pipeline with a durable shuffle")
    points.add_argument("--uploaded", action="store_true", help="of a pipeline that loses its home with each crash")
    points.add_argument("--parted", action="store_true", help="of a pipeline whose windows are partitions")
    _in_parts(points)
    points.add_argument("--point", help="only that one: its name, as it is printed, or its number")
    past = parts.add_parser("histories", help="what people do, by a seed")
    past.add_argument("--seed", type=int, default=1)
    past.add_argument("--count", type=int, default=1)
    past.add_argument("--steps", type=int, default=20)
    past.add_argument("--only", type=int, nargs="*", help="only the steps with these numbers")
    past.add_argument("--without", nargs="*", default=[], help="actions to leave out; `kill` for all kills")
    past.add_argument("--shrink", action="store_true", help="leave out the steps that a finding does not need")
    past.add_argument("--told", action="store_true", help="tell of histories that are right, too")
    shell = parts.add_parser("commands", help="commands of a user as processes, killed at moments of a seed")
    shell.add_argument("--seed", type=int, default=1)
    shell.add_argument("--count", type=int, default=1, help="so many seeds")
    shell.add_argument("--steps", type=int, default=10)
    kafka = parts.add_parser("ledger", help="a ledger over Kafka while producer, broker and pipeline are killed")
    kafka.add_argument("--seed", type=int, default=1)
    kafka.add_argument("--kills", type=int, default=50)
    long = parts.add_parser("endure", help="whether anything grows in a process that runs for long")
    long.add_argument("--kind", choices=tuple(KINDS), default="stream", help="batches of one stream, or starts")
    long.add_argument("--stages", type=int, default=5_000, help="so many batches or starts")
    long.add_argument("--samples", type=int, default=40)
    stopped = parts.add_parser("stops", help="streams that are stopped or killed in each phase, under recovery")
    stopped.add_argument("--seed", type=int, default=1)
    stopped.add_argument("--count", type=int, default=200, help="so many stops")
    stopped.add_argument("--kills", type=int, default=40, help="so many kills, each in a process of its own")
    _in_parts(stopped)
    stopped.add_argument("--minutes", type=float, default=1e6, help="begin none behind that time")
    return parser.parse_args()


def _in_parts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--part", dest="part_of", type=int, nargs=2, default=(1, 1), metavar=("I", "N"), help="one of N parts of them"
    )


def done_as_asked(folder: Path, how: argparse.Namespace) -> int:
    """Do the part that is asked for; how much was wrong."""
    if how.part == "crashes":
        limits = {"every": how.every, "point": how.point, "minutes": how.minutes, "part": tuple(how.part_of)}
        kinds = {"shuffled": how.shuffled, "uploaded": how.uploaded, "parted": how.parted}
        return crashes(folder, how.operation, **kinds, **limits)
    if how.part == "stops":
        return stops(folder, how.seed, how.count, how.kills, how.minutes, part=tuple(how.part_of))
    if how.part == "commands":
        return sum(commands(folder, seed, how.steps) for seed in range(how.seed, how.seed + how.count))
    if how.part == "endure":
        return endurance(folder, how.kind, how.stages, how.samples)
    return histories(folder, how) if how.part == "histories" else ledger(folder, how.seed, how.kills)


def main() -> None:
    how = arguments()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_START)
    with tempfile.TemporaryDirectory(prefix="torture-") as temporary:
        folder = (how.folder or Path(os.environ.setdefault("RS_TORTURE_FOLDER", temporary))).absolute()
        folder.mkdir(exist_ok=True)
        wrong = done_as_asked(folder, how)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
