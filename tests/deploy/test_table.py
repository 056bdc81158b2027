"""The table of versions as anybody may have written it, and which version is to run by what became of them."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import product

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rs_assets import Deployments
from rs_assets.catalog.deployments import DeploymentTable, Version, stamp_of
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.deploy.change import _begun
from rs_assets.deploy.history import ON_TRIAL, SETTLED, Event, standing
from rs_assets.deploy.texts import pipeline_of
from rs_assets.errors import ConfigurationError, SqlError, UserError
from tests.deploy.deploying import NAME, Deployed

TEXT = """
CREATE TABLE hits (page STRING) WITH ('connector' = 'filesystem', 'path' = '${FOLDER}', 'format' = 'json');
CREATE TABLE pages (page STRING) WITH ('connector' = 'delta', 'table' = 'pages');
INSERT INTO pages SELECT page FROM hits
"""
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def deployed(home, tmp_path):
    return Deployed(home, tmp_path / "in")


def test_should_number_versions_of_many_writers_one_after_another(home):
    table = DeploymentTable(home.deployments)
    with ThreadPoolExecutor(4) as pool:
        numbers = list(pool.map(lambda n: table.add(NAME, text=f"t{n}"), range(12)))
    assert sorted(numbers) == list(range(1, 13))
    assert {v.version: v.text for v in table.of(NAME)} == {n: f"t{i}" for i, n in enumerate(numbers)}


def test_should_take_what_a_row_leaves_out_from_the_version_before(deployed):
    deployed.insert(1, text="one", variables={"A": "1"})
    deployed.insert(2, state="stopped")
    deployed.insert(4, text="four", state=None, reset=" a, ,b ")
    one, two, four = deployed.table.of(NAME)
    assert (two.text, two.variables, two.state) == ("one", {"A": "1"}, "stopped")
    assert (four.text, four.variables, four.state, four.reset) == ("four", {}, "running", ("a", "b"))
    assert two.says(one)
    assert not four.says(one)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"version": None, "text": "x"}], "no version above 0"),
        ([{"version": -3, "text": "x"}], "no version above 0"),
        ([{"version": 1}], "no text"),
        ([{"version": 1, "text": "x", "state": "going"}], "the state 'going'"),
        ([{"version": 1, "text": "x"}, {"version": 1, "text": "y"}], "two rows"),
        ([{"version": 1, "text": "x", "pipeline": "totals"}], "not the name of a pipeline"),
        ([{"version": 1, "text": "x", "pipeline": "../up.x"}], "not the name of a pipeline"),
        ([{"version": 1, "text": "x", "pipeline": None}], "not the name of a pipeline"),
    ],
    ids=str,
)
def test_should_find_the_fault_of_a_row(deployed, rows, told):
    for row in rows:
        deployed.insert(**row)
    [(version,)] = deployed.table.versions().values()
    assert told in version.fault
    with pytest.raises(ConfigurationError, match="is invalid"):
        pipeline_of(version)


def test_should_read_one_row_twice_as_one_and_a_table_with_other_columns(deployed):
    deployed.insert(1, text="x")
    deployed.insert(1, text="x")
    assert [version.fault for version in deployed.table.of(NAME)] == [""]
    rows = pa.table({"pipeline": ["a.b", "a.b"], "version": ["2", None], "text": ["x", "y"]})
    path = deployed.home.root / "other"
    write_deltalake(str(path), rows)
    assert all("no version" in version.fault for version in DeploymentTable(path).of("a.b"))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"at": ["yesterday"]}, ""),
        ({"at": pa.array([2**62], pa.timestamp("us", tz="UTC"))}, ""),
        ({"variables": ["{}"]}, "variables have the type str"),
        ({"variables": [5]}, "variables have the type int"),
    ],
    ids=["a time in words", "a time beyond all", "a text", "a number"],
)
def test_should_not_let_one_row_keep_the_others_from_being_read(deployed, columns, told):
    """Neither a code location nor the sensor can be loaded if they are not."""
    rows = pa.table({"pipeline": ["shop.bad"], "version": [1], "text": [TEXT.replace("${FOLDER}", "in")], **columns})
    write_deltalake(str(deployed.table.path), rows)
    [(version,)] = deployed.table.versions().values()
    assert told in version.fault
    assert bool(version.fault) == bool(told)
    if not told:
        assert pipeline_of(version).name == "shop.bad"


def test_should_add_to_a_table_that_others_have_made(deployed):
    write_deltalake(str(deployed.table.path), pa.table({"pipeline": ["a.b"], "version": [2**63 - 1], "text": ["x"]}))
    assert deployed.table.add(NAME, text="y", variables={"A": "1"}) == 1
    assert deployed.table.of(NAME)[0].variables == {"A": "1"}
    with pytest.raises(ConfigurationError, match="another name"):
        deployed.table.add("a.b", text="y")


def test_should_read_rows_again_only_when_there_are_new_ones(deployed):
    assert (stamp_of(deployed.table.path), deployed.table.versions()) == ("", {})
    deployed.insert(1, text="x")
    first, stamp = deployed.table.versions(), stamp_of(deployed.table.path)
    assert deployed.table.versions() is first
    deployed.insert(2, text="y")
    assert stamp_of(deployed.table.path) != stamp
    assert len(deployed.table.of(NAME)) == 2


def test_should_read_rows_of_a_table_that_was_put_back_from_a_copy(deployed, tmp_path):
    """Its versions have numbers that other rows had."""
    deployed.insert(1, text="x")
    shutil.copytree(deployed.table.path, tmp_path / "copy")
    deployed.insert(2, text="y")
    assert [version.text for version in deployed.table.of(NAME)] == ["x", "y"]
    stamp = stamp_of(deployed.table.path)
    shutil.rmtree(deployed.table.path)
    shutil.copytree(tmp_path / "copy", deployed.table.path)
    deployed.insert(2, text="z")
    assert stamp_of(deployed.table.path) != stamp
    assert [version.text for version in deployed.table.of(NAME)] == ["x", "z"]


def test_should_refuse_a_text_that_cannot_be_read_and_the_name_of_a_file(home):
    deployments = Deployments(home)
    with pytest.raises(SqlError):
        deployments.deploy("shop.pages", "SELECT")
    with pytest.raises(SqlError, match="FOLDER"):
        deployments.deploy("shop.pages", TEXT)
    with pytest.raises(ConfigurationError, match="name of a file"):
        deployments.deploy("shop.pages", "/etc/passwd.sql")
    with pytest.raises(ConfigurationError, match="no version of 'shop.pages'"):
        deployments.stop("shop.pages")
    assert deployments.deploy("shop.pages", TEXT, variables={"FOLDER": "in"}) == 1
    assert deployments.stop("shop.pages") == 2
    with pytest.raises(ConfigurationError, match="no version 7"):
        deployments.rollback("shop.pages", to=7)
    assert deployments.rollback("shop.pages", to=1) == 3
    one, _, three = deployments.versions("shop.pages")
    assert three.says(one)


def version(number, **columns):
    return Version(pipeline=NAME, version=number, text=f"v{number}", **columns)


def event(number, happened):
    return Event(pipeline=NAME, version=number, event=happened)


def test_should_choose_by_every_history_of_two_versions_as_told_in_words():
    for first, second in product(sorted(ON_TRIAL | SETTLED), repeat=2):
        now = standing([version(1), version(2)], [event(1, first), event(2, second)])
        good = 2 if second == "committed" else 1 if first == "committed" else None
        assert (now.good.version if now.good else None) == good
        if second not in ("refused", "failed"):
            assert now.chosen.version == 2
        elif first in ON_TRIAL:
            assert now.chosen.version == 1
        else:
            assert (now.chosen.version if now.chosen else None) == good
        assert now.settled == (second in SETTLED)


def test_should_count_the_starts_that_nobody_has_told_the_end_of():
    tries = [event(1, "trying"), event(1, "trying")]
    assert standing([version(1)], tries).tries == 2
    assert standing([version(1)], [*tries, event(1, "paused")]).tries == 0
    assert standing([version(1)], [*tries, event(1, "returning")]).tries == 2
    assert standing([version(1)], [*tries, event(1, "failed")]).trial is None


@pytest.mark.parametrize("state", ["stopped", "dropped"])
def test_should_run_nothing_that_is_to_be_stopped(state):
    now = standing([version(1), version(2, state=state)], [event(1, "committed")])
    assert now.chosen is None
    assert (now.shown is None) == (state == "dropped")


def happened(of, what):
    return Event.about(of, what, what)


def test_should_not_take_what_became_of_a_table_before_for_what_became_of_one_that_was_made_anew():
    """By numbers alone its first version would count as committed, and never run."""
    one, two = version(1, at=BEGIN), version(2)
    events = [happened(one, "committed"), happened(two, "committed")]
    fresh = Version(pipeline=NAME, version=1, text="another")
    now = standing([fresh], events)
    assert (now.last, now.settled, now.chosen) == (None, False, fresh)
    # What ran goes on until then, and the way back leads to it, though its row is gone.
    assert (now.good, now.shown) == (two, two)
    broken = standing([fresh], [*events, happened(fresh, "refused")])
    assert (broken.chosen, broken.last.event) == (two, "refused")
    tried = standing([fresh], [*events, happened(fresh, "trying")])
    assert (tried.tried, tried.tries) == (fresh, 1)


def test_should_deploy_a_version_again_that_a_table_went_back_to():
    one, two, three = version(1, at=BEGIN, note="first"), version(2), version(3)
    ran = [happened(one, "committed"), happened(two, "committed")]
    assert standing([one], ran).last is None
    assert standing([one], ran).good == two
    assert standing([one, two], [*ran, happened(three, "refused")]).last.event == "committed"
    assert standing([one, two], [*ran, happened(three, "trying")]).tried == three
    # A row that came twice is none any more; the version itself is known from the events.
    twice = Version(pipeline=NAME, version=1, fault="two rows have this version")
    now = standing([twice], [*ran[:1], happened(twice, "refused")])
    assert (now.broken, now.chosen) == (True, one)


def test_should_leave_stopped_what_was_stopped_before_a_version_that_cannot_run():
    one, two, three = version(1), version(2, state="stopped"), version(3)
    events = [happened(one, "committed"), happened(two, "stopped"), happened(three, "refused")]
    now = standing([one, two, three], events)
    assert (now.chosen, now.before, now.good, now.shown) == (None, None, one, one)
    events[1] = happened(two, "dropped")
    assert standing([one, two, three], events).shown is None
    four = version(4)
    assert standing([one, two, three, four], [*events, happened(four, "committed")]).before == four


@pytest.mark.parametrize("text", ["SELECT " + "(" * 5000, "\0", "INSERT INTO a SELECT " + "-" * 9000 + "1 FROM b"])
def test_should_refuse_whatever_a_text_does_to_its_reader(text):
    with pytest.raises(UserError):
        pipeline_of(Version(pipeline=NAME, version=1, text=text))


def test_should_tell_the_outputs_of_a_query_that_begins():
    """Another one may go on with the same source, so its offsets alone say nothing."""
    [plan] = plan_queries(pipeline_of(Version(pipeline=NAME, version=1, text=TEXT.replace("${FOLDER}", "in"))).topology)
    assert list(_begun(plan, None)) == ["offsets of hits", "output pages"]
