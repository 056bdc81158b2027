"""Dagster's UI in a real browser: a `dagster dev` of its own, a page of Chromium, and what people do there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

import pytest
from dagster import AssetKey, DagsterInstance, DagsterRun, DagsterRunStatus
from playwright.sync_api import Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from rs_assets.testing.servers.process import free_ports

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
# A page is whole when it says so no more, and looks the same twice; one with a clock never does, so looks are few.
LOADED, LOADED_MS = "() => !/Loading|fetching statuses/.test(document.body.innerText)", 10_000
LOOKS, LOOK_MS = 3, 700

MARKS = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed"),
]


def home_of_dagster(folder: Path) -> str:
    """A folder for Dagster below `folder`, with the project's settings."""
    (folder / "dagster").mkdir()
    settings = (ROOT / "dagster.yaml").read_text()
    # A run that starts or drains for longer than that is ended by Dagster.
    settings = re.sub(r"(start|cancel)_timeout_seconds: \d+", rf"\1_timeout_seconds: {PATIENCE_MS // 1000}", settings)
    (folder / "dagster" / "dagster.yaml").write_text(settings)
    return str(folder / "dagster")


def world_of(folder: Path, **settings: str) -> dict[str, str]:
    """Homes below `folder`, a Spark of two cores and `settings`, as environment variables."""
    return {
        **os.environ,
        "DAGSTER_HOME": home_of_dagster(folder),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "RS_HOME": str(folder / "rs"),
        "RS_SPARK_MASTER": "local[2]",
        **settings,
    }


DEV = ("dagster", "dev", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p")
UI = ("rs_assets.cli.main", "ui", "--port")


@contextmanager
def served(world: Mapping[str, str], project: Path, start: Sequence[str] = DEV) -> Iterator[str]:
    """The running UI of a project, by default by `dagster dev` with its workspace.yaml; its address."""
    port = free_ports()[0]
    command = [sys.executable, "-m", *start, str(port)]
    with (
        (Path(world["DAGSTER_HOME"]) / "dev.log").open("w") as log,
        subprocess.Popen(command, cwd=project, env=world, stdout=log, stderr=log, start_new_session=True) as server,
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


def answers(url: str) -> bool:
    """Whether a server answers there."""
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def opened(profile: Path) -> Iterator[Page]:
    """A page of a headless Chromium."""
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=BROWSER, headless=True, args=FLAGS, viewport={"width": 1500, "height": 950}
        )
        yield context.pages[0]
        context.close()


def shot(page: Page, name: str) -> None:
    """Keep what the page shows, once it has loaded all of it."""
    with suppress(PlaywrightTimeout):
        page.wait_for_function(LOADED, timeout=LOADED_MS)
    before, now = b"", page.screenshot()
    for _ in range(LOOKS):
        page.wait_for_timeout(LOOK_MS)
        before, now = now, page.screenshot()
        if now == before:
            break
    SHOTS.mkdir(exist_ok=True)
    (SHOTS / f"{name}.png").write_bytes(now)


def launch(page: Page, ui: str, job: str, config: str | None = None, *, location: str = "pipelines") -> None:
    """Launch `job` from its Launchpad, with this text in its editor, and go to the page of the run."""
    page.goto(f"{ui}/locations/{location}/jobs/{job}/playground")
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


def terminate(page: Page) -> None:
    """Terminate the run that the page shows; returns when the web server has answered."""
    page.get_by_role("button", name="Terminate").first.click(timeout=PATIENCE_MS)
    # A browser that leaves the page gives up a request that it has not sent yet.
    with page.expect_response(lambda reply: "erminate" in (reply.request.post_data or ""), timeout=PATIENCE_MS):
        page.get_by_role("dialog").get_by_role("button", name=re.compile("Terminate")).click()


def wait_for_success(page: Page, world: Mapping[str, str]) -> None:
    """Wait until the run that the page shows has succeeded, and the page says so."""
    shown = re.search(r"/runs/([0-9a-f-]{36})", page.url)
    assert shown is not None, page.url
    run_id = shown.group(1)
    with DagsterInstance.from_config(world["DAGSTER_HOME"]) as instance:
        wait_until(page, lambda: _run(instance, run_id).is_finished, what=f"the run {run_id} does not end")
        status = _run(instance, run_id).status
        events = [str(entry.user_message or entry.message)[:300] for entry in instance.all_logs(run_id)[-30:]]
    assert status is DagsterRunStatus.SUCCESS, "\n".join([status.value, *events])
    page.goto(page.url)
    wait_for_text(page, "Success", exact=True)


def _run(instance: DagsterInstance, run_id: str) -> DagsterRun:
    run = instance.get_run_by_id(run_id)
    assert run is not None, run_id
    return run


def wait_for_text(page: Page, text: str, *, exact: bool = False) -> None:
    """Wait until the page shows the text; it is loaded again now and then, since a missed answer does not come back."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while True:
        try:
            return page.get_by_text(text, exact=exact).first.wait_for(timeout=RELOAD_MS)
        except PlaywrightTimeout:
            if time.monotonic() > deadline:
                shot(page, "text_is_missing")
                raise
            page.reload()


def show_event(page: Page, ui: str, world: Mapping[str, str], asset: str, described: str) -> None:
    """Go to the newest observation of `asset` whose description begins so, also if there are newer ones."""
    with DagsterInstance.from_config(world["DAGSTER_HOME"]) as instance:
        found = [
            record.timestamp
            for record in instance.fetch_observations(AssetKey(asset.split("/")), limit=50).records
            if record.asset_observation is not None
            and (record.asset_observation.description or "").startswith(described)
        ]
    assert found, f"{asset} has no event {described!r}"
    page.goto(f"{ui}/assets/{asset}?view=events&time={int(found[0] * 1000)}")
    wait_for_text(page, described)


def show_text(page: Page, text: str) -> None:
    """Show `text` of several lines in the metadata: Dagster shows a short one at once, and a link to a longer one."""
    shown, link = page.get_by_text(text).first, page.get_by_text("[Show Markdown]").first
    shown.or_(link).first.wait_for(timeout=PATIENCE_MS)
    if not shown.is_visible():
        link.click(timeout=PATIENCE_MS)
        shown.wait_for(timeout=PATIENCE_MS)


def entry(page: Page, name: str) -> str:
    """The value of a line of the metadata that the page shows."""
    line = page.get_by_role("row").filter(has=page.get_by_text(name, exact=True)).first
    return line.inner_text(timeout=PATIENCE_MS).split()[-1]


def wait_until(page: Page, holds: Callable[[], bool], *, what: str) -> None:
    """Wait as long as for the browser: how fast a machine starts Spark is not what is tested."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not holds():
        assert time.monotonic() < deadline, what
        page.wait_for_timeout(500)
