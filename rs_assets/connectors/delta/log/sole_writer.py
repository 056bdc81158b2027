"""Checks by its history that all rows of a table are ours before it is overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltalake import DeltaTable

from rs_assets.connectors.delta.log.commit_info import Entry, author
from rs_assets.connectors.sink import BatchMark

# Delta operations that add no rows of their own; unknown operations may.
HARMLESS = frozenset(
    {
        *("CREATE TABLE", "OPTIMIZE", "VACUUM START", "VACUUM END", "FSCK", "REORG", "RESTORE", "DELETE", "UPDATE"),
        *("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD COLUMN", "ADD COLUMNS", "CHANGE COLUMN", "DROP COLUMNS"),
        *("ADD CONSTRAINT", "DROP CONSTRAINT", "ADD FEATURE", "DROP FEATURE", "UPDATE FIELD METADATA"),
        *("UPDATE TABLE METADATA", "RENAME COLUMN", "COMPUTE STATS", "CLUSTER BY", "UPGRADE PROTOCOL"),
    }
)
# Commit metadata: all rows up to the named version are of this writer. Older history may then be deleted.
ALONE = "alone"
# How many entries are read at first, and at most if nothing depends on the answer.
FEW, MANY = 10, 1000


@dataclass(slots=True)
class SoleWriterCheck:
    """Checks whether all rows of a table are those of one sink; `version` is the last one that was checked.

    Only later entries are read, and none if the only commit since then was reported to `committed`.
    """

    version: int = -1
    other: str = ""
    _expected: int = -1

    def committed(self, on: int) -> None:
        """Record that this sink has committed on top of version `on`; -1: it made the table."""
        self._expected = on + 1

    def others(self, table: DeltaTable, mark: BatchMark, *, deep: bool) -> str:
        """The other writer of rows, or why there may be one; empty if there is certainly none.

        Without `deep` a long history is not read to its beginning.
        """
        version = table.version()
        if version < self.version:
            # The table was replaced by another one.
            self.version, self.other, self._expected = -1, "", -1
        if version == self._expected and not self.other:
            self.version = version
        if deep and self.other:
            self.other = _others(table, mark, floor=-1, deep=True)
        elif version != self.version and not self.other:
            self.other = _others(table, mark, floor=self.version, deep=deep)
        self.version = version
        return self.other

    def facts(self, on: int) -> dict[str, str]:
        """Metadata for a commit on top of version `on`, which was checked, for later starts."""
        return {} if self.other else {ALONE: str(on)}


def _others(table: DeltaTable, mark: BatchMark, *, floor: int, deep: bool) -> str:
    version = table.version()
    limits = dict.fromkeys((min(version - floor, FEW), version - floor if deep else min(version - floor, MANY)))
    found = ""
    for limit in limits:
        settled, found = _look(table.history(limit), mark, version=version, floor=floor)
        if settled:
            break
    return found


def _look(entries: Sequence[Entry], mark: BatchMark, *, version: int, floor: int) -> tuple[bool, str]:
    """Whether `entries`, newest first, decide it, and the answer: all versions above `floor` must be accounted for."""
    for entry in entries:
        if version <= floor or entry["version"] != version:
            break
        who = author(entry)
        if who != (mark.pipeline_id, mark.sink):
            if who is not None or entry.get("operation") not in HARMLESS:
                return True, f"another writer has written to it ({_shown(entry)})"
        else:
            floor = max(floor, _known_up_to(entry))
        version -= 1
    if version <= floor:
        return True, ""
    return False, f"its history does not say who wrote before version {version + 1}"


def _known_up_to(entry: Entry) -> int:
    """The version up to which all rows are of the author of `entry`, by its metadata or because it replaced them."""
    replaced = (entry.get("operationParameters") or {}).get("mode") == "Overwrite"
    return int(entry.get(f"rs.{ALONE}", entry["version"] - 1 if replaced else -1))


def _shown(entry: Entry) -> str:
    who = author(entry)
    writer = f"{who[1]} of pipeline {who[0]}" if who else entry.get("operation", "an unknown writer")
    return f"version {entry['version']}: {writer}"
