"""A running pipeline is changed by rows of a table: state is kept, and no row is lost or doubled."""

import pytest

from rs_assets.pipeline.deploy.supervisor import Supervisor
from tests.deploy.deploying import NAME, Deployed, Supervised


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
