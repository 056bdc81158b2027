"""The search sink: the driver sends a batch by `_bulk`, request by request, when it is committed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyspark.sql import DataFrame

from rs_assets.common.plural import count_of
from rs_assets.connectors.http.client import Answer, HttpClient, Tries
from rs_assets.connectors.http.requests import Keep, Pace, RefusedRows, requests
from rs_assets.connectors.search.bulk import NDJSON, PATH, Outcome, body_of, outcomes
from rs_assets.connectors.search.documents import Document, as_documents, documents
from rs_assets.connectors.search.nodes import SearchSink
from rs_assets.connectors.sink import BatchMark, Staged
from rs_assets.errors import SinkError

# Answers by which a request as a whole is refused for its content: it is sent in halves.
ABOUT_CONTENT: Final = frozenset((400, 413))
# The least version of Elasticsearch, since when documents have no types; OpenSearch began later.
LEAST_MAJOR: Final = 7
ANSWER_BYTES: Final = 64 << 20


@dataclass(slots=True)
class SearchWriter:
    """Each document once, not atomically: ids and versions let a repeated batch change nothing.

    A batch passes through the driver, so limit its rows.
    """

    node: SearchSink
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
        """The server and the index."""
        return self.node.place

    def committed(self, mark: BatchMark) -> bool:  # noqa: ARG002  the protocol's form
        """Unknown, hence False: what is there is not written again."""
        return False

    def last_committed(self, mark: BatchMark) -> int | None:  # noqa: ARG002  the protocol's form
        """None: documents do not say whether the batch is whole."""
        return None

    def keep_refused(self, keep: Keep) -> None:
        """Where refused rows go from now on."""
        self.refused.keep = keep

    def check_start(self) -> None:
        """SinkError if no server answers, or one of another kind or too old, or the login is refused."""
        with closing(self._client()) as client:
            answer = client.ask("GET", url=self._url("/"))
        if answer.status == 403:
            # Who may write need not be allowed to ask.
            return
        found = _version_in(answer)
        kind = "opensearch" if found.get("distribution") == "opensearch" else "elasticsearch"
        number = str(found.get("number", ""))
        if not answer.good or not number:
            raise self._failed(client.said(answer))
        wanted = self.node.flavour
        old = (
            kind == "elasticsearch"
            and number.partition(".")[0].isdigit()
            and int(number.partition(".")[0]) < LEAST_MAJOR
        )
        if old or wanted not in (None, kind):
            raise SinkError(
                f"{self.node.endpoint.where} is {kind} {number}"
                + ("" if old else f", and the sink is declared for {wanted}"),
                remedy=f"use {kind} {LEAST_MAJOR} or newer, or OpenSearch"
                if old
                else f"flavour={kind!r}, or leave it out",
                step=self.name,
            )

    def check_begin(self, begun: BatchMark) -> str:
        """A warning for each generation but the first: documents of earlier ones stay."""
        if begun.generation <= 1:
            return ""
        if self.node.mode == "upsert":
            return f"{self.location()} keeps documents of earlier generations until rows of their keys replace them"
        return f"a new generation of {self.name!r} adds all rows to {self.location()} again, under new ids"

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """Always possible."""

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:  # noqa: ARG002  the protocol's form
        """Does nothing: documents stay."""
        return "keeps its documents, and writes rows again"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the documents; they wait in memory."""
        rows = as_documents(batch, self.node).toArrow()
        return Staged(partial(self._commit, documents(rows, self.node, mark), mark))

    def _commit(self, found: Sequence[Document], mark: BatchMark) -> int:
        sizes = [len(each.lines) for each in found]
        sent = 0
        self.refused.begin()
        with closing(self._client()) as client:
            for number, rows in enumerate(requests(sizes, self.node.batch)):
                self._deliver(client, found[rows.start : rows.stop])
                sent += len(rows) - self.refused.flush(mark, number)
        return sent

    def _deliver(self, client: HttpClient, rows: Sequence[Document]) -> None:
        """Send documents until the server has taken or refused each of them."""
        tries, left = Tries(self.node.endpoint.patience), rows
        while left:
            self.pace.wait(len(left))
            answer = client.ask("POST", body_of(left), NDJSON, url=self._url(PATH))
            if answer.status in ABOUT_CONTENT:
                self._divide(client, left, client.said(answer))
                return
            found = outcomes(answer, left, versioned=self.node.version is not None) if answer.good else None
            if found is None:
                raise self._failed(client.said(answer))
            self._take(found)
            again = [each for each in found if each.verdict == "again"]
            if again and not tries.wait():
                raise client.away(f"{count_of(len(again), 'document')}, the first: {again[0].reason}")
            left = [each.document for each in again]

    def _divide(self, client: HttpClient, rows: Sequence[Document], reason: str) -> None:
        if len(rows) == 1:
            self.refused.add(rows[0].row, reason)
            return
        middle = len(rows) // 2
        self._deliver(client, rows[:middle])
        self._deliver(client, rows[middle:])

    def _take(self, found: Sequence[Outcome]) -> None:
        """Note what was done and refused; SinkError for what is wrong with the index."""
        for each in found:
            if each.verdict == "done":
                self.refused.accepted()
            elif each.verdict == "failed":
                raise self._failed(each.reason)
            elif each.verdict == "overtaken":
                raise self._overtaken(each)
        for each in found:
            if each.verdict == "refused":
                self.refused.add(each.document.row, each.reason)

    def _client(self) -> HttpClient:
        return HttpClient(endpoint=self.node.endpoint, step=self.name, failure=SinkError, most_bytes=ANSWER_BYTES)

    def _url(self, path: str) -> str:
        return self.node.endpoint.address().partition("?")[0].rstrip("/") + path

    def _failed(self, said: str) -> SinkError:
        return SinkError(
            f"{self.location()} cannot be written: {said}",
            remedy="check the address, the login, and that the index exists or may be created; then start again: the"
            " batch is repeated",
            step=self.name,
        )

    def _overtaken(self, found: Outcome) -> SinkError:
        return SinkError(
            f"{self.location()} has a document that is newer than this batch: {found.reason}",
            remedy="another pipeline, or an earlier life of this one, has written it: write to an index of its own, or"
            " delete the index and begin a new generation (--new-generation)",
            step=self.name,
            document=found.document.id,
        )


def _version_in(answer: Answer) -> dict[str, object]:
    try:
        found = json.loads(answer.body)["version"]
    except (ValueError, LookupError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}
