"""Poison records: records that a step cannot compute, excluded from a batch by a digest of their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.records.columns import visible
from rs_assets.records.schema import quoted

# Spark's defaults would truncate times to milliseconds, and omit fields that are null.
EXACT: Mapping[str, str] = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
DIGEST_BITS = 256


def digest(frame: DataFrame) -> Column:
    """SHA-256 of all visible fields of a row of `frame`, in hexadecimal.

    It is computed from the row as JSON, in which each value of a type has its own text: null and the empty string, NaN,
    0.0 and -0.0, microseconds, decimals with their scale, bytes (Base64), structs, arrays and maps. Comparing with
    `<=>` would distinguish less (no maps, no sign of zero). A digest is safe to store: it shows nothing of the record.
    """
    return F.sha2(exact_text(sorted(visible(frame.columns))), DIGEST_BITS)


def exact_text(names: Iterable[str]) -> Column:
    """The fields `names` of a row as JSON, in which each value of a type has its own text."""
    return F.to_json(F.struct(*(F.col(quoted(name)) for name in names)), dict(EXACT))


def reason_of(frame: DataFrame, poisons: Mapping[str, str]) -> Column:
    """The reason in `poisons` for the digest of a row; null for all other rows."""
    reasons = F.create_map(*(F.lit(text) for pair in poisons.items() for text in pair))
    made = digest(frame)
    return F.when(made.isin(*poisons), reasons[made])
