"""What sinks of requests share: rows as JSON in a stable order, requests of bounded size, refused rows, the rate."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.connectors.own.batch_sink import PartMark
from rs_assets.connectors.sink import BatchMark, RefusedRow
from rs_assets.errors import SinkError

# A longer row has a request of its own.
BODY_BYTES: Final = 8 << 20
# With so many rows refused, and none accepted, the service is wrong and not the rows.
ALL_REFUSED: Final = 20
SHOWN = 300

Keep = Callable[[Sequence[RefusedRow], BatchMark, int], None]


def in_order(lines: pa.ChunkedArray) -> pa.ChunkedArray:
    """The lines sorted: a batch that is computed again has its rows in another order, and the same requests."""
    wide = lines.cast(pa.large_string())
    return wide.take(pc.sort_indices(wide))


def requests(sizes: Sequence[int], rows: int, most_bytes: int = BODY_BYTES) -> Iterator[range]:
    """The rows of each request: at most `rows`, and at most `most_bytes` unless it is a single one.

    >>> [*requests([3, 3, 9, 1, 1, 1], rows=2, most_bytes=8)]
    [range(0, 2), range(2, 3), range(3, 5), range(5, 6)]
    """
    start, total = 0, 0
    for at, size in enumerate(sizes):
        if at > start and (at - start == rows or total + size > most_bytes):
            yield range(start, at)
            start, total = at, 0
        total += size
    if start < len(sizes):
        yield range(start, len(sizes))


def row_of(line: bytes) -> Mapping[str, Any]:
    """A row of its line, with all digits of its numbers."""
    found: Mapping[str, Any] = json.loads(line, parse_float=Decimal)
    return found


@dataclass(slots=True)
class Pace:
    """At most so many rows per second, by pauses before requests; None does not limit them."""

    rows_per_second: float | None
    _free_at: float = 0.0

    def wait(self, rows: int) -> None:
        """Wait until `rows` more may be sent."""
        if self.rows_per_second is not None:
            now = time.monotonic()
            time.sleep(max(0.0, self._free_at - now))
            self._free_at = max(now, self._free_at) + rows / self.rows_per_second


@dataclass(slots=True)
class RefusedRows:
    """What happens to the rows that a service refuses; `dead_letters` keeps them, else they end the run."""

    step: str
    where: str
    dead_letters: bool
    keep: Keep | None = None
    _accepted: bool = False
    _seen: int = 0
    _found: list[RefusedRow] = field(default_factory=list)

    def begin(self) -> None:
        """Another batch, or the same one again after an error."""
        self._seen, self._found = 0, []

    def accepted(self) -> None:
        """The service has accepted a row."""
        self._accepted = True

    def add(self, line: bytes, reason: str) -> None:
        """A row was refused; SinkError if that ends the run."""
        self._seen += 1
        if not self.dead_letters or self.keep is None:
            raise SinkError(
                f"{self.where} refuses a row: {reason[:SHOWN]}",
                remedy="keep such rows from the sink (filter), or keep them as dead letters: refused='dead_letter'",
                step=self.step,
                row=line[:SHOWN].decode(errors="replace"),
            )
        if self._seen >= ALL_REFUSED and not self._accepted:
            raise SinkError(
                f"{self.where} has refused all of {self._seen} rows, the last: {reason[:SHOWN]}",
                remedy="check what the service expects (format, fields, its own settings), then start again: the batch"
                " is repeated",
                step=self.step,
            )
        self._found.append(RefusedRow(row_of(line), reason))

    def flush(self, mark: BatchMark, request: int) -> int:
        """Write the rows of a request to the dead letters, once for each request of a batch; how many there were."""
        found, self._found = self._found, []
        if found and self.keep is not None:
            self.keep(found, mark, PartMark(mark, request, final=False).number)
        return len(found)
