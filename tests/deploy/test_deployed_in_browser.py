"""A pipeline that is deployed, changed, broken and dropped by rows of a table, as a person sees it in the browser."""

import json
import time
from contextlib import suppress

import pytest

from rs_assets.common.home import Home
from tests.dagster.browser import MARKS, PATIENCE_MS, UI, opened, served, shot, world_of
from tests.deploy.deploying import Deployed

pytestmark = [*MARKS, pytest.mark.long]
CODE = """
from rs_assets import StreamBuilder
pipeline = StreamBuilder.data_stream("shop", "ones").from_array([{"n": 1}]).to_delta("ones").build()
"""


@pytest.fixture
def deployed(tmp_path):
    return Deployed(Home(tmp_path / "rs"), tmp_path / "in")


@pytest.fixture
def ui(tmp_path):
    """The UI of a project of somebody's own; its address."""
    (tmp_path / "pyproject.toml").write_text('[tool.rs_assets]\npipelines = ["ones"]\n')
    (tmp_path / "ones.py").write_text(CODE)
    world = world_of(tmp_path)
    with served(world, tmp_path, UI) as address:
        yield address


@pytest.fixture
def page(tmp_path):
    with opened(tmp_path / "profile") as page:
        yield page


def see(page, address, text, what):
    """Load a page until it shows `text`."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < deadline:
        page.goto(address)
        with suppress(Exception):
            page.get_by_text(text).first.wait_for(timeout=10_000)
            return
    shot(page, "deployed_missing")
    pytest.fail(f"{what}: {text!r} is not seen")


def test_should_show_versions_come_change_break_and_go(page, ui, deployed):
    asset = f"{ui}/assets/shop/totals/totals"
    deployed.insert(1, text=deployed.text(), note="the first one")
    deployed.write(("/", 1), ("/a", 2), ("/", 3))
    see(page, asset, "Deployed version 1", "the asset")
    deployed.until(lambda: deployed.events(1)[-1:] == ["committed"], "version 1")
    deployed.insert(2, text=deployed.text(select="page, n, ms + 0 AS ms"), note="the second one")
    deployed.until(lambda: deployed.events(2)[:1] == ["trying"], "version 2 is started")
    deployed.write(("/", 10), ("/b", 5))
    see(page, f"{asset}?view=events", "version 2 committed", "the change")
    see(page, asset, "Deployed version 2", "the asset of the change")
    shot(page, "deployed_changed")
    deployed.insert(3, text="SELECT nothing FROM nowhere")
    see(page, f"{asset}?view=events", "version 3 refused", "the broken version")
    shot(page, "deployed_refused")
    deployed.write(("/c", 7))
    expected = deployed.totals()
    deployed.until(lambda: {r["page"]: (r["n"], r["ms"]) for r in deployed.rows()} == expected, "version 2 runs on")
    deployed.insert(4, state="dropped")
    deployed.until(lambda: deployed.events(4) == ["dropped"], "version 4")
    see(page, f"{ui}/runs", "Success", "the run that ended")
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while deployed_keys(page, ui):
        assert time.monotonic() < deadline, "the assets stay"
        page.wait_for_timeout(1000)


def deployed_keys(page, ui):
    """The assets of the deployed pipeline that the web server knows of."""
    reply = page.request.post(f"{ui}/graphql", data={"query": "{ assetNodes { assetKey { path } } }"})
    paths = [node["assetKey"]["path"] for node in json.loads(reply.text())["data"]["assetNodes"]]
    return [path for path in paths if path[:2] == ["shop", "totals"]]
