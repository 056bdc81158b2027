"""Aggregates over the rows of a table or of a stream, by a processor that emits their changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, FractionalType, IntegralType, LongType

from rs_assets.operators.window.output import Aggregate
from rs_assets.records.columns import PREFIX, RETRACTED
from rs_assets.records.decimals import opposite
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import check_types, processors_of

# The number of rows of a group, and 1 or -1 for a row that comes or goes.
ROWS, SIGN = f"{PREFIX}rows", f"{PREFIX}sign"
# A bigint is summed in two halves of so many bits.
HALF = 32


def signed_groups(frame: DataFrame, keys: Sequence[str], aggregates: Sequence[Aggregate]) -> DataFrame:
    """The changes of the groups of `frame`, whose rows that go (RETRACTED) are subtracted from counts and sums."""
    made = [_signed(frame, each).alias(each.alias) for each in aggregates]
    rows = F.sum(_sign()).alias(ROWS)
    groups = frame.groupBy(*_columns(keys)).agg(*made, rows)
    return _told(groups, processors_of(frame).TableGroups.signed(groups._jdf), keys, aggregates)  # noqa: SLF001


def appended_groups(frame: DataFrame, keys: Sequence[str], columns: Mapping[str, Column]) -> DataFrame:
    """The changes of any aggregates over a stream: no row goes, so their buffers are all of the state."""
    made = [column.alias(name) for name, column in columns.items()]
    groups = frame.groupBy(*_columns(keys)).agg(*made, F.count(F.lit(1)).alias(ROWS))
    return _told(groups, processors_of(frame).TableGroups.signed(groups._jdf), keys, list(columns))  # noqa: SLF001


def kept_groups(frame: DataFrame, keys: Sequence[str], columns: Mapping[str, Column]) -> DataFrame:
    """The same for any aggregates, by name, computed again from the rows of a group, which are kept in state."""
    rows = frame.withColumn(SIGN, _sign())
    # A count over the key, since a kept row needs a field; the test for null is never null itself.
    counted = F.count(F.col(quoted(keys[0])).isNull()).alias(ROWS)
    made = [column.alias(name) for name, column in columns.items()]
    groups = rows.groupBy(*_columns(keys)).agg(*made, counted, F.max(SIGN).alias(SIGN))
    changed = processors_of(frame).TableGroups.kept(groups._jdf, SIGN)  # noqa: SLF001
    return _told(groups, changed, keys, list(columns))


def _told(groups: DataFrame, changed: Any, keys: Sequence[str], made: Sequence[Aggregate | str]) -> DataFrame:
    check_types(groups.schema)
    names = [each.alias if isinstance(each, Aggregate) else each for each in made]
    rows = DataFrame(changed, groups.sparkSession)
    return rows.select(*_columns([*keys, *names]), RETRACTED)


def present(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows that are in a group: a row with a null among its keys is in none."""
    for key in keys:
        frame = frame.filter(F.col(quoted(key)).isNotNull())
    return frame


def _columns(names: Sequence[str]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]


def _sign() -> Column:
    return F.when(F.col(RETRACTED), F.lit(-1)).otherwise(F.lit(1)).cast("bigint")


def _signed(frame: DataFrame, aggregate: Aggregate) -> Column:
    if aggregate.field is None:
        return F.sum(_sign())
    column = F.col(quoted(aggregate.field))
    number = F.sum(F.when(column.isNotNull(), _sign()).otherwise(F.lit(0)))
    if aggregate.function == "count":
        return number
    kind = frame.schema[aggregate.field].dataType
    total = _total(frame, quoted(aggregate.field), kind)
    if aggregate.function == "avg":
        return F.when(number > 0, total.cast("double") / number)
    return F.when(number > 0, total.cast("bigint") if isinstance(kind, LongType) else total)


def _total(frame: DataFrame, name: str, kind: DataType) -> Column:
    """The sum of the values that are there, in the column `name`."""
    column = F.col(name)
    if isinstance(kind, LongType):
        return _sum_of_longs(column)
    if isinstance(kind, FractionalType) and not isinstance(kind, DecimalType):
        return _sum_of_doubles(frame, column)
    if isinstance(kind, IntegralType):
        # The least int has no opposite among ints.
        return _signed_sum(column.cast("bigint"))
    return F.sum(F.when(F.col(RETRACTED), F.expr(opposite(name, kind.simpleString()))).otherwise(column))


def _signed_sum(column: Column) -> Column:
    return F.sum(F.when(F.col(RETRACTED), -column).otherwise(column))


def _sum_of_longs(column: Column) -> Column:
    """A sum as a decimal. Only the result can be too large for a bigint, in whatever order rows come and go."""
    high, low = F.shiftright(column, HALF), column.bitwiseAND(F.lit(2**HALF - 1))
    return _signed_sum(high).cast("decimal(20,0)") * F.lit(2**HALF) + _signed_sum(low)


def _sum_of_doubles(frame: DataFrame, column: Column) -> Column:
    """A sum without rounding on the way, and with values that are not finite: each of them can be subtracted."""
    value, sign = (cast("Any", each)._jc for each in (column.cast("double"), _sign()))  # noqa: SLF001
    return Column(processors_of(frame).ExactSum.column(value, sign))
