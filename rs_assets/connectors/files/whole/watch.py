"""Guards whole files while a query reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rs_assets.checkpoint.log import PlannedFile
from rs_assets.connectors.files.whole.counting import FileWatch
from rs_assets.connectors.files.whole.known_files import Former
from rs_assets.connectors.files.whole.modified_files import read_twice
from rs_assets.connectors.source import Known, Watch, Watching
from rs_assets.errors import BadRecordError, DataLossError, RsError, SourceReadError


class FilesWatch(Watch):
    """Guards the files of each batch; `over` makes the guard of a batch."""

    __slots__ = ("_batch", "_former", "_lost", "_over", "_watching")

    def __init__(self, over: Callable[[int], FileWatch], watching: Watching) -> None:
        self._over = over
        self._watching = watching
        self._former: Former | None = None
        self._batch: FileWatch | None = None
        self._lost: DataLossError | None = None

    def planned(self, batch_id: int) -> None:
        """Check the files, and start counting what Spark does not report."""
        self._batch = None
        with self._noting_losses():
            self._batch = self._over(batch_id)
        self._refuse_renamed(self._batch.files)

    def _refuse_renamed(self, files: Sequence[PlannedFile]) -> None:
        """DataLossError for a file that was read under another name while the query ran."""
        log = self._watching.log
        if self._former is None:
            planned = {file.place: file for file in log.files()}
            self._former = Former(planned, self._watching.known())
        gone = dict[object, list[str]]()
        for file in files:
            again = self._former.renamed(file.local, file.local.stat(), gone)
            if again is not None:
                raise read_twice(log.source, file.local, again, touch=False)
        self._former.add({file.place: file for file in files}, {})

    def computed(self) -> None:
        """Raise for a record that Spark's reader misread; waits for the count."""
        if self._batch is not None:
            self._batch.check_records()

    def check(self, batch_id: int) -> None:  # noqa: ARG002
        """DataLossError if a file is gone or was modified since Spark planned it."""
        if self._batch is not None:
            with self._noting_losses():
                self._batch.check()

    @contextmanager
    def _noting_losses(self) -> Iterator[None]:
        try:
            yield
        except DataLossError as error:
            self._lost = error
            raise

    def read(self) -> Known:
        """The facts that identify the files of the batch."""
        if self._batch is None:
            return {}
        noted = self._batch.noted()
        if self._former is not None:
            self._former.add({file.place: file for file in self._batch.files}, noted)
        return noted

    def plans_again(self, failure: RsError) -> bool | None:
        """True if a file cannot be read, has a bad record, or is not as it was planned: it may be another one then."""
        return True if failure is self._lost or isinstance(failure, BadRecordError | SourceReadError) else None
