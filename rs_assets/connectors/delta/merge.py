"""Upsert: merges the last row of each key of a batch into the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from rs_assets.common.storage import storage_options
from rs_assets.connectors.delta.table_rules import nullable
from rs_assets.records.columns import hidden
from rs_assets.records.newest import kept, winners
from rs_assets.records.schema import quoted


def merge(
    table: DeltaTable,
    rows: pa.Table,
    *,
    keys: Sequence[str],
    order_by: Sequence[str],
    deletes: str | None,
    marker: CommitProperties,
) -> None:
    """Merge `rows` into the table; rows where `deletes` is true are deleted, rows older by `order_by` are ignored."""
    merger = table.merge(
        rows.cast(nullable(rows.schema)),
        predicate=" AND ".join(same(key) for key in keys),
        source_alias="s",
        target_alias="t",
        commit_properties=marker,
    )
    newer = not_older(order_by)
    if deletes is None:
        merger.when_matched_update_all(predicate=newer).when_not_matched_insert_all().execute()
        return
    merger.when_matched_delete(predicate=both(newer, f"NOT {stays('s.', deletes)}"))
    unseen = hidden(rows.column_names)
    merger.when_matched_update_all(predicate=both(newer, stays("s.", deletes)), except_cols=unseen)
    merger.when_not_matched_insert_all(predicate=stays("s.", deletes), except_cols=unseen).execute()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Rows that replace those of the same `keys`: the newest by `order_by`; where `deletes` is true, none is left."""

    keys: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    deletes: str | None = None

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns of the table of `rows`."""
        return rows

    def net(self, rows: pa.Table) -> pa.Table:
        """One row for each key of a batch."""
        return winners(rows, keys=self.keys, order_by=self.order_by, deletes=self.deletes)

    def begun(self, net: pa.Table) -> pa.Table:
        """The rows of a new table."""
        return kept(net, self.deletes)

    def merge(self, table: DeltaTable, path: str, net: pa.Table, marker: CommitProperties) -> None:  # noqa: ARG002  as in a history
        """Change the rows in the table by those of a batch."""
        merge(table, net, keys=self.keys, order_by=self.order_by, deletes=self.deletes, marker=marker)


def create(
    place: str | DeltaTable,
    rows: pa.Table,
    *,
    partition_by: Sequence[str],
    marker: CommitProperties,
    replaces: bool,
    configuration: Mapping[str, str | None] = MappingProxyType({}),
) -> None:
    """Create the table at `place` from `rows`, with the properties of `configuration`, or replace all rows of it."""
    write_deltalake(
        place,
        rows.cast(nullable(rows.schema)),
        mode="overwrite" if replaces else "error",
        partition_by=list(partition_by) or None,
        configuration=dict(configuration) or None,
        commit_properties=marker,
        storage_options=storage_options(place) if isinstance(place, str) else None,
    )


def same(key: str) -> str:
    """The condition that a row of the batch and one of the table have the same value of `key`; null equals null."""
    return f"(t.{quoted(key)} IS NOT DISTINCT FROM s.{quoted(key)})"


def stays(of: str, deletes: str) -> str:
    """The condition that a row is not deleted.

    >>> stays("s.", "gone")
    '(s.`gone` IS NULL OR NOT s.`gone`)'
    """
    field = of + quoted(deletes)
    return f"({field} IS NULL OR NOT {field})"


def both(one: str | None, other: str) -> str:
    """Both conditions; None means always true."""
    return other if one is None else f"({one} AND {other})"


def not_older(order_by: Sequence[str]) -> str | None:
    """The condition that a row of the batch is at least as new as the table's; None without an order.

    >>> not_older(["v"])
    '(t.`v` IS NULL OR s.`v` > t.`v` OR (t.`v` IS NOT DISTINCT FROM s.`v`))'
    """
    if not order_by:
        return None
    last, *before = reversed(order_by)
    newest = f"(t.{quoted(last)} IS NULL OR s.{quoted(last)} > t.{quoted(last)} OR {same(last)})"
    return reduce(_first_by, before, newest)


def _first_by(rest: str, column: str) -> str:
    t, s = f"t.{quoted(column)}", f"s.{quoted(column)}"
    return (
        f"(s.{quoted(column)} > t.{quoted(column)} OR ({t} IS NULL AND {s} IS NOT NULL) OR ({same(column)} AND {rest}))"
    )
