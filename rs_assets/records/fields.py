"""The fields that a step's rows have, as far as they are known when a pipeline is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rs_assets.errors import SchemaError, UnknownFieldError
from rs_assets.records.types import DdlError, Type, fields_in

Types = Mapping[str, Type | None]


@dataclass(frozen=True, slots=True)
class Fields:
    """Names and types of fields; a type of None is unknown. Without `whole` there may be further fields.

    >>> known = Fields({"page": Type("string")})
    >>> known.type_of("page").name, known.find("PAGE")
    ('string', 'page')
    """

    types: Types = field(default_factory=lambda: MappingProxyType({}))
    whole: bool = True

    def find(self, name: str) -> str | None:
        """The field called `name`, in any case, as in SQL; None if it is unknown."""
        return next((each for each in self.types if each.casefold() == name.casefold()), None)

    def type_of(self, name: str) -> Type | None:
        """The type of the field `name`, None if it is unknown."""
        return self.types.get(name)

    def has(self, name: str) -> bool:
        """Whether SQL may name it: it exists, or may exist."""
        return not self.whole or self.find(name) is not None

    def check(self, names: Iterable[str | None], *, step: str) -> None:
        """UnknownFieldError for the first of `names` that certainly does not exist; case counts."""
        for name in names:
            if name is not None and self.whole and name not in self.types:
                raise UnknownFieldError(name, step=step, known=tuple(self.types))

    def plus(self, more: Types) -> Fields:
        """These fields, with those in `more` added or replaced; names are compared in any case."""
        new = {name.casefold() for name in more}
        kept = {name: kind for name, kind in self.types.items() if name.casefold() not in new}
        # withColumns leaves a replaced field in its place; the order does not matter here.
        return Fields(MappingProxyType({**kept, **more}), self.whole)


# No field is known.
UNKNOWN = Fields(whole=False)


def only(types: Types | None) -> Fields:
    """Just the fields `types`; UNKNOWN for None."""
    return UNKNOWN if types is None else Fields(types)


def declared(ddl: str | None, *, step: str) -> Fields:
    """The fields of a schema; SchemaError for one that Spark certainly rejects."""
    try:
        return only(fields_in(ddl) if ddl else None)
    except DdlError as error:
        raise SchemaError(
            f"the schema of step {step!r} does not parse: {error}", remedy=error.remedy, step=step
        ) from error


def same_fields(one: str, other: str) -> bool:
    """Whether two texts are schemas with the same fields, in the same order, however they are written.

    >>> same_fields("n bigint, `page` string", "n LONG,page  string"), same_fields("n bigint", "n bigint NOT NULL")
    (True, False)
    >>> same_fields("n int, m int", "m int, n int"), same_fields("a b", "c d")
    (False, False)
    """
    try:
        types = [fields_in(text) for text in (one, other)]
    except DdlError:
        return False
    if None in types or "not null" in f"{one} {other}".casefold():
        return one == other
    listed = [[*each.items()] for each in types if each is not None]
    return listed[0] == listed[1] and all(_known(kind) for _, kind in listed[0])


def _known(kind: Type | None) -> bool:
    return kind is not None and all(_known(part) for _, part in kind.parts)
