"""The priority of a process that computes next to a stream."""

from __future__ import annotations

import os
from typing import Final

from rs_assets.errors import ConfigurationError

NICE: Final = "RS_NICE"
DEFAULT, MOST = 10, 19


def default_nice() -> int:
    """The number of RS_NICE, else 10; ConfigurationError for one that is not from 0 to 19."""
    text = os.environ.get(NICE) or str(DEFAULT)
    if not text.isdecimal() or int(text) > MOST:
        raise ConfigurationError(f"{NICE} is {text!r}", remedy=f"set it to a number from 0 to {MOST}")
    return int(text)


def give_way(by: int | None = None) -> None:
    """Lower the priority of this thread, and of threads and processes that it starts, as `nice -n` does; None: RS_NICE.

    For processes that read recorded batches again, before they start Spark: a stream on the same machine keeps its
    share of a busy processor. Without one nothing is slower. Systems without priorities ignore it.
    """
    lower = default_nice() if by is None else by
    if lower and hasattr(os, "nice"):
        os.nice(lower)
