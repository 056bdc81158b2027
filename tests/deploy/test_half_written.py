"""A version that fails between the commits of two outputs: what the first one has is undone, or named."""

import sqlite3
from contextlib import closing, suppress

import pytest

from rs_assets.deploy.supervisor import Supervisor
from rs_assets.errors import RsError
from rs_assets.runtime.upkeep import savepoints
from tests.deploy.deploying import NAME, Deployed, Supervised

DELTA, SQLITE = "'connector' = 'delta', 'table' = 'totals'", "'connector' = 'sqlite', 'path' = '{base}', 'table' = 't'"
TEXT = """
CREATE TABLE clicks (page STRING, ms BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json');
CREATE TABLE totals (page STRING, ms BIGINT) WITH ({first});
CREATE TABLE small (page STRING, ms BIGINT) WITH ('connector' = 'sqlite', 'path' = '{base}', 'table' = 'small');
INSERT INTO totals SELECT page, {ms} AS ms FROM clicks;
INSERT INTO small SELECT page, {ms} AS ms FROM clicks
"""


class World:
    """Two outputs, of which the second takes numbers below 100 only."""

    def __init__(self, deployed, base, first):
        self.deployed, self.base, self.first = deployed, base, first.format(base=base)
        self.of("CREATE TABLE small (page TEXT, ms INTEGER CHECK (ms < 100))")

    def of(self, statement):
        with closing(sqlite3.connect(self.base)) as database, database:
            return sorted(database.execute(statement))

    def deploy(self, version, ms):
        text = TEXT.format(folder=self.deployed.folder, base=self.base, first=self.first, ms=ms)
        self.deployed.insert(version, text=text)
        self.deployed.ask()

    def begin(self, ms, options):
        """Version 1 runs, has a batch, and is stopped."""
        self.deploy(1, ms)
        self.deployed.write(("/", 1))
        with Supervised(self.deployed, Supervisor(NAME, options)):
            self.until(1, "committed")

    def until(self, version, event):
        self.deployed.until(lambda: self.deployed.events(version)[-1:] == [event], f"version {version}: {event}")

    def small(self):
        return self.of("SELECT page, ms FROM small")

    def totals(self):
        if "delta" in self.first:
            return sorted((row["page"], row["ms"]) for row in self.deployed.rows())
        return self.of("SELECT page, ms FROM t")

    def fail(self):
        """Version 2 fails on a batch that the first output has; then version 1 computes it, and another one."""
        self.deploy(2, "ms + 100")
        self.until(2, "trying")
        self.deployed.write(("/a", 2))
        self.until(2, "failed")
        self.deployed.write(("/b", 3))
        self.deployed.until(lambda: self.small() == sorted(self.deployed.written), "version 1 again")


@pytest.fixture
def deployed(home, tmp_path):
    return Deployed(home, tmp_path / "in")


def test_should_undo_the_batch_of_a_failed_version_in_an_output_that_has_it_already(deployed, options, tmp_path):
    world = World(deployed, tmp_path / "small.db", DELTA)
    world.deploy(1, "ms")
    deployed.write(("/", 1))
    with Supervised(deployed, Supervisor(NAME, options)):
        world.until(1, "committed")
        world.fail()
        deployed.until(lambda: world.totals() == sorted(deployed.written), "the first output")
    assert deployed.events(2) == ["trying", "returning", "failed"]
    assert deployed.told(2)[1] == "the next batch is undone in totals"
    assert deployed.told(2)[-1].endswith("version 1 runs again")


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.mark.long
def test_should_end_an_undoing_that_was_cut_short(deployed, options, tmp_path, monkeypatch):
    world, rewind_queries = World(deployed, tmp_path / "small.db", DELTA), savepoints.rewind_queries
    world.begin("ms", options)

    def killed(*_):
        monkeypatch.setattr(savepoints, "rewind_queries", rewind_queries)
        raise Killed

    monkeypatch.setattr(savepoints, "rewind_queries", killed)
    world.deploy(2, "ms + 100")
    deployed.write(("/a", 2))
    with pytest.raises(Killed):
        Supervisor(NAME, options).run()
    assert (deployed.events(2), world.totals()) == (["trying", "returning"], [("/", 1)])
    deployed.write(("/b", 3))
    with Supervised(deployed, Supervisor(NAME, options)):
        deployed.until(lambda: world.small() == sorted(deployed.written), "version 1 again")
        deployed.until(lambda: world.totals() == sorted(deployed.written), "the first output")
    assert deployed.told(2)[-1].endswith("its process has ended 1 time before its first batch")


@pytest.mark.long
def test_should_name_an_output_that_has_the_batch_of_a_failed_version_and_cannot_go_back(deployed, options, tmp_path):
    world = World(deployed, tmp_path / "small.db", SQLITE)
    world.deploy(1, "ms")
    deployed.write(("/", 1))
    with Supervised(deployed, Supervisor(NAME, options)):
        world.until(1, "committed")
        world.fail()
    assert world.totals() == [("/", 1), ("/a", 102), ("/b", 3)]
    assert deployed.told(2)[-1].endswith("version 1 runs again; rows that it wrote to totals stay there")


@pytest.mark.long
def test_should_name_an_output_that_has_the_first_batch_of_a_first_version(deployed, options, tmp_path):
    world = World(deployed, tmp_path / "small.db", DELTA)
    world.deploy(1, "ms + 100")
    deployed.write(("/", 1))
    with pytest.raises(Exception, match="CHECK constraint"):
        Supervisor(NAME, options).run()
    assert deployed.told(1)[-1].endswith("no version ran before it; rows that it wrote to totals stay there")


def refused(options):
    """A run of the running version, which the second output ends."""
    supervisor = Supervisor(NAME, options)
    with pytest.raises(RsError, match="CHECK constraint"):
        supervisor.run()
    with suppress(RsError):
        supervisor.stop()


def test_should_undo_the_batch_of_a_committed_version_before_another_one_computes_it(deployed, options, tmp_path):
    world = World(deployed, tmp_path / "small.db", DELTA)
    world.deploy(1, "ms")
    deployed.write(("/", 1))
    with Supervised(deployed, Supervisor(NAME, options)):
        world.until(1, "committed")
        world.deploy(2, "ms * 60")
        world.until(2, "trying")
        deployed.write(("/", 0))
        world.until(2, "committed")
        deployed.written.clear()
    deployed.write(("/a", 2))
    refused(options)
    assert (world.totals(), world.small()) == ([("/", 0), ("/", 1), ("/a", 120)], [("/", 0), ("/", 1)])
    world.deploy(3, "ms")
    with Supervised(deployed, Supervisor(NAME, options)):
        world.until(3, "committed")
        deployed.write(("/b", 3))
        rows = [("/", 0), ("/", 1), ("/a", 2), ("/b", 3)]
        deployed.until(lambda: world.small() == rows and world.totals() == rows, "both outputs")
    assert deployed.told(3)[0] == "keeps offsets of clicks; the next batch is undone in totals"


@pytest.mark.long
def test_should_name_an_output_that_keeps_the_batch_of_a_committed_version(deployed, options, tmp_path):
    world = World(deployed, tmp_path / "small.db", SQLITE)
    world.begin("ms * 60", options)
    deployed.write(("/a", 2))
    refused(options)
    world.deploy(2, "ms")
    with Supervised(deployed, Supervisor(NAME, options)):
        world.until(2, "committed")
    assert (world.totals(), world.small()) == ([("/", 60), ("/a", 120)], [("/", 60), ("/a", 2)])
    assert deployed.told(2)[0].endswith("undone in totals; it stays in totals as version 1 wrote it")
