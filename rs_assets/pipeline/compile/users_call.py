"""What holds for every function of a user that Spark's workers call."""

from __future__ import annotations

from typing import Any

from rs_assets.errors import TopologyError

# What such a function may end with; an interrupt is no fault of it.
RAISED = (Exception, SystemExit)


def check_sendable(call: Any, told: str, **facts: str) -> None:
    """TopologyError, with `facts`, if `call` cannot be sent to Spark's workers; `told` says which function it is."""
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(call)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise TopologyError(
            f"the function {told} cannot be sent to Spark's workers: {error}",
            remedy="make locks, connections and open files inside the function, not outside",
            **facts,
        ) from error


def text_of(error: BaseException) -> str:
    """What an error says; empty if that raises itself."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  an error of the user's own class
        return ""
