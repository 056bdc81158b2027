"""Retries when the machine is too busy to start a Python worker within Spark's fixed limit of ten seconds."""

from __future__ import annotations

from tenacity import Retrying, retry_if_exception, stop_after_attempt

from rs_assets.errors import WorkerStartError
from rs_assets.runtime.translate import translate

# How often a start is retried.
RESTARTS = 2


def lacks_worker(error: BaseException) -> bool:
    """Whether `error` is that of a Python worker that did not start in time."""
    return isinstance(translate(error, query=""), WorkerStartError)


def trying_again() -> Retrying:
    """Retries calls for which no worker started."""
    return Retrying(retry=retry_if_exception(lacks_worker), stop=stop_after_attempt(1 + RESTARTS), reraise=True)
