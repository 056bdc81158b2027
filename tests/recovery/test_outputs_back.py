"""Outputs that are removed and come back, while the pipeline goes back without them: no row is lost or comes twice."""

import json
import sqlite3
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.errors import StartRefused


class World:
    """A log of numbers, and two outputs: one that is always there, and one that comes and goes."""

    def __init__(self, options, folder, kind):
        self.options, self.folder, self.kind, self.rows = options, folder, kind, 0
        self.log = folder / "in.jsonl"
        self.log.write_text("")

    def pipeline(self, *, both, name="second", table="second"):
        stream = StreamBuilder.data_stream("shop", "back").from_file(
            self.log, schema="id bigint", tail=True, name="log"
        )
        made = stream.to_delta("first", name="first")
        if both and self.kind == "delta":
            made = stream.to_delta(table, name=name)
        if both and self.kind == "file":
            made = stream.to_file(self.folder / table, name=name)
        if both and self.kind == "sqlite":
            made = stream.to_sqlite(self.folder / "out.db", table, name=name)
        return made.build()

    def run(self, *, both, times=1, new_generation=False, **how):
        for _ in range(times):
            with self.log.open("a") as log:
                log.write(json.dumps({"id": self.rows}) + "\n")
            self.rows += 1
            self.pipeline(both=both, **how).run(replace(self.options, new_generation=new_generation))

    def second(self, table="second"):
        if self.kind == "file":
            parts = (self.folder / table).glob("batch=*/part*")
            return sorted(json.loads(line)["id"] for part in parts for line in part.read_text().splitlines())
        if self.kind == "sqlite":
            with sqlite3.connect(self.folder / "out.db") as database:
                return sorted(row[0] for row in database.execute(f"SELECT id FROM {table}"))
        return sorted(DeltaTable(self.options.home.table("shop", table)).to_pyarrow_table()["id"].to_pylist())


@pytest.fixture
def world(options, tmp_path, request):
    return World(options, tmp_path, request.param)


GOING_BACK = pytest.mark.parametrize("world", ["delta", pytest.param("file", marks=pytest.mark.long)], indirect=True)


@GOING_BACK
def test_an_output_that_comes_back_has_each_row_once_though_the_pipeline_was_rewound_without_it(world):
    world.run(both=True, times=4)
    world.run(both=False)
    world.pipeline(both=False).rewind(1, world.options)
    world.run(both=True)
    assert world.second() == [*range(6)]


@GOING_BACK
@pytest.mark.long
def test_an_output_lacks_the_batches_of_its_absence_alone(world):
    world.run(both=True, times=3)
    world.run(both=False)
    world.pipeline(both=False).rewind(1, world.options)
    # The rows from 2 on in one batch, and one more.
    world.run(both=False, times=2)
    world.pipeline(both=False).rewind(2, world.options)
    world.run(both=True, times=2)
    assert world.second() == [0, 1, 5, 6, 7]


@GOING_BACK
@pytest.mark.long
def test_an_output_goes_back_with_a_version_that_has_it_again(world):
    world.run(both=True, times=4)
    world.run(both=False)
    world.pipeline(both=False).rewind(2, world.options)
    world.pipeline(both=True).rewind(1, world.options)
    assert world.second() == [0, 1]
    world.run(both=True)
    assert world.second() == [*range(6)]


@GOING_BACK
@pytest.mark.long
def test_an_output_that_a_savepoint_does_not_know_has_no_row_of_batches_that_were_undone(world):
    world.run(both=False, times=2)
    taken = world.pipeline(both=False).savepoint(world.options)
    world.run(both=True, times=2)
    world.run(both=False)
    world.pipeline(both=False).restore(world.options, savepoint_id=taken.id)
    world.run(both=True)
    assert world.second() == [2, 3, 4, 5]


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
def test_an_output_whose_rows_stay_is_refused_with_what_can_be_done(world):
    world.run(both=True, times=4)
    world.run(both=False)
    world.pipeline(both=False).rewind(1, world.options)
    with pytest.raises(StartRefused, match="'second' comes back, and the pipeline has gone back without it") as refused:
        world.pipeline(both=True).run(world.options)
    assert world.second() == [0, 1, 2, 3]
    assert "another name" in refused.value.remedy
    assert "--new-generation" in refused.value.remedy
    # Both ways that it names.
    world.run(both=True, name="third", table="third")
    assert world.second("third") == [2, 3, 4, 5]
    with sqlite3.connect(world.folder / "out.db") as database:
        database.execute("DELETE FROM second")
    world.run(both=True, new_generation=True)
    assert world.second() == [*range(7)]


@pytest.mark.long
@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
def test_an_output_whose_rows_all_count_comes_back(world):
    world.run(both=True, times=2)
    world.run(both=False, times=2)
    world.pipeline(both=False).rewind(1, world.options)
    world.run(both=True)
    assert world.second() == [*range(5)]
