"""The callback of foreachBatch, and how it reports a batch that was not completed."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

from pyspark.sql import DataFrame

Process = Callable[[DataFrame, int], None]


class BatchNotDone(Exception):
    """The error that Spark gets for a batch that failed or was not begun.

    It has a short text only: Spark searches the text for interrupts with a pattern that overflows its stack on a long
    one, such as a Java stack trace. The error itself is in `QueryRun.failure`.
    """


class Calls:
    """The callback that Spark calls for each batch of a query.

    If both processes held a query through it, the query would never be freed, so it has only a weak reference to
    `process`. The Java thread that computes the batches has its own connection, on which a Python thread waits for
    calls. Java forgets both silently when its thread ends: see `end`.
    """

    def __init__(self, process: WeakMethod[Process]) -> None:
        self._process = process
        self._connection: Any = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """One micro-batch."""
        self._connection = batch._jdf._gateway_client.get_thread_connection()  # noqa: SLF001  only the gateway has it
        process = self._process()
        if process is None:
            raise BatchNotDone("the run of the query is over")
        process(batch, batch_id)

    def end(self) -> None:
        """End the thread that waits for calls, and close its connection, after Spark's last call."""
        connection, self._connection = self._connection, None
        waited_on = connection and connection.socket
        if waited_on:
            # Closing it here would wait for that thread, which reads from it.
            with contextlib.suppress(OSError):
                waited_on.shutdown(socket.SHUT_RDWR)
