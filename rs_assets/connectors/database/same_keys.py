"""Keys that differ and are one key in a column: by case, accents or blanks, as its type and its collation compare."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from rs_assets.connectors.database.target import Target
from rs_assets.errors import SinkError


def one_key(one: str, other: str, column: str, remedy: str, target: Target) -> SinkError:
    """The error for two keys of which the database would keep one row; `remedy` is a statement."""
    return SinkError(
        f"step {target.step!r}: the keys {one!r} and {other!r} are equal in the column {column!r} of the table"
        f" {target.name!r}, so their rows would replace each other",
        remedy=f"{remedy}; or make such keys equal before the sink: .with_fields({column}='lower(trim({column}))')",
        step=target.step,
    )


def check_blanks(rows: pa.Table, remedies: Mapping[str, str], target: Target) -> None:
    """SinkError for a key with blanks at its end, in a column of fixed length, which keeps none; a remedy for each."""
    for name, remedy in remedies.items():
        odd = rows.filter(pc.ends_with(rows[name], " "))[name]
        if len(odd):
            one = str(odd[0].as_py())
            raise one_key(one, one.rstrip(" "), name, remedy, target)
