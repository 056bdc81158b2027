"""The queries over single bids: q0, q1, q2, q10, q14, q18, q21 and q22."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.nexmark.sources import Events
    from rs_assets.stream.data_stream import DataStream

EUROS = "CAST(0.908 * price AS decimal(23, 3))"
NIGHT_OR_DAY = """
    CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
         WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
         ELSE 'otherTime' END
"""
# The number in the address, null where there is none.
NUMBER = "nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"
CHANNEL_ID = f"""
    CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
         ELSE {NUMBER} END
"""


def q0(events: Events) -> DataStream:
    """All bids, as they are."""
    return events.bids().to_delta("q0")


def q1(events: Events) -> DataStream:
    """All bids, in euros."""
    return events.bids().with_fields(price=EUROS, name="in_euros").to_delta("q1")


def q2(events: Events) -> DataStream:
    """The bids on some auctions."""
    return events.bids().filter("auction % 123 = 0", name="chosen").select_fields("auction", "price").to_delta("q2")


def q10(events: Events) -> DataStream:
    """All bids, in a folder for each minute."""
    minutes = {"dt": "date_format(date_time, 'yyyy-MM-dd')", "hm": "date_format(date_time, 'HH:mm')"}
    return events.bids().with_fields(name="minutes", **minutes).to_delta("q10", partition_by=["dt", "hm"])


def q14(events: Events) -> DataStream:
    """The bids in a price range, with the time of day, and the number of times a character occurs in them."""
    return (
        events.bids()
        .filter("0.908 * price > 1000000 AND 0.908 * price < 50000000", name="dear")
        .map(
            "auction", "bidder", f"{EUROS} AS price", f"{NIGHT_OR_DAY} AS bid_time_type", "date_time", "extra",
            "length(extra) - length(replace(extra, 'c', '')) AS c_counts", name="described",
        )
        .to_delta("q14")
    )  # fmt: skip


def q18(events: Events) -> DataStream:
    """The last bid of each bidder on each auction; of bids at the same time the highest."""
    last = ["date_time", "price", "channel", "url", "extra"]
    return events.bids().to_delta("q18", mode="upsert", keys=["bidder", "auction"], order_by=last)


def q21(events: Events) -> DataStream:
    """The bids from a known channel, with its number."""
    numbered = events.bids().map(
        "auction", "bidder", "price", "channel", f"{CHANNEL_ID} AS channel_id", name="numbered"
    )
    return numbered.filter("channel_id IS NOT NULL", name="known").to_delta("q21")


def q22(events: Events) -> DataStream:
    """The bids with the folders of their addresses."""
    folders = [f"split_part(url, '/', {place + 3}) AS dir{place}" for place in (1, 2, 3)]
    return events.bids().map("auction", "bidder", "price", "channel", *folders, name="folders").to_delta("q22")
