"""What an upload holds beside the checkpoint: the dimension versions of the batch that it would compute again."""

import shutil
from dataclasses import replace

import pytest

from rs_assets.common.home import Home
from rs_assets.runtime.options import SavepointPolicy
from tests.recovery.test_dim_join import World


@pytest.fixture
def options(options, tmp_path):
    """A home that may be lost, with its tables and uploads elsewhere."""
    home = Home(tmp_path / "host", tables_of=Home(tmp_path / "tables"))
    return replace(options, home=home, savepoints=SavepointPolicy(uri=str(tmp_path / "store"), upload=True))


def lose(world):
    shutil.rmtree(world.options.home.root)


def test_a_lost_batch_looks_up_the_dimension_as_it_was(options, tmp_path, monkeypatch):
    """One output has the batch, the other has not; the dimension has changed since, and its old version was lost."""
    world = World(options, tmp_path)
    world.tier("old")
    world.run(1)
    world.cut_short(monkeypatch, behind=True, name="one_table")
    lose(world)
    world.tier("new")
    world.run(1)
    assert world.result() == world.result("two") == [(0, "old"), (1, "old"), (2, "new")]
    world.tier("newer")
    world.run(1)
    assert world.result()[-1] == (3, "newer")
    assert not list(world.options.home.root.rglob("held_dimensions"))


def test_a_finished_pipeline_stays_finished(options, tmp_path):
    world = World(options, tmp_path)
    world.tier("old")
    world.run(2)
    world.pipeline().run(options, finish=True)
    lose(world)
    report = world.pipeline().run(options)
    assert report.sealed
    assert report.recovered_from.startswith("upload, batches")
    assert world.result() == [(0, "old"), (1, "old")]
