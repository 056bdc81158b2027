"""What a plan does while Spark computes a batch: one piece of work at a time, in the background of its process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ahead:
    """Work that runs on a thread, which ends with its process; `wait` comes before anything that depends on it.

    Nothing begins twice: what lies ahead is bounded by one piece. It can be copied and pickled while nothing runs.
    """

    _thread: threading.Thread | None = None
    _failed: list[BaseException] = field(default_factory=list)

    def begin(self, work: Callable[[], object]) -> None:
        """Run `work`, after what was begun before it."""
        self.wait()

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001  raised by who waits
                self._failed.append(error)

        self._thread = threading.Thread(target=run, daemon=True, name="rs-ahead")
        self._thread.start()

    def wait(self) -> None:
        """Wait for what was begun, and raise its error, once.

        >>> ahead, found = Ahead(), []
        >>> ahead.begin(lambda: found.append(1))
        >>> ahead.wait(), found
        (None, [1])
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failed:
            raise self._failed.pop()
