"""The lease where machines share no folder, in an object store or in a database: one holder, whoever asks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest

from rs_assets.catalog import lease as leases
from rs_assets.catalog.lease import Lease, read_lease
from rs_assets.common.folder import Address, folder_at
from rs_assets.common.home import Database, Home
from rs_assets.errors import CheckpointError, ConfigurationError, LeaseLostError, PipelineBusyError

SHORT = timedelta(seconds=2)
HOLDER = """
import json
import sys
from datetime import timedelta
from rs_assets.catalog.lease import Lease
from rs_assets.common.home import Home
from rs_assets.common.storage import use_storage
use_storage(json.loads(sys.argv[1]))
ttl = timedelta(seconds=float(sys.argv[2]))
with Lease.acquire(Home.default().leases, pipeline="shop.clicks", run_id="other", ttl=ttl) as lease:
    print("held", flush=True)
    sys.stdin.readline()
    try:
        lease.check()
        print("mine", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


def places(request: pytest.FixtureRequest) -> str:
    match request.param:
        case "s3":
            return f"{request.getfixturevalue('bucket')}/catalog/leases"
        case "sqlite":
            return f"sqlite:///{request.getfixturevalue('tmp_path')}/leases.db"
    return request.getfixturevalue("database" if request.param == "postgres" else "shop")


# A server for one test of a file is for `make verify`.
SERVERS = [pytest.param(name, marks=pytest.mark.long) for name in ("postgres", "mariadb")]


@pytest.fixture(params=["sqlite", "s3", *SERVERS])
def place(request, monkeypatch):
    """Where the leases are, and that this process and those that it starts know it."""
    monkeypatch.setenv("RS_LEASES", places(request))
    return Home.default().leases


@contextmanager
def holding(request, place, ttl):
    """A driver in a home of its own that holds the lease until it is asked whether it does."""
    shared = dict(request.getfixturevalue("s3").options) if isinstance(place, Address) else {}
    command = [sys.executable, "-c", HOLDER, json.dumps(shared), str(ttl.total_seconds())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.send_signal(signal.SIGCONT)
        process.kill()


@pytest.fixture
def other(request, place):
    """A driver that is never silent for its time to live."""
    with holding(request, place, timedelta(seconds=60)) as process:
        yield process


@pytest.fixture
def sleeper(request, place):
    """A driver that is soon silent for its time to live, when it is paused."""
    with holding(request, place, SHORT) as process:
        yield process


def acquire(place, run_id: str = "mine", ttl: timedelta = SHORT) -> Lease:
    return Lease.acquire(place, pipeline="shop.clicks", run_id=run_id, ttl=ttl)


def test_of_many_that_want_it_one_gets_it_and_tokens_grow(place):
    held: list[Lease] = []

    def attempt(number: int) -> None:
        with suppress(PipelineBusyError, CheckpointError):
            held.append(acquire(place, run_id=f"run-{number}", ttl=timedelta(seconds=60)))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(attempt, range(6)))
    assert [lease.token for lease in held] == [1]
    assert read_lease(place, "shop.clicks").run_id == held[0].row.run_id
    held[0]._give_back()
    assert read_lease(place, "shop.clicks").released
    with acquire(place) as lease:
        assert lease.token == 2
        lease.outrank(41)
        before = lease.row.beat
        lease._renew()
        lease.check()
        found = read_lease(place, "shop.clicks")
        assert found.token == 42
        assert found.beat > before


def test_a_living_driver_is_left_alone_and_a_killed_one_succeeded(place, other):
    with pytest.raises(PipelineBusyError, match="run=other"):
        acquire(place)
    other.kill()
    other.wait()
    with acquire(place) as lease:
        assert lease.token == 2


def test_a_driver_that_was_paused_and_overtaken_finds_that_it_lost_the_lease(place, sleeper):
    sleeper.send_signal(signal.SIGSTOP)
    pause = threading.Event()
    while not read_lease(place, "shop.clicks").stale:
        pause.wait(0.1)
    with acquire(place, ttl=timedelta(seconds=60)) as lease:
        assert (lease.token, lease.taken_over) == (2, True)
        sleeper.send_signal(signal.SIGCONT)
        said, _ = sleeper.communicate("look\n", timeout=120)
        assert said == "LeaseLostError\n"
        lease.check()


def test_a_store_that_was_emptied_ends_the_run(place, request):
    lease = acquire(place)
    if isinstance(place, Address):
        client = request.getfixturevalue("s3").client()
        bucket = place.uri.split("/")[2]
        for each in client.list_objects_v2(Bucket=bucket)["Contents"]:
            client.delete_object(Bucket=bucket, Key=each["Key"])
    else:
        from rs_assets.catalog.lease_rows import LEASES, _engine

        with _engine(place.url).begin() as connection:
            connection.execute(LEASES.delete())
    lease._renew()
    with pytest.raises(LeaseLostError, match="gone from the catalog"):
        lease.check()
    with acquire(place):
        pass


def test_a_database_that_is_away_is_reported_without_its_password(monkeypatch):
    place = Database("postgresql+psycopg://me:geheim@127.0.0.1:9/none")
    with pytest.raises(CheckpointError, match="the leases cannot be read") as refused:
        acquire(place)
    assert "geheim" not in f"{refused.value} {place} {place!r}"
    assert "RS_LEASES" in refused.value.remedy


def test_who_lost_the_lease_renews_nothing(tmp_path):
    place = Database(f"sqlite:///{tmp_path}/leases.db")
    lease = acquire(place)
    table = leases._open(place)
    table.write({**leases._plain(lease.row), "released": True}, seen=leases._plain(lease.row))
    with pytest.raises(leases.LeaseChanged):
        table.beat(leases._plain(lease.row))


def test_places_of_catalog_and_leases(monkeypatch, tmp_path):
    home = Home(tmp_path)
    assert home.leases == tmp_path / "catalog" / "leases"
    monkeypatch.setenv("RS_CATALOG", "s3://lake/rs/catalog/")
    assert str(home.leases) == "s3://lake/rs/catalog/leases"
    assert home.dead_letters == "s3://lake/rs/catalog/dead_letters"
    monkeypatch.setenv("RS_LEASES", "postgresql://me:geheim@host/rs")
    assert str(home.leases) == "postgresql://***@host/rs"
    with pytest.raises(ConfigurationError, match="neither a path nor an address") as refused:
        folder_at("hdfs://host/catalog")
    assert "s3://bucket/folder" in refused.value.remedy
    assert home.exchange is None
    monkeypatch.setenv("RS_STATE", "gs://lake/state")
    with pytest.raises(ConfigurationError, match="not an address in S3") as refused:
        _ = home.exchange
    assert "s3://bucket/state" in refused.value.remedy
    monkeypatch.setenv("RS_STATE", "s3://bucket/state")
    assert str(home.exchange) == "s3://bucket/state"
