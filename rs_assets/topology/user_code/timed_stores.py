"""Stores of a processor whose records have times: windows, sessions, versions.

What has become too old goes by the newest time in the store of the same key, so that it does not depend on other keys,
nor on how the input was cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from rs_assets.records.schema import Schema
from rs_assets.topology.user_code.stores import Checked, OpenStore, Row, Store, checked, own, text_of


@dataclass(frozen=True, slots=True)
class WindowStore(Store):
    """A record for each window of a key, by its start: `get(start)`, `put(start, record)`, `fetch(first, last)`.

    - `schema` (schema): the fields of a record.
    - `retention` (timedelta): windows that begin so long before the newest one of their key are removed, and a `put`
      of such a window does nothing.

    >>> WindowStore("n bigint", retention=timedelta(hours=1)).column("count")
    'array<struct<start: timestamp, value: struct<n bigint>>>'
    """

    schema: Schema
    retention: timedelta

    def column(self, step: str) -> str:
        """A list of starts with their records."""
        return f"array<struct<start: timestamp, value: struct<{text_of(self.schema, step)}>>>"

    def opened(self, kept: list[Row] | None, check: Checked) -> OpenWindows:
        """The windows of the key."""
        found = {each["start"]: each["value"] for each in kept or ()}
        return OpenWindows(found, self.retention, checked(self.schema, check))


@dataclass(slots=True)
class OpenWindows(OpenStore):
    """The windows of the current key."""

    found: dict[datetime, Row]
    retention: timedelta
    check: Callable[[object], Row]

    def get(self, start: datetime) -> Row | None:
        """The record of the window that begins at `start`; None if there is none."""
        record = self.found.get(start)
        return None if record is None else own(record)

    def put(self, start: datetime, record: object) -> None:
        """Add or replace the record of the window that begins at `start`."""
        self.found[start] = self.check(record)
        oldest = max(self.found) - self.retention
        for each in [each for each in self.found if each <= oldest]:
            del self.found[each]

    def delete(self, start: datetime) -> None:
        """Remove the window that begins at `start`, if there is one."""
        self.found.pop(start, None)

    def fetch(self, first: datetime, last: datetime) -> list[tuple[datetime, Row]]:
        """The windows that begin from `first` to `last`, both included, in order, with their records."""
        return [(start, own(self.found[start])) for start in sorted(self.found) if first <= start <= last]

    def __len__(self) -> int:
        """The number of windows."""
        return len(self.found)

    def kept(self) -> list[Row] | None:
        """All windows, in order."""
        return [{"start": start, "value": self.found[start]} for start in sorted(self.found)] or None


@dataclass(frozen=True, slots=True)
class SessionStore(Store):
    """Records for sessions of a key, by start and end: `find(first, last)`, `put(start, end, record)`, `delete()`.

    - `schema` (schema): the fields of a record.
    - `retention` (timedelta): sessions that end so long before the newest end of their key are removed.

    >>> SessionStore("n bigint", retention=timedelta(hours=1)).column("visit")
    'array<struct<start: timestamp, end: timestamp, value: struct<n bigint>>>'
    """

    schema: Schema
    retention: timedelta

    def column(self, step: str) -> str:
        """A list of sessions with their records."""
        return f"array<struct<start: timestamp, end: timestamp, value: struct<{text_of(self.schema, step)}>>>"

    def opened(self, kept: list[Row] | None, check: Checked) -> OpenSessions:
        """The sessions of the key."""
        found = {(each["start"], each["end"]): each["value"] for each in kept or ()}
        return OpenSessions(found, self.retention, checked(self.schema, check))


@dataclass(slots=True)
class OpenSessions(OpenStore):
    """The sessions of the current key."""

    found: dict[tuple[datetime, datetime], Row]
    retention: timedelta
    check: Callable[[object], Row]

    def find(self, first: datetime, last: datetime) -> list[tuple[datetime, datetime, Row]]:
        """The sessions that end at `first` or later and begin at `last` or earlier: start, end, record; in order."""
        return [
            (start, end, own(self.found[start, end]))
            for start, end in sorted(self.found)
            if end >= first and start <= last
        ]

    def put(self, start: datetime, end: datetime, record: object) -> None:
        """Add or replace the record of the session from `start` to `end`."""
        self.found[start, end] = self.check(record)
        oldest = max(each for _, each in self.found) - self.retention
        for each in [each for each in self.found if each[1] <= oldest]:
            del self.found[each]

    def delete(self, start: datetime, end: datetime) -> None:
        """Remove the session from `start` to `end`, if there is one."""
        self.found.pop((start, end), None)

    def __len__(self) -> int:
        """The number of sessions."""
        return len(self.found)

    def kept(self) -> list[Row] | None:
        """All sessions, in order."""
        made = [{"start": key[0], "end": key[1], "value": self.found[key]} for key in sorted(self.found)]
        return made or None


@dataclass(frozen=True, slots=True)
class VersionedStore(Store):
    """The versions of one record of a key: `get(at=)`, `put(record, at)`, `delete(at)`, `versions()`.

    - `schema` (schema): the fields of the record.
    - `retention` (timedelta): a version that was replaced so long before the newest one is removed.

    >>> VersionedStore("price double", retention=timedelta(days=1)).column("prices")
    'array<struct<since: timestamp, value: struct<price double>>>'
    """

    schema: Schema
    retention: timedelta

    def column(self, step: str) -> str:
        """A list of versions."""
        return f"array<struct<since: timestamp, value: struct<{text_of(self.schema, step)}>>>"

    def opened(self, kept: list[Row] | None, check: Checked) -> OpenVersions:
        """The versions of the key."""
        found = {each["since"]: each["value"] for each in kept or ()}
        return OpenVersions(found, self.retention, checked(self.schema, check))


@dataclass(slots=True)
class OpenVersions(OpenStore):
    """The versions of the record of the current key; None from a time at which it was deleted."""

    found: dict[datetime, Row | None]
    retention: timedelta
    check: Callable[[object], Row]

    def get(self, at: datetime | None = None) -> Row | None:
        """The record as it was at a time (None: the newest); None if there was none, or its version was removed."""
        known = [since for since in self.found if at is None or since <= at]
        record = self.found[max(known)] if known else None
        return None if record is None else own(record)

    def put(self, record: object, at: datetime) -> None:
        """Make `record` valid from a time on, until the next version."""
        self._add(self.check(record), at)

    def delete(self, at: datetime) -> None:
        """Make the record invalid from a time on, until the next version."""
        self._add(None, at)

    def versions(self) -> list[tuple[datetime, Row | None]]:
        """All versions, in order: the time from which each is valid, and the record."""
        return [(since, None if (record := self.found[since]) is None else own(record)) for since in sorted(self.found)]

    def __len__(self) -> int:
        """The number of versions."""
        return len(self.found)

    def kept(self) -> list[Row] | None:
        """All versions, in order."""
        return [{"since": since, "value": record} for since, record in self.versions()] or None

    def _add(self, record: Row | None, at: datetime) -> None:
        self.found[at] = record
        oldest = max(self.found) - self.retention
        ordered = sorted(self.found)
        for since, replaced in pairwise(ordered):
            if replaced <= oldest:
                del self.found[since]
