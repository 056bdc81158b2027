"""Plain Python values as bytes and back: each end by themselves, so that several may follow one another."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo

# The classes of values, besides numbers, texts, bytes, lists and dicts.
CLASSES: Final = frozenset(
    {
        ("datetime", "datetime"),
        ("datetime", "date"),
        ("datetime", "timedelta"),
        ("datetime", "timezone"),
        ("decimal", "Decimal"),
        ("zoneinfo", "ZoneInfo"),
    }
)
PROTOCOL: Final = 5


class _Pickler(pickle.Pickler):
    # By its name: the form that a zone has by itself calls any function.
    dispatch_table = MappingProxyType({ZoneInfo: lambda zone: (ZoneInfo, (zone.key,))})


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in CLASSES:
            raise pickle.UnpicklingError(f"a value of {module}.{name}, which is not plain")
        return super().find_class(module, name)


def encoded(value: Any) -> bytes:
    """The bytes of a plain value."""
    made = BytesIO()
    _Pickler(made, PROTOCOL).dump(value)
    return made.getvalue()


def decoded(content: bytes) -> Iterator[Any]:
    """The values of bytes; UnpicklingError for one that is not plain.

    >>> list(decoded(encoded({"n": 1}) + encoded([2.5, None])))
    [{'n': 1}, [2.5, None]]
    >>> next(decoded(pickle.dumps(print)))
    Traceback (most recent call last):
    _pickle.UnpicklingError: a value of builtins.print, which is not plain
    """
    source = BytesIO(content)
    while source.tell() < len(content):
        # One for each value: it remembers what it has read.
        yield _Unpickler(source).load()
