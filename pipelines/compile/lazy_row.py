"""A record as a dict whose values are fetched from Arrow only when they are asked for."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any

import pyarrow as pa


class Columns:
    """The columns of one record batch as Python lists, each converted at its first use."""

    __slots__ = ("_batch", "_lists", "names")

    def __init__(self, batch: pa.RecordBatch, names: list[str]) -> None:
        self._batch = batch
        self._lists: dict[str, list[Any]] = {}
        self.names = names

    def __getitem__(self, name: str) -> list[Any]:
        """All values of a column; KeyError if there is none of that name."""
        values = self._lists.get(name)
        if values is None:
            values = self._lists[name] = self._batch.column(name).to_pylist()
        return values


class LazyRow(dict[str, Any]):
    """Row `index` of `columns`; behaves as a dict of all of them.

    A filter that looks at one field of twenty pays for one: the other columns never become Python objects.

    >>> batch = pa.RecordBatch.from_pylist([{"page": "/", "ms": 1}, {"page": "/a", "ms": 2}])
    >>> row = LazyRow(Columns(batch, ["page", "ms"]), 1)
    >>> row["ms"], "page" in row, dict(row)
    (2, True, {'page': '/a', 'ms': 2})
    """

    __slots__ = ("_columns", "_index")

    def __init__(self, columns: Columns, index: int) -> None:
        self._columns: Columns | None = columns
        self._index = index

    def __missing__(self, key: str) -> Any:
        """Fetch a value that was not asked for before."""
        if self._columns is None or key not in self._columns.names:
            raise KeyError(key)
        value = self._columns[key][self._index]
        dict.__setitem__(self, key, value)
        return value

    def whole(self) -> dict[str, Any]:
        """This row with every value fetched."""
        columns, self._columns = self._columns, None
        if columns is not None:
            known = dict(dict.items(self))
            dict.clear(self)
            dict.update(self, {name: columns[name][self._index] for name in columns.names})
            dict.update(self, known)
        return self

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        """Whether there is such a field."""
        return dict.__contains__(self, key) or (self._columns is not None and key in self._columns.names)

    def __iter__(self) -> Iterator[str]:
        """The field names."""
        return dict.__iter__(self.whole())

    def __len__(self) -> int:
        """The number of fields."""
        return dict.__len__(self.whole())

    def __eq__(self, other: object) -> bool:
        """Equal to a dict of the same items."""
        return dict.__eq__(self.whole(), other)

    def __ne__(self, other: object) -> bool:
        """The opposite of `==`."""
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        """As a dict."""
        return dict.__repr__(self.whole())

    def __or__(self, other: Any) -> Any:
        """A plain dict of both."""
        return dict(self.whole()) | other

    def __ror__(self, other: Any) -> Any:
        """A plain dict of both."""
        return other | dict(self.whole())

    def __delitem__(self, key: str) -> None:
        """Remove a field."""
        dict.__delitem__(self.whole(), key)

    def copy(self) -> dict[str, Any]:
        """A plain dict."""
        return dict(self)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """The field names."""
        return dict.keys(self.whole())

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """The values."""
        return dict.values(self.whole())

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Names and values."""
        return dict.items(self.whole())

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a field and return its value."""
        return dict.pop(self.whole(), key, *default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of `key`, set to `default` if there is none."""
        return dict.setdefault(self.whole(), key, default)
