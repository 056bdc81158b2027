"""Polled sources and the ways back: a rewind reads landed polls again, a restore asks again after its cursor."""

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.runtime.upkeep.savepoints import restore, rewind, savepoint
from rs_assets.testing import HttpServer


class Polled:
    """Numbers of an HTTP service in a table, and how many of them there are so far."""

    def __init__(self, server, options, keep):
        self.server, self.options, self.numbers = server, options, 0
        stream = StreamBuilder.data_stream("shop", "polled")
        stream = stream.from_http(
            f"{server.url}/rows?limit=3", schema="n bigint", next="next", keep=keep, max_rows_per_batch=3
        )
        self.pipeline = stream.to_delta("polled").build()

    def run(self, more=0):
        self.server.append(*({"n": n} for n in range(self.numbers, self.numbers + more)))
        self.numbers += more
        return self.pipeline.run(self.options)

    def rows(self):
        return sorted(DeltaTable(self.options.home.table("shop", "polled")).to_pyarrow_table()["n"].to_pylist())


@pytest.fixture
def polled(options):
    with HttpServer() as server:
        yield lambda keep: Polled(server, options, keep)


def test_a_restored_pipeline_asks_for_what_came_after_the_savepoint(polled):
    world = polled(10)
    world.run(7)
    taken = savepoint(world.pipeline.topology, world.options)
    world.run(7)
    asked = len(world.server.requests)
    restore(world.pipeline.topology, world.options, savepoint_id=taken.id)
    assert world.rows() == [*range(7)]
    world.run(2)
    assert world.rows() == [*range(16)]
    assert world.server.requests[asked].path == "/rows?limit=3&after=7"


def test_a_rewound_pipeline_reads_its_polls_again(polled):
    world = polled(10)
    world.run(9)
    asked = len(world.server.requests)
    rewind(world.pipeline.topology, 1, world.options)
    assert world.rows() == [*range(6)]
    world.run(1)
    assert world.rows() == [*range(10)]
    assert world.server.requests[asked].path == "/rows?limit=3&after=9"


def test_a_restore_needs_no_polls_that_are_no_longer_kept(polled):
    world = polled(1)
    world.run(3)
    taken = savepoint(world.pipeline.topology, world.options)
    for _ in range(6):
        world.run(3)
    restore(world.pipeline.topology, world.options, savepoint_id=taken.id)
    world.run()
    assert world.rows() == [*range(21)]
