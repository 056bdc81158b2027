"""A cluster whose machines share nothing but S3: `python -m tests.cluster.alone FOLDER SCENARIO`, in a `Network`.

Instead of a scenario, a number is a seed: it draws one of the losses and its moment. Prints what the output has beside
a plain count, and ends with an error if something did not come to pass.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from rs_assets.testing.servers.process import free_ports
from tests.cluster.machines import NET, SPARK_HOME, Machine, Network, until
from tests.faults.processes import QUICK_START

BUCKET = "lake"
OUT = f"s3://{BUCKET}/counts"
# Rows of all files come in the order of their times, more or less.
FILES, ROWS, BATCH = 6, 480, 60
DEPLOY = "org.apache.spark.deploy"
TTL_S = 10

# Hits by page in windows of ten seconds.
PROGRAM = f"""
from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.runtime.options import RunOptions
hits = StreamBuilder.data_stream("shop", "hits").from_file(
    "s3://{BUCKET}/in/*.jsonl", schema="page string, n bigint, at timestamp", max_rows_per_batch={BATCH}, name="file"
)
windowed = hits.window(TumblingWindow.of(Time.seconds(10), "at"), name="counts").group_by("page").count("n")
pipeline = windowed.water_mark(Time.seconds(60)).to_data_stream().to_delta("{OUT}", name="out").build()
try:
    print(pipeline.run(RunOptions(lease_ttl=Time.seconds({TTL_S})), finish=True), flush=True)
    print("THE END", flush=True)
except Exception as error:
    print("FAILED", type(error).__name__, error, flush=True)
    raise SystemExit(1) from None
"""


def hits() -> list[tuple[str, int]]:
    """The input: one hit a second."""
    return [(f"p{n % 7}", n) for n in range(ROWS)]


def want() -> Counter:
    """The output that one machine would have."""
    return Counter((page, n // 10) for page, n in hits())


def got() -> Counter:
    """The output; each row that is there twice counts twice."""
    rows = DeltaTable(OUT).to_pyarrow_table().to_pylist()
    found: Counter = Counter()
    for row in rows:
        at = row["start_time"]
        found[row["page"], (at.hour * 3600 + at.minute * 60 + at.second) // 10] += row["n"]
    return found


def version() -> int:
    """How often the output was written to, less one."""
    try:
        return DeltaTable(OUT).version()
    except TableNotFoundError:
        return -1


class Cluster:
    """A master and two workers, each on a machine of its own."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.master = network.machine("master")
        self.url = f"spark://{self.master.address}:7077"
        self._start(self.master, "master.Master", "--port", "7077")
        until("a master", lambda: self.master.printed("New state: ALIVE"), machines=[self.master])
        self.workers = [self.worker(f"worker{number}") for number in (1, 2)]

    def worker(self, name: str) -> Machine:
        """A new worker of one core."""
        made = self.network.machine(name)
        self._start(made, "worker.Worker", "--cores", "1", "--memory", "1g", self.url)
        until(name, lambda: made.printed("Successfully registered with master"), machines=[made])
        return made

    def driver(self, name: str) -> Machine:
        """A driver with an empty home."""
        made = self.network.machine(name)
        made.start([sys.executable, "-W", "ignore", "-c", PROGRAM], RS_SPARK_MASTER=self.url)
        return made

    @staticmethod
    def _start(machine: Machine, kind: str, *options: str) -> None:
        program = [str(SPARK_HOME / "bin" / "spark-class"), f"{DEPLOY}.{kind}"]
        machine.start([*program, "--host", machine.address, "--webui-port", "0", *options])


def ends(driver: Machine) -> None:
    """Wait until it has done all."""
    until("the end", lambda: driver.ended() is not None, machines=[driver])
    if driver.ended() != 0:
        sys.exit(f"{driver.name} has failed:\n{driver.log.read_text()[-6000:]}")


def writes(driver: Machine, more: int) -> None:
    """Wait until the output has so many more versions."""
    first = version()
    until("rows", lambda: version() >= first + more or driver.ended() is not None, machines=[driver])


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment in the run of a driver: so many more versions of the output, and then so many seconds."""

    versions: int = 1
    seconds: float = 0.0

    def comes(self, driver: Machine) -> None:
        """Wait for it, or for the end of the driver."""
        writes(driver, self.versions)
        threading.Event().wait(self.seconds)
        print(f"{driver.name} {'runs' if driver.ended() is None else 'has ended'} after {version() + 1} versions")


def undisturbed(cluster: Cluster, moment: Moment) -> None:
    """Nothing happens to any machine."""
    ends(cluster.driver("driver1"))


def worker_killed(cluster: Cluster, moment: Moment) -> None:
    """A worker is lost in the middle of batches, and replaced by one with an empty disk."""
    driver = cluster.driver("driver1")
    moment.comes(driver)
    cluster.workers[0].off()
    cluster.worker("worker3")
    ends(driver)


def driver_killed(cluster: Cluster, moment: Moment) -> None:
    """The driver is lost with its disk; another one, with an empty disk, takes over."""
    first = cluster.driver("driver1")
    moment.comes(first)
    first.off()
    ends(cluster.driver("driver2"))


def paused(cluster: Cluster, moment: Moment) -> None:
    """A driver sleeps while another one takes over from it; it wakes beside it, and writes nothing more."""
    first = cluster.driver("driver1")
    moment.comes(first)
    first.pause()
    second = cluster.driver("driver2")
    writes(second, 1)
    first.resume()
    until("the end of the first", lambda: first.ended() is not None, machines=[first, second])
    if not first.printed("FAILED LeaseLostError"):
        sys.exit(f"the first driver went on:\n{first.log.read_text()[-6000:]}")
    ends(second)


LOSSES = (worker_killed, driver_killed, paused)
SCENARIOS: dict[str, Callable[[Cluster, Moment], None]] = {each.__name__: each for each in (undisturbed, *LOSSES)}
# Of the four versions of an undisturbed run. A driver that has done all cannot be overtaken.
LATEST = {"worker_killed": 3, "driver_killed": 3, "paused": 2}
# A driver needs about so long until its first rows, and from one version to the next.
START_S, BATCH_S = 30.0, 6.0


def drawn(seed: int) -> tuple[str, Moment]:
    """The loss of a seed, each in turn, and its moment: before the first rows, or between two versions of the output.

    >>> drawn(0)[0], drawn(4)[0]
    ('worker_killed', 'driver_killed')
    """
    name, draw = LOSSES[seed % len(LOSSES)].__name__, random.Random(seed)
    versions = draw.randint(1 if name == "paused" else 0, LATEST[name])
    return name, Moment(versions, round(draw.uniform(0, BATCH_S if versions else START_S), 1))


def store(network: Network, port: int) -> Any:
    """The store, at the first address of the network, with the input."""
    import boto3

    command = [sys.executable, "-m", "moto.server", "--host", f"{NET}.1", "--port", str(port)]
    with (network.folder / "store.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    until("a store", lambda: b"Running on" in (network.folder / "store.log").read_bytes())
    client = boto3.client("s3", endpoint_url=network.environment["AWS_ENDPOINT_URL"])
    client.create_bucket(Bucket=BUCKET)
    for number in range(FILES):
        some = hits()[number::FILES]
        rows = [{"page": page, "n": n, "at": f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}Z"} for page, n in some]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        client.put_object(Bucket=BUCKET, Key=f"in/{number:03d}.jsonl", Body=lines.encode())
    return server


def main(folder: Path, scenario: str) -> None:
    """Run a scenario, or that of a seed, and compare."""
    name, moment = drawn(int(scenario)) if scenario.isdigit() else (scenario, Moment())
    port = free_ports()[0]
    shared = {
        "AWS_ENDPOINT_URL": f"http://{NET}.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "RS_CATALOG": f"s3://{BUCKET}/rs/catalog",
        "RS_STATE": f"s3://{BUCKET}/rs/state",
        "RS_SAVEPOINTS": f"s3://{BUCKET}/rs/savepoints",
        "RS_UPLOAD": "1",
    }
    os.environ |= shared
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_START)
    with Network(folder, shared) as network:
        server = store(network, port)
        try:
            SCENARIOS[name](Cluster(network), moment)
            missing, more = want() - got(), got() - want()
            strangers = sorted(path.name for path in network.disk.iterdir())
            print(f"{name} at {moment}, {version() + 1} versions")
            print(json.dumps({"missing": len(missing), "more": len(more), "on the common path": strangers}))
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
