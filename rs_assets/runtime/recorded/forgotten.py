"""Records of keys that were forgotten: recorded batches are read again without them, for outputs that have such keys.

Of other outputs, as sums by another key, the rows stay as they are: so does what is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    DataType,
    DecimalType,
    IntegralType,
    MapType,
    NumericType,
    StructField,
    StructType,
)

from rs_assets.catalog.forgotten import ForgottenKeys, forgotten_keys
from rs_assets.catalog.ledger import Ledger
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.delta.rows import dataset_of
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.nodes import Source
from rs_assets.records.schema import quoted
from rs_assets.runtime.forget.nested import holders
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.upkeep.returns import valid_batches


@dataclass(frozen=True, slots=True)
class Removal:
    """The keys of one entry of the ledger, and the last batch of a query that had records of them."""

    keys: ForgottenKeys
    last: int


def removals(session: JobSession, plan: QueryPlan) -> tuple[Removal, ...]:
    """Those of a query that its checkpoint has not begun after: a new generation has read the records again."""
    entries = forgotten_keys(Ledger(session.options.home.catalog, session.topology.name))
    valid = valid_batches(session.manifest, plan) or {} if entries else {}
    found = ((each, each.batches.get(session.folders[plan.name])) for each in entries)
    return tuple(Removal(each, at[1]) for each, at in found if at is not None and at[0] in valid)


def without(
    rows: DataFrame, batch: int, source: Source, sink: DeltaSink, session: JobSession, known: tuple[Removal, ...]
) -> DataFrame:
    """The records of a batch without those of forgotten keys, if the output has a column of them."""
    for removal in (each for each in known if batch <= each.last):
        fields = set(_fields(removal.keys, sink, session))
        for column, field in removal.keys.named(source.name, session.manifest.stored_name(source.name)).items():
            if field in fields:
                row = F.struct(*(F.col(quoted(name)) for name in rows.columns))
                found = _found(rows.schema, row, column, partial(_is_gone, removal.keys, field))
                rows = rows if found is None else rows.filter(~found)
    return rows


def _is_gone(keys: ForgottenKeys, field: str, kind: DataType, value: Column) -> Column:
    """Whether a value of a field is one of its keys: by its text, or as the same number."""
    text = value.cast("string")
    found = _digest(keys, field, text).isin(list(keys.digests[field]))
    numbers = list(keys.numbers.get(field, ()))
    if not numbers or not isinstance(kind, NumericType):
        return found
    exact = text if isinstance(kind, IntegralType | DecimalType) else text.try_cast("decimal(38,16)").cast("string")
    # 17 for 17.00.
    short = F.regexp_replace(F.regexp_replace(exact, r"(\.\d*?)0+$", "$1"), r"\.$", "")
    return found | F.coalesce(_digest(keys, field, short).isin(numbers), F.lit(False))  # noqa: FBT003


def _digest(keys: ForgottenKeys, field: str, text: Column) -> Column:
    return F.sha2(F.concat(F.lit(f"{keys.salt}:{field}:"), text), 256)


def _found(kind: DataType, value: Column, name: str, gone: Callable[[DataType, Column], Column]) -> Column | None:
    """Whether a field of that name or path within a value is gone, at any depth; None if there is none."""
    found: list[Column | None] = []
    if isinstance(kind, StructType):
        found = [each for field in kind for each in _in_field(field, value.getField(field.name), name, gone)]
    elif isinstance(kind, MapType):
        parts = ((ArrayType(kind.keyType), F.map_keys(value)), (ArrayType(kind.valueType), F.map_values(value)))
        found = [_found(part, values, name, gone) for part, values in parts]
    elif isinstance(kind, ArrayType) and _found(kind.elementType, F.lit(None), name, gone) is not None:
        # Spark asks for the name of a function, which a partial one lacks.
        found = [F.exists(value, lambda each: _found(kind.elementType, each, name, gone))]  # type: ignore[arg-type,return-value]
    known = [F.coalesce(each, F.lit(False)) for each in found if each is not None]  # noqa: FBT003
    return reduce(or_, known) if known else None


def _in_field(
    field: StructField, value: Column, name: str, gone: Callable[[DataType, Column], Column]
) -> Iterator[Column | None]:
    if field.name == name and isinstance(field.dataType, AtomicType):
        yield gone(field.dataType, value)
        return
    first, _, rest = name.partition(".")
    for way in [name] + [rest] * bool(rest and field.name == first):
        yield _found(field.dataType, value, way, gone)


def _fields(keys: ForgottenKeys, sink: DeltaSink, session: JobSession) -> Iterator[str]:
    """The fields of which the output has a column."""
    path = session.options.home.table(session.topology.namespace, sink.table)
    table = open_table(path)
    schema = dataset_of(table, path).schema if table is not None else pa.schema([])
    for place in (sink.name, session.manifest.stored_name(sink.name), sink.table):
        yield from (field for column, field in keys.named(place).items() if holders(schema, {column: ()}))
