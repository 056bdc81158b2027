"""A running pipeline is changed by rows of a table: state is kept, and no row is lost or doubled."""

import os
import signal
from types import SimpleNamespace

import pytest

from rs_assets import Deployments
from rs_assets.deploy import supervisor as supervisors
from rs_assets.deploy.supervisor import Supervisor
from rs_assets.errors import CheckpointError, PipelineBusyError, TopologyChangedError
from tests.deploy.deploying import NAME, Deployed, Supervised
from tests.faults.processes import started


@pytest.fixture
def deployed(home, tmp_path):
    return Deployed(home, tmp_path / "in")


def supervised(deployed, options):
    return Supervised(deployed, Supervisor(NAME, options))


def counted(deployed, **columns):
    return {row["page"]: (row["n"], row["ms"]) for row in deployed.rows()}


def test_should_change_a_running_pipeline_and_keep_its_state(deployed, options):
    deployed.insert(1, text=deployed.text())
    deployed.write(("/", 1), ("/a", 2), ("/", 3))
    with supervised(deployed, options):
        deployed.until(lambda: counted(deployed) == deployed.totals(), "version 1")
        deployed.insert(2, text=deployed.text(select="page, n, ms + 0 AS ms"), note="another projection")
        deployed.ask()
        deployed.until(lambda: deployed.events(2)[-1:] == ["trying"], "version 2 is started")
        deployed.write(("/", 10), ("/b", 5))
        deployed.until(lambda: counted(deployed) == deployed.totals(), "version 2")
        deployed.until(lambda: deployed.events(2)[-1:] == ["committed"], "version 2 has committed")
        assert "keeps state of by_page" in deployed.told(2)[0]
        # Broken in three ways: text, state, and at its first batch.
        deployed.insert(3, text="SELECT")
        deployed.ask()
        deployed.until(lambda: deployed.events(3) == ["refused"], "version 3")
        deployed.insert(4, text=deployed.text(least=2))
        deployed.ask()
        deployed.until(lambda: deployed.events(4) == ["refused"], "version 4")
        assert "by_page" in deployed.told(4)[0]
        deployed.insert(5, text=deployed.text(select="page, n / (n - n), ms"))
        deployed.ask()
        deployed.until(lambda: deployed.events(5)[-1:] == ["trying"], "version 5 is started")
        deployed.write(("/c", 7), ("/", 1))
        deployed.until(lambda: deployed.events(5)[-1:] == ["failed"], "version 5")
        assert "version 2 runs again" in deployed.told(5)[-1]
        deployed.until(lambda: counted(deployed) == deployed.totals(), "version 2 again")
    assert deployed.standing.good.version == 2


def test_should_go_back_to_a_savepoint_when_a_version_forgets_and_fails(deployed, options):
    """Rolled back by hand, dropped, and taken up again with what it had."""
    deployed.insert(1, text=deployed.text())
    deployed.write(("/", 1), ("/a", 2))
    with supervised(deployed, options) as running:
        deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1")
        # It begins afresh with another filter, and reads all input again, in which a row is too much for it.
        failing = deployed.text(least=2, select="page, n, ms / (ms - 2) AS ms")
        deployed.insert(2, text=failing, reset="*")
        deployed.ask()
        deployed.until(lambda: deployed.events(2)[-1:] == ["failed"], "version 2")
        assert deployed.events(2) == ["trying", "returning", "failed"]
        deployed.write(("/", 4))
        deployed.until(lambda: counted(deployed) == deployed.totals(), "version 1 again")
        # Two between two looks: only the newer one is tried.
        deployed.insert(3, text="SELECT")
        deployed.insert(4, text=deployed.text(least=2), reset="*")
        deployed.ask()
        deployed.until(lambda: deployed.events(4)[-1:] == ["committed"], "version 4")
        assert deployed.events(3) == []
        assert counted(deployed) == deployed.totals(least=2)
        Deployments(deployed.home).rollback(NAME, to=1, reset=["*"])
        deployed.ask()
        deployed.until(lambda: deployed.events(5)[-1:] == ["committed"], "version 5")
        assert counted(deployed) == deployed.totals()
        Deployments(deployed.home).drop(NAME)
        deployed.ask()
        running.join(60)
    assert deployed.events(6) == ["dropped"]
    assert Supervisor(NAME, options).run() is None
    deployed.write(("/", 9))
    Deployments(deployed.home).start(NAME)
    with supervised(deployed, options):
        deployed.until(lambda: counted(deployed) == deployed.totals(), "version 7")


PROGRAM = """
import sys
from pathlib import Path
from rs_assets.common.home import Home
from rs_assets.deploy.supervisor import Supervisor
from rs_assets.runtime.options import RunOptions

Supervisor("shop.totals", RunOptions(home=Home(Path(sys.argv[1])))).run()
"""


@pytest.mark.slow
@pytest.mark.faults
def test_should_go_on_when_its_process_is_killed_half_way(deployed, options):
    deployed.insert(1, text=deployed.text())
    deployed.write(("/", 1), ("/a", 2), ("/", 3))
    with started(PROGRAM, deployed.home.root) as process:
        deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1")
        deployed.insert(2, text=deployed.text(select="page, n, ms / (ms - 2) AS ms", least=2), reset="*")
        deployed.ask()
        # The savepoint is taken, and nobody knows how far the start has come.
        deployed.until(lambda: deployed.events(2) == ["trying"], "version 2 is started")
        os.killpg(process.pid, signal.SIGKILL)
    deployed.write(("/", 10), ("/b", 5))
    with supervised(deployed, options):
        deployed.until(lambda: deployed.events(2)[-1:] == ["failed"], "version 2")
        deployed.until(lambda: counted(deployed) == deployed.totals(), "version 1 again")
    assert "returning" in deployed.events(2)


PLAIN = """
CREATE TABLE clicks (page STRING, ms BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json');
CREATE TABLE totals (page STRING, ms BIGINT) WITH ('connector' = 'delta', 'table' = 'totals');
INSERT INTO totals SELECT page, {ms} AS ms FROM clicks
"""
SECOND = """;
CREATE TABLE late (page STRING, ms BIGINT) WITH ('connector' = 'delta', 'table' = 'late');
INSERT INTO late SELECT page, ms FROM clicks
"""


def full(*_, **__):
    raise CheckpointError("the disk is full", remedy="make room")


@pytest.mark.long
def test_should_leave_no_input_of_a_version_that_failed_and_tell_nothing_of_one_that_cannot_start(
    deployed, options, tmp_path, monkeypatch
):
    """A second process, a version that reads from elsewhere and fails, one that cannot have a savepoint."""
    other = Deployed(deployed.home, tmp_path / "other")
    other.write(("/x", 0), ("/y", 0))
    first = PLAIN.format(folder=deployed.folder, ms="ms")

    def rows():
        return sorted((row["page"], row["ms"]) for row in deployed.rows())

    deployed.insert(1, text=first)
    deployed.write(("/", 1), ("/a", 2))
    with supervised(deployed, options):
        deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1")
        deployed.insert(2, text=PLAIN.format(folder=other.folder, ms="CAST(1 / ms AS BIGINT)"))
        with pytest.raises(PipelineBusyError):
            Supervisor(NAME, options).run()
        assert deployed.events(2) == []
        deployed.ask()
        deployed.until(lambda: deployed.events(2)[-1:] == ["failed"], "version 2")
        assert "moves source clicks" in deployed.told(2)[0]
        deployed.write(("/e", 3))
        deployed.until(lambda: ("/e", 3) in rows(), "version 1 again")
        assert rows() == sorted(deployed.written)
        monkeypatch.setattr(supervisors, "savepoint", full)
        deployed.insert(3, text=first + SECOND)
        deployed.ask()
        deployed.until(lambda: deployed.events(3) == ["refused"], "version 3")
        deployed.write(("/f", 4))
        deployed.until(lambda: rows() == sorted(deployed.written), "version 1 once more")


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.mark.long
def test_should_end_a_way_back_that_was_cut_short(deployed, options):
    deployed.insert(1, text=deployed.text())
    deployed.write(("/", 1), ("/a", 2))
    with supervised(deployed, options):
        deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1")
    deployed.insert(2, text=deployed.text(select="page, n, ms / (ms - 2) AS ms", least=2), reset="*")
    supervisor = Supervisor(NAME, options)
    note = supervisor._history.note

    def noted(event):
        note(event)
        if event.event == "returning":
            raise Killed

    supervisor._history = SimpleNamespace(note=noted, of=supervisor._history.of)
    with pytest.raises(Killed):
        supervisor.run()
    deployed.write(("/", 4))
    with supervised(deployed, options):
        deployed.until(lambda: deployed.events(2)[-1:] == ["failed"], "version 2")
        deployed.until(lambda: counted(deployed) == deployed.totals(), "version 1 again")


TWO = """
CREATE TABLE clicks (page STRING, ms BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json');
CREATE TABLE views (page STRING, ms BIGINT) WITH ('connector' = 'filesystem', 'path' = '{other}', 'format' = 'json');
CREATE TABLE totals (page STRING, ms BIGINT) WITH ('connector' = 'delta', 'table' = 'totals');
CREATE TABLE seen (page STRING, ms BIGINT) WITH ('connector' = 'delta', 'table' = '{seen}');
INSERT INTO totals SELECT page, ms FROM clicks;
INSERT INTO seen SELECT page, {ms} FROM views
"""


@pytest.mark.long
def test_should_not_take_a_version_for_good_before_each_query_with_input_has_committed_some(
    deployed, options, tmp_path, driver
):
    """The second query has not looked at its input when the first one has committed, and then fails on it."""
    other = Deployed(deployed.home, tmp_path / "other")
    text = TWO.format(folder=deployed.folder, other=other.folder, ms="{ms}", seen="{seen}")
    deployed.insert(1, text=text.format(ms="ms", seen="seen"))
    deployed.write(("/", 1))
    supervisor = Supervisor(NAME, options)
    with Supervised(deployed, supervisor):
        # Of the second one that has nothing to read nobody waits for a batch.
        deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1")
        # Rows that went to another table would be missing in the one of before.
        deployed.insert(2, text=text.format(ms="10 / ms", seen="elsewhere"))
        deployed.ask()
        deployed.until(lambda: supervisor._version.version == 2, "version 2 is started")
        deployed.until(lambda: supervisor._proof._running is supervisor._running, "version 2 is looked at")
        assert "moves output seen" in deployed.told(2)[0]
        query = supervisor._running.session.queries["views"]
        lock = driver.call(lambda _: query._query._jsq.streamingQuery().awaitProgressLock())
        driver.call(lambda _: lock.lock())
        other.write(("/x", 0), ("/y", 2))
        deployed.write(("/a", 2))
        deployed.until(lambda: "views" in supervisor._proof._asked, "the first query has committed")
        assert not supervisor._proof.given()
        driver.call(lambda _: lock.unlock())
        deployed.until(lambda: deployed.events(2)[-1:] == ["failed"], "version 2")
        deployed.until(lambda: {row["page"] for row in deployed.rows("seen")} == {"/x", "/y"}, "version 1 again")
        deployed.until(lambda: len(deployed.rows()) == 2, "version 1 again")


@pytest.mark.long
def test_should_go_on_without_a_table_and_with_one_that_was_made_anew(deployed, options, monkeypatch):
    """What ran is known from the events: it runs on, and the way back leads to it."""
    monkeypatch.setenv("CLICKS", str(deployed.folder))
    first = deployed.text().replace(str(deployed.folder), "${CLICKS}")
    deployed.insert(1, text=first)
    deployed.write(("/", 1), ("/a", 2))
    away = deployed.table.path.rename
    with supervised(deployed, options) as running:
        deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1")
        away(deployed.home.root / "away")
        deployed.ask()
        failures = running.supervisor._running.session.failures
        deployed.until(lambda: supervisors.NOT_SEEN in str(failures.open), "it is told")
        deployed.write(("/", 4))
        deployed.until(lambda: counted(deployed) == deployed.totals(), "version 1 runs on")
        deployed.insert(1, text=deployed.text(least=2, select="page, n, ms / (ms - 2) AS ms"), reset="*")
        deployed.until(lambda: deployed.events(1)[-1:] == ["failed"], "the new version 1")
        deployed.write(("/b", 4))
        deployed.until(lambda: counted(deployed) == deployed.totals(), "the old version 1 again")
    # A version whose text cannot be read any more keeps no other from coming.
    monkeypatch.delenv("CLICKS")
    deployed.insert(2, text=deployed.text(select="page, n, ms + 0 AS ms"))
    deployed.write(("/c", 4))
    with supervised(deployed, options):
        deployed.until(lambda: deployed.events(2)[-1:] == ["committed"], "version 2")
        assert counted(deployed) == deployed.totals()


@pytest.mark.long
def test_should_leave_stopped_what_was_stopped_when_the_next_version_cannot_run(deployed, options):
    deployed.insert(1, text=deployed.text())
    deployed.write(("/", 1))
    with supervised(deployed, options) as running:
        deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1")
        deployed.insert(2, state="stopped")
        deployed.ask()
        running.join(60)
    deployed.insert(3, text=deployed.text(least=5))
    with pytest.raises(TopologyChangedError, match="by_page"):
        Supervisor(NAME, options).run()
    assert deployed.events(3) == ["refused"]
    assert Supervisor(NAME, options).run() is None


@pytest.mark.long
def test_should_name_the_outputs_that_keep_rows_of_a_version_of_which_another_query_failed(
    deployed, options, tmp_path, driver
):
    other = Deployed(deployed.home, tmp_path / "other")
    first = TWO.format(folder=deployed.folder, other=other.folder, seen="seen", ms="ms")
    second = TWO.format(folder=deployed.folder, other=other.folder, seen="seen", ms="10 / ms")
    deployed.insert(1, text=first)
    deployed.write(("/", 1))
    other.write(("/x", 1))
    supervisor = Supervisor(NAME, options)
    with Supervised(deployed, supervisor):
        deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1")
        deployed.insert(
            2, text=second.replace("SELECT page, ms FROM clicks", "SELECT page, ms + 100 AS ms FROM clicks")
        )
        deployed.ask()
        deployed.until(lambda: supervisor._version.version == 2, "version 2 is started")
        deployed.until(lambda: supervisor._proof._running is supervisor._running, "version 2 is looked at")
        query = supervisor._running.session.queries["views"]
        lock = driver.call(lambda _: query._query._jsq.streamingQuery().awaitProgressLock())
        driver.call(lambda _: lock.lock())
        other.write(("/y", 0))
        deployed.write(("/a", 2))
        deployed.until(lambda: "views" in supervisor._proof._asked, "the first query has committed")
        driver.call(lambda _: lock.unlock())
        deployed.until(lambda: deployed.events(2)[-1:] == ["failed"], "version 2")
        deployed.write(("/b", 3))
        deployed.until(lambda: len(deployed.rows()) == 3, "version 1 again")
    # The first one was not undone: the state of both queries fits version 1.
    assert sorted((row["page"], row["ms"]) for row in deployed.rows()) == [("/", 1), ("/a", 102), ("/b", 3)]
    assert deployed.told(2)[-1].endswith("version 1 runs again; rows that it wrote to totals stay there")
