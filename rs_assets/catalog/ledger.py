"""The ledger of proofs: rows that are only added, each of which holds the hash of the row before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from rs_assets.common.folder import Folder, make_folder
from rs_assets.common.storage import storage_options
from rs_assets.connectors.delta.log.store import delta_table
from rs_assets.connectors.delta.rows import rows_of
from rs_assets.errors import CheckpointError

TABLE: Final = "ledger"
_TIME = pa.timestamp("us", tz="UTC")
# The equation of a proof and how its rows were computed, which the first entries of a ledger may lack, and what entries
# have that are not proofs: the hash of an entry without them is of the other columns alone.
ADDED: Final = (
    ("rows_in", pa.int64()),
    ("rows_used", pa.int64()),
    ("rows_dead", pa.int64()),
    ("rows_late", pa.int64()),
    ("rows_filtered", pa.int64()),
    ("rows_waiting", pa.int64()),
    ("rows_elsewhere", pa.int64()),
    ("rows_unaccounted", pa.int64()),
    ("filtered_by", pa.string()),
    ("batches_counted", pa.int64()),
    ("miscounted", pa.string()),
    ("accounted", pa.bool_()),
    ("method", pa.string()),
    # Of another kind than a proof: that keys were forgotten, and what is known of it, as JSON (forgotten.py).
    ("kind", pa.string()),
    ("forgotten", pa.string()),
)
# What a proof says; `number` counts the rows of a pipeline, and `hash` is that of all other columns.
SCHEMA: Final = pa.schema(
    [
        ("pipeline", pa.string()),
        ("number", pa.int64()),
        ("proved_at", _TIME),
        ("sink", pa.string()),
        ("partition", pa.string()),
        ("start", _TIME),
        ("generation", pa.int64()),
        ("batch_id", pa.int64()),
        ("batches", pa.int64()),
        ("version", pa.int64()),
        ("rows_stream", pa.int64()),
        ("rows_batch", pa.int64()),
        ("digest_stream", pa.string()),
        ("digest_batch", pa.string()),
        ("equal", pa.bool_()),
        ("code", pa.string()),
        ("previous", pa.string()),
        ("hash", pa.string()),
        *ADDED,
    ]
)
NOTHING_BEFORE: Final = ""

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The proofs of a pipeline, in the catalog at `root`; nothing removes them."""

    root: Folder
    pipeline: str

    def entries(self) -> Sequence[Entry]:
        """All of them, in their order; columns that an earlier release did not write are None."""
        return self._entries(self._table())

    def _entries(self, table: DeltaTable | None) -> Sequence[Entry]:
        if table is None:
            return ()
        try:
            found = rows_of(table, str(self.root / TABLE), only=[("pipeline", "=", self.pipeline)])
        except (DeltaError, OSError) as error:
            raise CheckpointError(
                "the ledger cannot be read",
                remedy="restore its files from a backup",
                file=str(self.root / TABLE),
                cause=str(error)[:200],
            ) from error
        return [dict.fromkeys(SCHEMA.names) | row for row in found.sort_by("number").to_pylist()]

    @retry(
        retry=retry_if_exception_type(CommitFailedError),
        stop=stop_after_attempt(10),
        wait=wait_random_exponential(multiplier=0.01, max=0.5),
        reraise=True,
    )
    def add(self, proof: Entry) -> Entry:
        """Add a proof after the newest one; two processes never follow the same one."""
        table = self._table()
        entries = self._entries(table)
        last = entries[-1] if entries else None
        row = dict.fromkeys(SCHEMA.names) | dict(proof)
        row |= {"pipeline": self.pipeline, "number": self._next(table, entries), "proved_at": _now()}
        row["previous"] = last["hash"] if last else NOTHING_BEFORE
        row["hash"] = hash_of(row)
        data, path = pa.Table.from_pylist([row], schema=SCHEMA), str(self.root / TABLE)
        # Delta refuses the same transaction twice: that of another process for this number.
        marker = CommitProperties(app_transactions=[Transaction(self._marker, row["number"])])
        try:
            if table is None:
                make_folder(self.root)
                options = storage_options(path)
                write_deltalake(path, data, mode="error", commit_properties=marker, storage_options=options)
            else:
                # A ledger of an earlier release gets the columns that it lacks.
                write_deltalake(table, data, mode="append", schema_mode="merge", commit_properties=marker)
        except CommitFailedError:
            raise
        except (DeltaError, OSError) as error:
            raise CheckpointError("the ledger cannot be written", file=path, cause=str(error)[:200]) from error
        return row

    def first_break(self) -> str:
        """The first entry that was changed, removed or inserted since it was written; empty if none was.

        The newest ones cannot be removed unseen: the log of the table has the number of the last one that was added.
        """
        before, number, table = NOTHING_BEFORE, 0, self._table()
        entries = self._entries(table)
        for entry in entries:
            if entry["number"] != number:
                twice = number > 0 and entry["number"] == number - 1
                return f"entry {number - 1} is there twice" if twice else f"entry {number} is missing"
            if entry["previous"] != before:
                return f"entry {number} does not follow the one before it"
            if entry["hash"] != hash_of(entry):
                of = (
                    f"of the partition {entry['partition']}"
                    if entry["kind"] is None
                    else f"of the kind {entry['kind']}"
                )
                return f"entry {number}, {of}, was changed after it was written"
            before, number = entry["hash"], number + 1
        return f"entry {number} is missing" if number < self._next(table, entries) else ""

    @property
    def _marker(self) -> str:
        return f"ledger/{self.pipeline}"

    def _next(self, table: DeltaTable | None, entries: Sequence[Entry]) -> int:
        """The number of the next entry: one more than that of any before, also of those that were removed by hand."""
        noted = None if table is None else table.transaction_version(self._marker)
        numbers = [int(number) for entry in entries if (number := entry["number"]) is not None]
        return 1 + max([-1 if noted is None else int(noted), *numbers])

    def _table(self) -> DeltaTable | None:
        try:
            return delta_table(str(self.root / TABLE))
        except TableNotFoundError:
            return None


def hash_of(entry: Entry) -> str:
    """The SHA-256 of all columns but the hash itself, as JSON with sorted keys; without ADDED ones that are null."""
    added = {name for name, _ in ADDED if entry.get(name) is None}
    columns = {name: entry[name] for name in SCHEMA.names if name != "hash" and name not in added}
    return hashlib.sha256(json.dumps(columns, default=_text, sort_keys=True).encode()).hexdigest()


def _text(value: object) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds") if isinstance(value, datetime) else str(value)


def _now() -> datetime:
    return datetime.now(UTC)
