"""What Spark calls for each batch of a query, and how a batch that is not done is told to it."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakMethod

from pyspark.sql import DataFrame

Process = Callable[[DataFrame, int], None]


class BatchNotDone(Exception):
    """What Spark is told of a batch that failed or was not begun.

    Only that: Spark looks for interrupts in the text by a pattern that overflows its stack on a long one, such as the
    trace of an error in Java. The error itself is in `QueryRun.failure`.
    """


def calling(process: WeakMethod[Process]) -> Process:
    """What Spark calls for each batch. Both processes would keep a query for ever if the other one held it."""

    def call(batch: DataFrame, batch_id: int) -> None:
        method = process()
        if method is None:
            raise BatchNotDone("the run of the query is over")
        method(batch, batch_id)

    return call
