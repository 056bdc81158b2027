"""Errors for fields of an unsuitable type, shared by the checks at build time and in Spark."""

from __future__ import annotations

from rs_assets.errors import TopologyError
from rs_assets.records.fields import Fields


def no_condition(field: str, kind: str, *, step: str) -> TopologyError:
    """The error for a field of the type `kind` that should mark deletions."""
    return TopologyError(
        f"step {step!r}: {field!r} of deletes is {kind}, not a boolean",
        remedy=f"convert it first: .with_fields({field}='{field} = 1')",
        step=step,
    )


def check_flag(field: str | None, fields: Fields, *, step: str) -> None:
    """TopologyError for a field that should mark deletions and is known to be no boolean; None marks none."""
    kind = fields.type_of(field) if field is not None else None
    if kind is not None and kind.name != "boolean":
        raise no_condition(str(field), kind.text, step=step)


def no_record_time(field: str, kind: str, *, step: str) -> TopologyError:
    """The error for a field of the type `kind` that should be the time of a record."""
    made = f"timestamp_millis({field})" if kind in ("bigint", "int") else f"cast({field} AS timestamp)"
    return TopologyError(
        f"step {step!r}: the field {field!r} is {kind}, which cannot be the time of a record",
        remedy=f"convert it first: .with_fields({field}='{made}')",
        step=step,
    )


def partition_taken(column: str, *, step: str) -> TopologyError:
    """The error for rows that have a field with the name of the column of partitions by event time."""
    return TopologyError(
        f"step {step!r}: the rows have a field {column!r}, which is the name of the column of the partitions",
        remedy="rename the field: select_fields() and with_fields() before the sink",
        step=step,
    )


def no_key(what: str, *, why: str = "which is not a plain value", step: str) -> TopologyError:
    """The error for a field, `what` says which one and of what type, that rows cannot be compared by."""
    return TopologyError(
        f"step {step!r}: {what}, {why}", remedy="name fields of texts, whole numbers or times", step=step
    )


def not_plain(key: str, kind: str, *, step: str) -> TopologyError:
    """The error for a key of the type `kind`, which a table cannot compare."""
    return TopologyError(
        f"step {step!r}: the key {key!r} is {kind}, which is not a plain value",
        remedy="name fields of texts, numbers or times; of bytes take hex(key)",
        step=step,
    )


def flag_taken(*, step: str) -> TopologyError:
    """The error for a table with a field of the name that the flag of its changes has in a stream."""
    return TopologyError(
        f"the rows of step {step!r} would have two fields called 'retracted': one is that of a change",
        remedy="rename the field of the table: .map_values('retracted AS old', ...)",
        step=step,
    )


def history_taken(field: str, *, step: str) -> TopologyError:
    """The error for rows with a field of the name of a column that a history adds."""
    return TopologyError(
        f"step {step!r}: the rows have a field {field!r}, which is the name of a column of a history",
        remedy=f"give it another name: .map(..., '{field} AS row_{field}')",
        step=step,
    )


def feed_taken(field: str, *, step: str) -> TopologyError:
    """The error for rows with a field of the name of a column of a change feed, in a table that has one."""
    return TopologyError(
        f"step {step!r}: the rows have a field {field!r}, which is the name of a column of the table's change feed",
        remedy=f"give it another name: .map(..., '{field} AS row{field}'); or leave change_feed= out",
        step=step,
    )
