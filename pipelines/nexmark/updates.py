"""The queries whose rows change with each bid: q15, q16, q17 and q19."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets import Time, TumblingWindow

if TYPE_CHECKING:
    from pipelines.nexmark.sources import Events
    from rs_assets.stream.data_stream import DataStream

DAY = TumblingWindow.of(Time.days(1), "date_time")
RANKS = {
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}


def all_time(field: str) -> TumblingWindow:
    """One window for all rows: a hundred years from 1970 on."""
    return TumblingWindow.of(Time.days(36_500), field)


def q15(events: Events) -> DataStream:
    """Bids, bidders and auctions of each day, by the rank of prices."""
    return _by_rank(events).to_delta("q15", mode="upsert", keys=["start_time"])


def q16(events: Events) -> DataStream:
    """The same for each channel, with the minute of its last bid."""
    return _by_rank(events, "channel", minute="max(date_format(date_time, 'HH:mm'))").to_delta(
        "q16", mode="upsert", keys=["channel", "start_time"]
    )


def q17(events: Events) -> DataStream:
    """Bids and prices of each auction on each day."""
    days = events.bids().window(DAY, name="days", emit="on_window_update").group_by("auction").count("total_bids")
    return (
        days.min("price", "min_price")
        .max("price", "max_price")
        .sum("price", "sum_price")
        .aggregate(avg_price="sum(price) div count(price)", **_bids_by_rank())
        .to_data_stream()
        .to_delta("q17", mode="upsert", keys=["auction", "start_time"])
    )


def q19(events: Events) -> DataStream:
    """The ten highest bids on each auction; of equal ones the latest."""
    top = events.bids().window(all_time("date_time"), name="highest", emit="on_window_update").group_by("auction")
    others = ["date_time", "bidder", "channel", "url", "extra"]
    ranked = top.top_n(10, by=["price"], fields=others, rank="rank_number").to_data_stream()
    return ranked.to_delta("q19", mode="upsert", keys=["auction", "rank_number", "start_time"])


def _by_rank(events: Events, *fields: str, **more: str) -> DataStream:
    """Counts of bids, and of their distinct bidders and auctions, by the rank of the price."""
    marked = {
        f"{rank}_{what}s": f"CASE WHEN {condition} THEN {what} END"
        for rank, condition in RANKS.items()
        for what in ("bidder", "auction")
    }
    days = events.bids().with_fields(name="ranked", **marked).window(DAY, name="days", emit="on_window_update")
    counted = days.group_by(*fields).count("total_bids")
    counted = counted.count_distinct("bidder", "total_bidders").count_distinct("auction", "total_auctions")
    for name in marked:
        counted = counted.count_distinct(name)
    return counted.aggregate(**_bids_by_rank(), **more).to_data_stream()


def _bids_by_rank() -> dict[str, str]:
    return {f"{rank}_bids": f"count_if({condition})" for rank, condition in RANKS.items()}
