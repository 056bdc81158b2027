"""The part of the input that may be in the rows of a batch; for stateful steps also the input of earlier batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rs_assets.catalog.offsets.base import CheckpointRow
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.operators.window.event_time import has_ended
from rs_assets.topology.nodes.distinct import Distinct
from rs_assets.topology.nodes.window import WindowAggregate
from rs_assets.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRange:
    """A part of one split: from an offset (None: its beginning) to another."""

    source: str
    split: str
    start: str | None
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """The input that may be in the rows of a batch: an upper bound.

    `oldest_batch` is the first batch whose rows may be in it, as far as its checkpoints were stored; None if any
    earlier batch may have them.
    """

    splits: tuple[SplitRange, ...]
    oldest_batch: int | None


def counting(rows: Sequence[CheckpointRow], place: tuple[int, int]) -> list[CheckpointRow]:
    """The rows of one query before `place`, a generation and a batch, that no later generation undid.

    A generation continues after a batch of an earlier one; the batches that it went back over do not count.
    """
    first: dict[int, int] = {}
    for row in rows:
        first[row.generation] = min(row.batch_id, first.get(row.generation, row.batch_id))

    def undone(row: CheckpointRow) -> bool:
        return any(row.generation < other <= place[0] and began <= row.batch_id for other, began in first.items())

    return [row for row in sorted((r for r in rows if r.place < place), key=lambda r: r.place) if not undone(row)]


def read_before(rows: Sequence[CheckpointRow], place: tuple[int, int]) -> dict[tuple[str, str], str]:
    """The position of each split, by source and queue, before the batch at `place`; `rows` as for `counting`."""
    return {(row.topic, row.queue): row.offset for row in counting(rows, place)}


def read_in(rows: Sequence[CheckpointRow], place: tuple[int, int]) -> tuple[SplitRange, ...]:
    """The input that the batch at `place` itself read."""
    before = read_before(rows, place)
    return tuple(_range(row, before) for row in rows if row.place == place)


def fed_by(topology: Topology, plan: QueryPlan, rows: Sequence[CheckpointRow], place: tuple[int, int]) -> Fed | None:
    """The input that may be in the rows of the batch at `place`; None if it is exactly what the batch read.

    The end is exact. The beginning is that of the oldest windows that could still fire, by the watermark before the
    batch and the greatest event time of earlier batches. If it is unknown (joins, sessions, several stateful steps,
    windows that fire more than once, a watermark by split) it is the beginning of the input.
    """
    states = [topology[name] for name in plan.states]
    if not states or all(isinstance(node, Distinct) for node in states):
        return None
    counted = counting(rows, (place[0], place[1] + 1))
    oldest = _oldest(states[0], counted, place[1]) if len(states) == 1 else None
    before = {} if oldest is None else {(r.topic, r.queue): r.offset for r in counted if r.batch_id < oldest}
    last = {(row.topic, row.queue): row for row in counted}
    ranges = [_range(row, before) for row in last.values()]
    return Fed(splits=tuple(each for each in ranges if each.start != each.end), oldest_batch=oldest)


def reaches_back(topology: Topology, plan: QueryPlan, rows: Sequence[CheckpointRow], place: tuple[int, int]) -> bool:
    """Whether `rows`, the last ones up to the batch at `place`, are enough for `fed_by`."""
    if len(plan.states) != 1 or _reach(topology[plan.states[0]]) is None:
        return True
    counted = counting(rows, (place[0], place[1] + 1))
    passed = _passed(counted, place[1])
    # Earlier batches had no watermark either; at the end of the input all windows are due.
    if not passed or has_ended(max(passed.values())):
        return True
    return _oldest(topology[plan.states[0]], counted, place[1]) is not None


def _passed(rows: Sequence[CheckpointRow], batch: int) -> dict[int, datetime]:
    """The watermarks of the batches before `batch`."""
    return {row.batch_id: row.watermark for row in rows if row.watermark is not None and row.batch_id < batch}


def _oldest(node: object, rows: Sequence[CheckpointRow], batch: int) -> int | None:
    """The first batch whose rows can be in the windows that fire in `batch`; None if any can."""
    reach, passed = _reach(node), _passed(rows, batch)
    newest = max(passed.values(), default=None)
    if reach is None or newest is None or has_ended(newest):
        return None
    # The watermark of a batch comes from earlier rows, whose time is at most the watermark plus the delay.
    over = [at for at, mark in passed.items() if mark + reach < newest]
    before = max((row.batch_id for row in rows if row.batch_id < max(over, default=0)), default=None)
    return None if before is None else before + 1


def _reach(node: object) -> timedelta | None:
    """How long before the watermark the windows that it fires may have begun, plus the watermark's delay."""
    if not isinstance(node, WindowAggregate) or node.fired or node.splits is not None or node.event_time is None:
        return None
    return node.window.longest + node.delay if node.window.by_time else None


def _range(row: CheckpointRow, before: Mapping[tuple[str, str], str]) -> SplitRange:
    return SplitRange(source=row.topic, split=row.queue, start=before.get((row.topic, row.queue)), end=row.offset)
