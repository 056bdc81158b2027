"""The hidden columns of a record; users never see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rs_assets.errors import UnknownFieldError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The origin of a record: the split, its line or row number from 1, its byte offset, and its text.
SPLIT, LINE, OFFSET, RAW = "_rs_split", "_rs_line", "_rs_offset", "_rs_raw"
ADDRESS = (SPLIT, LINE, OFFSET, RAW)
# The batch of a record that is read again, and the digest of its fields.
BATCH, DIGEST = "_rs_batch", "_rs_digest"
# The source of a record that is read again: splits of several sources may have one name.
SOURCE = "_rs_source"
# The order of a row within a batch: modification time and path of its file, and first byte of the part that was read;
# or its split, and its position there. Where rows change their tasks on the way to a sink, then by the number of the
# record in the task that has read it, and of the row in the task that it left.
ORDER = ("_rs_order_time", "_rs_order_file", "_rs_order_start", "_rs_order_row", "_rs_order_piece")
ORDER_PIECE = ORDER[-1]
# The reason why a record cannot be used; null for a good record.
REASON = "_rs_reason"
# The text of a record that Spark's parser refused.
CORRUPT = "_rs_corrupt"
# Whether a row of a table, or of a step that retracts rows, takes an earlier row back.
RETRACTED = "_rs_retracted"
# The label from a split step.
LABEL = "_rs_label"
# The split of the record, with its source: see `origin_of`.
ORIGIN = "_rs_origin"
# The position of its record in that split: a number that grows.
PLACE = "_rs_place"
# The greatest event time of earlier records of that split, the watermark by that time, and whether the record is late.
MARK, PASSED, LATE = "_rs_mark", "_rs_passed", "_rs_late"
# The event time, and the flag of a control row.
EVENT_TIME, CONTROL = "_rs_event_time", "_rs_control"

PREFIX = "_rs_"
# How much of a bad record's text is kept: enough to recognise it, small enough for a table.
RAW_LIMIT_BYTES = 65_536


def origin_of(source: str, split: str = "") -> str:
    """The id of a split among those of all sources, as in ORIGIN; a source with a single split has only its name.

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
    """Raise UnknownFieldError for the first of `fields` that `frame` does not have."""
    known = tuple(visible(frame.columns))
    for field in fields:
        if field not in known:
            raise UnknownFieldError(field, step=step, known=known)
