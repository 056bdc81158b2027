"""Converts the results of map and flat_map into dicts of exactly the fields of the schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from rs_assets.records.rows import MisfitError
from rs_assets.topology.user_code.stores import own


def mapping(value: object, names: AbstractSet[str]) -> dict[str, Any]:
    """`value`, a mapping or a dataclass, as a separate dict: the function may later change its result.

    MisfitError if it lacks one of `names`, or has an additional field: nulls must be explicit, because a misspelt name
    would otherwise be a null.

    >>> mapping({"page": "/", "ms": None}, {"page", "ms"})
    {'page': '/', 'ms': None}
    >>> mapping({"p": "/", "m": 5}, {"p", "ms"})
    Traceback (most recent call last):
    rs_assets.records.rows.MisfitError: row 0: it has the field 'm', which is not one of: ms, p [row=0, field=m]
    """
    # The usual case first: asking whether a value is a mapping takes longer than all the rest.
    if type(value) is dict:
        made = value.copy()
    elif isinstance(value, Mapping):
        made = dict(value)
    else:
        fields = fields_of(value)
        if fields is None:
            raise TypeError(f"the function must return a dict or a dataclass, not {type(value).__name__}")
        made = {name: getattr(value, name) for name in fields}
    if made.keys() != names:
        raise _misnamed(made, names)
    return made


def fields_of(value: object) -> Iterable[str] | None:
    """The names of the fields of a dataclass, a named tuple or a Pydantic model; None for other values."""
    found = (getattr(type(value), name, None) for name in ("__dataclass_fields__", "_fields", "model_fields"))
    return next((fields for fields in found if isinstance(fields, Mapping | tuple)), None)


def plain(value: Any) -> Any:
    """`value` with dicts for the records within it, in any container.

    >>> from typing import NamedTuple
    >>> class Hit(NamedTuple):
    ...     page: str
    >>> plain([{"first": Hit("/")}, None])
    [{'first': {'page': '/'}}, None]
    """
    fields = fields_of(value)
    if fields is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return list(map(plain, value)) if isinstance(value, (list, tuple)) else value


def mappings(values: Any, names: AbstractSet[str]) -> list[dict[str, Any]]:
    """Each of `values` as such a dict with values of its own; no dicts if it is None or empty.

    >>> def parts(path):
    ...     found = []
    ...     for part in path.split("/"):
    ...         found.append(part)
    ...         yield {"parts": found}
    >>> mappings(parts("a/b"), {"parts"})
    [{'parts': ['a']}, {'parts': ['a', 'b']}]
    """
    if not values:
        return []
    if isinstance(values, Mapping | str | bytes):
        raise TypeError(f"the function must return a list of dicts, not {type(values).__name__}")
    # Copied one by one: a generator may go on with the list or dict that it has just yielded.
    return [own(mapping(value, names)) for value in values]


def _misnamed(made: dict[str, Any], names: AbstractSet[str]) -> MisfitError:
    surplus = next((name for name in made if name not in names), None)
    if surplus is not None:
        text = f"it has the field {surplus!r}, which is not one of: {', '.join(sorted(names))}"
        return MisfitError(text, row=0, field=str(surplus))
    lacking = min(names - made.keys())
    return MisfitError(
        f"the field {lacking!r} is missing; return {{{lacking!r}: None}} for no value", row=0, field=lacking
    )
