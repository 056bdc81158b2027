"""Watermarks per split: the progress of each split of the input, and the splits that hold the watermark back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import orjson

from rs_assets.common.files import write_atomically
from rs_assets.errors import CheckpointError

FILE = "splits.json"
# The default idle timeout of a split.
IDLE_TIMEOUT = timedelta(minutes=1)
# The columns of the observed metrics, and the split name of control rows.
LATEST, CAME_LATE, NO_SPLIT = "latest", "late", ""
# The greatest event time of each split, in microseconds since the epoch.
Latest = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BySplit:
    """A watermark that is the least of all splits', except splits without rows for `idle_timeout`.

    `by_record`: whether a row is late is decided by the records before it in its own split.
    """

    idle_timeout: timedelta = IDLE_TIMEOUT
    by_record: bool = False


def splits_metric(gate: str) -> str:
    """The name of the observed metrics.

    >>> splits_metric("per_minute")
    'per_minute/splits'
    """
    return f"{gate}/splits"


def later(before: Latest, found: Latest) -> Latest:
    """The greater of both for each split.

    >>> later({"a": 1, "b": 5}, {"b": 3, "c": 2})
    {'a': 1, 'b': 5, 'c': 2}
    """
    return {**before, **{split: max(at, before.get(split, at)) for split, at in found.items()}}


def reached(latest: Latest, waited: frozenset[str]) -> int | None:
    """The time that all splits in `waited` have reached; None while one has not begun, or without splits.

    >>> reached({"a": 9, "b": 5}, frozenset({"a", "b"})), reached({"a": 9}, frozenset({"a", "b"}))
    (5, None)
    """
    return min((latest[split] for split in waited), default=None) if waited <= latest.keys() else None


@dataclass(slots=True)
class Silence:
    """Idle detection: the splits without rows for `timeout`, by monotonic seconds.

    A split is idle only while others deliver rows. If the whole input pauses, all idle timers restart.
    """

    timeout: timedelta
    began: float
    _heard: dict[str, float] = field(default_factory=dict)
    _rows_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Wait for every split from now on."""
        self._rows_at = self.began

    def hear(self, splits: frozenset[str], now: float) -> None:
        """Reset the timers of splits that had rows; an empty set has no effect."""
        if not splits:
            return
        if self.paused(now):
            self.began = now
        self._rows_at = now
        self._heard.update(dict.fromkeys(splits, now))

    def paused(self, now: float) -> bool:
        """Whether no split had rows for the timeout."""
        return now - self._rows_at >= self.timeout.total_seconds()

    def waited(self, splits: frozenset[str], now: float) -> frozenset[str]:
        """Those of `splits` that are not idle."""
        if self.paused(now):
            return splits
        until = now - self.timeout.total_seconds()
        return frozenset(split for split in splits if max(self._heard.get(split, self.began), self.began) > until)


@dataclass(slots=True)
class SplitNotes:
    """The progress of a query's splits at the end of each batch: recorded before Spark commits it.

    So a batch that is computed again, or that the query is rolled back to, starts from the same progress.
    """

    folder: Path
    _entries: dict[int, Latest] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> SplitNotes:
        """The records in a query's folder, empty if there are none; CheckpointError if the file is damaged."""
        path = folder / FILE
        if not path.exists():
            return cls(folder)
        try:
            stored = orjson.loads(path.read_bytes())
            return cls(folder, {int(batch): {str(k): int(v) for k, v in noted.items()} for batch, noted in stored})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise CheckpointError(
                "the record of each split's progress is damaged",
                remedy="restore the file from a copy, or begin a new generation (--new-generation)",
                file=path,
            ) from error

    def behind(self, batch_id: int) -> Latest:
        """The progress of the splits at the end of a batch, {} if nothing is recorded until then."""
        found = max((batch for batch in self._entries if batch <= batch_id), default=None)
        return MappingProxyType({}) if found is None else self._entries[found]

    def note(self, batch_id: int, latest: Latest, *, first: int) -> None:
        """Record the progress of the splits after a batch; entries that no batch from `first` on needs are dropped.

        So are those of later batches, which were computed before the query was rolled back.
        """
        base = max((batch for batch in self._entries if batch < first), default=-1)
        kept = {batch: noted for batch, noted in self._entries.items() if base <= batch < batch_id}
        self._entries = {**kept, batch_id: dict(latest)}
        # The copy of a query may share its files with the original: a new file replaces the old one.
        write_atomically(self.folder / FILE, orjson.dumps(sorted(self._entries.items())))
