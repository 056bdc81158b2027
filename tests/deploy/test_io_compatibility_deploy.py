"""Versions that call inputs and outputs otherwise, or let rows replace others: none stands twice, none is missing."""

import json

import pytest

from rs_assets.catalog.deployments import Version
from rs_assets.deploy import supervisor as supervisors
from rs_assets.deploy.checking import checked
from rs_assets.deploy.supervisor import Supervisor
from rs_assets.deploy.texts import pipeline_of
from rs_assets.errors import ConfigurationError, SinkError, TopologyChangedError
from rs_assets.sql.plan.build import pipeline_from_sql
from rs_assets.topology.shape import changes, looks_through, shape_of
from tests.deploy.deploying import COUNTING, NAME, Deployed, Supervised

CLICKS = """CREATE TABLE {0} (page STRING, ms BIGINT)
    WITH ('connector' = 'filesystem', 'path' = '{1}', 'format' = 'json')"""
OUTPUT = "CREATE TABLE {0} (page STRING, ms BIGINT{2}) WITH ('connector' = 'delta', 'table' = '{1}')"
BY_PAGE, BY_MS = (f", PRIMARY KEY ({key}) NOT ENFORCED" for key in ("page", "ms"))


@pytest.fixture
def deployed(home, tmp_path):
    return Deployed(home, tmp_path / "in")


class Versions:
    """Statements that are deployed one after the other over two folders."""

    def __init__(self, deployed, other):
        self.deployed, self.other, self.number = deployed, other, 0

    def deploy(self, *inserts, clicks="clicks", newest="newest", key=BY_PAGE, reset=None):
        """A version with `newest`, the table of that name under another one, and a plain one called `every`."""
        self.number += 1
        text = (
            CLICKS.format(clicks, self.deployed.folder),
            CLICKS.format("views", self.other.folder),
            OUTPUT.format(newest, "newest", key),
            OUTPUT.format("every", "every", ""),
            *(f"INSERT INTO {insert}" for insert in inserts),
        )
        self.deployed.insert(self.number, text=";\n".join(text), reset=reset)
        self.deployed.ask()
        return self.number

    def refused(self, *inserts, **columns):
        """What is told of a version that must be refused."""
        version = self.deploy(*inserts, **columns)
        self.deployed.until(lambda: self.deployed.events(version) == ["refused"], f"version {version} is refused")
        return self.deployed.told(version)[0]

    def tried(self, *inserts, page, **columns):
        """A version that commits a batch with `page`."""
        version = self.deploy(*inserts, **columns)
        self.deployed.until(lambda: "trying" in self.deployed.events(version), f"version {version} is tried")
        self.deployed.write((page, version))
        self.deployed.until(lambda: self.deployed.events(version)[-1:] == ["committed"], f"version {version} is good")
        return self.deployed.told(version)[0]

    def rows(self, table):
        return sorted((row["page"], row["ms"]) for row in self.deployed.rows(table))


@pytest.fixture
def versions(deployed, tmp_path):
    return Versions(deployed, Deployed(deployed.home, tmp_path / "other"))


def test_should_refuse_what_would_double_rows_or_miss_some(versions, options):
    deployed = versions.deployed
    deployed.write(("/", 1), ("/a", 1), ("/", 2))
    newest, every = "newest SELECT page, ms FROM clicks", "every SELECT page, ms FROM clicks"
    hits = (newest.replace("clicks", "hits"), every.replace("clicks", "hits"))
    versions.deploy(newest, every)
    with Supervised(deployed, Supervisor(NAME, options)):
        deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1 is good")
        assert "as those of 'clicks'" in versions.refused(*hits, clicks="hits")
        told = versions.refused(newest.replace("newest", "last", 1), every, newest="last", reset="*")
        assert "name it newest as before" in told
        assert "upsert by ms, but has rows of a version that did upsert by page" in versions.refused(
            newest, every, key=BY_MS
        )
        assert "leaves output every" in versions.tried(newest, page="/c")
        assert "later rows would be missing" in versions.refused(newest, every)
        versions.tried(*hits, page="/d", clicks="hits", reset="hits", key=BY_MS)
        deployed.until(lambda: versions.rows("every") == sorted(deployed.written), "all rows once")
        newest_by_ms = {ms: page for page, ms in deployed.written}
        deployed.until(lambda: {ms: page for page, ms in versions.rows("newest")} == newest_by_ms, "the newest rows")
        assert len(versions.rows("newest")) == len(newest_by_ms)


def test_should_refuse_statements_in_another_order_that_write_to_one_table(versions, options):
    """The outputs of one table are called by their order, and each would read the input of the other one again."""
    deployed = versions.deployed
    clicks, views = "every SELECT page, ms FROM clicks", "every SELECT page, ms FROM views"
    versions.other.write(("/x", 0))
    deployed.write(("/a", 1))
    versions.deploy(clicks, views)
    with Supervised(deployed, Supervisor(NAME, options)):
        deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1 is good")
        for texts in ((views, clicks), (views,)):
            told = versions.refused(*texts)
            assert "the source 'views' would be read from its beginning" in told
            assert "keep the names of tables and the order of statements" in told
        deployed.write(("/b", 2))
        every = sorted([*deployed.written, *versions.other.written])
        deployed.until(lambda: versions.rows("every") == every, f"all rows once: {versions.rows('every')}")


def test_an_output_that_moves_away_from_its_rows_is_refused_before_anything_stops(deployed, options):
    def version(number, table, **columns):
        texts = CLICKS.format("clicks", deployed.folder), OUTPUT.format("every", table, "")
        text = ";\n".join((*texts, "INSERT INTO every SELECT page, ms FROM clicks"))
        return Version(pipeline=NAME, version=number, text=text, **columns)

    deployed.write(("/", 1), ("/a", 2))
    first = version(1, "every")
    pipeline_of(first).run(options)
    with pytest.raises(TopologyChangedError, match="the output 'every' moves to another place") as refused:
        checked(version(2, "other"), first, options)
    assert "--reset clicks" in refused.value.remedy
    _, change = checked(version(2, "other", reset=("clicks",)), first, options)
    assert "begins offsets of clicks, output every" in str(change)


def kept(*_, **__):
    raise SinkError("a batch stands in the topic and cannot be taken back", remedy="none")


def test_should_go_forward_where_the_way_back_is_refused(versions, options, monkeypatch):
    """A topic that has had rows of a trial: what was wrong is told, and a version that is mended goes on from there."""
    deployed = versions.deployed
    every, newest = "every SELECT page, ms FROM clicks", "newest SELECT page, ms FROM views"
    deployed.write(("/a", 1))
    versions.deploy(every)
    with Supervised(deployed, Supervisor(NAME, options)):
        deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1 is good")
    monkeypatch.setattr(supervisors, "restore", kept)
    versions.deploy(every.replace("ms", "100 / (ms - 7) AS ms"), newest)
    deployed.write(("/b", 7))
    for _ in range(2):
        with pytest.raises(SinkError, match="cannot be taken back") as refused:
            Supervisor(NAME, options).run()
        assert refused.value.remedy.startswith(supervisors.FORWARD)
    told = deployed.told(2)[2]
    assert "DIVIDE_BY_ZERO" in told
    assert told.endswith(supervisors.FORWARD)
    # One that does not go on with what stands there is refused, and does not take the one of before with it.
    versions.deploy(every, newest, key=BY_MS, reset="nothing")
    with pytest.raises(SinkError):
        Supervisor(NAME, options).run()
    assert deployed.events(3) == ["refused"]
    versions.deploy(every, newest)
    versions.other.write(("/x", 0))
    with Supervised(deployed, Supervisor(NAME, options)):
        deployed.until(lambda: versions.rows("every") == sorted(deployed.written), "all rows once")
        deployed.until(lambda: versions.rows("newest") == versions.other.written, "all rows of the other")
    assert deployed.standing.good.version == 4
    assert deployed.standing.trial is None


RANKED = """
CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json');
CREATE TABLE best (page STRING, n BIGINT, rn BIGINT) WITH ('connector' = 'delta', 'table' = 'best');
CREATE VIEW counts AS SELECT page, {n} AS n
    FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY page, window_start, window_end;
INSERT INTO best SELECT page, n, rn FROM
    (SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY n DESC) AS rn FROM counts) WHERE rn <= 2
"""


def test_should_know_by_state_what_lies_above_a_durable_shuffle():
    """Rows that another version of the query above has made would stand beside those of this one."""
    texts = (RANKED.format(n=n) for n in ("COUNT(*)", "COUNT(*) * 9"))
    one, other = (pipeline_from_sql(text, namespace="shop", job="best").topology for text in texts)
    assert one.shuffled
    before, now = shape_of(one, "best_top"), shape_of(other, "best_top")
    assert any("* 9" in line for line in changes(before, now))
    assert not changes(before, before)
    older = shape_of(one, "best_top", through=False)
    assert looks_through(before)
    assert not looks_through(older)
    assert not changes(older, shape_of(other, "best_top", through=False))


SHUFFLED = """
CREATE TABLE clicks (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json');
CREATE TABLE best (page STRING, n BIGINT, rn BIGINT{more}) WITH ('connector' = 'delta', 'table' = 'best');
CREATE VIEW counts AS SELECT page, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY page, window_start, window_end;
INSERT INTO best SELECT page, n, rn{selected} FROM
    (SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY n DESC) AS rn FROM counts) WHERE rn <= 2
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    rows = ({"page": page, "ms": 1, "ts": "2026-01-05 00:00:00"} for page in "ab")
    (tmp_path / "in" / "0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "in"


def version(number, text, pipeline="shop.totals", reset=()):
    return Version(pipeline=pipeline, version=number, text=text, reset=reset)


@pytest.mark.long
def test_state_that_another_version_cannot_continue_is_kept_as_it_was_or_dropped(options, folder):
    text = COUNTING.format(folder=folder, select="page, n, ms", least=0, more="")
    good = version(1, text)
    pipeline_of(good).run(options)
    other = text.replace("ms >= 0", "ms >= 1")
    with pytest.raises(TopologyChangedError) as refused:
        checked(version(2, other), good, options)
    assert refused.value.remedy.startswith("leave stateful steps, the steps upstream of them, and how outputs replace")
    assert "(rs-assets deploy --reset STEP), or '*' to start over" in refused.value.remedy
    [state] = [node.name for node in pipeline_of(good).topology if node.stateful]
    for reset in ((state,), ("*",)):
        assert checked(version(2, other, reset=reset), good, options)
    assert checked(version(2, text.replace("SELECT page, n, ms FROM", "SELECT page, n, ms + 1 FROM")), good, options)


@pytest.mark.long
def test_a_pipeline_with_a_durable_shuffle_that_changes_is_deployed_under_another_name(options, folder):
    good = version(1, SHUFFLED.format(folder=folder, more="", selected=""))
    assert pipeline_of(good).topology.shuffled
    pipeline_of(good).run(options)
    text = SHUFFLED.format(folder=folder, more=", one BIGINT", selected=", 1")
    with pytest.raises(ConfigurationError, match="cannot be rolled back after a trial") as refused:
        checked(version(2, text, reset=("*",)), good, options)
    assert refused.value.remedy == "drop the pipeline, and deploy this version under another name"
    assert checked(version(1, text.replace("'best'", "'best2'"), "shop.others"), None, options)
