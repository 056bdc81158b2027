"""Dagster's UI in a real browser: the asset graph, a launch that ends green, a stream that is terminated."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest
from dagster import DagsterInstance, DagsterRunStatus
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import sync_playwright

from pipelines.access_log_data import write
from rs_assets.catalog.lease import LeaseRow, read_lease
from rs_assets.testing.process import free_ports

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "artifacts"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Nothing that calls home, and what a container needs.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
# Several times what Spark takes to start on a machine that has other work: 20 to 80 s were seen.
PATIENCE_MS = 600_000
# After it a page that does not show what it should is loaded again.
RELOAD_MS = 30_000
LINES = 2_000

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Homes and a log of their own, as environment variables."""
    folder = tmp_path_factory.mktemp("ui")
    (folder / "dagster").mkdir()
    settings = (ROOT / "dagster.yaml").read_text()
    # A run that starts or drains for longer than that is ended by Dagster.
    settings = re.sub(r"(start|cancel)_timeout_seconds: \d+", rf"\1_timeout_seconds: {PATIENCE_MS // 1000}", settings)
    (folder / "dagster" / "dagster.yaml").write_text(settings)
    write(folder / "access.log", LINES)
    return {
        **os.environ,
        "DAGSTER_HOME": str(folder / "dagster"),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "RS_HOME": str(folder / "rs"),
        "RS_ACCESS_LOG": str(folder / "access.log"),
        "RS_SPARK_MASTER": "local[2]",
    }


@pytest.fixture(scope="module")
def ui(world):
    """A running `dagster dev`; its address."""
    port = free_ports()[0]
    command = [sys.executable, "-m", "dagster", "dev", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)]
    with (
        (Path(world["DAGSTER_HOME"]) / "dev.log").open("w") as log,
        subprocess.Popen(command, cwd=ROOT, env=world, stdout=log, stderr=log, start_new_session=True) as server,
    ):
        address = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not answers(f"{address}/server_info"):
            assert server.poll() is None, (Path(world["DAGSTER_HOME"]) / "dev.log").read_text()[-3000:]
            assert time.monotonic() < deadline, "the web server does not answer"
            Event().wait(0.5)
        yield address
        server.send_signal(signal.SIGINT)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
        finally:
            # Its web server and daemon are processes of their own, and outlive it when it is killed.
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=BROWSER,
            headless=True,
            args=FLAGS,
            viewport={"width": 1500, "height": 950},
        )
        yield context.pages[0]
        context.close()


def shot(page, name):
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def launch(page, ui, job, config=None):
    """Launch `job` from its Launchpad, with this text in its editor, and go to the page of the run."""
    page.goto(f"{ui}/locations/pipelines/jobs/{job}/playground")
    if config is not None:
        page.locator(".CodeMirror").first.click(timeout=PATIENCE_MS)
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(config)
    button = page.get_by_role("button", name=re.compile("Launch run", re.IGNORECASE))
    button.wait_for(timeout=PATIENCE_MS)
    page.wait_for_function(
        "() => [...document.querySelectorAll('button')].some(b => /Launch run/i.test(b.textContent) && !b.disabled)",
        timeout=PATIENCE_MS,
    )
    button.click()
    page.wait_for_url(re.compile(r".*/runs/[0-9a-f-]{36}.*"), timeout=PATIENCE_MS)


def plain_run(world):
    command = [sys.executable, "-m", "rs_assets.cli.main", "run", "access_log", "--plain", "--json"]
    patience_s = PATIENCE_MS / 1000
    done = subprocess.run(command, cwd=ROOT, env=world, check=True, capture_output=True, text=True, timeout=patience_s)
    return json.loads(done.stdout.splitlines()[-1])


def test_should_show_launch_and_terminate(page, ui, world):
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

    report = plain_run(world)
    assert report["generation"] == 1
    assert batches(checkpoint / "offsets") == batches(checkpoint / "commits")


@pytest.mark.long
def test_should_show_lineage_recovery_and_a_rescale(page, ui, world):
    home = Path(world["RS_HOME"])
    page.goto(f"{ui}/assets/web/access_log/requests_by_page?view=lineage&lineageScope=neighbors")
    page.get_by_text("page_windows", exact=True).first.wait_for(timeout=PATIENCE_MS)
    shot(page, "lineage")

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

    before = json.loads((home / "checkpoints/web/access_log/manifest.json").read_text())["manifest"]["partitions"]
    launch(
        page,
        ui,
        "web_access_log_upkeep",
        config=f"ops:\n  upkeep:\n    config:\n      rescale:\n        partitions: {before + 1}\n",
    )
    wait_for_success(page, world)
    shot(page, "rescaled")
    after = json.loads((home / "checkpoints/web/access_log/manifest.json").read_text())["manifest"]["partitions"]
    assert after == before + 1
    resumed = wait_for_lease(page, home, newer_than=recovered.token + 1)
    page.goto(f"{ui}/runs/{resumed.run_id}")
    terminate(page)
    wait_until(page, lambda: held_lease(home) is None, what="the terminated run still holds the pipeline")


def terminate(page):
    """Terminate the run that the page shows; returns when the web server has answered."""
    page.get_by_role("button", name="Terminate").first.click(timeout=PATIENCE_MS)
    # A browser that leaves the page gives up a request that it has not sent yet.
    with page.expect_response(lambda reply: "erminate" in (reply.request.post_data or ""), timeout=PATIENCE_MS):
        page.get_by_role("dialog").get_by_role("button", name=re.compile("Terminate")).click()


def wait_for_success(page, world):
    """Wait until the run that the page shows has succeeded, and the page says so."""
    run_id = re.search(r"/runs/([0-9a-f-]{36})", page.url).group(1)
    with DagsterInstance.from_config(world["DAGSTER_HOME"]) as instance:
        wait_until(page, lambda: instance.get_run_by_id(run_id).is_finished, what=f"the run {run_id} does not end")
        status = instance.get_run_by_id(run_id).status
        events = [str(entry.user_message or entry.message)[:300] for entry in instance.all_logs(run_id)[-30:]]
    assert status is DagsterRunStatus.SUCCESS, "\n".join([status.value, *events])
    page.goto(page.url)
    wait_for_text(page, "Success", exact=True)


def wait_for_text(page, text, *, exact=False):
    """Wait until the page shows the text; it is loaded again now and then, since a missed answer does not come back."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while True:
        try:
            return page.get_by_text(text, exact=exact).first.wait_for(timeout=RELOAD_MS)
        except PlaywrightTimeout:
            if time.monotonic() > deadline:
                raise
            page.reload()


def wait_until(page, holds, *, what):
    """Wait as long as for the browser: how fast a machine starts Spark is not what is tested."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not holds():
        assert time.monotonic() < deadline, what
        page.wait_for_timeout(500)


def batches(folder):
    """The batches that a log of Spark names."""
    return sorted(path.name for path in folder.glob("[0-9]*"))


def grow(world):
    """The last lines of the log once more."""
    with Path(world["RS_ACCESS_LOG"]).open("ab") as log:
        log.writelines(Path(world["RS_ACCESS_LOG"]).read_bytes().splitlines(keepends=True)[-20:])


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
