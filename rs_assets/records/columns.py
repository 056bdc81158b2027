"""The hidden columns that travel beside a record; users never see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rs_assets.errors import UnknownFieldError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Where a record came from: the split, its line or row number from 1, its byte offset, and its text.
SPLIT, LINE, OFFSET, RAW = "_rs_split", "_rs_line", "_rs_offset", "_rs_raw"
ADDRESS = (SPLIT, LINE, OFFSET, RAW)
# Where its file stands among those of a batch: when it was changed last, its path, the byte that its part begins at.
ORDER = ("_rs_order_time", "_rs_order_file", "_rs_order_start")
# Why a record cannot be used; null for a good one.
REASON = "_rs_reason"
# The text of a record that Spark's parser refused.
CORRUPT = "_rs_corrupt"
# The label that a split step gave it.
LABEL = "_rs_label"
# The split that it came from, with the source: see `origin_of`.
ORIGIN = "_rs_origin"
# Where its record stands in that split: a number that grows.
PLACE = "_rs_place"
# The greatest event time of the records before it in that split, the watermark by that, and whether it came too late.
MARK, PASSED, LATE = "_rs_mark", "_rs_passed", "_rs_late"
# The event time, and the mark of a control row.
EVENT_TIME, CONTROL = "_rs_event_time", "_rs_control"

PREFIX = "_rs_"
# How much of a bad record's text is kept: enough to see what it is, small enough for a table.
RAW_LIMIT_BYTES = 65_536


def origin_of(source: str, split: str = "") -> str:
    """A split among those of all sources, as ORIGIN has it; a source that is a single split has no more than a name.

    >>> origin_of("clicks", "web-3"), origin_of("clicks")
    ('clicks web-3', 'clicks ')
    """
    return f"{source} {split}"


def visible(names: list[str] | tuple[str, ...]) -> list[str]:
    """The names that are not hidden, in order.

    >>> visible(["page", "_rs_line"])
    ['page']
    """
    return [name for name in names if not name.startswith(PREFIX)]


def hidden(names: list[str] | tuple[str, ...]) -> list[str]:
    """The hidden names, in order."""
    return [name for name in names if name.startswith(PREFIX)]


def check_fields(frame: DataFrame, fields: Sequence[str], *, step: str) -> None:
    """Raise UnknownFieldError for the first of `fields` that `frame` has not."""
    known = tuple(visible(frame.columns))
    for field in fields:
        if field not in known:
            raise UnknownFieldError(field, step=step, known=known)
