"""Windows of rules: each match gets the window and the group that its rule says, and a processor fires once.

What a rule says is data, so that rules with other windows need neither another plan nor another state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType, DecimalType, LongType

from rs_assets.common.errors_wire import wired
from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.timed import timed
from rs_assets.errors import RsError
from rs_assets.expressions.rules.having import DIGITS, TIMES, having_of
from rs_assets.expressions.rules.rule_set import counted
from rs_assets.operators.window.assign import WINDOW
from rs_assets.operators.window.event_time import WATERMARK_DELAY
from rs_assets.operators.window.trigger_operator import once
from rs_assets.records.columns import EVENT_TIME, PREFIX, check_fields, visible
from rs_assets.records.newest import one_zero
from rs_assets.records.schema import quoted
from rs_assets.topology.nodes.match import RULE
from rs_assets.topology.nodes.rule_windows import HAVING, RuleWindows

SAID, HOLDS = f"{PREFIX}said", f"{PREFIX}holds"
SAYS = "measure string, field string, `limit` double, seconds bigint, `by` array<string>, exact decimal(38,{})"
_ARROW = {"measure": pa.string(), "field": pa.string(), "limit": pa.float64(), "seconds": pa.int64(),
          "by": pa.list_(pa.string())}  # fmt: skip
# What a match counts in its window: the group, the length of the window, and what it contributes to each measure.
GROUP, SECONDS, LIMIT = f"{PREFIX}group", f"{PREFIX}seconds", f"{PREFIX}limit"
ADDED, HIGH, LOW, ITEM = f"{PREFIX}added", f"{PREFIX}high", f"{PREFIX}low", f"{PREFIX}item"
# The same of decimals and bigints, without a loss of digits; only rows with such fields have these columns.
LIMIT_EXACT, ADDED_EXACT, HIGH_EXACT, LOW_EXACT = (f"{each}_exact" for each in (LIMIT, ADDED, HIGH, LOW))
BIGINT = DecimalType(19, 0)


def compile_rule_windows(context: CompileContext, node: RuleWindows, inputs: tuple[Flow, ...]) -> Flow:
    """Count matches in the windows of their rules. A replay ends at the event-time check."""
    df = inputs[0].df
    fields = [RULE, HAVING, *node.carry]
    check_fields(df, fields, step=node.name)
    rows = timed(context, node, _measured(df), fields, kept=node.delay)
    if not context.streaming:
        return Flow(rows)
    place = F.struct(_end(-1).alias("start"), _end().alias("end")).alias(WINDOW, metadata={WATERMARK_DELAY: 0})
    placed = rows.filter(F.col(SECONDS).isNotNull()).withColumn(WINDOW, place)
    keys = [F.col(name) for name in (WINDOW, RULE, HAVING, GROUP)]
    value, holds = _reached(exact=LIMIT_EXACT in placed.columns)
    carried = [F.last(quoted(name)).alias(name) for name in node.carry]
    alerts = once(placed.groupBy(*keys).agg(value.alias("value"), *carried, holds.alias(HOLDS)), node.water_mark)
    shown = {
        **{name: F.col(quoted(name)) for name in (RULE, *node.carry, HAVING)},
        "by": F.from_json(GROUP, "map<string,string>"),
        "value": F.col("value"),
        "start_time": F.col(f"{WINDOW}.start"),
        "end_time": F.col(f"{WINDOW}.end"),
        "fire_time": context.now(),
    }
    return Flow(alerts.select(*(column.alias(name) for name, column in shown.items())))


def late_for_rule_windows(_node: RuleWindows, watermark: Column) -> Column:
    """Whether the window of a match had closed."""
    return F.coalesce(_end() <= watermark, F.lit(False))  # noqa: FBT003


def _end(windows: int = 0) -> Column:
    """The end of the window of a match, or of one a number of windows later."""
    at, size = F.unix_micros(EVENT_TIME), F.col(SECONDS) * F.lit(timedelta(seconds=1) // timedelta(microseconds=1))
    return F.timestamp_micros(at - F.pmod(at, size) + size * F.lit(windows + 1))


def _measured(df: DataFrame) -> DataFrame:
    """The matches with what they count; all of it is null for rules without `having`."""
    types = {name: df.schema[name].dataType for name in visible(df.columns)}
    kinds = counted({name: each.simpleString() for name, each in types.items()})
    texts = {name: one_zero(F.col(quoted(name)), types[name]).cast("string") for name in kinds}
    fields = F.create_map(*_pairs(texts))
    decimals = _decimals({name: types[name] for name in kinds})
    said = df.withColumn(SAID, _said(max(decimals.values(), default=0))(F.col(HAVING)))
    measure, name = F.col(SAID)["measure"], F.col(SAID)["field"]
    number = F.when(~F.isnan(of := _number(fields[name], kinds, name)), of)
    by = F.col(SAID)["by"]
    group = F.map_from_arrays(by, F.transform(by, lambda name: fields[name]))
    columns: Mapping[str, Column] = {
        GROUP: F.to_json(group, {"ignoreNullFields": "false"}),
        SECONDS: F.col(SAID)["seconds"],
        LIMIT: F.col(SAID)["limit"],
        ADDED: F.when(measure == "count", F.lit(1.0)).when(measure == "sum", F.greatest(number, F.lit(0.0))),
        HIGH: F.when(measure == "max", number),
        LOW: F.when(measure == "min", number),
        ITEM: F.when(measure == "distinct", fields[name]),
    }
    return said.withColumns({**columns, **_exactly(decimals)}).drop(SAID)


def _number(text: Column, kinds: Mapping[str, str | None], name: Column) -> Column:
    """The field with a name as a double; of a time the seconds since 1970."""
    seconds = {
        each: (
            F.unix_micros(quoted(each)) if kind == "timestamp" else F.unix_date(quoted(each)) * F.lit(86_400_000_000)
        )
        / F.lit(1_000_000.0)
        for each, kind in kinds.items()
        if kind in TIMES
    }
    number = text.try_cast("double")
    return F.coalesce(F.create_map(*_pairs(seconds))[name], number) if seconds else number


def _decimals(types: Mapping[str, DataType]) -> dict[str, int]:
    """The places of the decimals and bigints that are counted exactly: 38 digits are enough, with the most places."""
    exact = {name: BIGINT if isinstance(each, LongType) else each for name, each in types.items()}
    found = {name: each for name, each in exact.items() if isinstance(each, DecimalType)}
    places = max((each.scale for each in found.values()), default=0)
    return {name: places for name, each in found.items() if each.precision - each.scale <= DIGITS - places}


def _exactly(decimals: Mapping[str, int]) -> dict[str, Column]:
    """What a match counts of a decimal or bigint; nothing without such fields."""
    if not decimals:
        return {}
    kind = f"decimal({DIGITS},{max(decimals.values())})"
    exact = F.create_map(*_pairs({name: F.col(quoted(name)).cast(kind) for name in decimals}))[F.col(SAID)["field"]]
    measure = F.col(SAID)["measure"]
    return {
        LIMIT_EXACT: F.col(SAID)["exact"],
        ADDED_EXACT: F.when((measure == "sum") & exact.isNotNull(), F.greatest(exact, F.lit(0).cast(kind))),
        HIGH_EXACT: F.when(measure == "max", exact),
        LOW_EXACT: F.when(measure == "min", exact),
    }


def _pairs(columns: Mapping[str, Column]) -> Iterator[Column]:
    for name, column in columns.items():
        yield from (F.lit(name), column)


def _reached(*, exact: bool) -> tuple[Column, Column]:
    """What was reached in a window, and whether that is enough."""
    low, different = F.min(LOW), F.size(F.collect_set(ITEM))
    value = F.coalesce(F.sum(ADDED), F.max(HIGH), low, F.when(different > 0, different.cast("double")))
    limit = F.max(LIMIT)
    holds = F.when(low.isNotNull(), value <= limit).otherwise(value >= limit)
    if not exact:
        return value, holds
    least, most = F.min(LOW_EXACT), F.max(LIMIT_EXACT)
    whole = F.coalesce(F.try_sum(ADDED_EXACT), F.max(HIGH_EXACT), least)
    enough = F.when(least.isNotNull(), whole <= most).otherwise(whole >= most)
    counted_exactly = whole.isNotNull()
    return (
        F.coalesce(whole.cast("double"), value),
        F.when(counted_exactly, F.coalesce(enough, F.lit(False))).otherwise(holds),  # noqa: FBT003
    )


def _said(places: int) -> Any:
    """What the `having` of each row says, with the limit of decimals with so many places."""
    kind = pa.struct({**_ARROW, "exact": pa.decimal128(DIGITS, places)})

    def said(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        with wired():
            for batch in batches:
                coded = batch.dictionary_encode()
                parts = pa.array([_parts(text, places) for text in coded.dictionary.to_pylist()], kind)
                yield parts.take(pc.cast(coded.indices, pa.int64()))

    # Not deterministic, so that Spark computes it once and not for each column.
    return arrow_udf(said, SAYS.format(places)).asNondeterministic()  # type: ignore[call-overload]


@cache
def _parts(text: str, places: int) -> dict[str, Any] | None:
    try:
        having = having_of(text)
    except RsError:
        # Of a stream that was not matched with rules, which are checked.
        return None
    return {
        "measure": having.measure,
        "field": having.field,
        "limit": having.limit,
        "seconds": having.seconds,
        "by": list(having.by),
        "exact": having.limit_of(places),
    }
