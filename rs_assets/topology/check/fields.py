"""The fields that a step's rows have, as far as they are known when a pipeline is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rs_assets.errors import UnknownFieldError
from rs_assets.records.types import Type

Types = Mapping[str, Type | None]


@dataclass(frozen=True, slots=True)
class Fields:
    """Names and types of fields; a type of None is not known. Without `whole` there may be further fields.

    >>> known = Fields({"page": Type("string")})
    >>> known.type_of("page").name, known.find("PAGE")
    ('string', 'page')
    """

    types: Types = field(default_factory=lambda: MappingProxyType({}))
    whole: bool = True

    def find(self, name: str) -> str | None:
        """The field that SQL means by `name`, where case does not count; None if it is not known."""
        return next((each for each in self.types if each.casefold() == name.casefold()), None)

    def type_of(self, name: str) -> Type | None:
        """The type of the field `name`, None if it is not known."""
        return self.types.get(name)

    def has(self, name: str) -> bool:
        """Whether SQL may name it: it is there, or may be."""
        return not self.whole or self.find(name) is not None

    def check(self, names: Iterable[str | None], *, step: str) -> None:
        """UnknownFieldError for the first of `names`, written as they are, that is surely not there."""
        for name in names:
            if name is not None and self.whole and name not in self.types:
                raise UnknownFieldError(name, step=step, known=tuple(self.types))

    def plus(self, more: Types) -> Fields:
        """These fields, and `more`, which replace those of the same name, written in any case."""
        new = {name.casefold() for name in more}
        kept = {name: kind for name, kind in self.types.items() if name.casefold() not in new}
        # withColumns leaves a replaced field in its place; the order counts for nobody here.
        return Fields(MappingProxyType({**kept, **more}), self.whole)


# Nothing is known.
UNKNOWN = Fields(whole=False)


def only(types: Types | None) -> Fields:
    """Just the fields `types`; None is for: not known."""
    return UNKNOWN if types is None else Fields(types)
