"""Commit metadata: what our commits store in a table's history, and how it is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from deltalake import DeltaTable, Transaction

from rs_assets.connectors.sink import BatchMark, LastWriter

Entry = Mapping[str, Any]
# `BatchMark.writer`: pipeline, generation, sink.
WRITER = re.compile(r"([^/]+)/g([0-9]+)/([^/]+)")
# The name, the run and the home of the writer that started.
CLAIMED, CLAIM, HOME = "rs.claimed", "rs.claim", "rs.home"
# A commit of a token alone, and the writer's name in commits without rows of a batch.
FENCED, REWOUND = "rs.fenced_by", "rs.rewound_by"
# The writer's name in a commit that replaces the rows of a partition by those of a backfill, the last batch of which it
# has rows, the partition, and the last batch whose late records it has.
BACKFILLED, BACKFILLED_BATCH, BACKFILLED_PARTITION = "rs.backfilled_by", "rs.backfilled_batch", "rs.backfilled"
BACKFILLED_LATE = "rs.backfilled_late"
# The writer's name in a commit that adds the rows of dead letters, the last batch before it, and the redrive's number.
REDRIVEN, REDRIVEN_BATCH, REDRIVE = "rs.redriven_by", "rs.redriven_batch", "rs.redrive"
# The writer's name in a commit that removes the rows of forgotten keys, and the last batch before it.
FORGOTTEN, FORGOTTEN_BATCH = "rs.forgotten_by", "rs.forgotten_batch"
# Where an entry names its author.
AUTHORS = ("rs.writer", REWOUND, FENCED, BACKFILLED, REDRIVEN, FORGOTTEN)
# How many entries of a history are searched at first.
NEWEST = 50


def written_by(mark: BatchMark) -> dict[str, str]:
    """The metadata for the commit of a batch."""
    return {"rs.writer": mark.writer, "rs.batch_id": str(mark.batch_id), **claimed_by(mark)}


def claimed_by(mark: BatchMark) -> dict[str, str]:
    """The metadata of the start, for each of its commits."""
    claim = mark.claim
    return {CLAIMED: mark.claimed, CLAIM: str(claim.number), HOME: claim.home} if claim is not None else {}


def fence_of(mark: BatchMark) -> list[Transaction]:
    """Token and claim of the writer, part of every commit of the native connector."""
    claim = [Transaction(mark.claimed, mark.claim.number)] if mark.claim is not None else []
    return [Transaction(mark.fence, mark.token), *claim]


def last_writer_of(table: DeltaTable, mark: BatchMark) -> LastWriter:
    """The last writer of the mark's pipeline; for the connector inside Spark only as far back as the history goes."""
    token, claim = table.transaction_version(mark.fence) or 0, table.transaction_version(mark.claimed) or 0
    entry = last_claim(table, mark)
    writer = author(entry)
    return LastWriter(
        token=token,
        claim=claim or int(entry.get(CLAIM, 0)),
        pipeline_id=writer[0] if writer else "",
        home=str(entry.get(HOME, "")),
    )


def last_claim(table: DeltaTable, mark: BatchMark) -> Entry:
    """The entry of the last commit under the mark's name; {} if the history does not contain one (any more)."""
    return _newest(table, lambda entry: entry.get(CLAIMED) == mark.claimed)


def claim_carried_on(table: DeltaTable, mark: BatchMark) -> dict[str, str]:
    """The metadata of the last start of the mark's pipeline, for a commit after which the history is cut."""
    last = _newest(table, lambda entry: CLAIMED in entry and author(entry) == (mark.pipeline_id, mark.sink))
    return {name: str(last[name]) for name in (CLAIMED, CLAIM, HOME) if name in last}


def _newest(table: DeltaTable, wanted: Callable[[Entry], bool]) -> Entry:
    for limit in (NEWEST, None):
        found = (noted(entry) for entry in table.history(limit))
        last = next((entry for entry in found if wanted(entry)), None)
        if last is not None or table.version() < NEWEST:
            return last or {}
    return {}


def author(entry: Entry) -> tuple[str, str] | None:
    """The pipeline and the sink that made an entry of a history, None if it does not say."""
    metadata = noted(entry)
    said = next((metadata[name] for name in AUTHORS if metadata.get(name)), "")
    match = WRITER.fullmatch(str(said))
    return (match[1], match[3]) if match else None


def as_user_metadata(mark: BatchMark) -> str:
    """The same metadata for the connector inside Spark, which has one text field for it."""
    return json.dumps(written_by(mark))


def noted(entry: Entry) -> Entry:
    """The metadata in an entry of a history, from commits of either connector."""
    try:
        metadata = json.loads(entry.get("userMetadata") or "{}")
    except (TypeError, ValueError):
        return entry
    return {**entry, **metadata} if isinstance(metadata, dict) else entry
