"""The access log example on a standalone Spark cluster of two workers, as it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from pipelines.access_log_data import write
from rs_assets.common.home import Home
from rs_assets.runtime.options import RunOptions
from rs_assets.spark.java import java_home
from rs_assets.testing.servers.process import free_ports
from tests.examples.access_log import expected, letters, malformed, written

LINES, BATCH = 2_000, 1_000
LOOPBACK = "127.0.0.1"
SPARK_HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"
# Two JVMs of the cluster and one of the driver start on a busy machine of two cores.
PATIENCE_S = 240
# Several times what the run takes alone: how fast a machine starts workers beside other tests is not what is tested.
RUN_S = 600

pytestmark = [pytest.mark.cluster, pytest.mark.long]

PROGRAM = """
import sys
from pathlib import Path

from pipelines.access_log import access_log
from rs_assets.runtime.options import RunOptions
from rs_assets.common.home import Home
from rs_assets.spark.driver import SparkDriver

log, home, batch = sys.argv[1:]
driver = SparkDriver.shared()
pipeline = access_log(Path(log), job="spread", max_rows_per_batch=int(batch))
pipeline.run(RunOptions(home=Home(Path(home)), driver=driver), finish=True)
status = driver.call(lambda spark: spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size())
print(driver.settings.master, status - 1)
"""


@contextmanager
def service(folder: Path, kind: str, *options: str, until: str) -> Iterator[Callable[[], None]]:
    """One process of the cluster, and a call that waits for the line `until` in its log; then its group ends."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_WORKER_DIR": str(folder),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"{DEPLOY}.{kind}", "--host", LOOPBACK, *options]
    process = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    ready = threading.Event()
    said: list[str] = []
    # The pipe is read to its end, or the process would wait for room in it.
    reader = threading.Thread(target=_read, args=(process, until, said, ready))
    reader.start()

    def wait() -> None:
        ready.wait(PATIENCE_S)
        assert any(until in line for line in said), "".join(said)[-3000:]

    try:
        yield wait
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=PATIENCE_S)
        reader.join(timeout=PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


def _read(process: subprocess.Popen[str], until: str, said: list[str], ready: threading.Event) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if until in line:
            ready.set()
    ready.set()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    address = f"spark://{LOOPBACK}:{(port := free_ports()[0])}"
    with ExitStack() as stack:
        master = ("master.Master", "--port", str(port), "--webui-port", "0")
        stack.enter_context(service(tmp_path, *master, until="New state: ALIVE"))()
        worker = ("worker.Worker", "--webui-port", "0", "--cores", "1", "--memory", "1g", address)
        joined = [
            stack.enter_context(service(tmp_path / f"worker-{number}", *worker, until="Successfully registered"))
            for number in range(2)
        ]
        for wait in joined:
            wait()
        yield address


@pytest.mark.timeout(900)
def test_two_workers_write_what_one_batch_would(tmp_path: Path, master: str) -> None:
    log = write(tmp_path / "in" / "access.log", LINES)
    options = RunOptions(home=Home(tmp_path / "rs"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(log), str(options.home.root), str(BATCH)],
        env={**os.environ, "RS_SPARK_MASTER": master},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[-2:] == [master, "2"], "both workers took part"
    assert written(options) == expected(log)
    assert letters(options) == malformed(log)
