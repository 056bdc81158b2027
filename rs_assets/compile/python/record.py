"""Records of an Arrow batch as Python objects, converted only as far as a step reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import deepcopy
from functools import cache
from typing import Any

import pyarrow as pa

from rs_assets.records.values import values_of

Row = dict[str, Any]


class Columns(dict[str, list[Any]]):
    """The fields of some records as lists of Python values, each converted by `convert` at its first use.

    Values of the fields `nested` are mutable, so that each step gets its own copies.
    """

    def __init__(
        self, fields: Sequence[str], convert: Callable[[str], list[Any]], count: int, nested: AbstractSet[str]
    ) -> None:
        super().__init__()
        self.fields = tuple(fields)
        self.convert = convert
        self.count = count
        self.nested = nested

    @classmethod
    def of_batch(cls, batch: pa.RecordBatch, fields: Sequence[str], places: Sequence[int] | None = None) -> Columns:
        """The columns `fields` of `batch`; only of the rows at `places`, if they are given.

        >>> batch = pa.RecordBatch.from_pydict({"page": ["/", "/a"], "ms": [1, 2]})
        >>> columns = Columns.of_batch(batch, ["page", "ms"], [1])
        >>> columns["ms"], list(columns.rows())
        ([2], [{'page': '/a', 'ms': 2}])
        """
        nested = {name for name in fields if pa.types.is_nested(batch.column(name).type)}
        if places is None:
            return cls(fields, lambda name: values_of(batch.column(name)), batch.num_rows, nested)
        taken = pa.array(places, pa.int64())
        return cls(fields, lambda name: values_of(batch.column(name).take(taken)), len(places), nested)

    @classmethod
    def of_rows(cls, rows: Sequence[Row], schema: pa.Schema) -> Columns:
        """The fields of `rows`, with copies of mutable values."""
        nested = {field.name for field in schema if pa.types.is_nested(field.type)}

        def convert(name: str) -> list[Any]:
            return [deepcopy(row[name]) if name in nested else row[name] for row in rows]

        return cls(schema.names, convert, len(rows), nested)

    def __missing__(self, name: str) -> list[Any]:
        """Convert a field; KeyError for an unknown name."""
        if name not in self.fields:
            raise KeyError(name)
        self[name] = values = self.convert(name)
        return values

    def renewed(self) -> Columns:
        """The same columns, for another step."""
        made = Columns(self.fields, self.convert, self.count, self.nested)
        made.update({name: values for name, values in self.items() if name not in self.nested})
        return made

    def rows(self, names: Sequence[str] | None = None) -> Iterator[Row]:
        """Each record as a separate dict, with the fields `names`, or all."""
        wanted = self.fields if names is None else names
        if not wanted:
            return ({} for _ in range(self.count))
        return map(_dict_of(tuple(wanted)), *(self[name] for name in wanted))


@cache
def _dict_of(names: tuple[str, ...]) -> Callable[..., Row]:
    """A function that makes a dict from a value for each name, several times as fast as a generic one.

    >>> _dict_of(("page", "it's"))("/", 5)
    {'page': '/', "it's": 5}
    """
    values = [f"_{number}" for number in range(len(names))]
    members = ", ".join(f"{name!r}: {value}" for name, value in zip(names, values, strict=True))
    made: Callable[..., Row] = eval(f"lambda {', '.join(values)}: {{{members}}}")  # noqa: S307  names are literals in it
    return made


class Record(Mapping[str, Any]):
    """Row `index` of `columns`, read-only: the argument of a filter.

    A filter that reads one field of twenty pays for one: the others never become Python objects. It is not a dict,
    because C code would read the dict's own storage and find it empty: `json.dumps` refuses it, and takes
    `dict(record)`.

    >>> batch = pa.RecordBatch.from_pylist([{"page": "/", "ms": 1}, {"page": "/a", "ms": 2}])
    >>> record = Record(Columns.of_batch(batch, ["page", "ms"]), 1)
    >>> record["ms"], "page" in record, record
    (2, True, {'page': '/a', 'ms': 2})
    """

    __slots__ = ("_columns", "_index")

    def __init__(self, columns: Columns, index: int) -> None:
        self._columns = columns
        self._index = index

    def __getitem__(self, name: str) -> Any:
        """The value of a field; KeyError for an unknown name."""
        return self._columns[name][self._index]

    def __contains__(self, name: object) -> bool:
        """Whether there is such a field."""
        return name in self._columns.fields

    def __iter__(self) -> Iterator[str]:
        """The names of the fields."""
        return iter(self._columns.fields)

    def __len__(self) -> int:
        """The number of fields."""
        return len(self._columns.fields)

    def __repr__(self) -> str:
        """As a dict."""
        return repr(dict(self))

    def __or__(self, other: Mapping[str, Any]) -> Row:
        """A dict of both."""
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Any]) -> Row:
        """A dict of both."""
        return {**other, **self}

    def __reduce__(self) -> tuple[type, tuple[Row]]:
        """Copied and pickled as a dict."""
        return dict, (dict(self),)

    def copy(self) -> Row:
        """A separate dict."""
        return dict(self)
