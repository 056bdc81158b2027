"""Builds a regular expression that checks in one pass that many lines of JSON are plain.

A plain line is one object whose fields come in a known order, each at most once, and each with a value that Spark's
parser certainly accepts for its type: no line with several records or none, no garbage, no number out of range, no
duplicate key. For plain lines a parser may skip unused fields, and the rest of a record that a filter drops: the
skipped part could not have been refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

import pyarrow as pa

from rs_assets.records.ddl import arrow_schema

# For a longer order the regular expression would be slow, or fail.
MOST_FIELDS = 48
GAP = r"[ \t]*"
# Valid UTF-8 without control characters.
CHARACTER = r"[\x20\x21\x23-\x5b\x5d-\x7f\x{80}-\x{D7FF}\x{E000}-\x{10FFFF}]"
# Escapes as JSON has them.
TEXT = rf'"(?:{CHARACTER}|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{{4}}))*"'
# Spark rejects half a surrogate pair in a key, but accepts it in a value.
KEY = f'"{CHARACTER}*"'
BOOLEAN = "true|false"
# As many digits as any parser accepts.
NUMBER = r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?"
YEAR = "(?:1[6-9]|[2-8][0-9])"
DAY = (
    f"(?:{YEAR}[0-9]{{2}}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{YEAR}(?:0[48]|[2468][048]|[13579][26])-02-29)"
)
CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])?"


def _integer(digits: int) -> str:
    """As many digits as certainly fit."""
    return f"-?(?:0|[1-9][0-9]{{0,{digits - 1}}})"


VALUES: Mapping[pa.DataType, str] = MappingProxyType(
    {
        pa.string(): TEXT,
        pa.int64(): _integer(18),
        pa.int32(): _integer(9),
        pa.int16(): _integer(4),
        pa.int8(): _integer(2),
        pa.float64(): NUMBER,
        pa.float32(): NUMBER,
        pa.bool_(): BOOLEAN,
        pa.timestamp("us", tz="UTC"): f'"{DAY}[T ]{CLOCK}"',
        pa.date32(): f'"{DAY}"',
    }
)


def _any_value(depth: int) -> str:
    """A value of a field that the schema does not have: skipped by the parser, but its end must be unambiguous."""
    scalar = f"{TEXT}|{NUMBER}|{BOOLEAN}|null"
    if not depth:
        return f"(?:{scalar})"
    inner = f"{GAP}{_any_value(depth - 1)}{GAP}"
    member = f"{GAP}{KEY}{GAP}:{inner}"
    return rf"(?:{scalar}|\[(?:{inner}(?:,{inner})*|{GAP})\]|\{{(?:{member}(?:,{member})*|{GAP})\}})"


UNKNOWN = _any_value(2)


@dataclass(frozen=True, slots=True)
class Order:
    """The keys of records, in order; a record may lack the `optional` ones.

    >>> Order.of([("id", "page"), ("id", "tier", "page")])
    Order(keys=('id', 'tier', 'page'), optional=frozenset({'tier'}))
    """

    keys: tuple[str, ...]
    optional: frozenset[str] = frozenset()

    @classmethod
    def of(cls, records: Collection[tuple[str, ...]]) -> Order | None:
        """The common order of the keys of all these records; None if there is none, or a record has a duplicate key."""
        before = TopologicalSorter[str]()
        for keys in records:
            for at, key in enumerate(keys):
                before.add(key, *keys[:at][-1:])
        try:
            keys = tuple(before.static_order())
        except CycleError:
            return None
        if len(keys) > MOST_FIELDS:
            return None
        return cls(keys, frozenset(k for k in keys if any(k not in record for record in records)))


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a schema whose values can be checked by their text, as regular expressions by name."""

    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: str | None) -> Shape | None:
        """The shape of a declared schema; None if a field has a type whose text says too little.

        >>> Shape.of("id long, page string").values["id"]
        '-?(?:0|[1-9][0-9]{0,17})'
        >>> Shape.of("price decimal(9, 2)") is None
        True
        """
        declared = arrow_schema(schema) if schema else None
        if declared is None or any(not f.nullable or f.type not in VALUES for f in declared):
            return None
        return cls({f.name: VALUES[f.type] for f in declared})

    def lines(self, order: Order) -> str:
        """The regular expression for complete lines of such records, from the first to the last."""
        members = [self._member(key) for key in order.keys]
        starts = list[str]()
        for at, key in enumerate(order.keys):
            rest = "".join(_following(members, order, at + 1))
            starts.append(members[at] + rest)
            if key not in order.optional:
                break
        else:
            starts.append(GAP)
        return rf"\A(?:{GAP}\{{(?:{'|'.join(starts)})\}}{GAP}\r?\n)*\z"

    def _member(self, key: str) -> str:
        value = self.values.get(key)
        text = UNKNOWN if value is None else f"(?:null|{value})"
        return f'{GAP}"{re.escape(key)}"{GAP}:{GAP}{text}{GAP}'


def _following(members: Sequence[str], order: Order, start: int) -> Iterator[str]:
    """What may follow the members before `start`."""
    for member, key in zip(members[start:], order.keys[start:], strict=True):
        yield f"(?:,{member})?" if key in order.optional else f",{member}"
