"""Windowed aggregation on Spark's own operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DayTimeIntervalType, NumericType, YearMonthIntervalType

from rs_assets.errors import TopologyError
from rs_assets.operators.state.barrier import fully_computed
from rs_assets.operators.window.assign import WINDOW, assigned, copied, earlier, interval
from rs_assets.operators.window.messages import no_number
from rs_assets.operators.window.output import Aggregate, AggregateFunction, Ranking
from rs_assets.operators.window.spec import Window
from rs_assets.operators.window.trigger_operator import FiredWindows
from rs_assets.records.columns import EVENT_TIME, PASSED
from rs_assets.records.schema import quoted

# The ranked rows of a window, before they become rows; and one of them.
RANKED, RANKED_ROW = "_rs_ranked", "_rs_ranked_row"
# The row itself, of an OVER window.
ROW = "_rs_row"


def _collected(column: Column) -> Column:
    """All values ordered by event time: an order that does not depend on the division into batches."""
    pairs = F.array_sort(F.collect_list(F.when(column.isNotNull(), F.struct(F.col(EVENT_TIME), column.alias("value")))))
    return F.transform(pairs, lambda pair: pair["value"])


FUNCTIONS: Mapping[AggregateFunction, Callable[[Column], Column]] = MappingProxyType(
    {
        "count": F.count,
        "sum": F.sum,
        # The mean of decimals would be a decimal.
        "avg": lambda c: F.avg(c).cast("double"),
        "min": F.min,
        "max": F.max,
        "distinct": lambda c: F.array_sort(F.collect_set(c)),
        "count_distinct": lambda c: F.size(F.collect_set(c)).cast("bigint"),
        "count_distinct_large": F.approx_count_distinct,
        "collect": _collected,
    }
)


def collected_rows(fields: Sequence[str]) -> Column:
    """EVENT_TIME and `fields` of all rows, in order."""
    return F.array_sort(F.collect_list(F.struct(F.col(EVENT_TIME), *(F.col(quoted(name)) for name in fields))))


def rows_of(collected: Column, fields: Sequence[str]) -> Column:
    """`fields` of collected rows, ordered by event time and then by these fields themselves."""

    def only(*names: str) -> Callable[[Column], Column]:
        return lambda row: F.struct(*(row[name].alias(name) for name in names))

    return F.transform(F.array_sort(F.transform(collected, only(EVENT_TIME, *fields))), only(*fields))


# Types that Spark cannot compare.
UNORDERED = ("map<", "variant")
# Types that can be added up.
ADDED: Mapping[AggregateFunction, tuple[type[DataType], ...]] = MappingProxyType(
    {"sum": (NumericType, DayTimeIntervalType, YearMonthIntervalType), "avg": (NumericType,)}
)


def aggregate(
    frame: DataFrame,
    window: Window,
    *,
    group_by: Sequence[str],
    columns: Mapping[str, Column],
    fire_time: Callable[[Column], Column],
    ranking: Ranking | None = None,
    lag: timedelta = timedelta(0),
    fired: FiredWindows | None = None,
) -> DataFrame:
    """Window rows of `frame`, which carries EVENT_TIME and its watermark: groups, columns, start, end, fire time.

    Those of a global window have neither start nor end.

    `columns` are aggregates by name; with a `ranking` each of its rows becomes a row, which has them too. `fire_time`
    computes the last column from the window's end. EVENT_TIME lags the time that the windows are over by `lag`, so that
    they close that much later. `fired` fires the windows instead of Spark. If a row has PASSED, those of its windows
    that had closed by then do not get it.
    """
    keys = [F.col(quoted(name)) for name in group_by]
    if not (window.by_time or keys):
        # A session needs a group: one key for all rows makes one. It must not be a literal, which the optimizer would
        # remove.
        keys = [(F.unix_micros(EVENT_TIME) * F.lit(0)).alias("_rs_all")]
    frame = copied(frame, window, lag)
    place = assigned(window, lag)
    several = PASSED in frame.columns and window.overlap
    if several or not window.native:
        # With a window that is not its own, Spark needs an existing column.
        frame, place = frame.withColumn(WINDOW, place), F.col(WINDOW)
    frame = frame.filter(_open(lag)) if several else frame
    rows = frame.groupBy(place.alias(WINDOW), *keys).agg(*_computed(window, columns, ranking))
    start, end = (earlier(F.col(f"{WINDOW}.{edge}"), lag) for edge in ("start", "end"))
    told = {"fire_time": fire_time(end)} if fired is None else fired.columns(fire_time(end))
    times = told if window.endless else {"start_time": start, "end_time": end, **told}
    shown = [F.col(quoted(name)) for name in (*group_by, *columns)]
    shown += [F.col(f"{ROW}.{quoted(name)}").alias(name) for name in window.keep]
    shown += [column.alias(name) for name, column in times.items()]
    rows = fully_computed(rows) if fired is None else fired.rows(rows)
    if ranking is None:
        return rows.select(*shown)
    exploded = rows.select(*shown, F.posexplode(RANKED).alias(RANKED, RANKED_ROW))
    if window.endless:
        exploded = exploded.filter(F.col(RANKED_ROW).isNotNull())
    return exploded.select(*_ranked_row(ranking, group_by, (*columns, *times)))


def _computed(window: Window, columns: Mapping[str, Column], ranking: Ranking | None) -> list[Column]:
    """The results of a group: the row itself where it is kept, `columns`, and the ranked rows."""
    own = [own_row(window.keep).alias(ROW)] if window.keep else []
    ranked = [] if ranking is None else [top_rows(ranking).alias(RANKED)]
    return [*own, *(column.alias(name) for name, column in columns.items()), *ranked]


def _open(lag: timedelta) -> Column:
    """Whether the WINDOW of a row had not closed; nothing has PASSED before the first row."""
    return F.coalesce(earlier(F.col(f"{WINDOW}.end"), lag) > F.col(PASSED), F.lit(True))  # noqa: FBT003


def _ranked_row(ranking: Ranking, group_by: Sequence[str], others: Sequence[str]) -> list[Column]:
    """Groups, rank and fields of a ranked row, and the columns that all rows of its window share."""
    return [
        *(F.col(quoted(name)) for name in group_by),
        (F.col(RANKED) + 1).alias(ranking.rank),
        *(F.col(f"{RANKED_ROW}.{quoted(name)}").alias(name) for name in ranking.shown),
        *(F.col(quoted(name)) for name in others),
    ]


def own_row(fields: Sequence[str]) -> Column:
    """`fields` of a row as one column; the aggregate function is never evaluated."""
    return F.first(F.struct(*(F.col(quoted(name)) for name in fields), F.col(EVENT_TIME)))


def top_rows(ranking: Ranking) -> Column:
    """The first rows of a group in order, as an array. Rows that are equal in all fields are equal."""
    row = F.struct(*(F.col(quoted(name)) for name in ranking.shown))
    return F.call_function("max_by" if ranking.descending else "min_by", row, row, F.lit(ranking.n))


def at_close(water_mark: timedelta) -> Callable[[Column], Column]:
    """The event time at which a window may fire."""
    return lambda end: end + interval(water_mark)


def needed_fields(group_by: Sequence[str], aggregates: Sequence[Aggregate], others: Iterable[str] = ()) -> list[str]:
    """The fields a window reads, each once; `others` are those of its ranking and of user-defined aggregates."""
    return list(dict.fromkeys([*group_by, *(a.field for a in aggregates if a.field is not None), *others]))


def check_numbers(frame: DataFrame, aggregates: Sequence[Aggregate], *, step: str) -> None:
    """Raise TopologyError for the first sum or mean of a field that is not a number: Spark would cast it silently."""
    for spec in aggregates:
        kinds = ADDED.get(spec.function)
        kind = frame.schema[spec.field].dataType if kinds and spec.field is not None else None
        if kinds and kind is not None and not isinstance(kind, kinds):
            raise no_number(spec.function, str(spec.field), kind.simpleString(), step=step)


def check_ordered(frame: DataFrame, fields: Iterable[str], *, step: str) -> None:
    """Raise TopologyError for the first of `fields` that rows cannot be ordered by."""
    for name in fields:
        kind = frame.schema[name].dataType.simpleString()
        if any(part in kind for part in UNORDERED):
            raise TopologyError(
                f"step {step!r} cannot rank rows with {name!r}, which is a {kind} and has no order",
                remedy=f"take a field of it (.with_fields(...)), or text: .with_fields({name}='to_json({name})')",
                step=step,
            )


def aggregate_column(spec: Aggregate) -> Column:
    """One of the library's own aggregates."""
    argument = F.lit(1) if spec.field is None else F.col(quoted(spec.field))
    return FUNCTIONS[spec.function](argument)
