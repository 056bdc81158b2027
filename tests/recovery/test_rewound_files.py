"""Files of batches that a rewind undid are planned again, within the limits of the source."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from rs_assets import Rules, StreamBuilder
from rs_assets.errors import DataLossError, RsError

# Spark joins its log of a file source after ten batches.
FILES = 12


class World:
    def __init__(self, options, folder):
        self.options, self.folder, self.rows = options, folder, []
        folder.mkdir()

    def grow(self, files):
        for _ in range(files):
            number = len(self.rows)
            (self.folder / f"{number:03d}.jsonl").write_text(json.dumps({"n": number}) + "\n")
            self.rows.append(number)

    def pipeline(self):
        stream = StreamBuilder.data_stream("shop", "files").from_file(
            self.folder, schema="n bigint", max_files_per_batch=1, name="files"
        )
        return stream.match(Rules.of({"any": "(n,>=,0)"}), name="judge").to_delta("out").build()

    def run(self):
        report = self.pipeline().run(self.options)
        assert (
            sorted(DeltaTable(self.options.home.table("shop", "out")).to_pyarrow_table()["n"].to_pylist()) == self.rows
        )
        return report.batches


@pytest.fixture
def world(options, tmp_path):
    return World(options, tmp_path / "in")


@pytest.mark.parametrize("last", [4, pytest.param(10, marks=pytest.mark.long), pytest.param(0, marks=pytest.mark.long)])
def test_each_is_a_batch_again(world, last):
    world.grow(FILES)
    assert world.run() == FILES
    world.pipeline().rewind(last, world.options)
    assert world.run() == FILES - last - 1
    world.grow(2)
    assert world.run() == 2
    world.pipeline().rewind(FILES, world.options)
    assert world.run() == 1
    assert world.run() == 0


def test_one_that_is_gone_since_is_refused(world):
    world.grow(4)
    world.run()
    world.pipeline().rewind(1, world.options)
    gone = world.folder / "002.jsonl"
    gone.rename(world.folder.parent / "away")
    with pytest.raises(RsError, match=r"002\.jsonl"):
        world.run()
    (world.folder.parent / "away").rename(gone)
    world.run()


def test_one_that_has_changed_since_is_refused(world):
    world.grow(4)
    world.run()
    world.pipeline().rewind(1, world.options)
    (world.folder / "003.jsonl").write_text(json.dumps({"n": 3}) + "\n" + json.dumps({"n": 4}) + "\n")
    with pytest.raises(DataLossError, match=r"changed after it was read"):
        world.run()
