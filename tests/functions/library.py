"""Functions of a user's own, as a module of theirs has them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rs_assets import aggregate_function, function, table_function


@dataclass
class Word:
    word: str
    place: int


@function(aliases=("initials",))
def own_initials(text: str, sep: str | None = None) -> str | None:
    found = [part[:1] for part in text.split() if part]
    return (sep or "").join(found) or None


@function
def own_told(n: int | None) -> str:
    return "nothing" if n is None else f"{n:+d}"


@function
def own_share(n: int, of: int) -> float:
    return n / of


@function
def own_joined(*parts: str | None) -> str:
    return "|".join("-" if part is None else part for part in parts)


@function
def own_moment(at: datetime) -> str:
    return at.isoformat()


@function
def own_day(at: date) -> str:
    return at.isoformat()


@function
def own_year(at: datetime) -> int:
    return at.year


@function(arguments="items array<bigint> not null", returns="struct<least: bigint, most: bigint>")
def own_range(items: Any) -> Any:
    return {"least": min(items), "most": max(items)} if items else None


@function
def own_cents(price: Decimal) -> Decimal:
    return price * 100


@function(arguments="n bigint not null, m bigint", returns="bigint", form="arrow", name="own_sum")
def sum_of(n: pa.Array, m: pa.Array) -> pa.Array:
    return pc.add_checked(n, pc.fill_null(m, 0))


@function(arguments="n bigint, m bigint", returns="bigint", form="pandas", name="own_less")
def difference(n: Any, m: Any) -> Any:
    return n - m


def twice(call: Callable[[str], str]) -> Callable[[str], str]:
    @functools.wraps(call)
    def made(text: str) -> str:
        return call(text) * 2

    return made


@twice
@function
def own_echo(text: str) -> str:
    return text + "!"


@table_function()
def own_words(text: str) -> Iterator[Word]:
    for place, word in enumerate(text.split()):
        yield Word(word, place)


@aggregate_function(name="own_median")
class Median:
    def create(self) -> list[int]:
        return []

    def accumulate(self, seen: list[int], value: int) -> list[int]:
        return [*seen, value]

    def value(self, seen: list[int]) -> int | None:
        return sorted(seen)[len(seen) // 2] if seen else None


@aggregate_function(name="own_first_by")
class FirstBy:
    def create(self) -> None:
        return None

    def accumulate(self, found: str | None, name: str | None, by: int) -> str | None:
        pair = f"{by:09d}{name or '-'}"
        return pair if found is None else min(found, pair)

    def value(self, found: str | None) -> str | None:
        return None if found is None else found[9:]


@aggregate_function(name="own_commonest")
class Commonest:
    """The most frequent value, and of several the least; accumulators can be merged."""

    def create(self) -> dict[int, int]:
        return {}

    def accumulate(self, counts: dict[int, int], value: int) -> dict[int, int]:
        counts[value] = counts.get(value, 0) + 1
        return counts

    def merge(self, one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
        for value, count in other.items():
            one[value] = one.get(value, 0) + count
        return one

    def value(self, counts: dict[int, int]) -> int | None:
        return min(counts, key=lambda value: (-counts[value], value), default=None)


class Merged:
    """The type of its accumulators is not annotated."""

    def create(self):
        return []

    def accumulate(self, seen: list[int], value: int) -> list[int]:
        return [*seen, value]

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        return one + other

    def value(self, seen: list[int]) -> int:
        return len(seen)


def plain_length(text: str) -> int:
    return len(text)


def plain_letters(text: str | None, least: int) -> Iterator[Word]:
    for place, letter in enumerate("none" if text is None else text):
        if place >= least:
            yield Word(letter, place)


def untyped(text):
    return text
