"""The fields of the three kinds of events, and of the side input of q13."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Kind = Literal["persons", "auctions", "bids"]

PERSON = (
    "id bigint, name string, email_address string, credit_card string, city string, state string,"
    " date_time timestamp, extra string"
)
AUCTION = (
    "id bigint, item_name string, description string, initial_bid bigint, reserve bigint, date_time timestamp,"
    " expires timestamp, seller bigint, category bigint, extra string"
)
BID = "auction bigint, bidder bigint, price bigint, channel string, url string, date_time timestamp, extra string"
SIDE = "key bigint, value string"
SIDE_INPUT = "side_input.csv"

SCHEMAS: Mapping[Kind, str] = MappingProxyType({"persons": PERSON, "auctions": AUCTION, "bids": BID})
