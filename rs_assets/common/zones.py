"""Time zones by their names."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from rs_assets.errors import TopologyError


def checked_zone(name: str) -> ZoneInfo:
    """The zone with a name of the IANA data base; TopologyError if there is none.

    >>> checked_zone("Europe/Berlin").key
    'Europe/Berlin'
    """
    try:
        return ZoneInfo(name)
    except (TypeError, ValueError, KeyError, OSError) as error:
        raise TopologyError(f"there is no time zone {name!r}", remedy="name one as 'Europe/Berlin' or 'UTC'") from error


# Changes of clocks that are closer together are seen as one.
STEP, EXACT = timedelta(days=5), timedelta(seconds=1)


def clock_changes(zone: ZoneInfo, first: datetime, last: datetime) -> Iterator[tuple[datetime, timedelta]]:
    """The instants in UTC at which the clocks of a zone are changed, and by how much.

    >>> from datetime import UTC
    >>> first, last = (datetime(year, 1, 1, tzinfo=UTC) for year in (2018, 2019))
    >>> [(at, by)] = clock_changes(ZoneInfo("Asia/Pyongyang"), first, last)
    >>> at.isoformat(), str(by)
    ('2018-05-04T15:00:00+00:00', '0:30:00')
    """
    at = first
    while at < last:
        following = at + STEP
        by = _offset(zone, following) - _offset(zone, at)
        if by:
            yield _found(zone, at, following), by
        at = following


def _found(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The instant between two at which the clocks are changed."""
    offset = _offset(zone, before)
    while after - before > EXACT:
        middle = before + (after - before) // EXACT // 2 * EXACT
        before, after = (middle, after) if _offset(zone, middle) == offset else (before, middle)
    return after


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)
