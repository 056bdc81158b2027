"""Stores of a processor whose records have times: windows, sessions, versions.

What has become too old goes by the newest time in the store of the same key, so that it does not depend on other keys,
nor on how the input was cut into batches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import ClassVar

from rs_assets.records.schema import Schema
from rs_assets.topology.user_code.inner_keys import moment
from rs_assets.topology.user_code.stores import Checked, OpenStore, Row, Store, checked, own, text_of

Times = tuple[datetime, ...]


@dataclass(slots=True)
class OpenTimes(OpenStore):
    """The records of the current key, by their `times`, which are fields of the store's column."""

    times: ClassVar[tuple[str, ...]]

    found: dict[Times, Row | None]
    retention: timedelta
    check: Callable[[object], Row]

    def __len__(self) -> int:
        """The number of records."""
        return len(self.found)

    def kept(self) -> list[Row] | None:
        """All records, by time."""
        return [
            {**dict(zip(self.times, at, strict=True)), "value": self.found[at]} for at in sorted(self.found)
        ] or None

    def _record(self, *at: datetime) -> Row | None:
        record = self.found.get(tuple(map(moment, at)))
        return None if record is None else own(record)

    def _keep(self, record: Row | None, *at: datetime) -> None:
        """Add or replace a record, and remove what has become too old."""
        self.found[tuple(map(moment, at))] = record
        # The last of its times says how old a record is.
        self._forget(max(each[-1] for each in self.found) - self.retention)

    def _forget(self, oldest: datetime) -> None:
        """Remove what ended at `oldest` or earlier."""
        for each in [each for each in self.found if each[-1] <= oldest]:
            del self.found[each]


@dataclass(frozen=True, slots=True)
class TimedStore(Store):
    """A store of records by their times, with the fields `schema`, kept for `retention`."""

    schema: Schema
    retention: timedelta

    @property
    @abstractmethod
    def content(self) -> type[OpenTimes]:
        """What it is when it is open."""

    def column(self, step: str) -> str:
        """A list of times with their records."""
        times = ", ".join(f"{name}: timestamp" for name in self.content.times)
        return f"array<struct<{times}, value: struct<{text_of(self.schema, step)}>>>"

    def opened(self, kept: list[Row] | None, check: Checked) -> OpenTimes:
        """The records of the key."""
        found = {tuple(each[name] for name in self.content.times): each["value"] for each in kept or ()}
        return self.content(found, self.retention, checked(self.schema, check))


@dataclass(frozen=True, slots=True)
class WindowStore(TimedStore):
    """A record for each window of a key, by its start: `get(start)`, `put(start, record)`, `fetch(first, last)`.

    - `schema` (schema): the fields of a record.
    - `retention` (timedelta): windows that begin so long before the newest one of their key are removed, and a `put`
      of such a window does nothing.

    >>> WindowStore("n bigint", retention=timedelta(hours=1)).column("count")
    'array<struct<start: timestamp, value: struct<n bigint>>>'
    """

    @property
    def content(self) -> type[OpenWindows]:
        """Windows."""
        return OpenWindows


@dataclass(slots=True)
class OpenWindows(OpenTimes):
    """The windows of the current key."""

    times: ClassVar[tuple[str, ...]] = ("start",)

    def get(self, start: datetime) -> Row | None:
        """The record of the window that begins at `start`; None if there is none."""
        return self._record(start)

    def put(self, start: datetime, record: object) -> None:
        """Add or replace the record of the window that begins at `start`."""
        self._keep(self.check(record), start)

    def delete(self, start: datetime) -> None:
        """Remove the window that begins at `start`, if there is one."""
        self.found.pop((moment(start),), None)

    def fetch(self, first: datetime, last: datetime) -> list[tuple[datetime, Row | None]]:
        """The windows that begin from `first` to `last`, both included, in order, with their records."""
        low, high = moment(first), moment(last)
        return [(start, self._record(start)) for (start,) in sorted(self.found) if low <= start <= high]


@dataclass(frozen=True, slots=True)
class SessionStore(TimedStore):
    """Records for sessions of a key, by start and end: `find(first, last)`, `put(start, end, record)`, `delete()`.

    - `schema` (schema): the fields of a record.
    - `retention` (timedelta): sessions that end so long before the newest end of their key are removed.

    >>> SessionStore("n bigint", retention=timedelta(hours=1)).column("visit")
    'array<struct<start: timestamp, end: timestamp, value: struct<n bigint>>>'
    """

    @property
    def content(self) -> type[OpenSessions]:
        """Sessions."""
        return OpenSessions


@dataclass(slots=True)
class OpenSessions(OpenTimes):
    """The sessions of the current key."""

    times: ClassVar[tuple[str, ...]] = ("start", "end")

    def find(self, first: datetime, last: datetime) -> list[tuple[datetime, datetime, Row | None]]:
        """The sessions that end at `first` or later and begin at `last` or earlier: start, end, record; in order."""
        low, high = moment(first), moment(last)
        return [
            (start, end, self._record(start, end)) for start, end in sorted(self.found) if end >= low and start <= high
        ]

    def put(self, start: datetime, end: datetime, record: object) -> None:
        """Add or replace the record of the session from `start` to `end`."""
        self._keep(self.check(record), start, end)

    def delete(self, start: datetime, end: datetime) -> None:
        """Remove the session from `start` to `end`, if there is one."""
        self.found.pop((moment(start), moment(end)), None)


@dataclass(frozen=True, slots=True)
class VersionedStore(TimedStore):
    """The versions of one record of a key: `get(at=)`, `put(record, at)`, `delete(at)`, `versions()`.

    - `schema` (schema): the fields of the record.
    - `retention` (timedelta): a version that was replaced so long before the newest one is removed.

    >>> VersionedStore("price double", retention=timedelta(days=1)).column("prices")
    'array<struct<since: timestamp, value: struct<price double>>>'
    """

    @property
    def content(self) -> type[OpenVersions]:
        """Versions."""
        return OpenVersions


@dataclass(slots=True)
class OpenVersions(OpenTimes):
    """The versions of the record of the current key; None from a time at which it was deleted."""

    times: ClassVar[tuple[str, ...]] = ("since",)

    def get(self, at: datetime | None = None) -> Row | None:
        """The record as it was at a time (None: the newest); None if there was none, or its version was removed."""
        known = [since for (since,) in self.found if at is None or since <= moment(at)]
        return self._record(max(known)) if known else None

    def put(self, record: object, at: datetime) -> None:
        """Make `record` valid from a time on, until the next version."""
        self._keep(self.check(record), at)

    def delete(self, at: datetime) -> None:
        """Make the record invalid from a time on, until the next version."""
        self._keep(None, at)

    def versions(self) -> list[tuple[datetime, Row | None]]:
        """All versions, in order: the time from which each is valid, and the record."""
        return [(since, self._record(since)) for (since,) in sorted(self.found)]

    def _forget(self, oldest: datetime) -> None:
        """Remove the versions that were replaced at `oldest` or earlier."""
        for version, (replaced,) in pairwise(sorted(self.found)):
            if replaced <= oldest:
                del self.found[version]
