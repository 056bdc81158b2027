"""The Python worker that merges the accumulators of windows; a task of Spark starts it as that of a step with state."""

from __future__ import annotations

from rs_assets.compile.process.wire import TIME
from rs_assets.compile.process.worker import work


def accumulators_in(content: bytes) -> tuple[bytes]:
    """The accumulators of a frame, which has no watermark."""
    return (content[TIME.size :],)


if __name__ == "__main__":
    work(accumulators_in)
