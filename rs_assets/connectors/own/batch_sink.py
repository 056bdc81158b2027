"""A sink of rows for a system with a client: calls of bounded size, retried, at a bounded rate."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from rs_assets.common.plural import count_of
from rs_assets.connectors.sink import BatchMark, RefusedRow, Staged
from rs_assets.errors import RsError, SinkError
from rs_assets.records.rows import as_dicts

# How many calls a batch can have, as a power of two, so that one number says how far a sink has come.
PART_BITS = 20
MOST_PARTS = 1 << PART_BITS
# How many times rows of a call can be refused, as a power of two: a system may name one row at a time.
ANSWER_BITS = 16
MOST_ANSWERS = 1 << ANSWER_BITS
MOST_WAIT = timedelta(seconds=30)
SHOWN = 300


class RowsRefused(Exception):
    """Raised by `write` for rows that the system will never accept, by their index, with the reason for each.

    Nothing of the call may have been written: the other rows are written by another call.

    >>> RowsRefused({1: "too long"}).reasons
    {1: 'too long'}
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(f"{count_of(len(reasons), 'row')} refused")
        self.reasons = dict(reasons)


@dataclass(frozen=True, slots=True)
class PartMark:
    """Which call of which batch; `final` for the last one of the batch.

    A sink that stores `number` under `writer`, in the transaction that writes the rows, has each row exactly once.
    """

    batch: BatchMark
    part: int
    final: bool

    @property
    def writer(self) -> str:
        """The id under which the last number is stored."""
        return self.batch.writer

    @property
    def number(self) -> int:
        """A number that grows with each call.

        >>> mark = BatchMark("id", 1, "sink", batch_id=2)
        >>> [PartMark(mark, part, final).number - (2 << PART_BITS) for part, final in ((0, False), (1, True))]
        [0, 1048575]
        """
        part = MOST_PARTS - 1 if self.final else self.part
        return (self.batch.batch_id << PART_BITS) + part


class BatchSink(ABC):
    """At least once: a batch that is repeated after a crash, and a call that is retried, may write rows again.

    Exactly once with `last`: the sink then stores the number of each call in the transaction that writes its rows.

    A subclass has `write`; the other methods and settings have defaults. A batch is collected on the driver, so limit
    the rows of the source's batches. All methods are called on Spark's thread of the query, one at a time; a connection
    may be kept in `self`, and given back in `close`, which the runtime calls at the end of a run.

    `rows_per_call`: None writes a batch by one call. `attempts` of a call that raises one of `retry_on`, with pauses
    that grow from `backoff` to 30 s. `rows_per_second`: the rate is bounded by pauses between calls. `refused`: what
    happens to rows for which `write` raises RowsRefused: "fail" ends the run with SinkError, "dead_letter" writes them
    to the dead-letter table.
    """

    name: str = "sink"
    rows_per_call: int | None = 500
    attempts: int = 5
    backoff: timedelta = timedelta(milliseconds=200)
    retry_on: tuple[type[Exception], ...] = (OSError,)
    rows_per_second: float | None = None
    refused: Literal["fail", "dead_letter"] = "fail"
    # Until then the rate allows no other call, by the monotonic clock.
    _free_at: float = 0.0
    _keep: Callable[[Sequence[RefusedRow], BatchMark, int], None] | None = None

    @abstractmethod
    def write(self, rows: list[dict[str, Any]], mark: PartMark) -> None:
        """Write all of `rows`, or raise and write none; RowsRefused names those that the system never accepts.

        With `last` it is called for a batch without rows too, to store its number.
        """

    def last(self, mark: BatchMark) -> int | None:  # noqa: ARG002  for subclasses
        """The greatest number that was stored for `mark.writer`, -1 for none; None, the default, if none is kept."""
        return None

    def location(self) -> str:
        """Where a person finds the rows, without credentials."""
        return type(self).__name__

    def close(self) -> None:  # noqa: B027  nothing to do for most
        """Give connections back; may be called twice, and `write` may follow."""

    # What the runtime calls.

    def committed(self, mark: BatchMark) -> bool:
        """Whether all calls of the batch were stored."""
        last = self._last(mark)
        return last is not None and last >= PartMark(mark, 0, final=True).number

    def last_committed(self, mark: BatchMark) -> int | None:
        """The last batch whose calls were all stored; None if nothing is stored."""
        last = self._last(mark)
        return None if last is None else ((last + 1) >> PART_BITS) - 1

    def keep_refused(self, keep: Callable[[Sequence[RefusedRow], BatchMark, int], None]) -> None:
        """Where refused rows go from now on."""
        self._keep = keep

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the rows; they wait in memory."""
        rows = batch.toArrow()
        return Staged(lambda: self._commit(rows, mark))

    def _commit(self, rows: pa.Table, mark: BatchMark) -> int:
        last = self._last(mark)
        if last is None:
            parts = _parts(rows, self.rows_per_call)
        else:
            # A batch that is repeated has the same rows, but not always in the same order.
            ordered = sorted(as_dicts(rows), key=_order)
            size = self.rows_per_call or max(1, len(ordered))
            parts = iter([ordered[at : at + size] for at in range(0, len(ordered), size)] or [[]])
        written, number = 0, 0
        part = next(parts, None)
        while part is not None:
            following = next(parts, None)
            number_of = PartMark(mark, number, final=following is None)
            if last is None or last < number_of.number:
                written += self._write(part, number_of)
            part, number = following, number + 1
        return written

    def _write(self, rows: list[dict[str, Any]], mark: PartMark) -> int:
        """Write one part, without the rows that are refused, maybe one by one; how many rows there were."""
        for answers in range(MOST_ANSWERS):
            try:
                self._attempt(rows, mark)
            except RowsRefused as refusal:
                refused = [RefusedRow(rows[at], why) for at, why in refusal.reasons.items() if at < len(rows)]
                left = [row for at, row in enumerate(rows) if at not in refusal.reasons]
                if len(left) == len(rows) or answers == MOST_ANSWERS - 1:
                    raise self._failed(refusal) from refusal
                self._refuse(refused, mark, answers)
                rows = left
                if rows or self._last(mark.batch) is not None:
                    continue
            break
        return len(rows)

    def _attempt(self, rows: list[dict[str, Any]], mark: PartMark) -> None:
        retrying = Retrying(
            stop=stop_after_attempt(self.attempts),
            wait=wait_random_exponential(multiplier=self.backoff.total_seconds(), max=MOST_WAIT.total_seconds()),
            retry=retry_if_exception_type(self.retry_on),
            reraise=True,
        )
        try:
            for attempt in retrying:
                with attempt:
                    # The call before may have written, and lost only the answer.
                    if attempt.retry_state.attempt_number == 1 or not self._stored(mark):
                        self._pause(len(rows))
                        self.write(rows, mark)
        except (RsError, RowsRefused):
            raise
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> SinkError:
        return SinkError(
            f"{type(self).__name__}.write has raised {type(error).__name__}: {str(error)[:SHOWN]}",
            remedy="see that the system of the sink answers, then start again: the batch is repeated",
            step=self.name,
        )

    def _refuse(self, rows: Sequence[RefusedRow], mark: PartMark, answers: int) -> None:
        """Keep rows that the call has refused after `answers` others, or end the run."""
        if self.refused == "dead_letter" and self._keep is not None:
            # A number that was written before would be ignored.
            self._keep(rows, mark.batch, (mark.number << ANSWER_BITS) + answers)
            return
        apart = "; only a pipeline keeps such rows as dead letters" if self.refused == "dead_letter" else ""
        first = rows[0].reason[:SHOWN] if rows else ""
        raise SinkError(
            f"{self.location()} has refused {count_of(len(rows), 'row')}, the first: {first}{apart}",
            remedy="keep such rows from the sink (filter)"
            if apart
            else "keep such rows from the sink (filter), or set refused = 'dead_letter' in its class",
            step=self.name,
        )

    def _last(self, mark: BatchMark) -> int | None:
        try:
            return self.last(mark)
        except RsError:
            raise
        except Exception as error:
            raise SinkError(
                f"{type(self).__name__}.last has raised {type(error).__name__}: {str(error)[:SHOWN]}",
                remedy="see that the system of the sink answers, then start again",
                step=self.name,
            ) from error

    def _stored(self, mark: PartMark) -> bool:
        last = self._last(mark.batch)
        return last is not None and last >= mark.number

    def _pause(self, rows: int) -> None:
        """Wait until the rate allows `rows` more."""
        if self.rows_per_second is not None:
            now = time.monotonic()
            time.sleep(max(0.0, self._free_at - now))
            self._free_at = max(now, self._free_at) + rows / self.rows_per_second


def _parts(rows: pa.Table, size: int | None) -> Iterator[list[dict[str, Any]]]:
    """The rows, `size` at a time (None: all)."""
    count = rows.num_rows
    for at in range(0, count, size or max(1, count)):
        yield as_dicts(rows.slice(at, size or count))


def _order(row: dict[str, Any]) -> str:
    """By what the rows of a batch are sorted."""
    try:
        return json.dumps(row, sort_keys=True, default=str)
    except TypeError:
        # A map has keys that JSON does not have, such as times.
        return _text(row)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{key!r}: {_text(each)}' for key, each in value.items()))}}}"
    return f"[{', '.join(map(_text, value))}]" if isinstance(value, list) else repr(value)
