"""The guard of whole files while a query reads them."""

from __future__ import annotations

from collections.abc import Callable

from rs_assets.engine.source.base import Known, Watch
from rs_assets.engine.source.files.counting import FileWatch
from rs_assets.engine.source.files.plain import PlainLines
from rs_assets.errors import BadRecordError, RsError


class FilesWatch(Watch):
    """Guards the files of one batch after another; `over` makes the guard of a batch.

    With `plain` it finds out whether all lines are, until some are not.
    """

    __slots__ = ("_batch", "_over", "_plain")

    def __init__(self, over: Callable[[int, PlainLines | None], FileWatch], plain: PlainLines | None = None) -> None:
        self._over = over
        self._plain = plain
        self._batch: FileWatch | None = None

    def planned(self, batch_id: int) -> None:
        """Check the files, and begin to count what Spark does not tell."""
        self._batch = None
        self._batch = self._over(batch_id, self._plain)

    def plain(self) -> int | None:
        """The records of the batch if all lines are plain; where some are not, the next batches are only counted."""
        rows = self._batch.plain_rows() if self._batch is not None else 0
        if rows is None:
            self._plain = None
        return rows

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
