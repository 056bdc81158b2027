"""The guard of whole files while a query reads them."""

from __future__ import annotations

from collections.abc import Callable

from rs_assets.engine.source.base import Known, Watch
from rs_assets.engine.source.files.counting import FileWatch
from rs_assets.errors import BadRecordError, RsError


class FilesWatch(Watch):
    """Guards the files of one batch after another; `over` makes the guard of a batch."""

    __slots__ = ("_batch", "_over")

    def __init__(self, over: Callable[[int], FileWatch]) -> None:
        self._over = over
        self._batch: FileWatch | None = None

    def planned(self, batch_id: int) -> None:
        """Check the files, and begin to count what Spark does not tell."""
        self._batch = self._over(batch_id)

    def computed(self) -> None:
        """Raise for a record that Spark's reader took for another; waits for the count."""
        if self._batch is not None:
            self._batch.check_records()

    def check(self, batch_id: int) -> None:  # noqa: ARG002
        """DataLossError if a file is gone or was touched since Spark planned it."""
        if self._batch is not None:
            self._batch.check()

    def read(self) -> Known:
        """The sizes of the files."""
        return self._batch.sizes() if self._batch is not None else {}

    def plans_again(self, failure: RsError) -> bool | None:
        """Files that Spark planned itself must stay as they were."""
        return False if isinstance(failure, BadRecordError) else None
