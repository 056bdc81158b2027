"""A machine that is too busy to start Python workers: Spark waits ten seconds for one, and that is fixed."""

from __future__ import annotations

from tenacity import Retrying, retry_if_exception, stop_after_attempt

from rs_assets.errors import WorkerStartError
from rs_assets.runtime.translate import translate

# How often something is tried again.
RESTARTS = 2


def lacks_worker(error: BaseException) -> bool:
    """Whether `error` tells of a Python worker that did not start in time."""
    return isinstance(translate(error, query=""), WorkerStartError)


def trying_again() -> Retrying:
    """Calls that are made again when no worker came up."""
    return Retrying(retry=retry_if_exception(lacks_worker), stop=stop_after_attempt(1 + RESTARTS), reraise=True)
