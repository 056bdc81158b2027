"""Runs SQL in PyFlink, in an environment of its own: each line of the input is a request, each of the output an answer.

Both are JSON. A request has `settings`, `statements` that prepare, and `last`, which is timed from before it is planned
to the end of its job. The answer has `seconds`, of that; of a `last` that asks for rows also `value`, the first field
of the newest row (None without a row). What Flink refuses, or what fails, is answered by `error`.

Flink's Java and a cluster in it start with the first request, by its settings, and stay: later ones find them warm.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from pyflink.common import Configuration  # type: ignore[import-not-found]
from pyflink.java_gateway import get_gateway  # type: ignore[import-not-found]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

# What follows in Java's message is its trace.
TOLD_LINES = 12
LOOPBACK = {
    "rest.bind-port": "0",
    "rest.address": "localhost",
    "rest.bind-address": "localhost",
    "jobmanager.bind-host": "localhost",
    "taskmanager.bind-host": "localhost",
}


class Cluster:
    """Flink in this process, with as many slots as a job of `settings` has threads."""

    def __init__(self, settings: dict[str, str]) -> None:
        flink = get_gateway().jvm.org.apache.flink
        configuration = flink.configuration.Configuration()
        for name, value in {**settings, **LOOPBACK}.items():
            configuration.setString(name, value)
        builder = flink.runtime.minicluster.MiniClusterConfiguration.Builder().setConfiguration(configuration)
        slots = int(settings["parallelism.default"])
        wanted = builder.setNumTaskManagers(1).setNumSlotsPerTaskManager(slots).build()
        self._running = flink.runtime.minicluster.MiniCluster(wanted)
        self._running.start()
        rest = self._running.getRestAddress().get()
        self._target = {
            "execution.target": "remote",
            "rest.address": rest.getHost(),
            "rest.port": str(rest.getPort()),
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what one request asks for."""
        configuration = _configuration({**request["settings"], **self._target})
        settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
        environment = TableEnvironment.create(settings)
        for statement in request["statements"]:
            environment.execute_sql(statement)
        began = time.perf_counter()
        result = environment.execute_sql(request["last"])
        if request["last"].startswith("SELECT"):
            value = None
            with result.collect() as rows:
                for row in rows:
                    value = row[0]
            return {"seconds": time.perf_counter() - began, "value": value}
        # The cluster tells at once; who waits for the result asks every two seconds.
        job = get_gateway().jvm.org.apache.flink.api.common.JobID.fromHexString(
            str(result.get_job_client().get_job_id())
        )
        self._running.requestJobResult(job).get()
        seconds = time.perf_counter() - began
        # Raises why a job has failed.
        result.wait()
        return {"seconds": seconds}


def _configuration(settings: dict[str, str]) -> Configuration:
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    return configuration


def main() -> None:
    """Answer until the input ends."""
    # Flink's own parts print now and then: that goes where errors go.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    cluster: Cluster | None = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            cluster = cluster or Cluster(request["settings"])
            told = cluster.answer(request)
        except Exception as error:  # noqa: BLE001  the other side is told, whatever it is
            told = {"error": _causes(str(error))}
        answers.write(json.dumps(told) + "\n")


def _causes(message: str) -> str:
    """The causes of a Java error, without its trace."""
    lines = [line.strip() for line in message.splitlines()]
    return " | ".join([line for line in lines if line and not line.startswith(("at ", "..."))][:TOLD_LINES])


if __name__ == "__main__":
    main()
