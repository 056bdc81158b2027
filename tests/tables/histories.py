"""Random histories of tables that are killed, and continue in other homes.

As in `campaign`, and besides: SIGKILL at any moment, by a picture of the files or of a real process; the home in
another place; a savepoint restored into a blank home.

    python -m tests.tables.histories --first 0 --count 200 --minutes 30
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path

from rs_assets.common.home import Home
from rs_assets.runtime.options import RunOptions, SavepointPolicy
from tests.faults.processes import started, wait_for
from tests.tables.camera import Camera
from tests.tables.campaign import OPERATORS, Play, World, drawn

# Runs what there is to read, and says when the first rows are about to be committed.
PROGRAM = """
import sys
from pathlib import Path
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.spark.driver import SparkDriver
from tests.tables.histories import Site
from tests.torture.site import SMALL

root, home, reached, *operators = sys.argv[1:]
stage = DeltaWriter.stage
def staging(*args):
    Path(reached).touch()
    return stage(*args)
DeltaWriter.stage = staging
site = Site(SparkDriver.shared(SMALL), Path(root), operators, again=True)
site.lives_in(home)
site.run()
"""


class Site(World):
    """A world whose home may be anywhere: its tables, savepoints and inputs are outside of it."""

    def __init__(self, driver, root, operators, *, again=False):
        self.root, self.homes, self.again = root, 0, again
        options = RunOptions(
            home=Home(self.place / "home0", tables_of=Home(self.place / "out")),
            driver=driver,
            savepoints=SavepointPolicy(uri=str(root / "savepoints")),
        )
        super().__init__(options, root / "in", operators, shown=operators)

    def made(self, name):
        """The folder of a source, which a second process finds."""
        if not self.again:
            super().made(name)

    @property
    def place(self):
        """All that a run writes."""
        return self.root / "site"

    def lives_in(self, name):
        """Continue in the home called so."""
        self.options = replace(self.options, home=replace(self.options.home, root=self.place / name))

    def leaves_home(self):
        """Continue in a home that has nothing yet."""
        self.homes += 1
        self.lives_in(f"home{self.homes}")

    def is_as_on(self, picture, *, moved):
        """The files are those of `picture`; the home has another place if it `moved`."""
        shutil.rmtree(self.place)
        picture.rename(self.place)
        self.compared.clear()
        if moved:
            before = self.options.home.root
            self.leaves_home()
            if before.exists():
                before.rename(self.options.home.root)


class Killed(Play):
    """What happens to a site, kills included."""

    acts = (*Play.acts, "kill", "kill", "elsewhere", "elsewhere")
    unfinished = (*Play.unfinished, "kill", "kill_a_process", "elsewhere")

    def __init__(self, site, monkeypatch, seed, camera, told=print):
        super().__init__(site, monkeypatch, seed, told)
        self.camera, self.took = camera, 1.0

    def advance(self):
        if self.rng.random() < 0.5:
            # Two batches.
            self.world.feed(drawn(self.rng))
        began = time.monotonic()
        super().advance()
        self.took = time.monotonic() - began

    def kill(self):
        """A run is killed at any moment: the files are those of that moment."""
        self.world.feed(drawn(self.rng))
        delay, moved = self.rng.random() * self.took, self.rng.random() < 0.5
        picture = self.world.root / "picture"
        with self.camera.taking(self.world.place, picture, delay):
            self.world.run()
        self.world.is_as_on(picture, moved=moved)
        return f"after {delay:.2f} s{', moved' * moved}"

    def kill_a_process(self):
        """The same to a process of its own."""
        self.world.feed(drawn(self.rng))
        reached = self.world.root / f"reached{len(self.done)}"
        home, delay = self.world.options.home.root.name, self.rng.random()
        with started(PROGRAM, self.world.root, home, reached, *self.world.operators) as process:
            wait_for(reached, process)
            time.sleep(delay)
        return f"{delay:.2f} s behind its first rows"

    def elsewhere(self):
        """A savepoint is restored into a blank home."""
        if not self.saved:
            self.savepoint()
        self.world.leaves_home()
        return self.back_to(*self.rng.choice(self.saved))


def history(driver, root, seed, camera, monkeypatch, told):
    """One history of a seed; a tenth have a process that is killed. Returns what was done."""
    rng = random.Random(seed)
    operators = tuple(rng.sample(sorted(OPERATORS), rng.choice([1, 1, 1, 2])))
    told(f"seed {seed}: {', '.join(operators)}")
    play = Killed(Site(driver, root, operators), monkeypatch, seed, camera, told)
    play.step("advance")
    if seed % 10 == 9:
        play.step("kill_a_process")
    for _ in range(rng.choice([2, 3, 4])):
        play.step(rng.choice(play.acts))
    play.step(rng.choice(["kill", "elsewhere"]))
    return play.done


def main(args):
    """How many of the histories were wrong."""
    import pytest

    from rs_assets.spark.driver import SparkDriver
    from tests.torture.site import SMALL

    driver, camera, done, wrong = SparkDriver.shared(SMALL), Camera(), Counter(), 0
    began, file = time.monotonic(), Path(args.kept)
    known = set(file.read_text().split()) if file.exists() else set()
    for seed in range(args.first, args.first + args.count):
        if str(seed) in known:
            continue
        if time.monotonic() - began > 60 * args.minutes:
            break
        root = Path(tempfile.mkdtemp(prefix="tables-", dir=args.folder))
        try:
            with pytest.MonkeyPatch.context() as monkeypatch:
                steps = history(driver, root, seed, camera, monkeypatch, lambda line: print(line, flush=True))
            done.update(step.split()[0] + " refused" * ("refused" in step) for step in steps)
            with file.open("a") as kept:
                print(seed, file=kept)
        except Exception:  # noqa: BLE001  the next history does not depend on this one
            wrong += 1
            print(f"WRONG seed {seed}: {traceback.format_exc()[-6000:]}", flush=True)
        shutil.rmtree(root, ignore_errors=True)
        print(f"{time.monotonic() - began:.0f} s, wrong {wrong}, {dict(done)}", flush=True)
    camera.close()
    driver.stop()
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--folder", default=None, help="where inputs and homes are while a history runs")
    parser.add_argument(
        "--kept", default="histories.txt", help="a file of the seeds that were right, which are left out"
    )
    sys.exit(main(parser.parse_args()) > 0)
