"""The end of the input of a run, seen by its query: then windows fire in the same start, without a second one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.connectors.source import Foreseeing, SourceReader, Unfinished
from rs_assets.spark.processor.session import package_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class InputEnd:
    """Where the input of one query ends: `readers` are its sources, `controls` the folders of its control rows.

    `shared`: another query reads input that may grow, and all are to read the same of it. `stopped` says that the run
    was asked to end. In doubt nothing ends here, and a second start fires the windows.
    """

    readers: Mapping[str, SourceReader]
    controls: tuple[Path, ...]
    shared: bool
    stopped: Callable[[], bool]

    def opened(self, spark: SparkSession, query: StreamingQuery, log: CheckpointLog, batch_id: int) -> bool:
        """Whether the input ends with a batch that was processed, and `query` will look for control rows after it.

        Without that it would not see any: with a trigger that ends it reads what was there at its start.
        """
        package = package_in(spark)
        if package is None or self.shared or self.stopped():
            return False
        sources, folders = _sources(query), [str(folder.absolute()) for folder in self.controls]
        if not package.InputEnd.reached(sources, folders) or not self._read(log.through(batch_id)):
            return False
        return bool(package.InputEnd.reopen(sources, folders))

    def lacks(self, log: CheckpointLog) -> bool:
        """Whether a source is known to have more than `log`; in doubt it has not."""
        try:
            known = [(reader, SourceLog(log, name)) for name, reader in self.readers.items()]
            return any(reader.has_more(of) for reader, of in known if isinstance(reader, Foreseeing))
        except Exception:  # noqa: BLE001  the end of the run checks it again, and says what is wrong
            return False

    def _read(self, log: CheckpointLog) -> bool:
        """Whether the sources have nothing after the last batch of `log`."""
        try:
            return not any(_goes_on(reader, SourceLog(log, name)) for name, reader in self.readers.items())
        except Exception:  # noqa: BLE001  the end of the run checks it again, and says what is wrong
            return False


def _goes_on(reader: SourceReader, log: SourceLog) -> bool:
    """Whether there may be more; SourceReadError for a record that is incomplete."""
    if not isinstance(reader, Foreseeing) or reader.has_more(log):
        return True
    if isinstance(reader, Unfinished):
        reader.check_ended(log)
    return False


def _sources(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery().sources()  # noqa: SLF001  there is no public way


def has_settled(log: CheckpointLog, sources: Iterable[str]) -> bool:
    """Whether no batch is planned that reads more of `sources` than the last committed one."""
    last = log.last_committed()
    done, planned = log.offsets(last), log.offsets(last + 1)
    if done is None or planned is None:
        return done is not None
    return all(planned.sources.get(name) == done.sources.get(name) for name in sources)
