"""Two hosts share a home: by its name, and its process ids, the one is another machine for the other.

A host is a pair of namespaces of Linux, with a host name of its own, and a clock that is ahead or behind.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from rs_assets.catalog import lease as leases
from rs_assets.catalog import requests
from rs_assets.catalog.lease import Lease, LeaseRow, is_abandoned, read_lease
from rs_assets.cli.run.status import status_of
from rs_assets.errors import ConfigurationError, PipelineBusyError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run import standby as standing
from rs_assets.runtime.run.standby import Standby
from tests.recovery.homes import FakeHome

NAME = "shop.trip"
# Nine beats a second.
TTL = timedelta(seconds=3)
SPACES = (
    "unshare",
    "--uts",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "sh",
    "-c",
    'hostname far; exec "$@"',
    "-",
)
HOLDER = """
import sys
from datetime import datetime, timedelta
from pathlib import Path
from rs_assets.catalog import lease as leases, requests
from rs_assets.catalog.desired_state import request_run
from rs_assets.catalog.lease import Lease

class Theirs(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(seconds=float(sys.argv[3]))

leases.datetime = Theirs
ttl = timedelta(seconds=float(sys.argv[2]))
leases.BEATS = 9 * ttl / timedelta(seconds=1)
folder = Path(sys.argv[4])
with Lease.acquire(Path(sys.argv[1]), pipeline="shop.trip", run_id="far", ttl=ttl) as lease:
    request_run(folder, "far")
    requests.ask(folder, "rescale", reason="from there", partitions=3)
    print("held", flush=True)
    sys.stdin.readline()
"""


def _namespaces() -> bool:
    """Whether this user may have a host name and process ids of its own."""
    try:
        return subprocess.run([*SPACES, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not _namespaces(), reason="no namespaces of Linux")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHome:
    """A home with a batch."""
    monkeypatch.setattr(standing, "READ_S", 0.0)
    made = FakeHome(tmp_path / "prod", tmp_path / "tables", tmp_path / "store")
    (tmp_path / "in").mkdir()
    made.start()
    return made


@contextmanager
def far(home: FakeHome, ahead_s: float) -> Iterator[subprocess.Popen[str]]:
    """A driver on another host, whose clock is so far ahead."""
    command = [*SPACES, sys.executable, "-c", HOLDER, str(home.options.home.leases), str(TTL.total_seconds())]
    with subprocess.Popen(
        [*command, str(ahead_s), str(home.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def lease_of(home: FakeHome) -> LeaseRow:
    lease = read_lease(home.options.home.leases, NAME)
    assert lease is not None
    return lease


def shown(home: FakeHome) -> dict[str, object]:
    """What `rs-assets status` tells of who runs the pipeline."""
    entry = status_of(home.pipeline, home.options.home)[0]["running"]
    assert isinstance(entry, dict)
    return entry


@pytest.mark.parametrize("ahead_s", [0, 20, -20])
def test_a_driver_on_another_host_is_left_while_it_lives_and_succeeded_when_it_is_silent(
    home: FakeHome, ahead_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    standby = Standby(home.pipeline.topology, replace(home.options, lease_ttl=TTL))
    with far(home, ahead_s) as driver:
        first = lease_of(home)
        # Its process id is one of its own host, where it is a small number, which somebody here has as well.
        assert (first.host.split("/")[0], first.here, first.pid < 100) == ("far", False, True)
        assert shown(home)["elsewhere"] == "far"
        with pytest.raises(PipelineBusyError, match="host=far"):
            Lease.acquire(home.options.home.leases, pipeline=NAME, run_id="near")
        # It asked for something, which only its own host could take for left.
        asked = requests.asked(home.folder, "rescale")
        assert asked is not None
        assert not requests.is_left(asked)
        while lease_of(home).beat < first.beat + 40:
            assert standby.vacancy() is None
        driver.kill()
        driver.wait()
        assert not lease_of(home).free
        assert standby.await_vacancy(timeout_s=60) is not None
    looks: list[str] = []

    def look(*given: object) -> LeaseRow | None:
        looks.append(str(given))
        return read_lease(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(leases, "read_lease", look)
    # Who has watched it need not watch it again.
    with Lease.acquire(home.options.home.leases, pipeline=NAME, run_id="near") as lease:
        assert (lease.token, lease.taken_over, looks) == (first.token + 1, True, [])


def test_a_pause_of_the_process_that_waits_is_no_silence_of_the_driver(
    home: FakeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far(home, 0):
        held, paused, clock = lease_of(home), [0.0], leases.time.monotonic
        monkeypatch.setattr(leases.time, "monotonic", lambda: clock() + paused[0])
        paused[0] = 100.0
        assert not is_abandoned(home.options.home.leases, held)
        while lease_of(home).beat == held.beat:
            pass
        assert not is_abandoned(home.options.home.leases, lease_of(home))


def test_a_host_that_is_gone_is_said_to_give_no_sign_of_life(home: FakeHome) -> None:
    with far(home, 0) as driver:
        driver.kill()
        driver.wait()
    while shown(home)["silent_s"] is None:
        pass
    assert shown(home)["elsewhere"] == "far"


def test_the_lease_is_as_long_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RS_LEASE_SECONDS", "0")
    with pytest.raises(ConfigurationError, match="RS_LEASE_SECONDS is '0'"):
        RunOptions()
    monkeypatch.setenv("RS_LEASE_SECONDS", "8")
    assert RunOptions().lease_ttl == timedelta(seconds=8)
