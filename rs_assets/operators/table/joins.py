"""Joins of tables with tables and of streams with tables, by processors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType

from rs_assets.operators.join.processed import key_names
from rs_assets.operators.join.spec import two_fields, unlike_keys
from rs_assets.operators.join.stream_join import LEFT, RIGHT
from rs_assets.operators.parts import rows_of_parts
from rs_assets.operators.table.keys import NOT_PLAIN
from rs_assets.operators.table.rows import numbered, order_of_reading, struct_of
from rs_assets.records.columns import EVENT_TIME, ORDER, ORIGIN, PLACE, RETRACTED, visible
from rs_assets.records.schema import quoted
from rs_assets.spark.processor.session import check_types, processors_of

GUARD, PACKED = "guard", "packed"
MICROSECOND = timedelta(microseconds=1)
# Left rows without a partner have no state: they are spread over so many groups.
SPREAD = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoinSpec:
    """The fields `on` of both sides, the names of right fields, and the key of the left table.

    `kind`: "keys" joins two tables by their keys, "foreign" by the key of the right one, "pairs" by any fields of both,
    of which the right one has the key `other_keys`; "stream" joins a stream, "versions" a stream with the versions of a
    table of the last `history`, both with EVENT_TIME.
    """

    step: str
    on: Sequence[tuple[str, str]]
    how: str
    kind: Literal["keys", "foreign", "pairs", "stream", "versions"]
    prefix: str | None = None
    left_keys: Sequence[str] = ()
    other_keys: Sequence[str] = ()
    history: timedelta = timedelta(0)

    @property
    def right_fields(self) -> list[str]:
        """The fields of the right table, which are its key except for pairs."""
        return [right for _, right in self.on]

    @property
    def of_tables(self) -> bool:
        """Whether it joins two tables."""
        return self.kind in ("keys", "foreign", "pairs")


@dataclass(frozen=True, slots=True)
class OnePass:
    """Rows with the row of each side in one of the columns `sides`, which is null if that side does not have it."""

    rows: DataFrame
    sides: Sequence[str]

    def rows_of(self, *columns: Sequence[Column]) -> DataFrame:
        """The rows of all sides, by the columns of each."""
        rows, packed = self.rows.select(*self.sides), list[str]()
        for side, of in zip(self.sides, columns, strict=True):
            made = F.when(F.col(side).isNotNull(), F.struct(*of)).alias(f"{side}_{PACKED}")
            rows = rows.select(*self.sides, *packed, f"{side}.*").select(*self.sides, *packed, made)
            packed.append(f"{side}_{PACKED}")
        return rows_of_parts(rows, packed)


def joined(left: DataFrame, right: DataFrame, spec: TableJoinSpec, in_one: OnePass | None = None) -> DataFrame:
    """The rows of the join of two frames, of which those of tables have RETRACTED; so has the result, of tables.

    With `in_one` the rows of both are computed from that.
    """
    _check_keys(left, right, spec)
    for frame in (left, right):
        check_types(frame.schema)
    names = key_names([name for name, _ in spec.on])
    one, two = _packed(left, right, spec, names)
    united = left.select(*one).unionByName(right.select(*two)) if in_one is None else in_one.rows_of(one, two)
    made = DataFrame(_processed(united, spec, _blanks(left, right, spec)), left.sparkSession)
    flag = [F.col(RETRACTED)] if spec.of_tables else []
    places = [F.col(f"{LEFT}.{name}").alias(name) for name in _places(left, spec)]
    return made.select(*_fields(left, right, spec, names), *flag, *places)


def _blanks(left: DataFrame, right: DataFrame, spec: TableJoinSpec) -> list[int]:
    """For each side the number of its fields, if a row of nulls is shown as a missing row is; else -1.

    A row of the left side shows its own key by a foreign key, one of the right side its key by a prefix.
    """
    ours, theirs = len(_kept(left, spec)), len(_beside(right, spec))
    return [ours if spec.kind == "keys" else -1, theirs if spec.prefix is None else -1]


def _processed(united: DataFrame, spec: TableJoinSpec, blanks: list[int]) -> Any:
    processors, frame = processors_of(united), united._jdf  # noqa: SLF001  there is no public way
    alone = spec.how in ("left", "outer")
    if spec.kind == "keys":
        return processors.TableJoins.apply(frame, alone, spec.how == "outer", blanks)
    if spec.kind == "foreign":
        return processors.ForeignJoins.apply(frame, alone, blanks)
    if spec.kind == "pairs":
        return processors.TablePairs.apply(frame, alone, spec.how == "outer")
    if spec.kind == "versions":
        return processors.TableVersions.apply(frame, alone, spec.history // MICROSECOND)
    return processors.StreamTables.apply(frame, alone)


def _packed(
    left: DataFrame, right: DataFrame, spec: TableJoinSpec, names: Sequence[str]
) -> tuple[list[Column], list[Column]]:
    """Of both sides: left row, right row, whether it goes, what its kind of join needs besides; and the keys."""
    ours, theirs = struct_of(_kept(left, spec)), struct_of(_beside(right, spec))
    nothing = {LEFT: _null(left, ours), RIGHT: _null(right, theirs)}
    flag = F.col(RETRACTED) if RETRACTED in left.columns else F.lit(False)  # noqa: FBT003  a literal
    keys = [
        [F.col(quoted(pair[side])).alias(name) for pair, name in zip(spec.on, names, strict=True)] for side in (0, 1)
    ]
    guards = _guards(left, right, spec)
    besides = _besides(left, right, spec)
    one = [ours.alias(LEFT), nothing[RIGHT].alias(RIGHT), flag.alias("gone")]
    two = [nothing[LEFT].alias(LEFT), theirs.alias(RIGHT), F.col(RETRACTED).alias("gone")]
    return [*one, *besides[0], *guards[0], *keys[0]], [*two, *besides[1], *guards[1], *keys[1]]


def _besides(left: DataFrame, right: DataFrame, spec: TableJoinSpec) -> tuple[list[Column], list[Column]]:
    """Keys of the rows themselves, where these are not the keys of the join; the times of versions, and their order."""
    if spec.kind in ("foreign", "pairs"):
        one, two = struct_of(spec.left_keys), struct_of(spec.other_keys)
        own = [one.alias("own")], [_null(left, one).alias("own")]
        if spec.kind == "foreign":
            return own
        return [*own[0], _null(right, two).alias("other")], [*own[1], two.alias("other")]
    if spec.kind == "versions":
        order, at = numbered(order_of_reading(right, F.col(RETRACTED))), F.col(EVENT_TIME).alias("at")
        return [at, _null(right, order).alias("order")], [at, order.alias("order")]
    return [], []


def _null(frame: DataFrame, column: Column) -> Column:
    return F.lit(None).cast(frame.select(column).schema[0].dataType)


def _guards(left: DataFrame, right: DataFrame, spec: TableJoinSpec) -> tuple[list[Column], list[Column]]:
    """A first key, which is not 0 for a row that names no row of the other side; by a key only left ones may."""
    if spec.kind == "keys":
        return [], []
    one = _guard(left, [name for name, _ in spec.on], spec.left_keys)
    two = _guard(right, spec.right_fields, spec.other_keys) if spec.kind == "pairs" else F.lit(0)
    return [one.alias(GUARD)], [two.alias(GUARD)]


def _guard(frame: DataFrame, names: Sequence[str], keys: Sequence[str]) -> Column:
    """0, or a group of the rows of `frame` of which one of `names` is null."""
    missing = F.lit(False)  # noqa: FBT003  a literal
    for name in names:
        missing |= F.col(quoted(name)).isNull()
    plain = [each.name for each in frame.schema if not isinstance(each.dataType, NOT_PLAIN)]
    spread = F.xxhash64(*(F.col(quoted(name)) for name in keys or plain))
    return F.when(missing, (F.pmod(spread, F.lit(SPREAD)) + 1).cast("int")).otherwise(0)


def _kept(left: DataFrame, spec: TableJoinSpec) -> list[str]:
    """The left fields that are packed: of equal keys the processor has one."""
    fields = [*visible(left.columns), *_places(left, spec)]
    return [name for name in fields if name not in spec.left_keys] if spec.kind == "keys" else fields


def _places(left: DataFrame, spec: TableJoinSpec) -> list[str]:
    """Where the records of a stream were read: their order outlasts the join. Rows that wait for versions keep less."""
    carried = {"stream": (ORIGIN, PLACE, *ORDER), "versions": (ORIGIN, PLACE)}.get(spec.kind, ())
    return [name for name in carried if name in left.columns]


def _beside(right: DataFrame, spec: TableJoinSpec) -> list[str]:
    """The right fields that are packed: a key is that of the processor. Of pairs a null in it is not the group's."""
    return [name for name in visible(right.columns) if spec.kind == "pairs" or name not in spec.right_fields]


def _left_field(name: str, spec: TableJoinSpec) -> Column:
    """A left field; where there is no left row, the equal field of the right one, which has no name of its own."""
    field = F.col(f"{LEFT}.{quoted(name)}")
    theirs = next((right for one, right in spec.on if one == name), None)
    if spec.kind != "pairs" or spec.how != "outer" or spec.prefix is not None or theirs is None:
        return field
    return F.when(F.col(LEFT).isNotNull(), field).otherwise(F.col(f"{RIGHT}.{quoted(theirs)}"))


def _fields(left: DataFrame, right: DataFrame, spec: TableJoinSpec, names: Sequence[str]) -> list[Column]:
    by_left = dict(zip((name for name, _ in spec.on), names, strict=True)) if spec.kind == "keys" else {}
    by_right = dict(zip(spec.right_fields, names, strict=True))
    fields = {
        name: F.col(quoted(by_left[name])) if name in by_left else _left_field(name, spec)
        for name in visible(left.columns)
    }
    for name in visible(right.columns):
        shown = f"{spec.prefix or ''}{name}"
        if name in by_right:
            # Equal to a field of the left side; with a prefix it says whether there is a right row.
            if spec.prefix is None:
                continue
            key = f"{RIGHT}.{quoted(name)}" if spec.kind == "pairs" else quoted(by_right[name])
            column = F.when(F.col(RIGHT).isNotNull(), F.col(key))
        else:
            column = F.col(f"{RIGHT}.{quoted(name)}")
        if shown.casefold() in {each.casefold() for each in fields}:
            raise two_fields(shown, "", step=spec.step)
        fields[shown] = column
    return [column.alias(name) for name, column in fields.items()]


def _check_keys(left: DataFrame, right: DataFrame, spec: TableJoinSpec) -> None:
    """TopologyError for keys that Spark would compare by a cast."""
    for one, two in spec.on:
        here, there = left.schema[one].dataType, right.schema[two].dataType
        if here != there and not (isinstance(here, IntegralType) and isinstance(there, IntegralType)):
            pairs = (one, here.simpleString()), (two, there.simpleString())
            raise unlike_keys(*pairs, step=spec.step)
