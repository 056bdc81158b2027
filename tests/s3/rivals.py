"""Drivers in homes of their own that want one pipeline, killed, wiped and paused; without Spark.

Each batch writes its number once, or is refused. A driver runs a few batches, gives the pipeline back and tries again.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from deltalake import DeltaTable

from rs_assets.common.folder import Address
from rs_assets.errors import RsError
from tests.recovery.homes import FakeHome

TTL = timedelta(seconds=3)
DRIVERS = 3


def home_at(root: Path, bucket: str) -> FakeHome:
    """A home whose outputs and uploads are in the bucket."""
    return FakeHome(root, Address(f"{bucket}/out"), Address(f"{bucket}/store"), upload=True)  # type: ignore[arg-type]


def drive(root: Path, bucket: str) -> None:
    """Run batches whenever that is allowed, for ever; each outcome is a line."""
    home, pause = home_at(root, bucket), threading.Event()
    while True:
        try:
            home.start(random.randint(1, 4), lease_ttl=TTL)
            print("ran", flush=True)
        except RsError as error:
            print(type(error).__name__, flush=True)
        pause.wait(random.uniform(0, 0.3))


@dataclass
class Rivals:
    """Some drivers, each a process with a home in `folder`."""

    folder: Path
    bucket: str
    random: random.Random
    done: Counter = field(default_factory=Counter)
    _drivers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def begin(self) -> None:
        """Write the first batch, then start all of them."""
        (self.folder / "in").mkdir()
        home_at(self.folder / "home0", self.bucket).start()
        self._drivers = [self._start(number) for number in range(DRIVERS)]

    def disturb(self) -> None:
        """Kill one, with its disk or without, or pause it until others take it for dead."""
        number = self.random.randrange(DRIVERS)
        threading.Event().wait(self.random.uniform(2.0, 8.0))
        what = self.random.choice(["killed", "killed and wiped", "paused", "paused"])
        self.done[what] += 1
        driver = self._drivers[number]
        if what == "paused":
            driver.send_signal(signal.SIGSTOP)
            threading.Event().wait(TTL.total_seconds() * self.random.uniform(1.0, 2.5))
            driver.send_signal(signal.SIGCONT)
            return
        driver.kill()
        driver.wait()
        if what == "killed and wiped":
            shutil.rmtree(self.folder / f"home{number}", ignore_errors=True)
        self._drivers[number] = self._start(number)

    def end(self) -> list[int]:
        """Kill them all; the rows."""
        for driver in self._drivers:
            driver.send_signal(signal.SIGCONT)
            driver.kill()
            driver.wait()
        return sorted(DeltaTable(f"{self.bucket}/out/out").to_pyarrow_table()["n"].to_pylist())

    def outcomes(self) -> Counter:
        """What the drivers have met."""
        return Counter(line for log in self.folder.glob("*.log") for line in log.read_text().splitlines())

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        root = self.folder / f"home{number}"
        command = [sys.executable, "-W", "ignore", "-m", "tests.s3.rivals", str(root), self.bucket]
        with (self.folder / f"driver{number}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)


def play(folder: Path, bucket: str, seed: int, disturbances: int) -> Rivals:
    """A history of rivals; the rows must be one of each batch."""
    rivals = Rivals(folder, bucket, random.Random(seed))
    rivals.begin()
    try:
        for _ in range(disturbances):
            rivals.disturb()
    finally:
        rows = rivals.end()
    assert rows == [*range(len(rows))], f"seed {seed}: {rows}"
    rivals.done["batches"] = len(rows)
    return rivals


def campaign(seeds: range, disturbances: int, leases: str = "") -> None:
    """Many histories, each with a bucket of its own; prints sums."""
    import tempfile

    from rs_assets.testing import S3Server

    sums: Counter = Counter()
    with S3Server() as server:
        os.environ |= {**server.options, "AWS_ALLOW_HTTP": "true", "AWS_DEFAULT_REGION": "us-east-1"}
        for seed in seeds:
            bucket = server.create_bucket()
            os.environ["RS_CATALOG"] = f"{bucket}/catalog"
            if leases:
                os.environ["RS_LEASES"] = leases
            with tempfile.TemporaryDirectory() as folder:
                rivals = play(Path(folder), bucket, seed, disturbances)
                sums += rivals.done
                outcomes = rivals.outcomes()
            print(json.dumps({"seed": seed, **rivals.done, "outcomes": outcomes}), flush=True)
    print(json.dumps(sums))


if __name__ == "__main__":
    if sys.argv[1] == "campaign":
        campaign(range(int(sys.argv[2]), int(sys.argv[3])), int(sys.argv[4]), *sys.argv[5:])
    else:
        drive(Path(sys.argv[1]), sys.argv[2])
