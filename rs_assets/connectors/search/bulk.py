"""The protocol of `_bulk`, which OpenSearch and Elasticsearch share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from rs_assets.connectors.http.client import Answer
from rs_assets.connectors.search.documents import Document

# What is answered of each document, so that the answer to a large request is small.
PATH: Final = "/_bulk?filter_path=errors,items.*.status,items.*.result,items.*.error.type,items.*.error.reason"
NDJSON: Final = {"Content-Type": "application/x-ndjson"}
# The answer to a document that is to be sent again.
BUSY: Final = frozenset((429, *range(500, 600)))
# Answers about the index or the login, and not about the document.
ABOUT_INDEX: Final = frozenset((401, 403))
NO_INDEX: Final = "index_not_found_exception"
CURRENT: Final = re.compile(r"current version \[(\d+)\]")

Verdict = Literal["done", "again", "refused", "failed", "overtaken"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a document, and what the server says of it."""

    document: Document
    verdict: Verdict
    reason: str = ""


def body_of(documents: Sequence[Document]) -> bytes:
    """The content of a request."""
    return b"".join(each.lines for each in documents)


def outcomes(answer: Answer, documents: Sequence[Document], *, versioned: bool) -> list[Outcome] | None:
    """What became of each document; None for an answer that is not one of `_bulk`.

    `versioned`: versions are those of rows, so that a greater one may be there.
    """
    try:
        items = json.loads(answer.body)["items"]
        found = [next(iter(item.values())) for item in items]
        statuses = [int(each["status"]) for each in found]
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return None
    if len(found) != len(documents):
        return None
    return [
        Outcome(document, _verdict(document, status, each, versioned=versioned), _reason(status, each))
        for document, status, each in zip(documents, statuses, found, strict=True)
    ]


def _verdict(document: Document, status: int, item: Mapping[str, Any], *, versioned: bool) -> Verdict:
    if 200 <= status < 300:
        return "done"
    if status in BUSY:
        return "again"
    missing = (item.get("error") or {}).get("type") == NO_INDEX
    if status == 404 and document.body is None:
        # There is nothing to delete.
        return "done"
    if status == 409:
        return "done" if versioned or not _newer(document, _reason(status, item)) else "overtaken"
    return "failed" if missing or status in ABOUT_INDEX else "refused"


def _newer(document: Document, reason: str) -> bool:
    """Whether a conflict is one with a version that is greater, which only another writer can have written."""
    found = CURRENT.search(reason)
    return found is not None and document.version is not None and int(found[1]) > document.version


def _reason(status: int, item: Mapping[str, Any]) -> str:
    error = item.get("error") or {}
    return " ".join(filter(None, (f"HTTP {status}", error.get("type"), error.get("reason"))))
