"""Every kind of file in a checkpoint folder, damaged in every way: the right output, or no start and a remedy."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rs_assets.common.home import Home
from rs_assets.errors import RsError, StartRefused
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.upkeep.savepoints import restore, savepoint
from rs_assets.spark.driver import SparkDriver
from tests.faults.damaged import grow, pipeline, result

pytestmark = pytest.mark.faults
CHECKPOINT = "g0001/window/checkpoint"
FILES = {
    "the manifest": "manifest.json",
    "the query's metadata": f"{CHECKPOINT}/metadata",
    "the newest offsets": f"{CHECKPOINT}/offsets/5",
    "older offsets": f"{CHECKPOINT}/offsets/2",
    "the newest commit": f"{CHECKPOINT}/commits/5",
    "an older commit": f"{CHECKPOINT}/commits/2",
    "changes of state": f"{CHECKPOINT}/state/0/0/6.changelog",
    "older changes of state": f"{CHECKPOINT}/state/0/1/3.changelog",
    "the operator's metadata": f"{CHECKPOINT}/state/0/_metadata/metadata",
}
DAMAGES: dict[str, Callable[[Path], object]] = {
    "removed": lambda file: file.unlink(),
    "emptied": lambda file: file.write_bytes(b""),
    "cut in half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "one bit flipped": lambda file: file.write_bytes(_flipped(file.read_bytes())),
    "overwritten with junk": lambda file: file.write_bytes(b"\0\xff junk \n" * 3),
}
# What runs in every test run; the rest is for `make faults`.
QUICK = ("cut in half",)


def _flipped(data: bytes) -> bytes:
    place = len(data) // 2
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, driver: SparkDriver) -> tuple[Path, list[tuple[object, ...]]]:
    """A home with six batches and a savepoint, in the middle of input, and the output of one run over all of it."""
    folder = tmp_path_factory.mktemp("damage")
    log = folder / "in.jsonl"
    plain = RunOptions(home=Home(folder / "plain"), driver=driver)
    grow(log, 0, 200)
    pipeline(log).run(plain, finish=True)
    log.unlink()
    options = RunOptions(home=Home(folder / "rs"), driver=driver)
    for first in (0, 50, 100):
        grow(log, first, first + 50)
        pipeline(log).run(options)
    savepoint(pipeline(log).topology, options)
    return folder, result(plain.home)


@pytest.fixture
def copied(world: tuple[Path, list[tuple[object, ...]]]) -> object:
    """The home as it was, in its own place: Spark's logs name files by their whole path."""
    folder, _ = world
    shutil.copytree(folder / "rs", folder / "kept", dirs_exist_ok=True)
    grow(folder / "in.jsonl", 150, 200)
    yield folder
    # A thread of Spark may still write its state there.
    (folder / "rs").rename(tempfile.mkdtemp(dir=folder, prefix="damaged"))
    (folder / "kept").rename(folder / "rs")
    lines = (folder / "in.jsonl").read_text().splitlines(keepends=True)
    (folder / "in.jsonl").write_text("".join(lines[:150]))


@pytest.mark.parametrize("what", FILES)
@pytest.mark.parametrize(
    "damage", [DAMAGE if DAMAGE in QUICK else pytest.param(DAMAGE, marks=pytest.mark.long) for DAMAGE in DAMAGES]
)
def test_a_damaged_file_is_refused_or_harmless(copied, world, driver, outcome, what, damage):
    folder, expected = world
    options = RunOptions(home=Home(folder / "rs"), driver=driver)
    file = options.home.job("shop", "damaged") / FILES[what]
    DAMAGES[damage](file)
    before = result(options.home)
    job = pipeline(folder / "in.jsonl")
    refused: RsError | None = None
    try:
        job.run(options, finish=True)
        led_to = "harmless: the output is right"
    except RsError as error:
        refused = error
    if refused is not None:
        assert "remedy:" in str(refused)
        assert isinstance(refused, StartRefused), f"it was begun before it was refused: {refused!r}"
        assert result(options.home) == before, "rows were written before the refusal"
        restore(job.topology, replace(options, run_id="restoring"))
        job.run(options, finish=True)
        led_to = "refused with a remedy; right after a restore"
    assert result(options.home) == expected
    outcome(f"{what}, {damage}", led_to)
