"""The first start of a query in which a stream waits for tables: the stages that have ended, next to its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.files import write_atomically
from rs_assets.errors import CheckpointError

FILE = "held.json"


@dataclass(frozen=True, slots=True)
class Hold:
    """The sources that have no rows yet, in each of the `stages` of the first start of the query in `folder`.

    The file has the number of stages at the beginning, and for each that has ended the first batch after it. So a crash
    in a stage changes nothing, and a rewind, or a savepoint of that time, leads back into it. A query that has batches
    and no such file was begun without: it holds nothing.
    """

    folder: Path
    stages: tuple[frozenset[str], ...] = ()

    def begin(self, log: CheckpointLog) -> None:
        """Record that the first start begins, or that it goes on after a rewind; the query must be stopped."""
        if not self.stages:
            return
        begun = self._read()
        if begun is None and not log.begun:
            self._write(len(self.stages), [])
        elif begun is not None and len(past := _past(begun[1], log)) < len(begun[1]):
            self._write(begun[0], past)

    def held(self, log: CheckpointLog) -> frozenset[str]:
        """The sources that have no rows in the next batch; CheckpointError if the file is damaged."""
        if not self.stages:
            return frozenset()
        begun = self._read()
        if begun is None:
            return frozenset() if log.begun else self.stages[0]
        number, ended = begun
        past = len(_past(ended, log))
        return self.stages[past] if past < min(number, len(self.stages)) else frozenset()

    def end(self, log: CheckpointLog) -> None:
        """Record that the stage has ended, before the next batch; the query must be stopped."""
        number, ended = self._read() or (len(self.stages), [])
        self._write(number, [*_past(ended, log), log.last_committed() + 1])

    def _read(self) -> tuple[int, list[int]] | None:
        path = self.folder / FILE
        try:
            stored = orjson.loads(path.read_bytes())
            return int(stored["stages"]), [int(batch) for batch in stored["ended"]]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                "the record of the sources that wait for tables is damaged",
                remedy="restore the file from a copy, or begin a new generation (--new-generation)",
                file=path,
            ) from error

    def _write(self, stages: int, ended: Sequence[int]) -> None:
        # The copy of a query may share its files with the original: a new file replaces the old one.
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / FILE, orjson.dumps({"stages": stages, "ended": [*ended]}))


def _past(ended: Sequence[int], log: CheckpointLog) -> list[int]:
    """The first batches after the stages that have ended before the next batch."""
    return [batch for batch in ended if batch <= log.last_committed() + 1]


# That of a query in which no stream waits.
NO_HOLD = Hold(Path())
