"""The Python worker of a step with state; a task of Spark starts it, and it ends with that task's process.

It reads frames on its standard input and answers on its standard output. The function that it runs sees neither: what
it prints goes to standard error, and it reads nothing.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from rs_assets.common.errors_wire import MARKER, to_wire
from rs_assets.compile.process.wire import Frame, Kind, batch_in, read, write
from rs_assets.errors import RsError, StepError

BUFFER_BYTES = 1 << 20


def serve(source: BinaryIO, target: BinaryIO, taken: Callable[[bytes], tuple[Any, ...]] = batch_in) -> None:
    """Answer the frames of `source` on `target`, until there are no more; then let the function clean up.

    The function gets what is `taken` from the content of a frame.
    """
    call: Callable[..., bytes] | None = None
    while (frame := read(source)) is not None:
        try:
            if frame.kind is Kind.LOAD:
                call, content = pickle.loads(frame.content), b""  # noqa: S301  the driver pickled it
            else:
                assert call is not None  # LOAD comes first
                content = call(*taken(frame.content))
            answer = Frame(frame.number, Kind.ANSWER, content)
        except RsError as error:
            answer = _failed(frame, error)
        except BaseException as error:  # noqa: BLE001  it must travel, whatever a module of the user's raised
            answer = _failed(frame, StepError(f"the Python worker failed: {type(error).__name__}: {error}"))
        write(target, answer)
    getattr(call, "close", _nothing)()


def _nothing() -> None:
    """Functions have nothing to release."""


def _failed(frame: Frame, error: RsError) -> Frame:
    told = error.what if error.what.startswith(MARKER) else to_wire(error)
    return Frame(frame.number, Kind.ERROR, told.encode("ascii", "backslashreplace"))


def private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes of this process as files of its own; what remains are an empty input, and standard error twice."""
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  it lives as long as the process
    return os.fdopen(source, "rb", BUFFER_BYTES), os.fdopen(target, "wb", BUFFER_BYTES)


def work(taken: Callable[[bytes], tuple[Any, ...]]) -> None:
    """Be the worker of a task."""
    # Ctrl-C reaches all processes of a terminal: the driver decides what is finished first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(*private_pipes(), taken)


if __name__ == "__main__":
    work(batch_in)
