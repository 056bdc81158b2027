"""Joins of a stream with a dimension: an Arrow function looks the keys up, Spark does the rest.

Only the keys cross to Python. The plan is the same for each version; the version is a local property of the task.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegralType, StructType

from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.step import as_column
from rs_assets.errors import TopologyError, UnknownFieldError
from rs_assets.operators.dimension.fitting import FITS, POSITION, keep_fitting
from rs_assets.operators.dimension.keys import check_within
from rs_assets.operators.dimension.lookup import Lookup
from rs_assets.operators.join.spec import two_fields, unlike_keys
from rs_assets.records.columns import PREFIX, check_fields, hidden, visible
from rs_assets.records.schema import quoted
from rs_assets.topology.nodes.dim_join import DimJoin

FOUND, RIGHT = f"{PREFIX}found", f"{PREFIX}right"
# The names of the stream's row and of the dimension's in a condition; a field of such a name is a part of these.
SIDES = frozenset({"left", "right"})
# Types whose values have an order and one representation each; Spark does not join on maps and the like either.
KEY_TYPES = frozenset(
    ("string", "binary", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp")
) | {"timestamp_ntz"}


def compile_dim_join(context: CompileContext, node: DimJoin, inputs: tuple[Flow, ...]) -> Flow:
    """Look the keys up and join the rows found."""
    frame = inputs[0].df
    check_fields(frame, node.asked, step=node.name)
    held = context.dimension(node)
    _check(frame, held.schema, node)
    lookup = Lookup(
        step=node.name,
        root=held.root,
        keys=node.keys,
        fields=tuple(held.schema.names),
        version=context.versions.get(node.name) if context.versions is not None else None,
    )
    keys = [_key(frame, name) for name in node.asked]
    found = frame.withColumn(FOUND, lookup.column(keys, held.schema))
    exploded = F.posexplode_outer(FOUND) if node.how == "left" else F.posexplode(FOUND)
    rows = found.select("*", exploded.alias(POSITION, RIGHT)).drop(FOUND)
    if node.condition is not None:
        rows = _where(rows, node, visible(frame.columns), held.schema)
    return Flow(rows.select(*_fields(frame, held.schema, node), *(F.col(name) for name in hidden(frame.columns))))


def _key(frame: DataFrame, name: str) -> Column:
    """A field as the lookup expects it: whole numbers in one width."""
    key = F.col(quoted(name))
    return key.cast("bigint") if isinstance(frame.schema[name].dataType, IntegralType) else key


def _where(rows: DataFrame, node: DimJoin, ours: list[str], schema: StructType) -> DataFrame:
    """The candidates for which the condition holds; in a left join also unmatched rows."""
    assert node.condition is not None  # asked for with one
    mine = {name.casefold() for name in ours} | SIDES
    only_theirs = [name for name in schema.names if name.casefold() not in mine]
    named = rows.select(
        *(F.col(quoted(name)).alias(_apart(name)) for name in rows.columns),
        F.struct(*(F.col(quoted(name)) for name in ours)).alias("left"),
        F.col(RIGHT).alias("right"),
        *(F.col(RIGHT)[name].alias(name) for name in only_theirs),
    )
    kept = [F.col(quoted(_apart(name))).alias(name) for name in rows.columns]
    if node.how == "inner":
        return named.filter(as_column(node.condition)).select(*kept)
    fits = F.coalesce(as_column(node.condition) & F.col("right").isNotNull(), F.lit(False)).alias(FITS)  # noqa: FBT003
    judged = named.select(*kept, fits).withColumn(POSITION, F.coalesce(POSITION, F.lit(0)))
    return keep_fitting(judged, RIGHT)


def _apart(name: str) -> str:
    """The name of a field of the stream that a condition cannot confuse with `left` and `right`."""
    return f"{PREFIX}own_{name}" if name.casefold() in SIDES else name


def _fields(frame: DataFrame, schema: StructType, node: DimJoin) -> list[Column]:
    """The fields of the stream, and those of the dimension added or replacing them."""
    ours = visible(frame.columns)
    if node.prefix is not None:
        beside = [_of(name).alias(f"{node.prefix}{name}") for name in schema.names]
        return [*(F.col(quoted(name)) for name in ours), *beside]
    same = {name.casefold(): name for name in schema.names}
    merged = [_merged(name, same.pop(name.casefold(), None), node) for name in ours]
    return [*merged, *(_of(name).alias(name) for name in same.values())]


def _merged(name: str, other: str | None, node: DimJoin) -> Column:
    """A field of the stream, replaced by that of the dimension's row if one was found; a key is the same in both."""
    own = F.col(quoted(name))
    if other is None or (name, other) in node.on:
        return own
    return F.when(F.col(RIGHT).isNotNull(), _of(other)).otherwise(own).alias(name)


def _of(name: str) -> Column:
    return F.col(RIGHT).getField(name)


def _check(frame: DataFrame, schema: StructType, node: DimJoin) -> None:
    """TopologyError for keys that cannot be compared, and for fields that share a name or change their type."""
    for left, right in node.on:
        if right not in schema.names:
            raise UnknownFieldError(right, step=node.name, known=tuple(schema.names))
        kinds = frame.schema[left].dataType, schema[right].dataType
        if not all(_comparable(kind) for kind in kinds):
            raise TopologyError(
                f"step {node.name!r} cannot look {left!r} up, which is a {kinds[0].simpleString()}",
                remedy="use texts, numbers, dates or times as keys",
                step=node.name,
            )
        if kinds[0] != kinds[1] and not all(isinstance(kind, IntegralType) for kind in kinds):
            pair = (left, kinds[0].simpleString()), (right, kinds[1].simpleString())
            raise unlike_keys(*pair, step=node.name, loaded=True)
    _check_within(frame, schema, node)
    _check_names(frame, schema, node)


def _check_within(frame: DataFrame, schema: StructType, node: DimJoin) -> None:
    """TopologyError for a value that a key of the dimension cannot contain."""
    if node.within is None:
        return
    field, key = node.within
    missing = next((name for name in key.fields if name not in schema.names), None)
    if missing is not None:
        raise UnknownFieldError(missing, step=node.name, known=tuple(schema.names))
    ends = [(name, schema[name].dataType.simpleString()) for name in key.fields]
    check_within(key, (field, frame.schema[field].dataType.simpleString()), ends, step=node.name)


def _comparable(kind: DataType) -> bool:
    return kind.simpleString() in KEY_TYPES or kind.typeName() == "decimal"


def _check_names(frame: DataFrame, schema: StructType, node: DimJoin) -> None:
    ours = {name.casefold(): name for name in visible(frame.columns)}
    for name in schema.names:
        if name.casefold().startswith(PREFIX):
            raise TopologyError(
                f"the dimension of step {node.name!r} has a field {name!r}, whose prefix is reserved",
                remedy="leave it out of the dimension's schema, or rename it",
                step=node.name,
            )
        there = ours.get(f"{node.prefix or ''}{name}".casefold())
        if there is None:
            continue
        if node.prefix is not None:
            raise two_fields(there, "", step=node.name)
        kinds = frame.schema[there].dataType, schema[name].dataType
        if kinds[0] != kinds[1] and (there, name) not in node.on:
            why = f", a {kinds[0].simpleString()} in the stream and a {kinds[1].simpleString()} in the dimension"
            raise two_fields(there, why, step=node.name)
