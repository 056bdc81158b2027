"""What must come together before a rule fires: `count >= 10 within 5 minutes by user`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, cast

from rs_assets.errors import UnknownFieldError
from rs_assets.expressions.syntax.place import LanguageError
from rs_assets.expressions.syntax.typed import FLOATING, WHOLE

Measure = Literal["count", "distinct", "sum", "max", "min"]
UNITS: Mapping[str, int] = MappingProxyType({"second": 1, "minute": 60, "hour": 3600, "day": 86400})
REMEDY = (
    "write it as: count >= 10 within 5 minutes by user; or count(distinct f), sum(f) and max(f) with > or >=,"
    " min(f) with < or <=; seconds, minutes, hours or days; several fields after by"
)
_NAME = r"(?:\w+|`[^`]+`)"
_HAVING = re.compile(
    rf"""\s*(?:(?P<count>count)(?:\s*\(\s*(?:\*|distinct\s+(?P<of>{_NAME}))\s*\))?
           |(?P<measure>sum|max|min)\s*\(\s*(?P<field>{_NAME})\s*\))
         \s*(?P<sign>>=|>|<=|<)\s*(?P<number>[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)
         \s+within\s+(?P<length>\d{{1,6}})\s+(?P<unit>second|minute|hour|day)s?
         (?:\s+by\s+(?P<by>{_NAME}(?:\s*,\s*{_NAME})*))?\s*""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Having:
    """A window of `seconds`, from the epoch on, for each value of the fields `by`, and what must be reached in it.

    `limit` is included. The number of rows, of distinct values of `field`, their sum or greatest value is at least
    that; the least value is at most that. Negative values do not count in a sum, so that what is reached stays reached.
    """

    measure: Measure
    field: str | None
    limit: float
    seconds: int
    by: tuple[str, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that it reads."""
        return (*self.by, *((self.field,) if self.field is not None else ()))


def having_of(text: str, *, step: str | None = None) -> Having:
    """What a text says; LanguageError for anything else.

    >>> having_of("count > 10 within 5 minutes by user, host")
    Having(measure='count', field=None, limit=11.0, seconds=300, by=('user', 'host'))
    """
    found = _HAVING.fullmatch(text)
    if found is None:
        raise LanguageError("this does not say what must be reached in which time", text, 0, remedy=REMEDY, step=step)
    part = {name: value for name, value in found.groupdict().items() if value is not None}
    measure = cast("Measure", part.get("measure", "distinct" if "of" in part else "count").lower())
    up = part["sign"] in (">", ">=")
    limit = _limit(measure, part["sign"], float(part["number"]))
    seconds = int(part["length"]) * UNITS[part["unit"].lower()]
    if up == (measure == "min") or not seconds or (measure in ("count", "distinct", "sum") and limit <= 0):
        what = "this holds without any row, or only when the window is over"
        raise LanguageError(what, text, found.start("sign"), remedy=REMEDY, step=step)
    field = part.get("of", part.get("field"))
    by = tuple(dict.fromkeys(_plain(name) for name in re.findall(_NAME, part.get("by", ""))))
    return Having(measure, _plain(field) if field is not None else None, limit, seconds, by)


def check_having(text: str, fields: Mapping[str, str | None], *, step: str) -> Having:
    """What a text says over `fields`, names with their Spark types; RsError if it cannot be evaluated."""
    having = having_of(text, step=step)
    for name in having.fields:
        if name not in fields:
            raise UnknownFieldError(name, step=step, known=tuple(fields))
    kind = fields[having.field] if having.field is not None else None
    if having.measure in ("sum", "max", "min") and kind is not None and kind not in (*WHOLE, *FLOATING):
        remedy = f"cast it in a step before: .with_fields({having.field}='try_cast({having.field} as double)')"
        what = f"the {having.measure} of {having.field!r} is not a number: it is a {kind}"
        raise LanguageError(what, text, 0, remedy=remedy, step=step)
    return having


def _limit(measure: Measure, sign: str, number: float) -> float:
    """The first value that is enough."""
    if sign in (">=", "<="):
        return number
    if measure in ("count", "distinct"):
        return math.floor(number) + 1.0
    return math.nextafter(number, math.inf if sign == ">" else -math.inf)


def _plain(name: str) -> str:
    return name.strip("`")
