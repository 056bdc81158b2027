"""Method names of Spark, pandas, Flink and Kafka Streams, and what to write here instead."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from rs_assets.errors import UnknownMethodError

_FIRST_BUILD = "build the pipeline first: .to_delta('table').build().run()"
_WINDOW = "aggregates follow a window: .window(TumblingWindow.of(Time.minutes(1), 'ts')).group_by('page').count()"
_GROUP = ".group_by('page').count(), or in windows: .window(...).group_by('page').count()"
_MARK = "it follows the window: .window(...).group_by('page').count().water_mark(Time.seconds(5))"
_PRINT = "end it with .to_print() or .to_delta('table'), then .build().run()"
_TABLE = "end it with .to_delta('table'), .to_file('folder') or .to_kafka('host:9092', 'topic'), then .build()"

# Names of other systems, whose capitals may be words with underscores, and what to write instead.
_HINTS: tuple[tuple[str, str], ...] = (
    ("where filterNot query", ".filter(\"amount > 1 AND status = 'paid'\")"),
    ("select selectExpr project", ".map('page', 'ms / 1000 AS s') or .select_fields('page')"),
    ("withColumn withColumns assign", ".with_fields(seconds='ms / 1000')"),
    ("withColumnRenamed withColumnsRenamed rename", ".map('page AS url', 'ms'), which names all fields"),
    ("drop dropColumns", ".select_fields(...) with the fields that stay"),
    ("groupBy keyBy groupByKey agg", _GROUP),
    ("count sum avg mean min max aggregate reduce", _WINDOW),
    ("withWatermark watermark assignTimestampsAndWatermarks", _MARK),
    (
        "dropDuplicates dropDuplicatesWithinWatermark",
        ".distinct('id', within=Time.minutes(10), time_field='ts')",
    ),
    ("unionByName unionAll merge concat", ".union(other)"),
    ("flatMap flatMapValues explode", ".flat_map('explode(items) AS item')"),
    ("mapValues apply transform", ".map(...)"),
    (
        "processValues transformValues transformWithState applyInPandasWithState flatMapGroupsWithState",
        ".process_values(function, keys='user', state='n bigint', schema='user string, n bigint')",
    ),
    ("forEach peek", ".for_each(function)"),
    ("foreachBatch", ".to(sink) with an object of your own (rs_assets.sinks.SinkWriter)"),
    ("repartition coalesce rebalance partitionBy", ".shuffle(4, keys=['page'])"),
    ("branch", ".split(\"if(ms > 100, 'slow', 'fast')\") and .select('slow')"),
    ("cache persist checkpoint", ".shuffle(2, strategy='delta'): the steps upstream are computed once"),
    ("show print display take head first collect toPandas limit tail sample", _PRINT),
    ("orderBy sort sortValues", "a stream has no order: sort what reads the table"),
    ("write writeStream saveAsTable toTable sinkTo toCsv toJson toParquet", _TABLE),
    ("run start describe name topology execute savepoint verify", _FIRST_BUILD),
    ("schema columns dtypes printSchema", "print(stream.build().describe()) shows the steps"),
    ("readStream read load csv json readCsv", ".from_file('orders.csv', 'csv', schema='id bigint')"),
    (
        "addSource",
        ".from_file(...), .from_kafka(...), .from_sqlite(...) or .from_source(yours)",
    ),
)


def _plain(name: str) -> str:
    """A name in either way of writing: `withColumn` and `with_column`."""
    return name.replace("_", "").lower()


HINTS: Mapping[str, str] = MappingProxyType({_plain(name): hint for names, hint in _HINTS for name in names.split()})

# Sinks whose rows stay: a table, whose rows change, has none of them.
APPENDING = frozenset({"to_file", "to_http", "to_memory", "to_print", "to_rocketmq", "to_sqlite", "to"})


class Fluent:
    """A class that answers method names of other systems with a hint."""

    __slots__ = ()

    # Hidden from type checkers, which report misspelled methods themselves.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse an unknown method and name the right one."""
            raise no_such_method(self, name)


def no_such_method(owner: object, name: str, *, also: type = object) -> AttributeError:
    """The error for a missing attribute `name` of `owner`, with a hint or the nearest name.

    `also` is a class whose methods it has as well.
    """
    kind = type(owner).__name__
    if name.startswith("_"):
        return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)
    has = {each: None for own in (type(owner), also) for each in dir(own) if _is_method(own, each)}
    hint = HINTS.get(_plain(name), "")
    near = [each for each in has if _plain(each) == _plain(name)]
    if name in APPENDING and "to_stream" in has:
        hint, near = f".to_stream().{name}(...): a row that goes has the field 'retracted'", []
    near = near or ([] if hint else get_close_matches(name.lower(), has, n=1))
    remedy = f"did you mean .{near[0]}?" if near else f"it has: {', '.join(has)}"
    if hint and not near:
        remedy = f"write {hint}" if hint.startswith(".") else hint
    return UnknownMethodError(f"a {kind} has no method {name!r}", remedy=remedy)


def _is_method(owner: type, name: str) -> bool:
    return not name.startswith("_") and callable(getattr(owner, name))
