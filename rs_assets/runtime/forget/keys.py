"""The keys that are forgotten, and the rows and texts that have them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from decimal import Decimal
from functools import cached_property, partial
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa

from rs_assets.catalog.forgotten import as_number, digest_of
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.forget.nested import holders, within

EXAMPLE = "user_id=17"
# Least and greatest values of a text have at most so many characters in a log of Delta.
CUT = 32
Json = Any
# Values with one text; numbers of NumPy are asked for Python's.
SCALARS = (str, int, float, Decimal, date, time, UUID)


@dataclass(frozen=True)
class Keys:
    """The values of each field, as text, and the columns that hold a field under another name: (place, column)."""

    values: Mapping[str, tuple[str, ...]]
    columns: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Mapping[str, object], columns: Mapping[str, str]) -> Keys:
        """Those of `keys`, a value or several of a field, and of `columns`, which maps "place:column" to its field.

        ConfigurationError if there is no key, one is empty or has no text, or a column is not written so.
        """
        values = {
            name: tuple(dict.fromkeys(_text(name, each) for each in _each(given))) for name, given in keys.items()
        }
        if not values or not all(values.values()):
            raise ConfigurationError("there is no key to forget", remedy=f"name a field and its value: {EXAMPLE}")
        empty = next((name for name, texts in values.items() if not name or "" in texts), None)
        if empty is not None:
            raise ConfigurationError(
                f"a value of {empty!r} is empty, or the name of a field is", remedy=f"name both: {EXAMPLE}"
            )
        found = {}
        for at, of in columns.items():
            place, colon, column = at.partition(":")
            if not (place and colon and column) or of not in values:
                raise ConfigurationError(
                    f"the column {at!r} of {of!r} is not that of a field that is forgotten",
                    remedy=f"write PLACE:COLUMN=FIELD, with one of the fields {', '.join(values)}",
                )
            found[place, column] = of
        return cls(values, found)

    def at(self, *places: str) -> dict[str, tuple[str, ...]]:
        """The values by column in a place, which may have several names; columns that it lacks are among them."""
        renamed = {column: of for (place, column), of in self.columns.items() if place in places}
        plain = {name: texts for name, texts in self.values.items() if name not in renamed.values()}
        return {**plain, **{column: self.values[of] for column, of in renamed.items()}}

    def everywhere(self) -> dict[str, tuple[str, ...]]:
        """The values by column, under all names that it has in some place."""
        renamed = {column: self.values[of] for (_, column), of in self.columns.items()}
        return {**self.values, **renamed}

    def digests(self, salt: str) -> dict[str, tuple[str, ...]]:
        """The digest of each value, by field."""
        return {name: tuple(digest_of(salt, name, text) for text in texts) for name, texts in self.values.items()}

    def number_digests(self, salt: str) -> dict[str, tuple[str, ...]]:
        """The same of the values that are numbers, each as its shortest text: 17 for 17.00."""
        numbers = {name: dict.fromkeys(map(as_number, texts)) for name, texts in self.values.items()}
        return {
            name: tuple(digest_of(salt, name, text) for text in texts if text is not None)
            for name, texts in numbers.items()
        }

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """One of the values as a word of its own in a text."""
        texts = sorted({text for texts in self.values.values() for text in texts}, key=len, reverse=True)
        return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, texts))})(?!\w)")

    def in_text(self, text: str) -> bool:
        """Whether a text has one of the values as a word of its own."""
        return self.pattern.search(text) is not None

    def in_record(self, record: str) -> str:
        """How a record has one of the values: by "field" if it is JSON, else by "text"; "" if it has none."""
        try:
            parsed = orjson.loads(record)
        except orjson.JSONDecodeError:
            return "text" if self.in_text(record) else ""
        return "field" if has_field(parsed, self.everywhere()) else ""


def new_salt() -> str:
    """A salt for the digests of one removal."""
    return secrets.token_hex(16)


def has_field(value: Json, wanted: Mapping[str, Sequence[str]]) -> bool:
    """Whether a value of JSON has a field with one of its wanted values, at any depth.

    >>> has_field({"at": {"user": 17.0}}, {"user": ("17",)}), has_field({"user": "171"}, {"user": ("17",)})
    (True, False)
    """
    if isinstance(value, dict):
        return any(_among(each, wanted.get(name, ())) or has_field(each, wanted) for name, each in value.items())
    return isinstance(value, list) and any(has_field(each, wanted) for each in value)


@dataclass(frozen=True)
class InColumns:
    """Rows by the values of their columns and of the fields in them, at any depth; `user.id` is a field of a struct."""

    wanted: Mapping[str, Sequence[str]]
    keys: Keys

    def columns(self, schema: pa.Schema) -> Sequence[str]:
        """The columns of a file with wanted values."""
        return holders(schema, self.wanted)

    def matches(self, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        """For each row whether it has one."""
        return within(rows, {column: partial(typed, texts, column=column) for column, texts in self.wanted.items()})

    def named(self, values: Mapping[str, Any]) -> bool:
        """Whether one of the least or greatest values is wanted, or the beginning of one."""
        return any(
            said is not None and any(_same(str(_plain(said)), text) for text in texts)
            for column, texts in self.wanted.items()
            for said in _said(values, column)
        )

    def mentioned(self, text: str) -> bool:
        """Whether a condition names a column and one of the values."""
        return any(column in text for column in self.wanted) and self.keys.in_text(text)


@dataclass(frozen=True)
class InTexts:
    """Rows whose `texts` have a key, as `has` says; `own` are the values by which a row is the pipeline's."""

    own: Mapping[str, str]
    texts: tuple[str, ...]
    keys: Keys
    has: Callable[[Sequence[str | None]], bool]

    def columns(self, schema: pa.Schema) -> Sequence[str]:
        """The texts and what says whose they are."""
        return [*self.own, *self.texts] if {*self.own, *self.texts} <= {*schema.names} else []

    def matches(self, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        """For each row whether it is of the pipeline and has a key."""
        return pa.array([self._matches(row) for row in rows.to_pylist()], pa.bool_())

    def named(self, values: Mapping[str, Any]) -> bool:
        """Whether the beginning of a text has a key."""
        return any(self.keys.in_text(str(values[name])) for name in self.texts if values.get(name) is not None)

    def mentioned(self, text: str) -> bool:
        """Whether a condition has a key."""
        return self.keys.in_text(text)

    def _matches(self, row: Mapping[str, Any]) -> bool:
        mine = all(row[name] == value for name, value in self.own.items())
        return mine and self.has([row[name] for name in self.texts])


def typed(texts: Sequence[str], kind: pa.DataType, *, column: str) -> pa.Array:
    """The values as those of a column; ConfigurationError if one cannot be."""
    try:
        given = pa.array(texts, pa.string())
        return given.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConfigurationError(
            f"a value cannot be one of the column {column!r}, which is {kind}",
            remedy=f"write the value as the column shows it, or name another column: PLACE:COLUMN={column}",
        ) from error


def _said(values: Mapping[str, Any], column: str) -> Iterator[Any]:
    """What least or greatest values, those of structs within each other, have of a column or a field."""
    for name, value in values.items():
        if name == column:
            yield value
        elif isinstance(value, Mapping):
            yield from _said(value, column)
            first, _, rest = column.partition(".")
            if rest and name == first:
                yield from _said(value, rest)


def _same(said: str, text: str) -> bool:
    """Whether a value in a log is that of a text: times have a T there, and long texts are cut."""
    plain, cut, number = said.replace("T", " ").removesuffix("Z"), CUT - 1, as_number(said)
    if text in (said, plain) or (number is not None and number == as_number(text)):
        return True
    return plain.startswith(f"{text}.") or (len(said) >= cut and text[:cut] == said[:cut])


def _among(value: Json, texts: Sequence[str]) -> bool:
    """Whether a value of JSON is one of the texts: as it is, or as the same number."""
    if not texts:
        return False
    text = _plain(value)
    if text in texts or text is None or isinstance(value, str | bool):
        return text in texts
    number = as_number(text)
    return number is not None and any(as_number(each) == number for each in texts)


def _plain(value: Json) -> str | None:
    """A value of JSON as text; None for what has fields of its own."""
    if isinstance(value, str):
        return value
    return None if value is None or isinstance(value, dict | list) else orjson.dumps(value).decode()


def _each(given: object) -> Iterable[object]:
    """One value, or those of a list, a set, a column of pandas and the like."""
    if isinstance(given, (*SCALARS, bytes, Mapping)) or given is None or not isinstance(given, Iterable):
        return (given,)
    return list(given)


def _text(name: str, value: object) -> str:
    """A value as text; ConfigurationError for what has none, such as None."""
    if not isinstance(value, SCALARS) and hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, SCALARS) or value != value:  # noqa: PLR0124  NaN
        raise ConfigurationError(
            f"a value of {name!r} is {value!r}, by which no row can be found",
            remedy=f"give a text, a number, a date or a list of them: {EXAMPLE}",
        )
    return str(value).lower() if isinstance(value, bool) else str(value)
