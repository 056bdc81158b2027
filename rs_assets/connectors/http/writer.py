"""The HTTP sink: the driver sends a batch, request by request, when it is committed."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from rs_assets.connectors.http.client import Answer, HttpClient
from rs_assets.connectors.http.nodes import BodyFormat, HttpSink
from rs_assets.connectors.http.requests import Keep, Pace, RefusedRows, in_order, requests
from rs_assets.connectors.sink import BatchMark, Staged
from rs_assets.errors import SinkError
from rs_assets.records.columns import visible
from rs_assets.records.poison import exact_text

# The answers that are about the rows of a request; 413: it is too large.
ABOUT_ROWS: Final = frozenset((400, 413, 422))
CONTENT: Final = {
    "json_lines": "application/x-ndjson",
    "json_array": "application/json",
    "json_object": "application/json",
}


@dataclass(slots=True)
class HttpWriter:
    """At least once, and once for a service that honours the `Idempotency-Key` of each request.

    A batch passes through the driver, so limit its rows.
    """

    node: HttpSink
    pace: Pace = field(init=False)
    refused: RefusedRows = field(init=False)

    def __post_init__(self) -> None:
        """Nothing was sent yet."""
        self.pace = Pace(self.node.rows_per_second)
        self.refused = RefusedRows(self.name, self.location(), self.node.refused == "dead_letter")

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.node.name

    def location(self) -> str:
        """The address, without credentials."""
        return self.node.endpoint.where

    def committed(self, mark: BatchMark) -> bool:  # noqa: ARG002  the protocol's form
        """Unknown, hence False."""
        return False

    def last_committed(self, mark: BatchMark) -> int | None:  # noqa: ARG002  the protocol's form
        """None: this sink has no memory."""
        return None

    def keep_refused(self, keep: Keep) -> None:
        """Where refused rows go from now on."""
        self.refused.keep = keep

    def check_start(self) -> None:
        """ConfigurationError for an address or a login that is missing or malformed; nothing is sent."""
        self.node.endpoint.address()
        self.node.endpoint.sent_headers()

    def check_begin(self, begun: BatchMark) -> str:
        """A warning for each generation but the first: its rows are sent again."""
        again = f"a new generation sends all rows of {self.name!r} again, with new keys"
        return again if begun.generation > 1 else ""

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """Always possible."""

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:  # noqa: ARG002  the protocol's form
        """Does nothing: sent rows stay."""
        return "sends rows again"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the rows; they wait in memory."""
        lines = batch.select(exact_text(visible(batch.columns)).alias("line")).toArrow()["line"]
        return Staged(partial(self._commit, lines, mark))

    def _commit(self, lines: pa.ChunkedArray, mark: BatchMark) -> int:
        ordered = in_order(lines)
        sizes = pc.binary_length(ordered).to_pylist()
        sent = 0
        self.refused.begin()
        with closing(HttpClient(endpoint=self.node.endpoint, step=self.name, failure=SinkError)) as client:
            for number, rows in enumerate(requests(sizes, self.node.batch)):
                part = [line.encode() for line in ordered.slice(rows.start, len(rows)).to_pylist()]
                self._deliver(client, part, rows.start, mark)
                sent += len(part) - self.refused.flush(mark, number)
        return sent

    def _deliver(self, client: HttpClient, rows: Sequence[bytes], start: int, mark: BatchMark) -> None:
        """Send rows in one request; in two halves, and so on, if the service refuses them for one of them."""
        self.pace.wait(len(rows))
        headers = {"Content-Type": CONTENT[self.node.format], "Idempotency-Key": key_of(rows, start, mark)}
        answer = client.ask(self.node.method, body_of(rows, self.node.format), headers)
        if answer.good:
            self.refused.accepted()
        elif answer.status not in ABOUT_ROWS:
            raise self._failed(client.said(answer), answer)
        elif len(rows) == 1:
            self.refused.add(rows[0], client.said(answer))
        else:
            middle = len(rows) // 2
            self._deliver(client, rows[:middle], start, mark)
            self._deliver(client, rows[middle:], start + middle, mark)

    def _failed(self, said: str, answer: Answer) -> SinkError:
        moved = f", and points to {answer.headers['location']}" if "location" in answer.headers else ""
        return SinkError(
            f"{self.location()} does not take rows: {said}{moved}",
            remedy="check the address, the login and the method (HttpEndpoint, method=), then start again: the batch is"
            " repeated",
            step=self.name,
        )


def body_of(rows: Sequence[bytes], form: BodyFormat) -> bytes:
    r"""The content of a request.

    >>> body_of([b"1", b"2"], "json_lines"), body_of([b"1", b"2"], "json_array"), body_of([b"1"], "json_object")
    (b'1\n2\n', b'[1,2]', b'1')
    """
    if form == "json_array":
        return b"[" + b",".join(rows) + b"]"
    return b"".join(row + b"\n" for row in rows) if form == "json_lines" else rows[0]


def key_of(rows: Sequence[bytes], start: int, mark: BatchMark) -> str:
    """The key of a request, a UUID: of its writer, its batch, its place and its rows, never of who sends it.

    >>> key_of([b"1"], 0, BatchMark("id", 1, "sink", 7))
    'd871a8e3-a770-5842-80cb-cb4795b1f958'
    """
    digest = hashlib.sha256(f"{mark.writer} {mark.batch_id} {start}".encode())
    for row in rows:
        digest.update(b"\n" + row)
    return str(uuid.UUID(bytes=digest.digest()[:16], version=5))
