"""Persons, auctions and bids as lines of JSON, made from the numbers of events alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipelines.nexmark.chance import Chance, Numbers

# Of this many events, in this order: persons, auctions, and bids for the rest.
OF, PERSONS, AUCTIONS = 50, 1, 3
FIRST_ID = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5

# The ranges of people and auctions to draw from, and of those that do not exist yet.
ACTIVE_PEOPLE, OPEN_AUCTIONS, AHEAD = 1_000, 100, 10
# The first of this many is the hot one, and one draw in this many is not for it.
HOT_GROUP = 100
HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS, HOT_CHANNELS = 2, 4, 4, 2

# Average sizes of an event in bytes, and the approximate size of its other fields.
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200 - 80, 500 - 110, 100 - 32
SPREAD = 0.2

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
FIRST_NAMES = ("Ada", "Ben", "Carla", "Dora", "Emil", "Frida", "Gus", "Hanna", "Ivo", "Jule", "Karl")
LAST_NAMES = ("Abel", "Brandt", "Conrad", "Decker", "Ernst", "Falk", "Gross", "Heller", "Jung")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
OTHER_CHANNELS = 10_000
# One in this many other channels has no number in its address.
UNNUMBERED = 10

TEXT_SIZE = 1 << 16


def person_lines(seed: int, events: Numbers, times: Numbers, _horizon_ms: int) -> Iterator[str]:
    """A person for each of `events`; `times` are milliseconds since the epoch."""
    chance, text = Chance(seed, events), _text(seed)
    words = (
        chance.below(len(FIRST_NAMES)), chance.below(len(LAST_NAMES)), chance.below(len(CITIES)),
        chance.below(len(STATES)), chance.below(10**8), chance.below(10**8),
    )  # fmt: skip
    parts = (_piece(chance, 3, 7), _piece(chance, 3, 5), _extra(chance, PERSON_BYTES))
    columns = ((last_person(events) + FIRST_ID).tolist(), _shown(times), *(w.tolist() for w in words))
    for (id_, at, first, last, city, state, one, two), mail, host, extra in zip(
        zip(*columns, strict=True), *parts, strict=True
    ):
        card = f"{one:08}{two:08}"
        yield (
            f'{{"id":{id_},"name":"{FIRST_NAMES[first]} {LAST_NAMES[last]}",'
            f'"email_address":"{text[mail]}@{text[host]}.com",'
            f'"credit_card":"{card[:4]} {card[4:8]} {card[8:12]} {card[12:]}",'
            f'"city":"{CITIES[city]}","state":"{STATES[state]}","date_time":"{at}Z","extra":"{text[extra]}"}}\n'
        )


def auction_lines(seed: int, events: Numbers, times: Numbers, horizon_ms: int) -> Iterator[str]:
    """An auction for each of `events`, open for up to twice `horizon_ms` milliseconds."""
    chance, text = Chance(seed, events), _text(seed)
    people = last_person(events)
    seller = _hot(chance, HOT_SELLERS, people, 0, _active_person(chance, people))
    initial = _price(chance)
    columns = (
        (last_auction(events) + FIRST_ID).tolist(),
        (seller + FIRST_ID).tolist(),
        (FIRST_CATEGORY + chance.below(CATEGORIES)).tolist(),
        initial.tolist(),
        (initial + _price(chance)).tolist(),
        _shown(times),
        _shown(times + 1 + chance.below(max(2 * horizon_ms, 1))),
    )
    parts = (_piece(chance, 3, 20), _piece(chance, 3, 100), _extra(chance, AUCTION_BYTES))
    for (id_, by, category, start, reserve, at, expires), name, description, extra in zip(
        zip(*columns, strict=True), *parts, strict=True
    ):
        yield (
            f'{{"id":{id_},"item_name":"{text[name]}","description":"{text[description]}",'
            f'"initial_bid":{start},"reserve":{reserve},"date_time":"{at}Z","expires":"{expires}Z",'
            f'"seller":{by},"category":{category},"extra":"{text[extra]}"}}\n'
        )


def bid_lines(seed: int, events: Numbers, times: Numbers, _horizon_ms: int) -> Iterator[str]:
    """A bid for each of `events`."""
    chance, text = Chance(seed, events), _text(seed)
    people, auctions = last_person(events), last_auction(events)
    oldest = np.maximum(auctions - OPEN_AUCTIONS, 0)
    open_ = oldest + chance.below(auctions - oldest + 1 + AHEAD)
    auction = _hot(chance, HOT_AUCTIONS, auctions, 0, open_)
    # The second of a group, so that hot sellers and hot bidders are different people.
    bidder = _hot(chance, HOT_BIDDERS, people, 1, _active_person(chance, people))
    other = np.where(chance.below(HOT_CHANNELS) > 0, -1, chance.below(OTHER_CHANNELS))
    columns = (
        (auction + FIRST_ID).tolist(), (bidder + FIRST_ID).tolist(), _price(chance).tolist(),
        other.tolist(), chance.below(len(CHANNELS)).tolist(), _shown(times),
    )  # fmt: skip
    for (on, by, price, channel, hot, at), extra in zip(
        zip(*columns, strict=True), _extra(chance, BID_BYTES), strict=True
    ):
        name = CHANNELS[hot] if channel < 0 else f"channel-{channel}"
        yield (
            f'{{"auction":{on},"bidder":{by},"price":{price},"channel":"{name}",'
            f'"url":"{_address(text, channel, hot)}","date_time":"{at}Z","extra":"{text[extra]}"}}\n'
        )


def last_person(events: Numbers) -> Numbers:
    """The number of the last person up to each of `events`."""
    return events // OF * PERSONS + np.minimum(events % OF, PERSONS - 1)


def last_auction(events: Numbers) -> Numbers:
    """The number of the last auction up to each of `events`; -1 before the first."""
    return events // OF * AUCTIONS + np.clip(events % OF - PERSONS, -1, AUCTIONS - 1)


def _hot(chance: Chance, others: int, last: Numbers, place: int, cold: Numbers) -> Numbers:
    """The one at `place` in the newest group, except for one in `others` draws, which is `cold`."""
    return np.where(chance.below(others) > 0, last // HOT_GROUP * HOT_GROUP + place, cold)


def _active_person(chance: Chance, last: Numbers) -> Numbers:
    active = np.minimum(last + 1, ACTIVE_PEOPLE)
    return last + 1 - active + chance.below(active + AHEAD)


def _price(chance: Chance) -> Numbers:
    """Cents, from one dollar to a million, each digit as likely as the next."""
    return np.rint(10.0 ** (chance.unit() * 6.0) * 100.0).astype(np.int64)


def _shown(times: Numbers) -> list[str]:
    return np.datetime_as_string(times.astype("datetime64[ms]")).tolist()  # type: ignore[no-any-return]


def _piece(chance: Chance, least: int, most: int | Numbers) -> Iterator[slice]:
    """A piece of the text for each event, from `least` characters to less than `most`."""
    sizes = least + chance.below(most - least)
    begins = chance.below(TEXT_SIZE - sizes)
    return (slice(begin, begin + size) for begin, size in zip(begins.tolist(), sizes.tolist(), strict=True))


def _extra(chance: Chance, size: int) -> Iterator[slice]:
    spread = round(size * SPREAD)
    return _piece(chance, size - spread, size + spread)


def _address(text: str, channel: int, hot: int) -> str:
    """The address of a channel: three folders, and for most channels their number."""
    at = 100 * hot if channel < 0 else 1_000 + 5 * channel
    path = f"https://www.nexmark.com/{text[at : at + 4]}/{text[at + 4 : at + 8]}/{text[at + 8 : at + 12]}"
    number = f"&channel_id={channel * 7919}" if channel >= 0 and channel % UNNUMBERED else ""
    return f"{path}/item.htm?query=1{number}"


def _text(seed: int) -> str:
    """Random characters; all texts are pieces of them."""
    letters = Chance(seed, -1 - np.arange(TEXT_SIZE)).below(26) + ord("a")
    return letters.astype(np.uint8).tobytes().decode("ascii")
