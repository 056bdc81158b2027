"""Converts schemas in Spark's notation to Arrow, without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from rs_assets.records.types import DECIMAL, MOST_DIGITS

TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*')|(\w+)|([<>(),:]))")
SIMPLE: Mapping[str, pa.DataType] = MappingProxyType(
    {
        **dict.fromkeys(("bigint", "long"), pa.int64()),
        **dict.fromkeys(("int", "integer"), pa.int32()),
        **dict.fromkeys(("smallint", "short"), pa.int16()),
        **dict.fromkeys(("tinyint", "byte"), pa.int8()),
        **dict.fromkeys(("float", "real"), pa.float32()),
        **dict.fromkeys(("timestamp", "timestamp_ltz"), pa.timestamp("us", tz="UTC")),
        "double": pa.float64(),
        "string": pa.string(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp_ntz": pa.timestamp("us"),
    }
)


def arrow_schema(ddl: str) -> pa.Schema | None:
    """The schema that `ddl` declares; None if it is invalid or only Spark can read it.

    >>> arrow_schema("page string not null, ms array<bigint>").names
    ['page', 'ms']
    >>> arrow_schema("page strin") is None, arrow_schema("price decimal(38,99999999999999999999)") is None
    (True, True)
    """
    try:
        reader = _Reader(ddl)
        fields = reader.fields(until="")
    except (_UnknownError, KeyError, ValueError, pa.ArrowInvalid):
        return None
    return pa.schema(fields)


class _UnknownError(Exception):
    """A part of the schema that this reader does not know."""


class _Reader:
    """Parses a text token by token; an empty token is the end."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            found = TOKEN.match(text, at)
            if found is None:
                raise _UnknownError
            self._tokens.append(found.group().strip())
            at = found.end()

    def fields(self, *, until: str) -> list[pa.Field]:
        """Fields separated by commas."""
        made = [self._field()]
        while self._next() == ",":
            self._take(",")
            made.append(self._field())
        self._take(until)
        return made

    def _field(self) -> pa.Field:
        name = self._take()
        if not re.match(r"[\w`]", name):
            raise _UnknownError
        if self._next() == ":":
            self._take(":")
        kind = self._kind()
        nullable = True
        if self._next().lower() == "not":
            self._take("not")
            self._take("null")
            nullable = False
        if self._next().lower() == "comment":
            self._take("comment")
            self._take()
        plain = name[1:-1].replace("``", "`") if name.startswith("`") else name
        return pa.field(plain, kind, nullable=nullable)

    def _kind(self) -> pa.DataType:
        name = self._take().lower()
        if name in DECIMAL:
            return self._decimal()
        if name not in ("array", "map", "struct"):
            return SIMPLE[name]
        self._take("<")
        if name == "struct":
            return pa.struct(self.fields(until=">"))
        first = self._kind()
        if name == "array":
            made: pa.DataType = pa.list_(first)
        else:
            self._take(",")
            made = pa.map_(first, self._kind())
        self._take(">")
        return made

    def _decimal(self) -> pa.DataType:
        if self._next() != "(":
            return pa.decimal128(10, 0)
        self._take("(")
        precision, scale = int(self._take()), 0
        if self._next() == ",":
            self._take(",")
            scale = int(self._take())
        self._take(")")
        if not 0 <= scale <= precision <= MOST_DIGITS:
            raise _UnknownError
        return pa.decimal128(precision, scale)

    def _next(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _take(self, expected: str | None = None) -> str:
        token = self._tokens.pop(0) if self._tokens else ""
        if expected is not None and token.lower() != expected:
            raise _UnknownError
        return token
