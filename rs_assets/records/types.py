"""Parses Spark types and schemas from text, without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\w+)|([<>(),:]))")
# The names in Spark 4.2 of types without parts, and Spark's canonical name of each.
SIMPLE: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in ("boolean", "double", "date", "timestamp_ntz", "binary", "variant", "string")},
        **dict.fromkeys(("tinyint", "byte"), "tinyint"),
        **dict.fromkeys(("smallint", "short"), "smallint"),
        **dict.fromkeys(("int", "integer"), "int"),
        **dict.fromkeys(("bigint", "long"), "bigint"),
        **dict.fromkeys(("float", "real"), "float"),
        **dict.fromkeys(("timestamp", "timestamp_ltz"), "timestamp"),
        "void": "void",
    }
)
DECIMAL = ("decimal", "dec", "numeric")
# Of a decimal.
MOST_DIGITS = 38
NESTED = ("array", "map", "struct")
# Types of Spark that are not modelled here: their fields have an unknown type.
OTHER = ("char", "character", "varchar", "interval", "time", "geometry", "geography", "null")
# Type names of other systems.
HABITS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("datetime", "timestamptz", "datetime64"), "timestamp"),
        **dict.fromkeys(("text", "str", "varchar2", "nvarchar", "char2", "object", "uuid", "json"), "string"),
        **dict.fromkeys(("bool",), "boolean"),
        **dict.fromkeys(("int64", "int8", "uint64", "bignum"), "bigint"),
        **dict.fromkeys(("int32", "int4", "number"), "int"),
        **dict.fromkeys(("int16", "int2"), "smallint"),
        **dict.fromkeys(("float64", "float8"), "double"),
        **dict.fromkeys(("float32", "float4"), "float"),
        **dict.fromkeys(("bytes", "bytea", "blob", "varbinary"), "binary"),
        **dict.fromkeys(("list",), "array<...>"),
        **dict.fromkeys(("dict",), "map<...>"),
    }
)


@dataclass(frozen=True, slots=True)
class Type:
    """A type with Spark's name; `parts` are the fields of a struct, the element of an array, key and value of a map.

    A part that is None has a type that is not known here.
    """

    name: str
    parts: tuple[tuple[str, Type | None], ...] = ()

    @property
    def text(self) -> str:
        """Spark's text of the type; '?' for an unknown part.

        >>> fields_in("a array<long>, b struct<c: decimal(8)>")["b"].text
        'struct<c:decimal(8,0)>'
        """
        shown = [(name, part.text if part else "?") for name, part in self.parts]
        if self.name == "struct":
            return f"struct<{','.join(f'{name}:{text}' for name, text in shown)}>"
        return f"{self.name}<{','.join(text for _, text in shown)}>" if self.parts else self.name

    @property
    def nested(self) -> bool:
        """Whether it has parts."""
        return self.name in NESTED


class DdlError(ValueError):
    """A schema that Spark certainly refuses; `remedy` says what to write."""

    def __init__(self, what: str, remedy: str = "write it as 'page string, ms bigint'") -> None:
        super().__init__(what)
        self.remedy = remedy


class _UnknownError(Exception):
    """A text that this reader does not know; Spark may know it."""


@lru_cache(maxsize=1024)
def fields_in(ddl: str) -> Mapping[str, Type | None] | None:
    """The fields that `ddl` declares, None if only Spark can say; DdlError if Spark certainly refuses it.

    >>> {name: kind.text for name, kind in fields_in("page string NOT NULL, ms: long").items()}
    {'page': 'string', 'ms': 'bigint'}
    >>> fields_in("a int, b datetime")
    Traceback (most recent call last):
    rs_assets.records.types.DdlError: field 'b' has the type 'datetime', which Spark does not know
    """
    try:
        reader = _Reader(ddl)
        _check_brackets(reader.tokens)
        made = reader.whole()
    except _UnknownError:
        return None
    _check_twice([name for name, _ in made])
    return MappingProxyType(dict(made))


def _check_twice(names: Sequence[str]) -> None:
    """DdlError for two names that Spark does not distinguish: it takes the schema, and no step with such a name."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.get(name.lower())
        seen[name.lower()] = name
        if first is not None:
            what = f"{name!r} is there twice" if name == first else f"{first!r} and {name!r} are one name for Spark"
            raise DdlError(what, "leave one out, or give it another name")


@lru_cache(maxsize=1024)
def type_in(text: str) -> Type | None:
    """The type named by `text`, None if it is not known here.

    >>> type_in("LONG").name
    'bigint'
    """
    try:
        reader = _Reader(text)
        found = reader.kind("")
    except (_UnknownError, DdlError):
        return None
    return found if not reader.tokens else None


def holding(one: str, other: str) -> str | None:
    """The type that holds all values of two types, as Spark compares them; None if there is none, or it is unknown.

    Of exact numbers that need more than 38 digits it is the one that rounds nothing; a value that is too large ends a
    run.

    >>> holding("decimal(10,2)", "int"), holding("date", "timestamp"), holding("bigint", "date")
    ('decimal(12,2)', 'timestamp', None)
    >>> holding("decimal(38,0)", "decimal(38,10)")
    'decimal(38,10)'
    """
    if one == other or "string" in (one, other):
        return other if one == other else "string"
    here, there = digits_of(one), digits_of(other)
    if here is not None and there is not None:
        return _exact(one, other, here, there)
    if (here or one in _FLOATS) and (there or other in _FLOATS):
        return "double"
    return max(one, other, key=_TIMES.index) if {one, other} <= {*_TIMES} else None


_FLOATS = ("float", "double")
# Each holds the values of those before it.
_TIMES = ("date", "timestamp_ntz", "timestamp")
_WHOLE_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def digits_of(kind: str) -> tuple[int, int] | None:
    """Digits before and after the decimal point of an exact number."""
    if kind in _WHOLE_DIGITS:
        return _WHOLE_DIGITS[kind], 0
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def _exact(one: str, other: str, here: tuple[int, int], there: tuple[int, int]) -> str:
    """The type of all digits of two exact numbers."""
    if {one, other} <= {*_WHOLE_DIGITS}:
        return max(one, other, key=list(_WHOLE_DIGITS).index)
    before, after = (max(each) for each in zip(here, there, strict=True))
    return f"decimal({min(before + after, MOST_DIGITS)},{after})"


def compared_by_rounding(one: str, other: str) -> bool:
    """Whether Spark rounds a value of one of two types of exact numbers before it compares them, without a word.

    It does so where both need more than 38 digits, of which it takes 20 for a bigint.

    >>> compared_by_rounding("decimal(38,10)", "decimal(38,0)"), compared_by_rounding("decimal(20,19)", "bigint")
    (True, True)
    >>> compared_by_rounding("decimal(38,18)", "bigint"), compared_by_rounding("int", "double")
    (False, False)
    """
    here, there = digits_of(one), digits_of(other)
    if here is None or there is None or one == other:
        return False
    before = max(20 if kind == "bigint" else digits[0] for kind, digits in ((one, here), (other, there)))
    return before + max(here[1], there[1]) > MOST_DIGITS


def _check_brackets(tokens: list[str]) -> None:
    """DdlError for an unmatched bracket."""
    waiting: list[str] = []
    pairs = {">": "<", ")": "("}
    for token in tokens:
        if token in pairs.values():
            waiting.append(token)
        elif token in pairs and (not waiting or waiting.pop() != pairs[token]):
            raise DdlError(f"the bracket {token!r} is never opened")
    if waiting:
        raise DdlError(f"the bracket {waiting[-1]!r} is not closed")


class _Reader:
    """Parses a text token by token; an empty token is the end."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise _UnknownError
            self.tokens.append(found.group().strip())
            at = found.end()

    def whole(self) -> list[tuple[str, Type | None]]:
        """A whole schema: a list of fields, or a struct type, or any other type as the field `value`."""
        if len(self.tokens) == 1 and (alone := type_in(self.tokens[0])) is not None:
            return [("value", alone)]
        if self._next().lower() in NESTED and self.tokens[1:2] == ["<"]:
            found = self.kind("value")
            if found is None or self.tokens:
                raise _UnknownError
            return list(found.parts) if found.name == "struct" else [("value", found)]
        return self.fields(until="")

    def fields(self, *, until: str) -> list[tuple[str, Type | None]]:
        """Fields separated by commas."""
        made = [self._field()]
        while self._next() == ",":
            self._take()
            made.append(self._field())
        if self._take() != until:
            raise _UnknownError
        return made

    def _field(self) -> tuple[str, Type | None]:
        name = self._take()
        if not name or name in ",:<>()":
            raise DdlError("a field has no name" if name else "a field is missing at the end")
        if name[0] in "'\"" or (not name.isascii() and name[0] != "`"):
            raise _UnknownError
        plain = name[1:-1].replace("``", "`") if name[0] == "`" else name
        if self._next() == ":":
            self._take()
        kind = self.kind(plain)
        self._rest()
        return plain, kind

    def _rest(self) -> None:
        """The optional NOT NULL and COMMENT after a type."""
        if self._next().lower() == "not":
            self._take()
            if self._take().lower() != "null":
                raise _UnknownError
        if self._next().lower() == "comment":
            self._take()
            if not self._take().startswith(("'", '"')):
                raise _UnknownError

    def kind(self, field: str) -> Type | None:
        """The type of `field`, None for a type that is not modelled here."""
        word = self._take()
        name = word.lower()
        if name in SIMPLE and self._next() != "(":
            return self._text_kind() if name == "string" else Type(SIMPLE[name])
        if name in DECIMAL:
            return self._decimal()
        if name in NESTED and self._next() == "<":
            return _NESTED[name](self, field)
        if name in NESTED:
            raise DdlError(f"field {field!r} is {_a(name)} without element types", _PARTS[name])
        if name in (*OTHER, *SIMPLE):
            self._skip()
            return None
        raise _no_type(field, word)

    def _text_kind(self) -> Type | None:
        if self._next().lower() != "collate":
            return Type("string")
        self._take()
        self._take()
        return None

    def _skip(self) -> None:
        """Skip all tokens that belong to a type of OTHER."""
        depth = 0
        while self.tokens and not (depth == 0 and self._next().lower() in {",", ">", "not", "comment"}):
            depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(self._take(), 0)

    def _decimal(self) -> Type:
        if self._next() != "(":
            return Type("decimal(10,0)")
        self._take()
        precision, scale = self._take(), "0"
        if self._next() == ",":
            self._take()
            scale = self._take()
        if self._take() != ")" or not (precision.isdigit() and scale.isdigit()):
            raise _UnknownError
        if not int(scale) <= int(precision) <= MOST_DIGITS:
            raise DdlError(
                f"decimal({precision},{scale}) is not a decimal of Spark", f"it has at most {MOST_DIGITS} digits"
            )
        return Type(f"decimal({precision},{scale})")

    def array(self, field: str) -> Type:
        """`<element>`."""
        self._take()
        element = self.kind(field)
        self._close()
        return Type("array", (("element", element),))

    def map(self, field: str) -> Type:
        """`<key, value>`."""
        self._take()
        key = self.kind(field)
        if self._take() != ",":
            raise DdlError(f"field {field!r} is a map without a value type", _PARTS["map"])
        value = self.kind(field)
        self._close()
        return Type("map", (("key", key), ("value", value)))

    def struct(self, field: str) -> Type:  # noqa: ARG002  the table's form
        """`<name: type, ...>`."""
        self._take()
        if self._next() == ">":
            self._take()
            return Type("struct")
        return Type("struct", tuple(self.fields(until=">")))

    def _close(self) -> None:
        if self._take() != ">":
            raise _UnknownError

    def _next(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def _take(self) -> str:
        return self.tokens.pop(0) if self.tokens else ""


_NESTED: Mapping[str, Callable[[_Reader, str], Type]] = MappingProxyType(
    {"array": _Reader.array, "map": _Reader.map, "struct": _Reader.struct}
)
_PARTS: Mapping[str, str] = MappingProxyType(
    {
        "array": "write it as array<string>",
        "map": "write it as map<string, bigint>",
        "struct": "write it as struct<a: string, b: bigint>",
    }
)


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _no_type(field: str, word: str) -> DdlError:
    if not word or word in ",:<>()":
        return DdlError(f"field {field!r} has no type")
    if not re.fullmatch(r"\w+", word):
        raise _UnknownError
    known = (*SIMPLE, *DECIMAL, *NESTED)
    near = HABITS.get(word.lower()) or next(iter(get_close_matches(word.lower(), known, n=1)), None)
    return DdlError(
        f"field {field!r} has the type {word!r}, which Spark does not know",
        f"write {near}" if near else f"use one of: {', '.join(dict.fromkeys(SIMPLE.values()))}, decimal(10,2), array<>",
    )
