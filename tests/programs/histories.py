"""Stored programs whose runs are killed, rescaled, taken back and moved: in the end their tables are the oracle's.

After each file of a program one of these happens:

    advance    a run
    kill       a run that SIGKILL ends at any moment, by its files; in half of the cases its home has another place then
    rescale    a run, and the state in another number of partitions
    back       a savepoint, a run, a restore, by which all tables are as they were, and a run
    rewind     a run, one of the queries rewound to a batch, and a run

Each run is a start of its own, so watermarks and state are read from the checkpoint.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from random import Random

from rs_assets.common.home import Home
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.errors import CheckpointError, ConfigurationError
from rs_assets.runtime.options import RunOptions, SavepointPolicy
from tests.programs import stored
from tests.programs.campaign import FAILED, WRONG, message
from tests.programs.compared import bag

ACTS = ("advance", "kill", "kill", "rescale", "back", "rewind")


class History:
    """What happens to some programs, in a folder of their own."""

    def __init__(self, programs, driver, root, camera, seed, told=lambda line: None):
        self.programs, self.root, self.camera, self.told = programs, root, camera, told
        self.rng, self.done, self.homes, self.took = Random(seed), [], 0, 1.0
        self.options = RunOptions(
            home=Home(self.site / "home0", tables_of=Home(self.site / "out")),
            driver=driver,
            savepoints=SavepointPolicy(uri=str(root / "savepoints")),
        )

    @property
    def site(self):
        """All that a run writes; the input is beside it."""
        return self.root / "site"

    @property
    def pipeline(self):
        return stored.pipeline(self.programs, self.root / "in")

    def play(self):
        """Until all input was read and has ended."""
        for number in range(max(len(program.batches) for program in self.programs)):
            for program in self.programs:
                stored.write(program, self.root / "in", number)
            # There is no checkpoint yet to go back to.
            self.step(self.rng.choice(ACTS[:3] if number == 0 else ACTS))
        self.pipeline.run(self.options, finish=True)

    def step(self, act):
        found = getattr(self, act)()
        self.done.append(f"{act} {found}".strip() if found else act)
        self.told(self.done[-1])

    def run(self):
        began = time.monotonic()
        self.pipeline.run(self.options, finish=False)
        self.took = time.monotonic() - began

    def advance(self):
        self.run()

    def kill(self):
        delay, moved, picture = self.rng.random() * self.took, self.rng.random() < 0.5, self.root / "picture"
        self.site.mkdir(exist_ok=True)
        with self.camera.taking(self.site, picture, delay):
            self.run()
        shutil.rmtree(self.site)
        picture.rename(self.site)
        if moved:
            self.move()
        self.run()
        return f"after {delay:.2f} s{', moved' * moved}"

    def move(self):
        """The home gets another place."""
        before = self.options.home.root
        self.homes += 1
        self.options = replace(self.options, home=replace(self.options.home, root=self.site / f"home{self.homes}"))
        if before.exists():
            before.rename(self.options.home.root)

    def rescale(self):
        partitions = self.rng.choice([1, 2, 3, 5])
        try:
            self.pipeline.rescale(partitions, self.options)
        except ConfigurationError as error:
            self.run()
            return f"refused: {message(error)}"
        return f"to {partitions}"

    def back(self):
        shown = self.contents()
        try:
            taken = self.pipeline.savepoint(self.options)
        except ConfigurationError as error:
            self.run()
            return f"refused: {message(error)}"
        self.run()
        self.pipeline.restore(self.options, savepoint_id=taken.id)
        now = self.contents()
        assert now == shown, f"after a restore: {[name for name in shown if now[name] != shown[name]]}"
        self.run()
        return ""

    def rewind(self):
        self.run()
        query = self.rng.choice([plan.name for plan in plan_queries(self.pipeline.topology)])
        batch = self.rng.choice([0, 1, 2])
        try:
            self.pipeline.rewind(batch, self.options, step=query)
        except CheckpointError as error:
            return f"refused: {message(error)}"
        self.run()
        return f"to {batch}"

    def contents(self):
        """The rows of all tables."""
        names = [name for program in self.programs for name in program.sink_names()]
        return {name: bag(stored.rows_of(self.options.home, name)) for name in names}


def verdicts(programs, driver, root, camera, seed):
    """What became of each program, by label, and what was done; those of a history that fails run in halves."""
    history = History([stored.stored(program) for program in programs], driver, root, camera, seed)
    try:
        history.play()
    except Exception as error:  # noqa: BLE001  it is what is looked for
        text = f"{history.done}: {message(error)}"
        if len(programs) == 1:
            kind = WRONG if isinstance(error, AssertionError) else FAILED
            return {programs[0].label: (kind, text)}, history.done
        half, found = len(programs) // 2, {}
        for name, part in (("one", programs[:half]), ("two", programs[half:])):
            found |= verdicts(part, driver, root / name, camera, seed)[0]
        return found, history.done
    found = stored.judged(history.programs, history.options.home)
    told = {label: (kind, f"{history.done}: {text}" if text else "") for label, (kind, text) in found.items()}
    return told, history.done
