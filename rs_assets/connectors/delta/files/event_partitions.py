"""Partitions of a Delta table by event time: the hours, days or months of a time zone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args
from zoneinfo import ZoneInfo

from rs_assets.common.node import NO_EFFECT
from rs_assets.common.zones import checked_zone, clock_changes
from rs_assets.errors import ConfigurationError, TopologyError

if TYPE_CHECKING:
    from dagster import TimeWindowPartitionsDefinition

PartitionUnit = Literal["hour", "day", "month"]
# The value of the partition column: an hour by the instant at which it starts, others by their first date.
PartitionValue = datetime | date
HOUR, DAY, MOMENT = timedelta(hours=1), timedelta(days=1), timedelta.resolution
# Event times begin with the first; the years after the last, to which zones list changes, are like that one.
FIRST, LAST = date(1970, 1, 1), date(2038, 1, 1)
FORMATS: Mapping[PartitionUnit, str] = MappingProxyType(
    {"hour": "%Y-%m-%d-%H:%M", "day": "%Y-%m-%d", "month": "%Y-%m-%d"}
)


@dataclass(frozen=True, slots=True)
class EventTimePartitions:
    """Partitions of an output by the time in `field`: each hour, day or month of the time zone `zone` is one.

    The table gets a column called like the unit, by which its files are separated: `hour` is a TIMESTAMP, the instant
    at which the hour starts; `day` is a DATE, and `month` the DATE of its first day. A partition *closes* when no row
    of it can come any more, as far as the watermark says, and `settle` has passed after that in event time. Dagster
    then has one more partition of the asset `<table>/closed`. See docs/partitions.md.

    - `field` (str): a TIMESTAMP field of the rows. Of a window `start_time` or `end_time`.
    - `since` (date, or "2026-01-01"): the first day. Earlier rows are in the table, and are not reported to Dagster.
    - `zone` (str, default "UTC"): a name of the IANA data base. With daylight saving days have 23 to 25 hours.
    - `settle` (timedelta, default 0): how much longer a partition stays open. Rows that have passed no step with
      event time need one: their watermark is the greatest time in the table less `settle`.
    - `until` (date, or "2026-01-31", default none): the last day, of input that has ended. Later rows are in the table,
      and are not reported to Dagster, which has partitions up to the present without it.

    >>> hours = EventTimePartitions.hourly("start_time", since="2026-01-01", zone="Europe/Berlin")
    >>> hours.key(datetime(2026, 1, 5, 11, tzinfo=UTC))
    '2026-01-05-12:00'
    >>> EventTimePartitions.daily("at", since="2026-01-01").value_of(datetime(2026, 1, 5, 11, tzinfo=UTC))
    datetime.date(2026, 1, 5)
    """

    unit: PartitionUnit
    field: str
    since: date = dataclasses.field(metadata=NO_EFFECT)
    zone: str = "UTC"
    settle: timedelta | None = dataclasses.field(default=None, metadata=NO_EFFECT)
    until: date | None = dataclasses.field(default=None, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Refuse unknown units and zones, and dates and durations that are none."""
        if self.unit not in get_args(PartitionUnit):
            raise TopologyError(
                f"a partition by event time cannot have the unit {self.unit!r}",
                remedy="use hourly(), daily() or monthly()",
            )
        if not isinstance(self.field, str) or not self.field:
            raise TopologyError(
                f"partitions by event time need the name of a field, not {self.field!r}", remedy="name it: 'start_time'"
            )
        object.__setattr__(self, "since", _date("since", self.since))
        self._check_until()
        checked_zone(self.zone)
        self._check_clocks()
        if self.settle is not None and not (isinstance(self.settle, timedelta) and self.settle >= timedelta(0)):
            raise TopologyError(
                f"settle= must be a timedelta from 0, not {self.settle!r}", remedy="settle=Time.minutes(10)"
            )

    def _check_clocks(self) -> None:
        """Refuse partitions that overlap where clocks are changed."""
        zone = ZoneInfo(self.zone)
        first, last = (
            datetime.combine(day, datetime.min.time(), UTC) for day in (max(self.since, FIRST), self.until or LAST)
        )
        changes = list(clock_changes(zone, first, last + DAY))
        if self.unit == "hour" and any(by % HOUR for _, by in changes):
            raise TopologyError(
                f"clocks in {self.zone} are changed by a part of an hour, so its hours overlap",
                remedy="use zone='UTC', or daily()",
            )
        over = [at.astimezone(zone).date() for at, _ in changes if self.value_of(at) < self.value_of(at - MOMENT)]
        if over and self.unit != "hour":
            raise TopologyError(
                f"clocks in {self.zone} are set back over midnight on {over[-1]}, so its {self.unit}s overlap",
                remedy=f"use since='{over[-1] + 2 * DAY}', or zone='UTC'",
            )

    def _check_until(self) -> None:
        """Make the last day a date; refuse one before the first day."""
        if self.until is None:
            return
        object.__setattr__(self, "until", _date("until", self.until))
        if self.until < self.since:
            raise TopologyError(
                f"until={self.until} is before since={self.since}",
                remedy="until= is the last day: a date from since= on, or leave it out",
            )

    @classmethod
    def hourly(
        cls,
        field: str,
        *,
        since: date | str,
        until: date | str | None = None,
        zone: str = "UTC",
        settle: timedelta | None = None,
    ) -> EventTimePartitions:
        """Hours, which start at full hours of the zone."""
        return cls("hour", field, since, zone, settle, until)  # type: ignore[arg-type]  # made dates by __post_init__

    @classmethod
    def daily(
        cls,
        field: str,
        *,
        since: date | str,
        until: date | str | None = None,
        zone: str = "UTC",
        settle: timedelta | None = None,
    ) -> EventTimePartitions:
        """Days, from midnight to midnight."""
        return cls("day", field, since, zone, settle, until)  # type: ignore[arg-type]

    @classmethod
    def monthly(
        cls,
        field: str,
        *,
        since: date | str,
        until: date | str | None = None,
        zone: str = "UTC",
        settle: timedelta | None = None,
    ) -> EventTimePartitions:
        """Months, from their first day to that of the next one."""
        return cls("month", field, since, zone, settle, until)  # type: ignore[arg-type]

    @property
    def column(self) -> str:
        """The name of the table's column."""
        return self.unit

    @property
    def first(self) -> PartitionValue:
        """The value of the first partition."""
        return self.value_of(self._midnight(self.since))

    @property
    def _end(self) -> datetime | None:
        """The first instant after the last partition; None if there is always another one."""
        return None if self.until is None else self.end(self.value_of(self._midnight(self.until + DAY) - MOMENT))

    def holds(self, value: PartitionValue) -> bool:
        """Whether Dagster has a partition, or will have it: it is not before `since`, nor after `until`."""
        start, end = self.start(value), self._end
        return self.start(self.first) <= start and (end is None or start < end)

    def value_of(self, at: datetime) -> PartitionValue:
        """The value of the partition that holds the instant `at`."""
        local = at.astimezone(ZoneInfo(self.zone))
        if self.unit == "hour":
            inside = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
            return at.astimezone(UTC) - inside
        return local.date() if self.unit == "day" else local.date().replace(day=1)

    def start(self, value: PartitionValue) -> datetime:
        """The first instant of a partition, in UTC."""
        return value.astimezone(UTC) if isinstance(value, datetime) else self._midnight(value)

    def end(self, value: PartitionValue) -> datetime:
        """The first instant after a partition, in UTC."""
        return self.start(self.following(value))

    def following(self, value: PartitionValue) -> PartitionValue:
        """The value of the next partition."""
        if self.unit == "hour":
            return value + HOUR
        return value + DAY if self.unit == "day" else (value + timedelta(days=31)).replace(day=1)

    def key(self, value: PartitionValue) -> str:
        """The name of a partition, which is Dagster's key of it; of an hour that clocks repeat, with the offset."""
        if not isinstance(value, datetime):
            return value.strftime(FORMATS[self.unit])
        local = value.astimezone(ZoneInfo(self.zone))
        repeated = local.fold == 1
        return local.strftime(FORMATS[self.unit]) + (local.strftime("%z") if repeated else "")

    def parse(self, key: str) -> PartitionValue:
        """The value of the partition with this name; ConfigurationError for a name that no partition has."""
        form = FORMATS[self.unit]
        try:
            read = datetime.strptime(key, form if len(key) <= len("2026-01-05-12:00") else f"{form}%z")  # noqa: DTZ007
        except (TypeError, ValueError):
            read = None
        if read is not None:
            at = read if read.tzinfo is not None else read.replace(tzinfo=ZoneInfo(self.zone))
            value = self.value_of(at)
            if self.key(value) == key:
                return value
        raise ConfigurationError(
            f"there is no {self.unit} {key!r} in {self.zone}", remedy=f"name one as {self.key(self.first)!r}"
        )

    def definition(self) -> TimeWindowPartitionsDefinition:
        """Dagster's definition of the same partitions, with the same keys, for assets downstream.

        >>> EventTimePartitions.daily("at", since="2026-01-01", zone="Europe/Berlin").definition().timezone
        'Europe/Berlin'
        """
        import dagster

        kinds: dict[str, Callable[..., TimeWindowPartitionsDefinition]] = {
            "hour": dagster.HourlyPartitionsDefinition,
            "day": dagster.DailyPartitionsDefinition,
            "month": dagster.MonthlyPartitionsDefinition,
        }
        end = None if self._end is None else self.key(self.value_of(self._end))
        return kinds[self.unit](start_date=self.key(self.first), end_date=end, timezone=self.zone)

    def stored(self, text: object) -> PartitionValue | None:
        """The value in Delta's log, where times are text or in UTC; None for rows without a time."""
        if text is None:
            return None
        if self.unit == "hour":
            at = text if isinstance(text, datetime) else datetime.fromisoformat(str(text))
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        return text if isinstance(text, date) else date.fromisoformat(str(text))

    def __str__(self) -> str:
        """In a few words."""
        return f"{self.unit} of {self.field} in {self.zone}"

    def _midnight(self, day: date) -> datetime:
        """The first instant of a date; where clocks skip midnight, the instant at which they do."""
        return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(self.zone)).astimezone(UTC)


def _date(name: str, given: object) -> date:
    """A day that was given as a date, or as text."""
    if isinstance(given, str):
        try:
            return date.fromisoformat(given)
        except ValueError:
            pass
    if isinstance(given, date):
        return given.date() if isinstance(given, datetime) else given
    raise TopologyError(f"{name}= must be a date, not {given!r}", remedy=f"{name}='2026-01-01'")
