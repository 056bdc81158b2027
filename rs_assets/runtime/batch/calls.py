"""The callback of foreachBatch, and how it reports a batch that was not completed."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakMethod

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

Process = Callable[[DataFrame, int], None]
# The name that py4j gives to its server in the JVM.
SERVER = "GATEWAY_SERVER"


class BatchNotDone(Exception):
    """The error that Spark gets for a batch that failed or was not begun.

    It has a short text only: Spark searches the text for interrupts with a pattern that overflows its stack on a long
    one, such as a Java stack trace. The error itself is in `QueryRun.failure`.
    """


@dataclass(frozen=True, slots=True)
class JavaSide:
    """A connection of a Java thread to Python, and the client in the JVM that keeps it."""

    client: Any
    connection: Any

    @classmethod
    def here(cls, gateway_client: Any) -> Self:
        """That of the Java thread that has made the current call."""
        client = JavaObject(SERVER, gateway_client).getCallbackClient()
        return cls(client, client.getPerThreadConnection())

    def close(self) -> None:
        """Close it after the end of its thread: py4j keeps it, with its socket, until the JVM ends."""
        # A JVM that has ended has closed it.
        with contextlib.suppress(Py4JError):
            self.connection.shutdown()
            self.client.connectionStopped(self.connection)


class Calls:
    """The callback that Spark calls for each batch of a query.

    If both processes held a query through it, the query would never be freed, so it has only a weak reference to
    `process`. The Java thread that computes the batches has its own connection, on which a Python thread waits for
    calls. Java forgets both silently when its thread ends: see `end`.
    """

    def __init__(self, process: WeakMethod[Process]) -> None:
        self._process = process
        self._connection: Any = None
        self._java: JavaSide | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """One micro-batch."""
        client = batch._jdf._gateway_client  # noqa: SLF001  only the gateway has the connections
        self._connection = client.get_thread_connection()
        if self._java is None:
            self._java = JavaSide.here(client)
        process = self._process()
        if process is None:
            raise BatchNotDone("the run of the query is over")
        process(batch, batch_id)

    def end(self) -> None:
        """End the thread that waits for calls, and close both ends of its connection, after Spark's last call."""
        connection, self._connection = self._connection, None
        waited_on = connection and connection.socket
        if waited_on:
            # Closing it here would wait for that thread, which reads from it.
            with contextlib.suppress(OSError):
                waited_on.shutdown(socket.SHUT_RDWR)
        java, self._java = self._java, None
        if java is not None:
            java.close()
