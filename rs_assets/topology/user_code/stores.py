"""Stores of a processor: what it declares, and what it reads and writes while it handles a key.

Each store is a column of the state of a key, whose type its declaration gives. A store that is open holds the values of
the current key as Python objects; what it keeps goes back into that column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final

from rs_assets.errors import SchemaError
from rs_assets.records.fields import declared
from rs_assets.records.schema import Schema, schema_text
from rs_assets.topology.user_code.inner_keys import InnerKeys, Key, key_fields, order

Row = dict[str, Any]
# The classes of values that cannot be changed.
PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes, Decimal, datetime, date})
# Makes a row of the fields of a store out of what a processor gives it, or raises.
Checked = Callable[[object, AbstractSet[str]], Row]


class OpenStore(ABC):
    """The content of a store for the current key."""

    @abstractmethod
    def kept(self) -> Any:
        """The content as the value of the store's column; None if there is nothing."""


class Store(ABC):
    """The declaration of a store: a class attribute of a processor."""

    @abstractmethod
    def column(self, step: str) -> str:
        """The type of its column, in DDL; SchemaError for a schema that is none."""

    @abstractmethod
    def opened(self, kept: Any, check: Checked) -> OpenStore:
        """The store with the content `kept`; `check` turns what is put into rows."""


@dataclass(frozen=True, slots=True)
class ValueStore(Store):
    """One record for each key: `get()`, `put(record)`, `delete()`.

    - `schema` (schema): the fields of the record.

    >>> ValueStore("n bigint").column("count")
    'struct<n bigint>'
    """

    schema: Schema

    def column(self, step: str) -> str:
        """A record."""
        return f"struct<{text_of(self.schema, step)}>"

    def opened(self, kept: Row | None, check: Checked) -> OpenValue:
        """The record of the key."""
        return OpenValue(kept, checked(self.schema, check))


@dataclass(slots=True)
class OpenValue(OpenStore):
    """The record of the current key."""

    record: Row | None
    check: Callable[[object], Row]

    def get(self) -> Row | None:
        """The record; None if there is none."""
        return None if self.record is None else own(self.record)

    def put(self, record: object) -> None:
        """Replace the record by one with all fields of the schema."""
        self.record = self.check(record)

    def delete(self) -> None:
        """Remove the record."""
        self.record = None

    def kept(self) -> Row | None:
        """The record."""
        return self.record


@dataclass(frozen=True, slots=True)
class MapStore(Store):
    """Records by a key of their own, for each key: `get(key)`, `put(key, record)`, `delete(key)`, `items()`, `range()`.

    - `key` (schema): the fields of the inner key, of types that have an order. One field is given as its value, several
      as a dict.
    - `value` (schema): the fields of a record.

    >>> MapStore("sku string", "n int").column("cart")
    'array<struct<key: struct<sku string>, value: struct<n int>>>'
    """

    key: Schema
    value: Schema

    def column(self, step: str) -> str:
        """A list of pairs."""
        key = text_of(self.key, step)
        key_fields(key, step)
        return f"array<struct<key: struct<{key}>, value: struct<{text_of(self.value, step)}>>>"

    def opened(self, kept: list[Row] | None, check: Checked) -> OpenMap:
        """The records of the key."""
        keys = InnerKeys(_converters(text_of(self.key, "processor")), checked(self.key, check))
        found = {keys.kept(pair["key"]): pair["value"] for pair in kept or ()}
        return OpenMap(keys, found, checked(self.value, check))


@dataclass(slots=True)
class OpenMap(OpenStore):
    """The records of the current key, by inner key. Keys are in order by their values: null first, NaN last."""

    keys: InnerKeys
    found: dict[Key, Row]
    check: Callable[[object], Row]

    def get(self, key: object) -> Row | None:
        """The record with an inner key; None if there is none."""
        record = self.found.get(self.keys.given(key))
        return None if record is None else own(record)

    def put(self, key: object, record: object) -> None:
        """Add or replace the record with an inner key."""
        self.found[self.keys.given(key)] = self.check(record)

    def delete(self, key: object) -> None:
        """Remove the record with an inner key, if there is one."""
        self.found.pop(self.keys.given(key), None)

    def clear(self) -> None:
        """Remove all records."""
        self.found.clear()

    def items(self) -> list[tuple[Any, Row]]:
        """All inner keys with their records, in the order in which the keys were first put."""
        return self._shown(self.found)

    def range(self, first: object = None, last: object = None, *, reverse: bool = False) -> list[tuple[Any, Row]]:
        """Inner keys from `first` to `last`, both included (None: no limit), with their records, in their order."""
        low, high = (None if each is None else order(self.keys.given(each)) for each in (first, last))
        within = [
            key for key in self.found if (low is None or low <= order(key)) and (high is None or order(key) <= high)
        ]
        return self._shown(sorted(within, key=order, reverse=reverse))

    def prefix(self, *first: object, begins: str = "") -> list[tuple[Any, Row]]:
        """Inner keys with the first fields `first`, of which the next one, a text, begins with `begins`; in order."""
        wanted = self.keys.first(*first)
        at = len(wanted)
        found = (key for key in self.found if key[:at] == wanted and _begins(key[at:], begins))
        return self._shown(sorted(found, key=order))

    def __len__(self) -> int:
        """The number of records."""
        return len(self.found)

    def __contains__(self, key: object) -> bool:
        """Whether there is a record with an inner key."""
        return self.keys.given(key) in self.found

    def kept(self) -> list[Row] | None:
        """All pairs."""
        return [{"key": self.keys.row(key), "value": record} for key, record in self.found.items()] or None

    def _shown(self, keys: Iterable[Key]) -> list[tuple[Any, Row]]:
        return [(self.keys.shown(key), own(self.found[key])) for key in keys]


@dataclass(frozen=True, slots=True)
class ListStore(Store):
    """A list of records for each key: `get()`, `put(records)`, `append(record)`, `clear()`.

    - `schema` (schema): the fields of a record.

    >>> ListStore("page string").column("visits")
    'array<struct<page string>>'
    """

    schema: Schema

    def column(self, step: str) -> str:
        """A list of records."""
        return f"array<struct<{text_of(self.schema, step)}>>"

    def opened(self, kept: list[Row] | None, check: Checked) -> OpenList:
        """The list of the key."""
        return OpenList(kept or [], checked(self.schema, check))


@dataclass(slots=True)
class OpenList(OpenStore):
    """The list of the current key."""

    records: list[Row]
    check: Callable[[object], Row]

    def get(self) -> list[Row]:
        """All records, in order."""
        return [own(record) for record in self.records]

    def put(self, records: list[Any]) -> None:
        """Replace all records."""
        self.records = list(map(self.check, records))

    def append(self, record: object) -> None:
        """Add a record at the end."""
        self.records.append(self.check(record))

    def clear(self) -> None:
        """Remove all records."""
        self.records = []

    def __len__(self) -> int:
        """The number of records."""
        return len(self.records)

    def kept(self) -> list[Row] | None:
        """All records."""
        return self.records or None


@dataclass(slots=True)
class OpenStores:
    """All stores of a processor, opened for one key when they are first used."""

    declared: Mapping[str, Store]
    state: Row
    check: Checked
    open: dict[str, OpenStore] = field(default_factory=dict)

    def __getitem__(self, name: str) -> OpenStore:
        """The open store `name`."""
        if name not in self.open:
            self.open[name] = self.declared[name].opened(self.state.get(name), self.check)
        return self.open[name]

    def kept(self) -> Row:
        """The columns of all stores."""
        return {name: self.open[name].kept() if name in self.open else self.state.get(name) for name in self.declared}


def stores_of(processor: object) -> Mapping[str, Store]:
    """The stores that a class, or that of an object, declares, those of its base classes first, in order.

    >>> class Count:
    ...     n = ValueStore("n bigint")
    >>> list(stores_of(Count))
    ['n']
    """
    found: dict[str, Store] = {}
    kind = processor if isinstance(processor, type) else type(processor)
    for each in reversed(kind.__mro__):
        found |= {name: store for name, store in vars(each).items() if isinstance(store, Store)}
    return found


def own(record: Row) -> Row:
    """A copy of a record, which a function may change.

    >>> kept = {"n": 1, "tags": ["a"]}
    >>> own(kept)["tags"].append("b")
    >>> kept
    {'n': 1, 'tags': ['a']}
    """
    return {name: value if type(value) in PLAIN else copied(value) for name, value in record.items()}


def copied(value: Any) -> Any:
    """A copy of a value of any class, several times as fast as `deepcopy` for lists and dicts; itself without one.

    >>> kept = ([1], {"a": {2}})
    >>> copied(kept) == kept, copied(kept)[0] is kept[0]
    (True, False)
    """
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is list:
        return [each if type(each) in PLAIN else copied(each) for each in value]
    if kind is dict:
        return {key: each if type(each) in PLAIN else copied(each) for key, each in value.items()}
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001  of any class; what takes the value may refuse it
        return value


def text_of(schema: Schema, step: str) -> str:
    """A schema as DDL; SchemaError if there is none."""
    text = schema_text(schema, step=step)
    if text is None:
        raise SchemaError(
            f"a store of step {step!r} has no schema",
            remedy="name the fields of its records, such as ValueStore('n bigint'); those of a key come first:"
            " MapStore('sku string', 'n bigint')",
            step=step,
        )
    return text


def checked(schema: Schema, check: Checked) -> Callable[[object], Row]:
    """Makes rows of what a processor gives: with all fields of a schema, and values of their own, of its types."""
    text = text_of(schema, "processor")
    converts = _converters(text)
    names = frozenset(converts)

    def typed(value: object) -> Row:
        row = check(value, names)
        return {name: convert(row[name]) for name, convert in converts.items()}

    return typed


def _begins(rest: Key, text: str) -> bool:
    """Whether the first of the remaining values of a key is a text that begins with `text`."""
    return not text or (bool(rest) and isinstance(rest[0], str) and rest[0].startswith(text))


@cache
def _converters(text: str) -> Mapping[str, Callable[[Any], Any]]:
    """What gives the value of each field its type; a copy only, if Spark alone can read the schema."""
    from rs_assets.records.values import converters

    known = converters(text)
    return known if known is not None else dict.fromkeys(declared(text, step="processor").types, deepcopy)
