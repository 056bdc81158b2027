"""Computes the system messages of a batch from the splits that it read, without an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rs_assets.catalog.offsets.messages import (
    UNKNOWN_OFFSET,
    BatchFinish,
    CheckPoint,
    NewSplit,
    RemoveSplit,
    SystemMessage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMessages:
    """The messages of one batch, in order: `before` its rows and `after` them."""

    before: tuple[SystemMessage, ...]
    after: tuple[SystemMessage, ...]

    @property
    def all(self) -> tuple[SystemMessage, ...]:
        """Both, in order."""
        return self.before + self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTracker:
    """The splits of one source in one query, each with its offset at the end of the last batch (JSON text).

    Immutable: `advance` returns the next tracker. After a restart it is made from the last stored offsets as `known`.

    >>> tracker = SplitTracker(source="read", query="totals")
    >>> tracker, messages = tracker.advance(0, {"a.log": "3"})
    >>> [message.kind for message in messages.all]
    ['NewSplit', 'CheckPoint']
    >>> tracker, messages = tracker.advance(1, {"b.log": "1"}, is_last=True)
    >>> [message.kind for message in messages.all]
    ['NewSplit', 'RemoveSplit', 'CheckPoint', 'CheckPoint', 'BatchFinish']
    """

    source: str
    query: str
    known: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", dict(self.known))

    def advance(
        self,
        batch_id: int,
        offsets: Mapping[str, str],
        *,
        starts: Mapping[str, str] | None = None,
        is_last: bool = False,
    ) -> tuple[SplitTracker, BatchMessages]:
        """The tracker after a batch, and the messages of the batch.

        `offsets` holds every current split of the source, with its offset at the end of the batch, whether the batch
        read from it or not; a known split that is absent was removed. `starts` says where new splits begin, if known.
        `is_last`: the source is bounded and has ended. The order: a NewSplit for each unknown split; the rows; for each
        removed split RemoveSplit and a CheckPoint of its last offset; a CheckPoint of all `offsets` (even of none:
        sinks flush at it); BatchFinish at the end. Splits come in the order of the mappings.
        """
        source, query, begin = self.source, self.query, starts or {}
        before = [
            NewSplit(
                source=source, query=query, batch_id=batch_id, split=split, offset=begin.get(split, UNKNOWN_OFFSET)
            )
            for split in offsets
            if split not in self.known
        ]
        after: list[SystemMessage] = []
        for split, offset in self.known.items():
            if split not in offsets:
                after.append(RemoveSplit(source=source, query=query, batch_id=batch_id, split=split))
                after.append(CheckPoint(source=source, query=query, batch_id=batch_id, offsets={split: offset}))
        after.append(CheckPoint(source=source, query=query, batch_id=batch_id, offsets=offsets))
        if is_last:
            after.append(BatchFinish(source=source, query=query, batch_id=batch_id))
        following = SplitTracker(source=source, query=query, known=offsets)
        return following, BatchMessages(before=tuple(before), after=tuple(after))
