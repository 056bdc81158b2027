"""Rules that a table imposes on its writers: each is obeyed, or the batch is refused before it is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema

from rs_assets.connectors.delta.files.data_files import BatchFiles
from rs_assets.connectors.delta.nodes import FEED
from rs_assets.errors import SinkError
from rs_assets.records.fields import Types
from rs_assets.records.types import SIMPLE

# Features of a table that do not concern a writer of whole files with statistics, or are checked one by one below.
SERVED = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"),
        *("deletionVectors", "timestampNtz", "v2Checkpoint"),
    }
)
# Rules in the metadata of a column, and their names for users.
OF_COLUMNS = {
    "delta.generationExpression": "a generated column",
    "delta.identity.start": "an identity column",
    "delta.invariants": "an invariant",
    "__CHAR_VARCHAR_TYPE_STRING": "a length limit",
    "CURRENT_DEFAULT": "a default",
}
CONSTRAINT = "delta.constraints."
ADDED = "let the table have the columns of both, added_columns='add'; or write to another table"
# With that policy: names that differ by case, and columns of which no row may have a null.
NAMED = "give the fields the names of these columns, also in case; or write to another table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The write that a sink requests. `by_delta`: delta-rs computes and checks the rows; else Spark wrote the files.

    `change_feed`: the table must have one. `adds`: columns that one side lacked were added.
    """

    step: str
    schema: DeltaSchema
    partition_by: tuple[str, ...] = ()
    only_adds: bool = True
    by_delta: bool = False
    change_feed: bool = False
    adds: bool = False


def check_rules(table: DeltaTable, demand: Demand) -> None:
    """SinkError for the first rule of `table` that the rows of `demand` would break, or that would not be checked."""
    broken = (*_unserved(table, demand), *_other_columns(table, demand))
    for what, remedy in (*broken, *_other_partitions(table, demand.partition_by)):
        raise SinkError(what, remedy=remedy, step=demand.step, table=table.table_uri)


def check_fields(
    table: DeltaTable, fields: Types, *, step: str, partition_by: tuple[str, ...] = (), adds: bool = False
) -> None:
    """SinkError if `table` has other columns or partitions than rows with `fields` would have.

    For rows that are not there yet: types count only as far as they are known, and have no parts.
    """
    have = {name: SIMPLE.get(str(kind)) for name, kind in _columns(table.schema()).items()}
    want = {name: kind.name if kind is not None else None for name, kind in fields.items()}
    plain = {name: kind if kind in SIMPLE.values() else None for name, kind in want.items()}
    other = [name for name in have.keys() & plain.keys() if len({have[name], plain[name]} - {None}) > 1]
    for what, remedy in (*_differing(have, plain, other, adds=adds), *_other_partitions(table, partition_by)):
        raise SinkError(what, remedy=remedy, step=step, table=table.table_uri)


def check_files(table: DeltaTable, demand: Demand, files: BatchFiles) -> None:
    """SinkError if staged files are split by other columns than the table, or may have nulls where it allows none.

    The files fit the table as it was when they were staged; it may have changed before the commit.
    """
    columns = tuple(table.metadata().partition_columns)
    if any(tuple(file.values) != columns for file in files.files):
        raise SinkError(
            f"the partition columns of the table changed to {', '.join(columns) or 'none'} since the batch was staged",
            remedy="start again: the batch is computed again",
            step=demand.step,
            table=table.table_uri,
        )
    safe = {column.name for column in demand.schema.fields if not column.nullable}
    for column in table.schema().fields:
        if not (column.nullable or column.name in safe or files.without_nulls(column.name)):
            raise SinkError(
                f"the table allows no nulls in the column {column.name!r}, and the rows may have some",
                remedy="filter them out before the sink, or drop NOT NULL from the table",
                step=demand.step,
                table=table.table_uri,
            )


def signature(table: DeltaTable) -> object:
    """The metadata that determines the rules of a table: while it is equal, they need not be checked again."""
    about = table.metadata()
    protocol = table.protocol()
    features = (tuple(protocol.reader_features or ()), tuple(protocol.writer_features or ()))
    return table.schema().to_json(), tuple(about.partition_columns), tuple(about.configuration.items()), features


def nullable(schema: pa.Schema) -> pa.Schema:
    """`schema` with nulls allowed everywhere: a batch without nulls does not make NOT NULL a rule of its table.

    Spark cannot read a table that has NOT NULL nested fields together with some features (TIMESTAMP_NTZ).
    """
    return pa.schema([_nullable(field) for field in schema])


def _nullable(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_nullable(member) for member in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_type, _nullable(kind.item_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_nullable(kind.value_field))
    return pa.field(field.name, kind, nullable=True)


Refusals = Iterator[tuple[str, str]]


def _unserved(table: DeltaTable, demand: Demand) -> Refusals:
    jvm = "write it with connector='jvm', which supports it, or remove it from the table"
    about, protocol = table.metadata(), table.protocol()
    features = sorted(set(protocol.writer_features or ()) - SERVED)
    if features:
        yield f"the table has features that connector='native' does not support: {', '.join(features)}", jvm
    if about.configuration.get("delta.columnMapping.mode", "none") != "none":
        yield "the table maps its columns to other names in its files (delta.columnMapping.mode)", jvm
    if about.configuration.get("delta.appendOnly") == "true" and not demand.only_adds:
        yield "the table only accepts appends (delta.appendOnly)", "write to it with mode='append'"
    if demand.change_feed and about.configuration.get(FEED) != "true":
        yield (
            "the table has no change feed",
            f"leave change_feed= out, or switch it on: ALTER TABLE ... SET TBLPROPERTIES ({FEED} = true)",
        )
    constraints = sorted(n.removeprefix(CONSTRAINT) for n in about.configuration if n.startswith(CONSTRAINT))
    if constraints and not demand.by_delta:
        yield f"the table has constraints that connector='native' does not check: {', '.join(constraints)}", jvm
    for column in table.schema().fields:
        asked = [word for key, word in OF_COLUMNS.items() if key in column.metadata]
        if asked:
            yield f"the table's column {column.name!r} has {asked[0]}, which connector='native' does not support", jvm


def _other_columns(table: DeltaTable, demand: Demand) -> Refusals:
    have, want = _columns(table.schema()), _columns(demand.schema)
    other = [name for name in have.keys() & want.keys() if not fits(have[name], want[name])]
    yield from _differing(have, want, other, adds=demand.adds)


def _differing(have: Iterable[str], want: Iterable[str], other: Sequence[str], *, adds: bool) -> Refusals:
    """`other` are the columns of both that have another type."""
    single = {*have} ^ {*want}
    if single or other:
        yield (
            f"the columns of the table and of the rows differ: {', '.join(sorted({*single, *other}))}",
            "write to another table, or change the table first" if other else NAMED if adds else ADDED,
        )


def _other_partitions(table: DeltaTable, partition_by: tuple[str, ...]) -> Refusals:
    have = tuple(table.metadata().partition_columns)
    if partition_by and partition_by != have:
        yield (
            f"the table is partitioned by {', '.join(have) or 'nothing'}, not by {', '.join(partition_by)}",
            "leave partition_by out: an existing table keeps its partitions",
        )


def _columns(schema: DeltaSchema) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in json.loads(schema.to_json())["fields"]}


def fits(have: Any, want: Any) -> bool:
    """Whether values of the type `want` fit a column of the type `have`, both as Delta's JSON.

    Types must be equal, except that parts of `have` may allow nulls that `want` does not.

    >>> array = {"type": "array", "elementType": "long", "containsNull": True}
    >>> fits(array, {**array, "containsNull": False}), fits({**array, "containsNull": False}, array)
    (True, False)
    """
    if isinstance(have, str) or isinstance(want, str) or have["type"] != want["type"]:
        return bool(have == want)
    if have["type"] == "array":
        return _allows(have, want, "containsNull") and fits(have["elementType"], want["elementType"])
    if have["type"] == "map":
        members = fits(have["keyType"], want["keyType"]) and fits(have["valueType"], want["valueType"])
        return members and _allows(have, want, "valueContainsNull")
    return _same_members(have["fields"], want["fields"])


def _same_members(have: Sequence[Mapping[str, Any]], want: Sequence[Mapping[str, Any]]) -> bool:
    return [m["name"] for m in have] == [m["name"] for m in want] and all(
        _allows(mine, theirs, "nullable") and fits(mine["type"], theirs["type"])
        for mine, theirs in zip(have, want, strict=True)
    )


def _allows(have: Mapping[str, Any], want: Mapping[str, Any], key: str) -> bool:
    return bool(have[key]) or not want[key]
