"""The inner keys and times of stores: a value is found however it was given, in this batch and in later ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rs_assets.errors import SchemaError
from rs_assets.records.fields import declared

Row = dict[str, Any]
Key = tuple[Any, ...]
# Types whose values have no order, or cannot be found in a dict.
UNORDERED: Final = ("array", "map", "struct", "variant")
# Null comes first, NaN last.
NULL, NAN = (0, 0), (2, 0)


@dataclass(frozen=True, slots=True)
class InnerKeys:
    """The keys of the records of a store, as tuples of the values of the fields in `converts`, which gives them types.

    `check` makes a row of a key that has several fields. All NaN are one key, and so are 0.0 and -0.0.
    """

    converts: Mapping[str, Callable[[Any], Any]]
    check: Callable[[object], Row]

    def given(self, key: object) -> Key:
        """A key as a processor gives it: the value of one field, or a row of all; MisfitError if it does not fit."""
        if len(self.converts) == 1 and not isinstance(key, Mapping):
            return self.first(key)
        return self.first(*map(self.check(key).__getitem__, self.converts))

    def first(self, *values: object) -> Key:
        """The values of the first fields, given by a processor."""
        return tuple(one_key(convert(value)) for value, convert in zip(values, self.converts.values(), strict=False))

    def kept(self, row: Row) -> Key:
        """A key as it is in state."""
        return tuple(one_key(row[name]) for name in self.converts)

    def row(self, key: Key) -> Row:
        """A key as it is to be in state."""
        return dict(zip(self.converts, key, strict=True))

    def shown(self, key: Key) -> Any:
        """A key as a processor gets it."""
        return key[0] if len(key) == 1 else self.row(key)


def order(key: Key) -> tuple[tuple[int, Any], ...]:
    """By what keys are sorted: null comes first, NaN last.

    >>> sorted([(2.0,), (math.nan,), (None,), (1.0,)], key=order)
    [(None,), (1.0,), (2.0,), (nan,)]
    """
    return tuple(NULL if value is None else NAN if _is_nan(value) else (1, value) for value in key)


def key_fields(schema: str, step: str) -> None:
    """SchemaError for a field that cannot be part of an inner key."""
    for name, kind in declared(schema, step=step).types.items():
        if kind is not None and kind.name in UNORDERED:
            raise SchemaError(
                f"a map store of step {step!r} has the key {name!r} of type {kind.name}, which has no order",
                remedy=f"make a text of it: MapStore('{name} string', ...), with json.dumps({name})",
                step=step,
                field=name,
            )


def moment(at: datetime) -> datetime:
    """A time of a store as state gives it back, in UTC, which one without a zone is taken to be; TypeError for others.

    >>> moment(datetime(2026, 1, 5, 10)).isoformat()
    '2026-01-05T10:00:00+00:00'
    """
    if not isinstance(at, datetime):
        raise TypeError(f"a time of a store must be a datetime, such as context.time, not {at!r}")
    # Other libraries have moments of their own, with more digits.
    made = at if type(at) is datetime else datetime.combine(at.date(), at.timetz())
    # In one zone: times of an hour that comes twice a year equal none of another zone.
    return made.astimezone(UTC) if made.tzinfo else made.replace(tzinfo=UTC)


def one_key(value: Any) -> Any:
    """The one value of those that are the same key.

    >>> one_key(float("nan")) is one_key(-float("nan")), one_key(-0.0)
    (True, 0.0)
    """
    if not isinstance(value, float):
        return value
    return math.nan if math.isnan(value) else value + 0.0


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
