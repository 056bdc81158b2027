"""Joins of two streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

from rs_assets.errors import TopologyError
from rs_assets.operators.join.spec import AsOf, Bound, JoinType, Within, bound_of, pairs_of
from rs_assets.operators.window.spec import AlignedWindow
from rs_assets.stream.draft import meet
from rs_assets.stream.window_stream import WindowStream
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.user_code.expression import native

if TYPE_CHECKING:
    from rs_assets.common.node import Node
    from rs_assets.stream.draft import Draft

Keys = str | Sequence[str] | Mapping[str, str]
TWO = 2


class JoinSteps:
    """The joins of a stream; part of `DataStream`."""

    __slots__ = ()

    draft: Draft
    step: str

    def join(
        self,
        right: Self | WindowStream[Self],
        *,
        on: Keys,
        within: Within,
        how: JoinType = "inner",
        time_field: str | tuple[str, str] | None = None,
        water_mark: timedelta | tuple[timedelta, timedelta] = timedelta(0),
        condition: object = None,
        prefix: str | None = None,
        early: bool = False,
        processor: bool = False,
        name: str = "join",
    ) -> Self:
        """Join each row with the rows of `right` that are equal in `on` and near in time.

        Typical uses: orders with payments, clicks with impressions. See docs/joins.md.

        - `right` (DataStream or WindowStream): a stream of the same pipeline.
        - `on` (str, sequence of str, or dict from left to right fields): null and empty text match nothing.
        - `within`: which rows are near. A timedelta (at most so far apart, inclusive), `Interval.of(before=, after=)`
          (around the left row), a tumbling or hopping window (a pair for each window that contains both; rows get its
          `start_time` and `end_time`), or None: any time. Without a bound every row is kept for ever, and only inner
          joins are possible.
        - `how` (default "inner"): "inner", "left", "right", "full", "semi" (left rows with a match, once) or "anti"
          (left rows without a match). Unmatched rows come when the watermark has passed the last time of a match.
        - `time_field` (str or (left, right), default: that of the window): the event time.
        - `water_mark` (timedelta or (left, right), default zero): how far rows may be out of order. Spark has one
          watermark a query: that of the side that lags most. A late row is counted, and neither matches nor
          appears as unmatched.
        - `condition` (SQL text or Column, default None): must hold for a pair; fields may be written `left.ms` and
          `right.ms`.
        - `prefix` (str, default None): put before the names of right fields; without it they replace left fields of the
          same name.
        - `early` (bool, default False): unmatched rows come in the batch that read them; they are retracted by a row
          whose field `retracted` is true.
        - `processor` (bool, default False): join with a processor of this project. Spark scans all waiting rows of an
          interval join in each batch that moves the watermark; with the processor a batch costs only its own rows, at a
          higher cost for each. Use it where hundreds of thousands of rows wait. The results are the same; the states
          are not compatible.
        - `name` (str, default "join"): the state is stored under it.

        The order of rows is not guaranteed. Both sides may come from one step: each record goes to both, and the source
        is read once. The steps between must be in SQL (filter, map, with_fields, select_fields, split); else
        TopologyError.

        >>> from rs_assets import StreamBuilder, Time
        >>> shop = StreamBuilder.data_stream("shop", "paid")
        >>> orders = shop.from_array([{"id": 1, "ts": 60_000}, {"id": 2, "ts": 60_000}], name="orders")
        >>> payments = shop.from_array([{"id": 1, "ts": 90_000}], name="payments")
        >>> paid = orders.join(payments, on="id", within=Time.minutes(5), time_field="ts", how="left", prefix="paid_")
        >>> sorted(paid.preview(), key=lambda row: row["id"])
        [{'id': 1, 'ts': 60000, 'paid_id': 1, 'paid_ts': 90000},
         {'id': 2, 'ts': 60000, 'paid_id': None, 'paid_ts': None}]
        >>> print(paid.to_print().build().describe())
        shop.paid  fingerprint ...
          orders    array_source  [2 rows]
          payments  array_source  [1 row]
        * join      stream_join <- orders, payments  [left on id within 0:05:00]
          print     print_sink <- join
        """
        bound, other = bound_of(within, step=name), self._beside(right, step=name)
        node = StreamJoin(
            name=name,
            inputs=(self.step, other.step),
            on=pairs_of(on, step=name),
            bound=bound,
            how=how,
            time_fields=_both(time_field if time_field is not None else _named(bound)),
            water_marks=_both(water_mark) or (timedelta(0), timedelta(0)),
            condition=native(condition, step=name) if condition is not None else None,
            prefix=prefix,
            early=early,
            processor=processor,
            shared=meet(self.step, other.step),
        )
        return self._then(node)

    def asof_join(
        self,
        right: Self | WindowStream[Self],
        *,
        on: Keys,
        time_field: str | tuple[str, str],
        tolerance: timedelta | None = None,
        how: Literal["inner", "left"] = "left",
        water_mark: timedelta | tuple[timedelta, timedelta] = timedelta(0),
        prefix: str | None = None,
        deletes: object = None,
        name: str = "asof_join",
    ) -> Self:
        """Join each row with the newest row of `right` at or before its time that is equal in `on`.

        Typical uses: trades with prices, events with settings that change. A row comes when the watermark has passed
        its time, so that no right row can come in between; of right rows of one time the greatest by their fields is
        taken. State holds the waiting left rows and, for each key, the newest right row.

        - `right` (DataStream or WindowStream): a stream of the same pipeline.
        - `on`: as for `join`.
        - `time_field` (str or (left, right)): the event time.
        - `tolerance` (timedelta, default None: any age): the greatest age of a right row. Without it right rows stay in
          state until the input ends.
        - `how` ("left" or "inner", default "left"): "left" keeps rows without a match.
        - `water_mark`, `prefix`: as for `join`.
        - `deletes` (SQL text or Column of a right row, default None): a right row for which it is true ends the one
          before it, and matches nothing. At one time a row wins over one that ends it.
        - `name` (str, default "asof_join"): the state is stored under it.

        >>> from rs_assets import StreamBuilder, Time
        >>> shop = StreamBuilder.data_stream("shop", "valued")
        >>> trades = shop.from_array([{"sku": "tea", "n": 3, "ts": 50_000}], name="trades")
        >>> changes = ((1.5, 0), (1.7, 40_000), (1.9, 60_000))
        >>> prices = shop.from_array([{"sku": "tea", "price": price, "ts": ts} for price, ts in changes], name="prices")
        >>> valued = trades.asof_join(prices, on="sku", time_field="ts", tolerance=Time.hours(1), prefix="at_")
        >>> valued.preview()
        [{'sku': 'tea', 'n': 3, 'ts': 50000, 'at_sku': 'tea', 'at_price': 1.7, 'at_ts': 40000}]
        >>> print(valued.to_print().build().describe())
        shop.valued  fingerprint ...
          trades     array_source  [1 row]
          prices     array_source  [3 rows]
        * asof_join  stream_join <- trades, prices  [left on sku as of its time, at most 1:00:00 before, by a processor]
          print      print_sink <- asof_join
        """
        other = self._beside(right, step=name)
        node = StreamJoin(
            name=name,
            inputs=(self.step, other.step),
            on=pairs_of(on, step=name),
            bound=AsOf(tolerance),
            how=how,
            time_fields=_both(time_field),
            water_marks=_both(water_mark) or (timedelta(0), timedelta(0)),
            prefix=prefix,
            shared=meet(self.step, other.step),
            deletes=native(deletes, step=name) if deletes is not None else None,
        )
        return self._then(node)

    def _beside(self, right: Self | WindowStream[Self], *, step: str) -> Self:
        """The right side as a stream; TopologyError if it is not a stream of this pipeline."""
        other = right.to_data_stream() if isinstance(right, WindowStream) else right
        if not isinstance(other, JoinSteps):
            raise TopologyError(
                f"step {step!r} joins a stream, not {type(other).__name__}",
                remedy="pass a stream of the same pipeline; a dimension is joined by .dim_join(dimension, on='user')",
                step=step,
            )
        if other.draft is not self.draft:
            raise TopologyError(
                f"step {step!r} joins streams of two pipelines",
                remedy="begin both from one StreamBuilder.data_stream(...)",
                step=step,
            )
        return other

    def left_join(self, right: Self | WindowStream[Self], *, on: Keys, within: Within, **settings: Any) -> Self:
        """`join(..., how="left")`: also rows of this stream without a match.

        - `right`, `on`, `within` and `settings`: as for `join`.

        >>> from rs_assets import StreamBuilder, Time
        >>> shop = StreamBuilder.data_stream("docs", "unpaid")
        >>> orders = shop.from_array([{"id": 1, "ts": 60_000}], name="orders")
        >>> payments = shop.from_array([{"id": 2, "ts": 60_000}], name="payments")
        >>> unpaid = orders.left_join(payments, on="id", within=Time.minutes(5), time_field="ts", prefix="paid_")
        >>> print(unpaid.to_print().build().describe())
        docs.unpaid  fingerprint ...
          orders    array_source  [1 row]
          payments  array_source  [1 row]
        * join      stream_join <- orders, payments  [left on id within 0:05:00]
          print     print_sink <- join
        """
        return self.join(right, on=on, within=within, how="left", **settings)

    def _then(self, node: Node) -> Self:
        raise NotImplementedError


def _both(value: Any) -> Any:
    """A setting of both sides, from a pair or one value for both; None stays None."""
    if value is None or (isinstance(value, tuple) and len(value) == TWO):
        return value
    return (value, value)


def _named(bound: Bound) -> str | None:
    return bound.time_field if isinstance(bound, AlignedWindow) else None
