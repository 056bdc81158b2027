"""What must come together before a rule fires: `count >= 10 within 5 minutes by user`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from types import MappingProxyType
from typing import Final, Literal, cast

from rs_assets.errors import UnknownFieldError
from rs_assets.expressions.rules.atoms import READABLE
from rs_assets.expressions.syntax.place import LanguageError
from rs_assets.expressions.syntax.typed import is_numeric

Measure = Literal["count", "distinct", "sum", "max", "min"]
UNITS: Mapping[str, int] = MappingProxyType({"second": 1, "minute": 60, "hour": 3600, "day": 86400})
REMEDY = (
    "write it as: count >= 10 within 5 minutes by user; or count(distinct f), sum(f) and max(f) with > or >=,"
    " min(f) with < or <=; seconds, minutes, hours or days; several fields after by; a time in quotes, as"
    " '2026-01-31 23:59:59'"
)
# Fields of these types are counted besides those that conditions can read, and decimals.
TIMES: Final = frozenset({"timestamp", "date"})
DIGITS: Final = 38
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?", re.IGNORECASE | re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME = r"(?:\w+|`[^`]+`)"
_HAVING = re.compile(
    rf"""\s*(?:(?P<count>count)(?:\s*\(\s*(?:\*|distinct\s+(?P<of>{_NAME}))\s*\))?
           |(?P<measure>sum|max|min)\s*\(\s*(?P<field>{_NAME})\s*\))
         \s*(?P<sign>>=|>|<=|<)\s*(?:(?P<number>[+-]?\d+(?:\.\d+)?(?:e[+-]?\d{{1,4}})?)|'(?P<time>[^']*)')
         \s+within\s+(?P<length>\d{{1,6}})\s+(?P<unit>second|minute|hour|day)s?
         (?:\s+by\s+(?P<by>{_NAME}(?:\s*,\s*{_NAME})*))?\s*""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Having:
    """A window of `seconds`, from the epoch on, for each value of the fields `by`, and what must be reached in it.

    `limit` is included. `number` is what was written, and `strict` says that it is not enough itself; of a time it has
    the seconds since 1970. The number of rows, of distinct values of `field`, their sum or greatest value is at least
    that; the least value is at most that. Negative values do not count in a sum, so that what is reached stays reached.
    """

    measure: Measure
    field: str | None
    limit: float
    seconds: int
    by: tuple[str, ...]
    number: Decimal
    strict: bool = False
    of_time: bool = False

    def limit_of(self, places: int) -> Decimal | None:
        """The first decimal with so many places, and 38 digits, that is enough; None if there is none.

        >>> having = having_of("sum(price) > 0.125 within 1 day")
        >>> having.limit_of(2), having.limit_of(3)
        (Decimal('0.13'), Decimal('0.126'))
        """
        up, unit = self.measure != "min", Decimal(1).scaleb(-places)
        exact = Context(prec=DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR)
        most = exact.multiply(Decimal(10**DIGITS - 1), unit)
        try:
            found = self.number.quantize(unit, context=exact)
        except InvalidOperation:
            return None if (self.number > 0) == up else most.copy_sign(self.number)
        if not self.strict or found != self.number:
            return found
        return None if abs(found) == most and (found > 0) == up else exact.add(found, unit if up else -unit)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that it reads."""
        return (*self.by, *((self.field,) if self.field is not None else ()))


def having_of(text: str, *, step: str | None = None) -> Having:
    """What a text says; LanguageError for anything else.

    >>> having_of("count > 10 within 5 minutes by user, host")
    Having(measure='count', field=None, limit=11.0, seconds=300, by=('user', 'host'), number=Decimal('10'), ...
    """
    found = _HAVING.fullmatch(text)
    if found is None:
        raise LanguageError("this does not say what must be reached in which time", text, 0, remedy=REMEDY, step=step)
    part = {name: value for name, value in found.groupdict().items() if value is not None}
    measure = cast("Measure", part.get("measure", "distinct" if "of" in part else "count").lower())
    number = _number(part)
    if number is None or ("time" in part and measure not in ("max", "min")):
        raise LanguageError("this is not a time, or not compared with one", text, 0, remedy=REMEDY, step=step)
    up, strict = part["sign"] in (">", ">="), part["sign"] in (">", "<")
    limit = _limit(measure, part["sign"], float(number))
    seconds = int(part["length"]) * UNITS[part["unit"].lower()]
    if up == (measure == "min") or not seconds or (measure in ("count", "distinct", "sum") and limit <= 0):
        what = "this holds without any row, or only when the window is over"
        raise LanguageError(what, text, found.start("sign"), remedy=REMEDY, step=step)
    field = part.get("of", part.get("field"))
    by = tuple(dict.fromkeys(_plain(name) for name in re.findall(_NAME, part.get("by", ""))))
    named = _plain(field) if field is not None else None
    return Having(measure, named, limit, seconds, by, number, strict, "time" in part)


def check_having(text: str, fields: Mapping[str, str | None], *, step: str) -> Having:
    """What a text says over `fields`, names with their Spark types; RsError if it cannot be evaluated."""
    having = having_of(text, step=step)
    for name in having.fields:
        if name not in fields:
            raise UnknownFieldError(name, step=step, known=tuple(fields))
        if not is_counted(fields[name]):
            remedy = f"cast it in a step before: .with_fields({name}='cast({name} as string)')"
            what = f"having cannot read {name!r}: it is a {fields[name]}"
            raise LanguageError(what, text, 0, remedy=remedy, step=step)
    kind = fields[having.field] if having.field is not None else None
    if having.measure in ("sum", "max", "min") and kind is not None:
        _check_compared(having, kind, text, step)
    return having


def _check_compared(having: Having, kind: str, text: str, step: str) -> None:
    """LanguageError if the field of a measure is not of the type of what it is compared with."""
    field, timed = having.field, kind in TIMES and having.measure != "sum"
    if timed and not having.of_time:
        sign = "<=" if having.measure == "min" else ">="
        remedy = f"write a time: {having.measure}({field}) {sign} '2026-01-31 23:59:59'"
        raise LanguageError(f"{field!r} is a time, and is compared with a number", text, 0, remedy=remedy, step=step)
    if not timed and not is_numeric(kind):
        cast_before = f"cast it in a step before: .with_fields({field}='try_cast({field} as double)')"
        remedy = f"write max({field}), min({field}) or count(distinct {field})" if kind in TIMES else cast_before
        what = f"the {having.measure} of {field!r} is not a number: it is a {kind}"
        raise LanguageError(what, text, 0, remedy=remedy, step=step)
    if having.of_time and not timed:
        what = f"{field!r} is a number, and is compared with a time"
        raise LanguageError(what, text, 0, remedy=REMEDY, step=step)


def is_counted(kind: str | None) -> bool:
    """Whether `having` can read fields of a Spark type; those of an unknown one are tried."""
    return kind is None or kind in READABLE or kind in TIMES or kind.startswith("decimal")


def _number(part: Mapping[str, str]) -> Decimal | None:
    """The number that was written, or the seconds since 1970 of a time; None for a wrong time."""
    if "time" not in part:
        return Decimal(part["number"])
    try:
        made = datetime.fromisoformat(part["time"]) if _TIME.fullmatch(part["time"]) else None
    except ValueError:
        return None
    if made is None:
        return None
    since = (made if made.tzinfo is not None else made.replace(tzinfo=UTC)) - _EPOCH
    return Decimal(since // timedelta(microseconds=1)) / 1_000_000


def _limit(measure: Measure, sign: str, number: float) -> float:
    """The first value that is enough."""
    if sign in (">=", "<="):
        return number
    if measure in ("count", "distinct"):
        return math.floor(number) + 1.0
    return math.nextafter(number, math.inf if sign == ">" else -math.inf)


def _plain(name: str) -> str:
    return name.strip("`")
