"""Tables made of a stream, and its joins with tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Self

from rs_assets.common.names import one_by_one, one_or_more
from rs_assets.errors import TopologyError
from rs_assets.stream.table import GroupedTable, Records, Table, Versions, stream_table_pairs, table_of
from rs_assets.topology.nodes.table import StreamTableJoin, TableVersions, ToTable
from rs_assets.topology.user_code.expression import native

if TYPE_CHECKING:
    from rs_assets.common.node import Node
    from rs_assets.stream.draft import Draft

Names = str | Sequence[str]


class TableSteps:
    """The steps of a stream that make tables, or join it with one; part of `DataStream`."""

    __slots__ = ()

    draft: Draft
    step: str

    def to_table(
        self,
        *keys: str,
        order_by: Names = (),
        deletes: object = None,
        time_field: str | None = None,
        time_to_live: timedelta | None = None,
        history: timedelta | None = None,
        name: str = "table",
    ) -> Table:
        """The newest row of each key, as a table that changes with each newer row.

        Typical uses: changes of a database, a compacted topic, the current state of things. See docs/tables.md.

        - `keys` (str): the fields that identify a row. A record with a null among them is a bad record.
        - `order_by` (str or sequence of str, default: `time_field`, else the order of reading): the newest row is the
          greatest by these fields, whenever it comes; of equal ones the one read last. Records of a key that lie in
          several splits have no order of reading, and files that are read whole have none at all: they need it.
        - `deletes` (SQL text or Column, default None): a row for which it is true removes its key. With `order_by` the
          table remembers the key, so that an older row does not bring it back; state grows with removed keys, unless
          they have a time to live.
        - `time_field` (str, default None): the event time, for `time_to_live` and `history`.
        - `time_to_live` (timedelta, default None: for ever): a row goes, as if it were deleted, when the watermark (the
          greatest event time that was read) has passed its time by that. A record that is so old when it comes changes
          nothing.
        - `history` (timedelta, default None): `join_table(time_field=)` finds earlier versions of a row, as far back
          from the newest one of its key.
        - `name` (str, default "table"): the state is stored under it.

        >>> from rs_assets import StreamBuilder
        >>> rows = [{"id": 1, "tier": "free"}, {"id": 2, "tier": "free"}, {"id": 1, "tier": "paid"}, {"id": 2}]
        >>> users = StreamBuilder.data_stream("shop", "users").from_array(rows, schema="id bigint, tier string")
        >>> users.to_table("id", deletes="tier IS NULL").to_stream().preview()
        [{'id': 1, 'tier': 'paid', 'retracted': False}]
        """
        keys = one_by_one(keys, call="to_table")
        gone = native(deletes, step=name) if deletes is not None else None
        node = ToTable(
            name=name,
            inputs=(self.step,),
            keys=keys,
            order_by=one_or_more(order_by) or one_or_more(time_field or ()),
            deletes=gone,
            time_field=time_field,
            time_to_live=time_to_live,
        )
        records = Records(self.step, deletes)
        if history is None:
            return Table(self.draft, self.draft.add(node), keys, records=records)
        if time_field is None:
            raise TopologyError(
                f"table {name!r} has a history, but no event time",
                remedy="name the field from which a row is valid: time_field='ts'",
                step=name,
            )
        all_of_them = TableVersions(
            name=f"{name}_versions", inputs=(self.step,), keys=keys, time_field=time_field, deletes=gone
        )
        # A pipeline may use its current rows, its versions, or both.
        versions = Versions(self.draft.add_spare(all_of_them), time_field, history)
        return Table(self.draft, self.draft.add_spare(node), keys, versions, records)

    def group_by(self, *fields: str) -> GroupedTable:
        """Begin aggregates over all rows that are equal in `fields`, as a table that changes with each batch.

        Typical uses: totals since the beginning, a total per user that another table joins. A row with a null among
        the fields is in no group. No row is late, and no group ends: the state has one row for each, with what its
        aggregates need. Windows end: `.window(...).group_by(...)`.

        - `fields` (str): the key of the resulting table.

        >>> from rs_assets import StreamBuilder
        >>> rows = [{"page": "/a", "ms": 5}, {"page": "/b", "ms": 7}, {"page": "/a", "ms": 6}]
        >>> pages = StreamBuilder.data_stream("docs", "pages").from_array(rows).group_by("page").count("n").max("ms")
        >>> sizes = pages.to_table(name="pages").group_by("n").count("pages")
        >>> sizes.filter("n > 1").to_stream().preview()
        [{'n': 2, 'pages': 1, 'retracted': False}]
        """
        fields = one_by_one(fields, call="group_by")
        return GroupedTable(Table(self.draft, self.step, fields), fields, appends=True)

    def join_table(
        self,
        table: Table,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        how: Literal["inner", "left"] = "inner",
        prefix: str | None = None,
        time_field: str | None = None,
        wait_for_table: bool = False,
        name: str = "join_table",
    ) -> Self:
        """Join each row with the current row of `table`, or that of its time; changes of the table alone emit nothing.

        Typical uses: clicks with the user as he is now, sales with the price of their time. A batch changes the table
        first: which row a record sees depends on the division into batches. `asof_join` waits until no version can
        come in between.

        - `table` (Table): of the same pipeline.
        - `on` (dict from a field of the stream to the key of the table, or names of both).
        - `how` (default "inner"): "inner" drops a row without a match, "left" joins it with nulls.
        - `prefix` (str, default None): put before the names of the table's fields. Without it names must differ, and
          the table's key is left out.
        - `time_field` (str, default None): the event time of a row. The row gets the version that the table, which has
          a `history`, had at that time, as far as it is known in the batch; a row without a time gets none.
        - `wait_for_table` (bool, default False): the first start reads the table's sources to the end that they have
          then, and after that the stream, from its first record. That holds until it is done, also after a crash or a
          stop, and not again, unless the state begins again. Other rows of the stream's sources wait, too.
          TopologyError if the stream and the table are read from one source.
        - `name` (str, default "join_table"): the state is stored under it.

        >>> from rs_assets import StreamBuilder, Time
        >>> shop = StreamBuilder.data_stream("shop", "seen")
        >>> users = shop.from_array([{"id": "ann", "tier": "paid"}], name="users").to_table("id")
        >>> clicks = shop.from_array([{"user": "ann", "page": "/"}, {"user": "bo", "page": "/"}], name="clicks")
        >>> seen = clicks.join_table(users, on={"user": "id"}, how="left")
        >>> sorted(seen.preview(), key=lambda row: row["user"])
        [{'user': 'ann', 'page': '/', 'tier': 'paid'}, {'user': 'bo', 'page': '/', 'tier': None}]

        >>> shop = StreamBuilder.data_stream("shop", "valued")
        >>> changes = [{"sku": "tea", "price": 2, "since": 1_000}, {"sku": "tea", "price": 3, "since": 9_000}]
        >>> prices = shop.from_array(changes, name="prices").to_table("sku", time_field="since", history=Time.hours(1))
        >>> sales = shop.from_array([{"item": "tea", "ts": 5_000}, {"item": "tea", "ts": 9_000}], name="sales")
        >>> valued = sales.join_table(prices, on={"item": "sku"}, time_field="ts")
        >>> sorted((row["ts"], row["price"]) for row in valued.preview())
        [(5000, 2), (9000, 3)]

        >>> shop = StreamBuilder.data_stream("shop", "loaded")
        >>> rows = [{"id": n, "tier": "paid"} for n in range(1000)]
        >>> users = shop.from_array(rows, name="users").to_table("id")
        >>> clicks = shop.from_array([{"user": 999, "page": "/"}], name="clicks")
        >>> seen = clicks.join_table(users, on={"user": "id"}, wait_for_table=True)
        >>> print(seen.to_print().build().describe())
        shop.loaded  fingerprint ...
          users       array_source  [1,000 rows]
        * table       to_table <- users  [by id]
          clicks      array_source  [1 row]
        * join_table  stream_table_join <- clicks, table  [inner on user = id, waits for the table]
          print       print_sink <- join_table
        >>> seen.preview(1_000)
        [{'user': 999, 'page': '/', 'tier': 'paid'}]
        """
        beside = table_of(table, self.draft, step=name)
        versions = _versions(beside, step=name) if time_field is not None else None
        node = StreamTableJoin(
            name=name,
            inputs=(self.step, beside.step if versions is None else versions.step),
            on=stream_table_pairs(on, beside, step=name),
            how=how,
            prefix=prefix,
            time_fields=(time_field, versions.time_field) if time_field is not None and versions is not None else None,
            history=versions.history if versions is not None else None,
            wait_for_table=wait_for_table,
        )
        return self._then(node)

    def _then(self, node: Node) -> Self:
        raise NotImplementedError


def _versions(table: Table, *, step: str) -> Versions:
    """The versions of a table; TopologyError if it has none."""
    if table.versions is None:
        raise TopologyError(
            f"step {step!r} joins by time a table that has its current rows only",
            remedy="join what to_table returns, with a history: .to_table('id', time_field='ts',"
            " history=Time.hours(1)); filter and compute fields before it",
            step=step,
        )
    return table.versions
