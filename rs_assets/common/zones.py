"""Time zones by their names."""

from __future__ import annotations

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
