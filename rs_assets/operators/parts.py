"""Several rows of one: what a record becomes in branches, or on the sides of a join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

PART: Final = "_rs_part"


def rows_of_parts(frame: DataFrame, parts: Sequence[Column | str]) -> DataFrame:
    """A row for each of the columns `parts`, structs of one type, that is not null: its fields, and no others."""
    every = F.explode(F.array_compact(F.array(*parts)))
    return frame.select(every.alias(PART)).select(f"{PART}.*")
