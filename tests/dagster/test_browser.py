"""Dagster's UI in a real browser: assets, a launch, a stream that is terminated, killed and rescaled."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urljoin

import pytest
from dagster import DagsterInstance, RunsFilter

from pipelines.access_log_data import write
from rs_assets.catalog.lease import LeaseRow, read_lease
from tests.dagster.browser import (
    MARKS,
    PATIENCE_MS,
    ROOT,
    launch,
    opened,
    served,
    shot,
    show_event,
    terminate,
    wait_for_success,
    wait_for_text,
    wait_until,
    world_of,
)

LINES = 2_000
LOG = "access.log"
# More splits than two partitions are for: the policy asks for one partition to four splits.
ADDED, WANTED = 12, 4

pytestmark = MARKS


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Homes and a folder of logs of their own, as environment variables."""
    folder = tmp_path_factory.mktemp("ui")
    (folder / "logs").mkdir()
    write(folder / "logs" / LOG, LINES)
    return world_of(folder, RS_ACCESS_LOG=str(folder / "logs"))


@pytest.fixture(scope="module")
def ui(world):
    with served(world, ROOT) as address:
        yield address


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("profile")) as page:
        yield page


def plain_run(world):
    command = [sys.executable, "-m", "rs_assets.cli.main", "run", "access_log", "--plain", "--json"]
    patience_s = PATIENCE_MS / 1000
    done = subprocess.run(command, cwd=ROOT, env=world, check=True, capture_output=True, text=True, timeout=patience_s)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.canary
def test_should_show_a_launched_run(page, ui, world):
    page.goto(f"{ui}/asset-groups")
    for group in ("web_access_log", "shop_order_totals"):
        page.get_by_text(group, exact=True).first.wait_for(timeout=PATIENCE_MS)
    shot(page, "asset_groups")

    launch(page, ui, "web_access_log_run")
    wait_for_success(page, world)
    shot(page, "run_succeeded")
    page.goto(f"{ui}/assets/web/access_log/requests_by_page")
    wait_for_text(page, "Row count")
    wait_for_text(page, "newest_rows")
    shot(page, "output_asset")


@pytest.mark.long
def test_should_drain_a_stream_that_is_terminated(page, ui, world):
    home = Path(world["RS_HOME"])
    checkpoint = home / "checkpoints" / "web" / "access_log" / "g0001" / "page_windows" / "checkpoint"
    committed = batches(checkpoint / "commits")
    grow(world)
    launch(page, ui, "web_access_log_start")
    # A run that is terminated while Spark starts has drained nothing: Dagster shows that as canceled.
    wait_until(page, lambda: batches(checkpoint / "commits") != committed, what="the started run commits no batch")
    lease = held_lease(home)
    assert lease is not None, "the started run holds no lease"
    terminate(page)
    # A stream that was told to stop, and drained, has not failed.
    wait_for_success(page, world)
    shot(page, "run_terminated")
    wait_until(page, lambda: not Path(f"/proc/{lease.pid}").exists(), what="the terminated run still goes on")
    assert held_lease(home) is None, "the terminated run still holds the pipeline"
    assert batches(checkpoint / "offsets") == batches(checkpoint / "commits"), "it was not drained"


@pytest.mark.long
def test_should_show_lineage_recovery_and_a_rescale(page, ui, world):
    home = Path(world["RS_HOME"])
    page.goto(f"{ui}/assets/web/access_log/requests_by_page?view=lineage&lineageScope=neighbors")
    page.get_by_text("page_windows", exact=True).first.wait_for(timeout=PATIENCE_MS)
    shot(page, "lineage")

    grow(world)
    assert plain_run(world)["generation"] == 1, "a stream that was terminated is not gone on with"
    grow(world)
    launch(page, ui, "web_access_log_start")
    started = wait_for_lease(page, home, newer_than=0)
    os.kill(started.pid, signal.SIGKILL)
    recovered = wait_for_lease(page, home, newer_than=started.token)
    assert recovered.pid != started.pid
    page.goto(f"{ui}/runs/{recovered.run_id}")
    page.get_by_text(recovered.run_id[:8]).first.wait_for(timeout=PATIENCE_MS)
    shot(page, "recovered")
    with DagsterInstance.from_config(world["DAGSTER_HOME"]) as instance:
        tags = instance.get_run_by_id(recovered.run_id).tags
    assert tags["rs/recovers"] == started.run_id
    assert tags["rs/recovery_reason"]

    # The splits of the source change, and the running stream rescales itself.
    for number in range(ADDED):
        lines = Path(world["RS_ACCESS_LOG"], LOG).read_bytes().splitlines(keepends=True)[:20]
        Path(world["RS_ACCESS_LOG"], f"more{number}.log").write_bytes(b"".join(lines))
    wait_until(page, lambda: partitions(home) == WANTED, what="the added splits lead to no rescale")
    page.goto(f"{ui}/runs/{rescaled_by(world)}")
    wait_for_success(page, world)
    shot(page, "rescaled")
    # Its run goes on.
    assert held_lease(home).token == recovered.token
    # The page of the source shows the newest event, and names the event that has caused it.
    page.goto(f"{ui}/assets/web/access_log/log?view=events")
    for text in ("rescale", "stopped_seconds", f"{ADDED} splits added"):
        wait_for_text(page, text)
    shot(page, "source_rescaled")
    caused_by = page.locator("a[href*='view=events&time=']").first.get_attribute("href", timeout=PATIENCE_MS)
    page.goto(urljoin(ui, caused_by))
    wait_for_text(page, f"{ADDED} splits added, 0 removed: {ADDED + 1} splits", exact=True)
    shot(page, "source_splits")
    show_event(page, ui, world, "web/access_log/log", f"restarted: {tags['rs/recovery_reason']}")
    wait_for_text(page, "recovers_run")
    shot(page, "source_recovered")
    page.goto(f"{ui}/runs/{recovered.run_id}")
    terminate(page)
    wait_until(page, lambda: held_lease(home) is None, what="the terminated run still holds the pipeline")


def partitions(home):
    """The number of state partitions."""
    return json.loads((home / "checkpoints/web/access_log/manifest.json").read_text())["manifest"]["partitions"]


def rescaled_by(world):
    """The id of the run that requested the rescale."""
    with DagsterInstance.from_config(world["DAGSTER_HOME"]) as instance:
        [run] = instance.get_runs(RunsFilter(job_name="web_access_log_upkeep"))
        return run.run_id


def batches(folder):
    """The batches that a log of Spark names."""
    return sorted(path.name for path in folder.glob("[0-9]*"))


def grow(world):
    """The last lines of the log once more."""
    path = Path(world["RS_ACCESS_LOG"], LOG)
    lines = path.read_bytes().splitlines(keepends=True)[-20:]
    with path.open("ab") as log:
        log.writelines(lines)


def wait_for_lease(page, home, *, newer_than):
    """The lease of a run that was started behind the one with that token, once its queries have a batch behind them."""
    found = []

    def taken():
        lease = held_lease(home)
        found[:] = [lease] if lease is not None and lease.token > newer_than and lease.beat >= 1 else []
        return bool(found)

    wait_until(page, taken, what="no run took the lease")
    return found[0]


def held_lease(home: Path) -> LeaseRow | None:
    """The lease of the example pipeline, if somebody holds it."""
    lease = read_lease(home / "catalog" / "leases", "web.access_log")
    return None if lease is None or lease.free else lease
