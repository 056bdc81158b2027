"""Versions that begin a query or look rows up elsewhere: what stands there already fits, or they are refused."""

import json

import pytest

from rs_assets.deploy.supervisor import Supervisor
from tests.deploy.deploying import NAME, Deployed, Supervised


@pytest.fixture
def deployed(home, tmp_path):
    return Deployed(home, tmp_path / "in")


@pytest.fixture
def other(deployed, tmp_path):
    return Deployed(deployed.home, tmp_path / "other")


TABLES = """
CREATE TABLE clicks (page STRING, ms BIGINT, p AS PROCTIME())
    WITH ('connector' = 'filesystem', 'path' = '{clicks}', 'format' = 'json');
CREATE TABLE views (page STRING, ms BIGINT) WITH ('connector' = 'filesystem', 'path' = '{views}', 'format' = 'json');
CREATE TABLE a (page STRING, ms BIGINT) WITH ('connector' = 'delta', 'table' = 'a');
CREATE TABLE b (page STRING, ms BIGINT) WITH ('connector' = 'delta', 'table' = 'b');
CREATE TABLE c (page STRING, ms BIGINT) WITH ('connector' = 'delta', 'table' = 'c');
"""
JOINED = "SELECT x.page, x.ms FROM {left} x JOIN {right} y ON x.page = y.page"


class World:
    """Versions that are deployed one after the other, and what their tables hold."""

    def __init__(self, deployed, other):
        self.deployed, self.other = deployed, other
        self.tables = TABLES.format(clicks=deployed.folder, views=other.folder)

    def deploy(self, version, *inserts, more="", **columns):
        text = self.tables + more + ";\n".join(f"INSERT INTO {insert}" for insert in inserts)
        self.deployed.insert(version, text=text, **columns)
        self.deployed.ask()

    def until(self, version, event):
        self.deployed.until(lambda: self.deployed.events(version)[-1:] == [event], f"version {version}: {event}")

    def holds(self, table, rows):
        self.deployed.until(lambda: self.rows(table) == sorted(rows), f"{table} holds {rows}, not {self.rows(table)}")

    def rows(self, table):
        return sorted((row["page"], row["ms"]) for row in self.deployed.rows(table))


@pytest.fixture
def world(deployed, other):
    return World(deployed, other)


def test_should_refuse_a_query_that_begins_where_another_one_wrote_before_anything_stops(world, options):
    """An output that is read from elsewhere, one that a join writes to; and what begins afresh by its name."""
    world.deployed.write(("/", 1), ("/a", 2))
    world.other.write(("/", 7))
    world.deploy(1, "a SELECT page, ms FROM clicks", "b SELECT page, ms FROM clicks")
    with Supervised(world.deployed, Supervisor(NAME, options)):
        world.until(1, "committed")
        world.deploy(2, "a SELECT page, ms FROM views", "b SELECT page, ms FROM clicks")
        world.until(2, "refused")
        assert "the output 'a' has rows of another query" in world.deployed.told(2)[0]
        join = JOINED.format(left="clicks", right="views")
        world.deploy(3, f"a {join}", "b SELECT page, ms FROM clicks")
        world.until(3, "refused")
        assert "--reset a_join" in world.deployed.told(3)[0]
        world.deployed.write(("/c", 3))
        world.holds("a", world.deployed.written)
        world.deploy(4, f"a {join}", "b SELECT page, ms FROM clicks", reset="a_join")
        world.until(4, "trying")
        world.deployed.write(("/", 4))
        world.holds("a", [("/", 1), ("/", 4)])
        world.holds("b", world.deployed.written)
        world.until(4, "committed")
    assert world.deployed.events(2) == world.deployed.events(3) == ["refused"]


def test_should_not_begin_with_the_checkpoint_of_a_statement_that_was_dropped(world, options):
    """It has the name of the query of before, but another output; the same output goes on where it was."""
    world.deployed.write(("/", 1))
    world.other.write(("/x", 7))
    alone = "a SELECT page, ms FROM clicks"
    world.deploy(1, alone, "b SELECT page, ms FROM views")
    with Supervised(world.deployed, Supervisor(NAME, options)):
        world.until(1, "committed")
        world.holds("b", world.other.written)
        world.deploy(2, alone)
        world.until(2, "trying")
        world.deployed.write(("/", 2))
        world.until(2, "committed")
        world.deploy(3, alone, "c SELECT page, ms FROM views")
        world.until(3, "refused")
        assert "an earlier query of this name left a checkpoint" in world.deployed.told(3)[0]
        world.deploy(4, alone, "c SELECT page, ms FROM views", reset="views")
        world.until(4, "trying")
        world.other.write(("/y", 8))
        world.deployed.write(("/", 3))
        world.until(4, "committed")
        world.holds("c", world.other.written)
        world.holds("a", world.deployed.written)


LOOKED_UP = """
CREATE TABLE pages (page STRING, ms BIGINT{more}, PRIMARY KEY (page) NOT ENFORCED)
    WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
"""
FOUND = "a SELECT c.page, {ms} AS ms FROM clicks c JOIN pages FOR SYSTEM_TIME AS OF c.p AS d ON c.page = d.page"


@pytest.mark.parametrize("more", ["", ", name STRING"], ids=["moved", "other fields"])
def test_should_not_compute_a_batch_with_the_dimension_of_a_version_that_failed(world, options, tmp_path, more):
    for name, ms in (("old", 1), ("new", 2)):
        rows = ({"page": page, "ms": ms, "name": "n"} for page in ("/", "/a"))
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    world.deployed.write(("/", 0))
    world.deploy(1, FOUND.format(ms="d.ms"), more=LOOKED_UP.format(path=tmp_path / "old", more=""))
    with Supervised(world.deployed, Supervisor(NAME, options)):
        world.until(1, "committed")
        world.deploy(2, FOUND.format(ms="d.ms / c.ms"), more=LOOKED_UP.format(path=tmp_path / "new", more=more))
        world.until(2, "trying")
        world.deployed.write(("/a", 0))
        world.until(2, "failed")
        assert "moves dimension of" in world.deployed.told(2)[0]
        world.holds("a", [("/", 1), ("/a", 1)])


def test_should_tell_that_rows_of_a_version_that_failed_stay_in_the_outputs_that_it_began(world, options):
    """A Delta table of another version has them replaced by its own."""
    world.deployed.write(("/", 1))
    world.other.write(("/x", 7))
    world.deploy(1, "a SELECT page, ms FROM clicks")
    with Supervised(world.deployed, Supervisor(NAME, options)):
        world.until(1, "committed")
        world.deploy(2, "a SELECT page, ms / (ms - 2) AS ms FROM clicks", "b SELECT page, ms FROM views")
        world.holds("b", world.other.written)
        world.deployed.write(("/", 2))
        world.until(2, "failed")
        assert world.deployed.told(2)[-1].endswith("version 1 runs again; rows that it wrote to b stay there")
        world.deploy(3, "a SELECT page, ms FROM clicks", "b SELECT page, ms FROM views")
        world.until(3, "trying")
        world.deployed.write(("/", 3))
        world.other.write(("/y", 8))
        world.until(3, "committed")
        world.holds("a", world.deployed.written)
        world.holds("b", world.other.written)
