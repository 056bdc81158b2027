"""A commit of Delta that is tried again when another writer was first."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from deltalake.exceptions import CommitFailedError

# How long the attempts after a lost one wait on average, in seconds.
WAITS_S = (0.01, 0.03, 0.1, 0.3, 1.0)
Done = TypeVar("Done")


def retried(attempt: Callable[[], Done], lost: Callable[[Exception], bool] | None = None) -> Done:
    """What `attempt` returns; it reads the table and commits, and is called again if another writer committed before.

    `lost` says whether an exception means that: by default CommitFailedError does. The last attempt of six raises what
    it raises. How long the waits are is random, so that two writers do not meet again.
    """
    beaten = lost or (lambda error: isinstance(error, CommitFailedError))
    for wait_s in WAITS_S:
        try:
            return attempt()
        except Exception as error:
            if not beaten(error):
                raise
        time.sleep(wait_s * random.uniform(0.5, 1.5))  # noqa: S311  not security relevant
    return attempt()
