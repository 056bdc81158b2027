"""The queries that join persons, auctions and bids: q3, q4, q6, q9, q13 and q20."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.nexmark.sources import WATER_MARK
from pipelines.nexmark.updates import all_time
from rs_assets import Interval, Time, TumblingWindow

if TYPE_CHECKING:
    from pipelines.nexmark.sources import Events
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.window_stream import WindowStream

# An auction has one time, so it is in one window with all its bids: any size works, and a short one waits less.
ONE_AUCTION = TumblingWindow.of(Time.seconds(1), "date_time")
LAST_SALES = 10


def q3(events: Events) -> DataStream:
    """The sellers of one category in three states."""
    sellers = events.persons().filter("state IN ('OR', 'ID', 'CA')", name="of_three_states")
    sales = events.auctions().filter("category = 10", name="of_one_category")
    sold = sales.join(sellers, on={"seller": "id"}, within=None, prefix="person_", name="sellers")
    return sold.map("person_name AS name", "person_city AS city", "person_state AS state", "id").to_delta("q3")


def q4(events: Events) -> DataStream:
    """The average price at which auctions of each category end."""
    finals = _bids_in_time(events).group_by("id", "category").max("bid_price", "final").to_data_stream()
    closed = finals.select_fields("category", "final", "start_time").shuffle(1, strategy="delta", name="closed")
    averages = closed.window(all_time("start_time"), name="averages", emit="on_window_update").group_by("category")
    average = averages.aggregate(final="sum(final) div count(final)").to_data_stream()
    return average.to_delta("q4", mode="upsert", keys=["category", "start_time"])


def q6(events: Events) -> DataStream:
    """The average price of each seller's last ten sales."""
    wins = _winners(events, "id", "seller", shown=["bid_date_time"])
    sales = wins.select_fields("seller", "id", "bid_price", "bid_date_time", "start_time")
    closed = sales.shuffle(1, keys=["seller"], strategy="delta", name="closed")
    sellers = closed.window(all_time("start_time"), name="sellers", emit="on_window_update").group_by("seller")
    last = sellers.aggregate(last=f"max_by(bid_price, struct(bid_date_time, id, bid_price), {LAST_SALES})")
    average = "aggregate(last, 0L, (sum, price) -> sum + price) div size(last) AS avg_price"
    return (
        last.to_data_stream()
        .map("seller", "start_time", average)
        .to_delta("q6", mode="upsert", keys=["seller", "start_time"])
    )


def q9(events: Events) -> DataStream:
    """The winning bid of each auction: the highest in time, among equal ones the first."""
    auction = ("id", "item_name", "description", "initial_bid", "reserve", "expires", "seller", "category", "extra")
    shown = ["date_time", "bid_auction", "bid_bidder", "bid_date_time", "bid_extra"]
    winners = _winners(events, *auction, shown=shown)
    return winners.select_fields(*auction, *shown, "bid_price", name="published").to_delta("q9")


def q13(events: Events) -> DataStream:
    """All bids, with a file's value for their auction."""
    keyed = events.bids().with_fields(key="auction % 10000", name="keyed")
    looked_up = keyed.dim_join(events.side_input(), on="key", name="side_input")
    return looked_up.select_fields("auction", "bidder", "price", "date_time", "value").to_delta("q13")


def q20(events: Events) -> DataStream:
    """The bids on auctions of one category, with the auction."""
    auctions = events.auctions().filter("category = 10", name="of_one_category")
    return (
        events.bids().join(auctions, on={"auction": "id"}, within=None, prefix="auction_", name="both").to_delta("q20")
    )


def _bids_in_time(events: Events) -> WindowStream[DataStream]:
    """The bids during their auction with the fields of the auction, as a window for each auction."""
    within = Interval.of(after=events.longest_auction)
    pairs = events.auctions().join(
        events.bids(),
        on={"id": "auction"},
        within=within,
        time_field="date_time",
        water_mark=WATER_MARK,
        condition="right.date_time <= expires",
        prefix="bid_",
        name="in_time",
    )
    # Rankings have one direction: of equal prices the first bid is the one with the earliest time.
    earlier = pairs.with_fields(earlier="-unix_micros(bid_date_time)", name="told_apart")
    return earlier.window(ONE_AUCTION, name="winners")


def _winners(events: Events, *auction: str, shown: list[str]) -> DataStream:
    """The winning bid of each auction, with the fields `auction` of the auction."""
    ranked = _bids_in_time(events).group_by(*auction).top_n(1, by=["bid_price", "earlier"], fields=shown)
    return ranked.to_data_stream()
