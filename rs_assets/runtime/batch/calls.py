"""What Spark calls for each batch of a query, and how a batch that is not done is told to it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

from pyspark.sql import DataFrame

Process = Callable[[DataFrame, int], None]


class BatchNotDone(Exception):
    """What Spark is told of a batch that failed or was not begun.

    Only that: Spark looks for interrupts in the text by a pattern that overflows its stack on a long one, such as the
    trace of an error in Java. The error itself is in `QueryRun.failure`.
    """


class Calls:
    """What Spark calls for each batch of a query.

    Both processes would keep a query for ever if the other one held it, so it is known here by `process` alone, weakly.
    The thread of Java that computes the batches has a connection of its own, where a thread of Python waits for calls.
    Java forgets both without a word when its thread ends: see `end`.
    """

    def __init__(self, process: WeakMethod[Process]) -> None:
        self._process = process
        self._connection: Any = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """One micro-batch."""
        self._connection = batch._jdf._gateway_client.get_thread_connection()  # noqa: SLF001  nobody else knows it
        process = self._process()
        if process is None:
            raise BatchNotDone("the run of the query is over")
        process(batch, batch_id)

    def end(self) -> None:
        """Let the thread that waits for calls end, and close its connection, once Spark calls no more."""
        connection, self._connection = self._connection, None
        waited_on = connection and connection.socket
        if waited_on:
            # To close it here would wait for that thread, which reads from it.
            with contextlib.suppress(OSError):
                waited_on.shutdown(socket.SHUT_RDWR)
