"""The proxy of a record: each field that is read forks, so that Python sees its real None, True, False and nan."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from rs_assets.compile.python.tracing.expression import WHOLE, Field, call, whole
from rs_assets.compile.python.tracing.numeric import Real, Whole
from rs_assets.compile.python.tracing.path import Path
from rs_assets.compile.python.tracing.texts import Text
from rs_assets.compile.python.tracing.values import Opaque, Passed, nan

# The range of Python's dates and times, in days and microseconds since 1970: the function raises on others.
HELD: Mapping[str, tuple[str, int, int]] = {
    "date": ("days", -719_162, 2_932_896),
    "timestamp": ("micros", -62_135_596_800_000_000, 253_402_300_799_999_999),
}


def value_of(path: Path, name: str, kind: str) -> Any:
    """The value of a field of type `kind`: None, a boolean, nan, or a proxy for other values."""
    field = Field(name)
    if path.fork(call("is_null", field)):
        return None
    if kind == "string":
        return Text(path, field)
    if kind in WHOLE:
        most = 2 ** WHOLE[kind]
        return Whole(path, field if kind == "bigint" else call("bigint", field), -most, most - 1)
    if kind == "boolean":
        return path.fork(field)
    if kind == "double":
        return nan() if path.fork(call("is_nan", field)) else Real(path, field)
    if kind in HELD:
        unit, least, greatest = HELD[kind]
        if not path.fork(call("between", call(unit, field), whole(least), whole(greatest))):
            path.ask(f"a {kind} that Python cannot hold")
    return Opaque(path, field, kind)


def _asks(what: str) -> Callable[..., Any]:
    def asked(self: Record, *_: object, **__: object) -> NoReturn:
        self.rs_path.ask(what)

    return asked


class Taken(str):
    """The name of a field that `{**row}` takes."""

    __slots__ = ()


class Record:
    """The record of one path; `fields` are the types of its fields by name.

    `hands_on`: whether the fields may go into the dict that is made in a frame.
    """

    __slots__ = ("rs_fields", "rs_hands_on", "rs_path", "rs_values")

    def __init__(
        self, path: Path, fields: Mapping[str, str], hands_on: Callable[[types.FrameType | None], bool]
    ) -> None:
        self.rs_path = path
        self.rs_fields = fields
        self.rs_hands_on = hands_on
        self.rs_values: dict[str, Any] = {}

    def keys(self) -> list[Taken]:
        """The names of the fields, for `{**row}` alone."""
        here = inspect.currentframe()
        if here is None or not self.rs_hands_on(here.f_back):
            self.rs_path.ask("it takes all fields of the record")
        return [*map(Taken, self.rs_fields)]

    def __getitem__(self, name: object) -> Any:
        """The value of a field; KeyError for an unknown name."""
        if type(name) is Taken:
            return Passed(self.rs_path, Field(str(name)), self.rs_fields[name])
        if type(name) is not str:
            self.rs_path.ask("the name of a field must be a constant")
        if name not in self.rs_fields:
            raise KeyError(name)
        if name not in self.rs_values:
            self.rs_values[name] = value_of(self.rs_path, name, self.rs_fields[name])
        return self.rs_values[name]

    def get(self, name: object, default: object = None, /) -> Any:
        """The value of a field, or `default` if there is no such field."""
        return self[name] if name in self else default  # noqa: SIM401  this is how it is done

    def __contains__(self, name: object) -> bool:
        """Whether there is such a field."""
        if type(name) is not str:
            self.rs_path.ask("the name of a field must be a constant")
        return name in self.rs_fields

    __hash__ = None  # type: ignore[assignment]
    __iter__ = __len__ = __bool__ = _asks("it looks at the whole record")
    __eq__ = __ne__ = __or__ = __ror__ = __repr__ = __str__ = __format__ = _asks("it looks at the whole record")
    __setitem__ = __delitem__ = __ior__ = _asks("it changes the record")
    items = values = copy = _asks("it takes all fields of the record")

    def __getattr__(self, name: str) -> Any:
        """Other methods."""
        if name.startswith("_"):
            raise AttributeError(name)
        self.rs_path.ask(f".{name} of a record is not known")
