"""The keys by which rows of a dimension are found: fields that are equal, and one field or two that contain a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rs_assets.errors import TopologyError
from rs_assets.operators.join.spec import cast_to
from rs_assets.records.types import holding

WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
# The types whose values can be in an interval.
ORDERED: Final = WHOLE | {"float", "double", "date", "timestamp", "timestamp_ntz"}


@dataclass(frozen=True, slots=True)
class Network:
    """A field of a dimension with IP networks, `10.0.0.0/8` or `2001:db8::/32`, which contain addresses of a stream.

    Of several networks that contain an address the one with the longest prefix is found. See docs/dimensions.md.

    >>> from rs_assets import Dimension, StreamBuilder
    >>> feed = Dimension.from_file("/data/feed.jsonl", schema="cidr string, threat string")
    >>> logs = StreamBuilder.data_stream("docs", "threats").from_array([{"ip": "10.1.2.3"}])
    >>> print(logs.dim_left_join(feed, on={"ip": Network("cidr")}, name="feed").to_print().build().describe())
    docs.threats  fingerprint ...
      array  array_source  [1 row]
      feed   dim_join <- array  [left on ip in network cidr with json /data/feed.jsonl]
      print  print_sink <- feed
    """

    field: str

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the dimension."""
        return (self.field,)

    def __str__(self) -> str:
        return f"network {self.field}"


@dataclass(frozen=True, slots=True)
class Range:
    """Two fields of a dimension, the ends of intervals of numbers or times, which contain values of a stream.

    `low` is included, `high` only if `closed`; a null end is open. Of several intervals that contain a value the
    narrowest is found. See docs/dimensions.md.

    >>> from rs_assets import Dimension, StreamBuilder
    >>> rates = Dimension.from_file("/data/rates.jsonl", schema="item string, since date, until date, rate double")
    >>> sales = StreamBuilder.data_stream("docs", "rates").from_file("s.jsonl", schema="item string, day date")
    >>> priced = sales.dim_join(rates, on={"item": "item", "day": Range("since", "until")}, name="priced")
    >>> print(priced.to_print().build().describe())
    docs.rates  fingerprint ...
      file    file_source  [json s.jsonl]
      priced  dim_join <- file  [inner on item, day in range since to until with json /data/rates.jsonl]
      print   print_sink <- priced
    """

    low: str
    high: str
    closed: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the dimension."""
        return (self.low, self.high)

    def __str__(self) -> str:
        return f"{'closed ' if self.closed else ''}range {self.low} to {self.high}"


Containing = Network | Range
# The keys of a dimension: at most one of them contains values, and it is the last one.
Key = str | Containing


def parted(keys: Sequence[Key]) -> tuple[tuple[str, ...], Containing | None]:
    """The fields that must be equal, and the key that contains a value.

    >>> parted(["item", Range("since", "until")])
    (('item',), Range(low='since', high='until', closed=False))
    """
    equal = tuple(key for key in keys if isinstance(key, str))
    return equal, next((key for key in keys if not isinstance(key, str)), None)


def fields_of(keys: Sequence[Key]) -> tuple[str, ...]:
    """All fields of the dimension that the keys name."""
    return tuple(name for key in keys for name in ((key,) if isinstance(key, str) else key.fields))


def check_within(
    key: Containing, asked: tuple[str, str | None], ends: Sequence[tuple[str, str | None]], *, step: str
) -> None:
    """TopologyError for a field, with its Spark type if that is known, that the fields of `key` cannot contain."""
    name, kind = asked
    texts = isinstance(key, Network)
    for field, known in (asked, *ends):
        if known is not None and (known != "string" if texts else known not in ORDERED):
            raise _unordered(key, field, known, step=step)
    for field, known in ends:
        if kind is not None and known is not None and kind != known and not {kind, known} <= WHOLE:
            raise TopologyError(
                f"step {step!r} cannot look for {name!r}, which is a {kind}, in {field!r}, which is a {known}",
                remedy=_one_type((name, kind), (field, known)),
                step=step,
            )


def _one_type(asked: tuple[str, str], end: tuple[str, str]) -> str:
    """What gives a field and the ends of intervals one type that holds the values of both."""
    (name, kind), (field, known) = asked, end
    wide = holding(kind, known) or known
    declared = f"declare {field!r} as {wide} in the schema of the dimension" if wide != known else ""
    return " and ".join(filter(None, (cast_to(name, wide) if wide != kind else "", declared)))


def _unordered(key: Containing, field: str, kind: str, *, step: str) -> TopologyError:
    if isinstance(key, Network):
        why, remedy = "addresses and networks are texts", "cast it to a text, or declare it as string"
    else:
        why, remedy = "intervals are of numbers or times", "cast it to a bigint, a double or a timestamp"
    return TopologyError(f"step {step!r} cannot use {field!r}, a {kind}: {why}", remedy=remedy, step=step)
