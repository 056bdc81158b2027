"""The columns of late rows in the tables of `late_to`; `runtime/replay/replay.py` finds and counts these rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.errors import TopologyError
from rs_assets.records.columns import PASSED, visible
from rs_assets.records.schema import quoted

# The column of a late row besides its fields.
WATERMARK = "watermark"


def check_late(df: DataFrame, *, step: str) -> None:
    """Refuse rows with a field that has the name of the watermark column in a table of late rows."""
    if WATERMARK in {name.casefold() for name in visible(df.columns)}:
        raise TopologyError(
            f"the rows of step {step!r} have a field {WATERMARK!r}, and so has a table of late rows",
            remedy=f"rename it before: .with_fields(mark='{WATERMARK}'), then select_fields without it",
            step=step,
        )


def late_rows(rows: DataFrame) -> DataFrame:
    """`rows` (with PASSED) as a table of late rows has them: their fields, and the watermark that they came after."""
    fields = [F.col(quoted(name)) for name in visible(rows.columns)]
    return rows.select(*fields, F.col(PASSED).alias(WATERMARK))
