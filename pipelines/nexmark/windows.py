"""The queries over windows: q5, q7, q8, q11 and q12."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.nexmark.sources import WATER_MARK
from rs_assets import HoppingWindow, Interval, SessionWindow, Time, TumblingWindow

if TYPE_CHECKING:
    from pipelines.nexmark.sources import Events
    from rs_assets.stream.data_stream import DataStream

TEN = Time.seconds(10)
SLIDE = Time.seconds(2)


def q5(events: Events) -> DataStream:
    """The auctions with the most bids in ten seconds, every two seconds; including ties."""
    counts = (
        events.bids()
        .window(HoppingWindow.of(TEN, SLIDE, "date_time"), name="counts")
        .group_by("auction")
        .count("num")
        .water_mark(WATER_MARK)
        .to_data_stream()
    )
    # All rows of a hopping window have its start, and no other window's rows have it.
    window = counts.window(TumblingWindow.of(SLIDE, "start_time"), name="hottest")
    all_counts = "sort_array(collect_list(struct(num, auction, start_time AS window_start, end_time AS window_end)))"
    hottest = window.max("num", "most").aggregate(counts=all_counts).to_data_stream()
    return hottest.flat_map("inline(filter(counts, each -> each.num = most))", name="all_of_them").to_delta("q5")


def q7(events: Events) -> DataStream:
    """The highest bids of each ten seconds; including ties."""
    highest = (
        events.bids("bids_again")
        .window(TumblingWindow.of(TEN, "date_time"), name="highest")
        .max("price")
        .water_mark(WATER_MARK)
        .to_data_stream()
    )
    return (
        events.bids()
        .join(
            highest.select_fields("price", "end_time"),
            on="price",
            # As published: a bid at the very end of a window belongs to it, too.
            within=Interval.of(after=TEN),
            time_field=("date_time", "end_time"),
            water_mark=WATER_MARK,
            name="bids_of_it",
        )
        .select_fields("auction", "bidder", "price", "date_time", "extra", "end_time")
        .to_delta("q7")
    )


def q8(events: Events) -> DataStream:
    """The persons who opened an auction in the ten seconds in which they appeared."""
    new_sellers = events.persons().join(
        events.auctions(),
        on={"id": "seller"},
        within=TumblingWindow.of(TEN, "date_time"),
        how="semi",
        water_mark=WATER_MARK,
        name="new_sellers",
    )
    return new_sellers.select_fields("id", "name", "start_time").to_delta("q8")


def q11(events: Events) -> DataStream:
    """The number of a bidder's bids in a session: until ten seconds without one."""
    sessions = events.bids().window(SessionWindow.of(TEN, "date_time"), name="sessions").group_by("bidder")
    return sessions.count("bid_count").water_mark(WATER_MARK).to_data_stream().to_delta("q11")


def q12(events: Events) -> DataStream:
    """The number of a bidder's bids that arrive in ten seconds of processing time."""
    arrivals = events.bids().window(TumblingWindow.of(TEN), name="arrivals").group_by("bidder")
    return arrivals.count("bid_count").to_data_stream().to_delta("q12")
