"""Steps that join a stream with another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

from rs_assets.errors import TopologyError
from rs_assets.operators.join.spec import AsOf, Bound, JoinType, Within, bound_of, pairs_of
from rs_assets.operators.window.spec import HoppingWindow, TumblingWindow
from rs_assets.stream.draft import meet
from rs_assets.stream.window_stream import WindowStream
from rs_assets.topology.nodes.join import StreamJoin
from rs_assets.topology.user_code.expression import native

if TYPE_CHECKING:
    from rs_assets.stream.draft import Draft
    from rs_assets.topology.nodes.base import Node

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
        """Join each row with the rows of `right` that equal it in `on` and lie near it in time; `name` keys the state.

        `on` is a field of both sides, several, or a mapping from left fields to right ones. A key that is null or an
        empty text equals nothing. `within` says what is near: a duration (at most so far apart, both ends included),
        `Interval.of(before=, after=)` (how long before and after the left row), a tumbling or hopping window (a pair
        for each window that both are in; rows get its `start_time` and `end_time`), or None: any time. Without bound
        every row is kept for ever, and only inner joins are possible. `time_field` is the event time (one name, or
        left and right; a window may name it), `water_mark` how far rows may be out of order (one for both, or left
        and right). Spark has one watermark for a query: that of the side which is behind.

        `how`: "inner", "left", "right", "full", "semi" (left rows that have a partner, once) or "anti" (those that have
        none). Rows without partner come when the watermark has passed the last time of a partner; a row that comes
        behind the watermark is late, is counted, and meets nobody. With `early` rows without partner come with the
        batch that they came in; a row whose field `retracted` is true takes such a row back. `condition` (SQL text or
        Column) must hold for a pair; it may name fields as `left.ms` and `right.ms`. Fields of the right side take the
        place of those of the left that have their names, or stand beside them behind `prefix`. The order of rows is not
        guaranteed.

        Spark looks through all rows that wait in a join by interval, in each batch that moves the watermark. With
        `processor` a processor of this project joins, for which a batch costs what its own rows do, and those more:
        take it where hundreds of thousands wait. The rows are the same; state of one is of no use to the other.

        Both sides may come from one step: then each record goes to both, and the source is read once. The steps between
        must be in SQL (filter, map, with_fields, select_fields, split); TopologyError for others.

        >>> from rs_assets import StreamBuilder, Time
        >>> shop = StreamBuilder.data_stream("shop", "paid")
        >>> orders = shop.from_file("orders.jsonl", schema="id bigint, ms bigint, ts timestamp", name="orders")
        >>> payments = shop.from_file("payments.jsonl", schema="id bigint, ts timestamp", name="payments")
        >>> paid = orders.join(payments, on="id", within=Time.minutes(5), time_field="ts", how="left", prefix="paid_")
        >>> print(paid.to_print().build().describe())
        shop.paid  fingerprint ...
          orders    file_source  [json orders.jsonl]
          payments  file_source  [json payments.jsonl]
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
        name: str = "asof_join",
    ) -> Self:
        """Join each row with the newest row of `right` at or before its time that equals it in `on`.

        That is at most `tolerance` older, if one is given. `how`: "left" keeps rows that find none, "inner" drops them.
        A row comes when the watermark has passed its time, so that no right row can come in between; of right rows of
        one time the greatest by their fields is taken. In state are rows that wait, and of each key the newest right
        row, without a tolerance until the input ends. Keys, times, water marks, late rows and names of fields are those
        of `join`.

        >>> from rs_assets import StreamBuilder, Time
        >>> shop = StreamBuilder.data_stream("shop", "valued")
        >>> trades = shop.from_file("trades.jsonl", schema="sku string, n bigint, ts timestamp", name="trades")
        >>> prices = shop.from_file("prices.jsonl", schema="sku string, price double, ts timestamp", name="prices")
        >>> valued = trades.asof_join(prices, on="sku", time_field="ts", tolerance=Time.hours(1), prefix="at_")
        >>> print(valued.to_print().build().describe())
        shop.valued  fingerprint ...
          trades     file_source  [json trades.jsonl]
          prices     file_source  [json prices.jsonl]
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
        )
        return self._then(node)

    def _beside(self, right: Self | WindowStream[Self], *, step: str) -> Self:
        """The right side as a stream; TopologyError if it is not one of this pipeline."""
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
        """`join(..., how="left")`: also rows of this stream that have no partner."""
        return self.join(right, on=on, within=within, how="left", **settings)

    def _then(self, node: Node) -> Self:
        raise NotImplementedError


def _both(value: Any) -> Any:
    """A setting of both sides, from one for each or one for both; None stays None."""
    if value is None or (isinstance(value, tuple) and len(value) == TWO):
        return value
    return (value, value)


def _named(bound: Bound) -> str | None:
    return bound.time_field if isinstance(bound, TumblingWindow | HoppingWindow) else None
