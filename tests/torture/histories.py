"""Histories of a seed: each is a list of steps, done one after the other in one process, and judged after each."""

from __future__ import annotations

import random
import shutil
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from rs_assets.spark.driver import SparkDriver
from tests.torture.act import Chances
from tests.torture.actions import ACTS, DEEDS, KILLED, act, kill
from tests.torture.gate import Gate
from tests.torture.history import Finding, History, forget_state
from tests.torture.site import Code, Site


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is done, with the chances that say how; it may be killed."""

    number: int
    action: str
    chances: Chances
    killed: bool

    def __str__(self) -> str:
        """As it is told."""
        return f"{self.number}: {'kill ' if self.killed else ''}{self.action}"


@dataclass(frozen=True, slots=True)
class Result:
    """How a history went: `finding` is empty if all was well."""

    seed: int
    finding: str
    told: tuple[str, ...]
    steps: int
    seconds: float
    cpu_s: float


def planned(seed: int, count: int, without: Iterable[str] = ()) -> list[Step]:
    """The steps of a seed; the same for ever, whatever becomes of them."""
    chance = random.Random(seed)
    weights = {name: weight for name, (weight, _) in {**ACTS, **DEEDS}.items()}
    steps = []
    for number in range(count):
        action = chance.choices([*weights], [*weights.values()])[0]
        chances = (chance.random(), chance.random(), chance.random())
        killed = action in KILLED and chance.random() < 0.25
        steps.append(Step(number, action, chances, killed))
    banned = set(without)
    return [s for s in steps if s.action not in banned and not (s.killed and "kill" in banned)]


def done(seed: int, steps: Sequence[Step], root: Path, driver: SparkDriver) -> Result:
    """Do the steps in an empty folder, then run to the end of the input with all sources."""
    began, used = time.monotonic(), cpu_s()
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    shuffled, fired = seed % 6 == 4, seed % 4 == 3
    site = Site(
        root,
        driver,
        tail=seed % 10 == 9,
        remote=seed % 2 == 1,
        fired=fired,
        shuffled=shuffled,
        uploaded=seed % 5 == 2 and not shuffled,
        parted=seed % 9 in (5, 6) and not shuffled and not fired,
    )
    history, finding = History(site, Gate.here(), random.Random(seed)), ""
    forget_state(site)
    site.make()
    site.grow("a", 12)
    try:
        for step in steps:
            _step(history, step)
        history.say("finish")
        site.code = _all_sources(history)
        history.run(finish=True)
        history.caught_up(finished=True)
    except Finding as error:
        finding = str(error)
    except Exception as error:  # noqa: BLE001  a finding as well, with its trace
        finding = f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error)[-6:])}"
    return Result(seed, finding, tuple(history.told), history.steps, time.monotonic() - began, cpu_s() - used)


def _step(history: History, step: Step) -> None:
    began = time.monotonic()
    history.steps += 1
    history.say(str(step))
    place = len(history.told) - 1
    how = (kill if step.killed and history.gate is not None else act)(history, step.action, step.chances)
    history.told[place] += f" [{time.monotonic() - began:.1f} s] {how}"


def cpu_s() -> float:
    """What this process and its children, the JVM above all, have used of the processors."""
    me = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in (me, *me.children(recursive=True)))


def _all_sources(history: History) -> Code:
    return replace(history.site.code, sources=tuple(sorted({"a", *history.site.input.numbers})))


def shrunk(seed: int, steps: Sequence[Step], root: Path, driver: SparkDriver) -> list[Step]:
    """The steps without those that the finding does not need: each is left out once, the last first."""
    kept = list(steps)
    for step in reversed(steps):
        fewer = [each for each in kept if each is not step]
        if done(seed, fewer, root, driver).finding:
            kept = fewer
    return kept
