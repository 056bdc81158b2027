"""Questions to a store whose values are text, as the command line and HTTP have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kinds

from rs_assets.connectors.store.reader import Answer, Store
from rs_assets.connectors.store.rows import Layout
from rs_assets.errors import ConfigurationError

# Questions about all keys.
KEYLESS = frozenset({"range", "all"})
# The text of null.
NULL = "\\N"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    r"""A question of the kind `what`: one of KINDS. `keys` are texts by the name of their key; see `Store` for others.

    Text is read by the type of its key; `\\N` is null.
    """

    what: str
    keys: Mapping[str, str] = field(default_factory=dict)
    begin: str | None = None
    end: str | None = None
    reverse: bool = False
    limit: int | None = None
    at_least: int | None = None
    timeout: float = 5.0

    def answer(self, store: Store) -> Answer:
        """The answer; ConfigurationError for a text that does not fit its key."""
        if self.what not in KINDS:
            raise ConfigurationError(
                f"there is no question {self.what!r} to a store", remedy=f"use one of: {', '.join(KINDS)}"
            )
        waits: dict[str, Any] = {"at_least": self.at_least, "timeout": self.timeout}
        if self.keys and self.what in KEYLESS:
            raise ConfigurationError(
                f"{self.what!r} is not asked with {next(iter(self.keys))!r}", remedy="ask with 'key' or 'prefix'"
            )
        if self.at_least is not None:
            # The layout may come with the first batch.
            store.all(limit=1, **waits)
        return KINDS[self.what](self, store, store.layout, waits)

    def values(self, layout: Layout) -> dict[str, Any]:
        """The keys as values."""
        unknown = next((name for name in self.keys if name not in layout.keys), None)
        if unknown is not None:
            raise ConfigurationError(
                f"the store has no key {unknown!r}", remedy=f"its keys are: {', '.join(layout.keys)}"
            )
        fields = layout.key_fields
        return {name: value_of(fields.field(name), text) for name, text in self.keys.items()}

    def bound(self, text: str | None, layout: Layout, place: int) -> Any:
        """A bound as a value of the key at `place`."""
        if text is None:
            return None
        return value_of(layout.key_fields.field(min(place, len(layout.keys) - 1)), text)


def value_of(key: pa.Field, text: str) -> Any:
    """The value of a key's text.

    >>> value_of(pa.field("id", pa.int64()), "-7"), value_of(pa.field("id", pa.int64()), NULL)
    (-7, None)
    """
    if text == NULL:
        return None
    parse = next((parse for fits, parse in PARSERS if fits(key.type)), str)
    try:
        return parse(text)
    except (ValueError, InvalidOperation, KeyError) as error:
        raise ConfigurationError(
            f"{text!r} does not fit the key {key.name!r}", remedy=f"it has the type {key.type}"
        ) from error


# How text becomes a value, by the type of the key; others stay text.
PARSERS: Final[tuple[tuple[Callable[[pa.DataType], Any], Callable[[str], Any]], ...]] = (
    (kinds.is_boolean, {"true": True, "false": False}.__getitem__),
    (kinds.is_integer, int),
    (kinds.is_floating, float),
    (kinds.is_decimal, Decimal),
    (kinds.is_date, date.fromisoformat),
    (lambda kind: kinds.is_binary(kind) or kinds.is_large_binary(kind), bytes.fromhex),
)


def _one(question: Question, store: Store, layout: Layout, waits: Mapping[str, Any]) -> Answer:
    values = question.values(layout)
    missing = [name for name in layout.keys if name not in values]
    if missing:
        raise ConfigurationError(
            f"the question names no {missing[0]!r}", remedy=f"give all keys: {', '.join(layout.keys)}"
        )
    return store.get(*(values[name] for name in layout.keys), **waits)


def _range(question: Question, store: Store, layout: Layout, waits: Mapping[str, Any]) -> Answer:
    begin, end = (question.bound(text, layout, 0) for text in (question.begin, question.end))
    # A bound that is null, as a sequence: None alone means an open end.
    low = (None,) if question.begin == NULL else begin
    high = (None,) if question.end == NULL else end
    return store.range(low, high, reverse=question.reverse, limit=question.limit, **waits)


def _first(question: Question, layout: Layout) -> list[Any]:
    values = question.values(layout)
    wanted = layout.keys[: len(values)]
    if set(wanted) != set(values):
        raise ConfigurationError(
            f"the keys {', '.join(values)} are not the first ones", remedy=f"begin with {layout.keys[0]!r}"
        )
    return [values[name] for name in wanted]


def _prefix(question: Question, store: Store, layout: Layout, waits: Mapping[str, Any]) -> Answer:
    first = _first(question, layout)
    return store.prefix(*first, begins=question.begin, limit=question.limit, **waits)


def _windows(question: Question, store: Store, layout: Layout, waits: Mapping[str, Any]) -> Answer:
    first = _first(question, layout)
    return store.windows(*first, start=question.begin, end=question.end, limit=question.limit, **waits)


def _all(question: Question, store: Store, _layout: Layout, waits: Mapping[str, Any]) -> Answer:
    return store.all(limit=question.limit, **waits)


KINDS: Final[Mapping[str, Callable[[Question, Store, Layout, Mapping[str, Any]], Answer]]] = {
    "key": _one,
    "range": _range,
    "prefix": _prefix,
    "windows": _windows,
    "all": _all,
}
