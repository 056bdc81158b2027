"""A text of all settings of a step: the same in every process, and another one when any of them changes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, timedelta
from typing import Any

from rs_assets.common.node import EFFECT
from rs_assets.topology.user_code.code import (
    DEEPEST,
    FUNCTIONS,
    PLAIN,
    digest_of,
    short_text,
    value_text,
)
from rs_assets.topology.user_code.outside import whole_digest

VALUES = (*PLAIN, timedelta)
# How deep an object is looked into: those of other libraries refer to many more.
LEVELS = 4
# What the names of this project's modules begin with.
OURS = "rs_assets."


def settings_text(value: object) -> str:
    """All fields of `value` that have an effect and no default, and theirs; functions and classes of users as code.

    Of an object in a field that is not compared only the class counts: it may have secrets and connections, and change
    while it is used. A release that adds a field changes no text, nor does a script that is run as `__main__`.
    """
    text = next((text for kinds, text in TEXTS if isinstance(value, kinds)), None)
    if text is not None:
        return text(value)
    return _fields_text(value) if is_dataclass(value) and _ours(type(value)) else _object_text(value)


def held_digest(function: object) -> str:
    """A digest of what a class is, or a dataclass has in slots, that is called as a function; empty for others.

    `whole_digest` does not look into them. Steps hold functions of users in such dataclasses.
    """
    slotted = is_dataclass(function) and not hasattr(function, "__dict__")
    return digest_of(settings_text(function)) if slotted or isinstance(function, type) else ""


def _fields_text(value: Any) -> str:
    counted = ((each, _field_text(each, getattr(value, each.name))) for each in fields(value) if _counts(each))
    told = [f"{each.name}={text}" for each, text in counted if text != _default_text(each)]
    if hasattr(value, "identity"):
        # It may have more than the fields: the code of functions that a text calls.
        told.append(settings_text(value.identity()))
    return f"{_class_text(type(value))}{_listed(told)}"


def _counts(field: Field[Any]) -> bool:
    return bool(field.metadata.get(EFFECT, True))


def _field_text(field: Field[Any], value: object) -> str:
    return settings_text(value) if field.compare or isinstance(value, VALUES) else _class_text(type(value))


@functools.cache
def _default_text(field: Field[Any]) -> str | None:
    if field.default_factory is not MISSING:
        return _field_text(field, field.default_factory())
    return _field_text(field, field.default) if field.default is not MISSING else None


def _object_text(value: object) -> str:
    attributes = getattr(value, "__dict__", None)
    if attributes is None:
        return f"{_class_text(type(value))} {value_text(value)}"
    told = (f"{name}={short_text(of, DEEPEST - LEVELS)}" for name, of in sorted(attributes.items()))
    return f"{_class_text(type(value))}{_listed(told)}"


def _class_text(kind: type) -> str:
    """The name of a class; of one of a user also its methods and plain attributes, as far as its module has them."""
    if _ours(kind) or kind.__module__ == object.__module__:
        return kind.__qualname__
    bases = (base for base in kind.__mro__ if base.__module__ == kind.__module__)
    members = (f"{name} {_member_text(name, value)}" for base in bases for name, value in sorted(vars(base).items()))
    return f"{kind.__qualname__} {digest_of(_listed(members))}"


def _member_text(name: str, value: object) -> str:
    match value:
        case staticmethod() | classmethod():
            return whole_digest(value.__func__)
        case property() if value.fget is not None:
            return whole_digest(value.fget)
        case _ if isinstance(value, FUNCTIONS):
            return whole_digest(value)
        case _:
            return repr(value) if isinstance(value, VALUES) and not name.startswith("__") else ""


def _ours(kind: type) -> bool:
    return kind.__module__.startswith(OURS)


def _listed(texts: Iterable[str]) -> str:
    return f"({', '.join(texts)})"


TEXTS: Sequence[tuple[type | tuple[type, ...], Callable[[Any], str]]] = (
    (date, lambda value: str(value.isoformat())),
    (VALUES, repr),
    (Mapping, lambda value: _listed(sorted(f"{settings_text(key)}: {settings_text(of)}" for key, of in value.items()))),
    ((set, frozenset), lambda value: _listed(sorted(map(settings_text, value)))),
    ((list, tuple), lambda value: _listed(map(settings_text, value))),
    (type, _class_text),
    (FUNCTIONS, whole_digest),
)
