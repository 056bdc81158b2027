"""Mirrors committed offsets to where a system's own tools show them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

from rs_assets.errors import RsError

NOT_SHOWN = "no offsets are shown in the consumer group"
# For display only: an unreachable broker must not delay the catalog.
PATIENCE = timedelta(seconds=5)

S = TypeVar("S")


@dataclass(slots=True, kw_only=True)
class OffsetMirror(ABC, Generic[S]):
    """Commits the offsets that Spark and the catalog have of a source, by split, to a consumer group.

    The group is for display only; a start uses Spark's log. `failure` is the last error, None after a success.
    """

    effect: str = NOT_SHOWN
    failure: RsError | None = None
    _owed: dict[S, int] = field(default_factory=dict)
    _shown: dict[S, int] = field(default_factory=dict)

    def committed(self, ends: Sequence[str | None]) -> None:
        """Commit the offsets that all queries have read; RsError if a broker rejects it: the next call retries."""
        found: dict[S, int] = {}
        for end in ends:
            for split, offset in self.offsets(end).items() if end is not None else ():
                found[split] = min(found.get(split, offset), offset)
        self._owed.update({split: offset for split, offset in found.items() if self._shown.get(split) != offset})
        self._commit()
        self._raise()

    def finish(self, ends: Sequence[str | None]) -> None:  # noqa: ARG002  `committed` had them before
        """Commit offsets that a busy broker has not accepted, and close; RsError if it still does not accept them."""
        self.close()
        self._raise()

    def close(self) -> None:
        """Commit offsets that a busy broker has not accepted, and close the connection."""
        self._commit()
        self.disconnect()

    @abstractmethod
    def offsets(self, end: str) -> Mapping[S, int]:
        """The next offset of each split, of an end in Spark's log."""

    @abstractmethod
    def show(self, offsets: Mapping[S, int]) -> None:
        """Commit `offsets` to the group, over a connection that stays open; RsError if a broker rejects them."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close the connection, if there is one."""

    def _raise(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _commit(self) -> None:
        if not self._owed:
            return
        try:
            self.show(self._owed)
        except RsError as error:
            self.failure = error
            self.disconnect()
        else:
            self.failure = None
            self._shown.update(self._owed)
            self._owed = {}
