"""Functions of times as in Flink."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rs_assets.expressions.functions.kinds import HOUR
from rs_assets.expressions.functions.literals import quote, unquote
from rs_assets.sql.expressions.casts import TIMES
from rs_assets.sql.expressions.flink_numbers import next_whole
from rs_assets.sql.expressions.sql_function import Refusal, SqlFunction, whole_literal
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.types import FLOATS, TIMESTAMP, is_whole

UNITS: Final = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
# Units that keep a date a date.
OF_DATES: Final = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
MONTHS: Final[Mapping[str, int]] = MappingProxyType({"MONTH": 1, "QUARTER": 3, "YEAR": 12})
# The parts of a time for EXTRACT.
PARTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "YEAR": "year({0})", "QUARTER": "quarter({0})", "MONTH": "month({0})", "WEEK": "weekofyear({0})",
        "DAY": "day({0})", "DOY": "dayofyear({0})", "DOW": "dayofweek({0})",
        "ISODOW": "(weekday({0}) + 1)", "ISOYEAR": "extract(YEAROFWEEK FROM {0})",
        "HOUR": "hour({0})", "MINUTE": "minute({0})", "SECOND": "second({0})",
        "MILLISECOND": "pmod(unix_millis(cast({0} AS timestamp)), 1000)",
        "EPOCH": "unix_seconds(cast({0} AS timestamp))",
        "DECADE": "(year({0}) div 10)", "CENTURY": "((year({0}) + 99) div 100)",
        "MILLENNIUM": "((year({0}) + 999) div 1000)",
    }
)  # fmt: skip
# Format characters that Spark does not know, or reads differently.
NOT_IN_FORMATS: Final = frozenset("YwWeucAnNBp")
# Those of a zone, and a form of times that TO_TIMESTAMP reads without a format.
ZONES: Final = frozenset("XxZzVOv")
SHOWN: Final = "yyyy-MM-dd HH:mm:ss.SSS"
_QUOTED: Final = re.compile(r"'[^']*'")
NEVER: Final = -(2**63)


def _is_date(value: Value) -> bool:
    return value.type is not None and value.type.name == "date"


def _to_unit(name: str, up: str) -> SqlFunction:
    """FLOOR or CEIL of a number, or of a time TO a unit: of a text Spark would take one without a date as of today."""

    def made(values: Sequence[Value]) -> Value:
        value, unit = values[0], unquote(values[1].text) or ""
        text = _begin(value, unit)
        if up:
            text = f"(CASE WHEN {text} < {value.text} THEN {text} + INTERVAL {_steps(unit)} ELSE {value.text} END)"
        if _is_date(value):
            return Value(f"cast({text} AS date)", value.type)
        return Value(text, value.type)

    to_unit = SqlFunction(2, 2, made, "", times=(0,), refuses=_no_unit)
    return SqlFunction(1, 1, lambda values: next_whole(name, values[0]), "", numbers=(0,), longer=to_unit)


def _no_unit(values: Sequence[Value]) -> Refusal:
    """Refuses anything but a unit, of which Spark would make null."""
    units = ("MILLISECOND", *UNITS)
    if unquote(values[1].text) in units:
        return None
    return f"its argument 2 is not one of {', '.join(units)}", "FLOOR(ts TO HOUR)"


def _begin(value: Value, unit: str) -> str:
    """The beginning of a unit of time; weeks begin on Sunday."""
    if unit == "WEEK":
        return f"(date_trunc('WEEK', {value.text} + INTERVAL 1 DAY) - INTERVAL 1 DAY)"
    return f"date_trunc('{unit}', {value.text})"


def _steps(unit: str) -> str:
    return "3 MONTH" if unit == "QUARTER" else f"1 {unit}"


def _added(values: Sequence[Value]) -> Value:
    unit, number, value = unquote(values[0].text) or "", values[1], values[2]
    text = f"timestampadd({unit}, {number.plain}, {value.plain})"
    if _is_date(value) and unit in OF_DATES:
        return Value(f"cast({text} AS date)", value.type)
    return Value(text, TIMESTAMP)


def _difference(values: Sequence[Value]) -> str:
    unit, begin, end = unquote(values[0].text) or "", values[1], values[2]
    if unit not in MONTHS:
        return f"timestampdiff({unit}, {begin.plain}, {end.plain})"
    return f"cast({_months(begin, end)} div {MONTHS[unit]} AS bigint)"


def _months(begin: Value, end: Value) -> str:
    """Whole months: the last day of a month is one month after the same or a later day of the previous month."""
    d0, d1 = (f"cast({each.text} AS date)" for each in (begin, end))
    apart = f"((year({d1}) - year({d0})) * 12 + month({d1}) - month({d0}))"
    later = f"{apart} - if(add_months({d0}, {apart}) > {d1}, 1, 0)"
    earlier = f"{apart} + if(add_months({d1}, -{apart}) > {d0}, 1, 0)"
    days = f"(CASE WHEN {d1} >= {d0} THEN {later} ELSE {earlier} END)"
    if _is_date(begin) and _is_date(end):
        return days
    t0, t1 = (f"pmod(unix_millis(cast({each.text} AS timestamp)), 86400000)" for each in (begin, end))
    return f"({days} - if(add_months({d0}, {days}) = {d1} AND {t1} < {t0}, 1, 0))"


def _format(place: int, *, years: bool = True) -> Callable[[Sequence[Value]], Refusal]:
    """Refuses unsupported characters of a literal format at an argument; without `years`, u is a day of the week."""

    def refused(values: Sequence[Value]) -> Refusal:
        letters = _letters(values, place, years=years) & NOT_IN_FORMATS
        if not letters:
            return None
        what = f"the format {unquote(values[place].text)!r} has {min(letters)!r}, which is not supported"
        return what, "extract the part separately: YEAR(ts), WEEK(ts), EXTRACT(DOY FROM ts), DAYOFWEEK(ts)"

    return refused


def _local(values: Sequence[Value]) -> Refusal:
    """Refuses zones as well: Flink reads an offset and drops it, so the time would be that of another place."""
    zones = _letters(values, 1) & ZONES
    if zones:
        text, form = values[0].field or "s", unquote(values[1].text) or ""
        what = f"the format {form!r} has {min(zones)!r}: Flink would ignore the zone of the text"
        doubled = form.replace("'", "''")
        return what, f"to go by it: TO_TIMESTAMP(DATE_FORMAT({text}, '{doubled}', '{SHOWN}'))"
    return _format(1)(values)


def _letters(values: Sequence[Value], place: int, *, years: bool = True) -> frozenset[str]:
    """The characters of a literal format, without those in quotes."""
    form = unquote(values[place].text) if place < len(values) else None
    return frozenset(_QUOTED.sub("", _years(form) if years else form)) if form is not None else frozenset()


def _years(form: str) -> str:
    """A format with y for years, which Flink also writes as u."""
    return re.sub(r"('[^']*')|u", lambda found: found[1] or "y", form)


def _formed(value: Value) -> str:
    form = unquote(value.text)
    return value.text if form is None else quote(_years(form))


def _formatted(values: Sequence[Value]) -> str:
    if len(values) == 3:
        return f"date_format(try_to_timestamp({values[0].plain}, {_formed(values[1])}), {_formed(values[2])})"
    value = values[0]
    text = _read(value) if value.type is not None and value.type.name == "string" else value.plain
    return f"date_format({text}, {_formed(values[1])})"


def _read(value: Value) -> str:
    """The time in a text of Flink's default form; null for other texts."""
    literal = unquote(value.text)
    if literal is not None and re.fullmatch(TIMES, literal):
        return f"try_to_timestamp({value.plain})"
    return f"if({value.text} RLIKE {quote(TIMES)}, try_to_timestamp({value.plain}), NULL)"


def _to_timestamp(values: Sequence[Value]) -> str:
    if len(values) == 1:
        return _read(values[0])
    return f"try_to_timestamp({values[0].plain}, {_formed(values[1])})"


def _to_date(values: Sequence[Value]) -> str:
    text = values[0].plain
    if len(values) > 1:
        return f"cast(try_to_timestamp({text}, {_formed(values[1])}) AS date)"
    return f"cast(if({values[0].text} RLIKE '{HOUR}', NULL, try_to_timestamp({text})) AS date)"


def _unix_timestamp(values: Sequence[Value]) -> str:
    """For a text that is not a time Flink returns the least number."""
    if not values:
        return "unix_timestamp()"
    form = _formed(values[1]) if len(values) > 1 else "'yyyy-MM-dd HH:mm:ss'"
    read = f"unix_timestamp(try_to_timestamp({values[0].plain}, {form}))"
    return f"if({values[0].text} IS NULL, NULL, coalesce({read}, bigint('{NEVER}')))"


# The unit of the first argument of TO_TIMESTAMP_LTZ, by its second argument, and how many there are in a second.
COUNTED: Final[Mapping[int, tuple[str, int]]] = MappingProxyType(
    {0: ("seconds", 1), 3: ("millis", 1000), 6: ("micros", 1_000_000)}
)
# The seconds of the years 0 to 9999: for others TO_TIMESTAMP_LTZ is null.
FIRST_SECOND, END_SECOND = -62_167_219_200, 253_402_300_800


def _counted(values: Sequence[Value]) -> str:
    """A fraction is dropped, toward zero; of a FLOAT or DOUBLE of seconds what is left of milliseconds."""
    value, digits = values[0], (whole_literal(values[1]) or 0) if len(values) > 1 else 3
    unit, each = COUNTED[digits]
    number = value.plain
    if value.type is not None and value.type.name in FLOATS and not digits:
        unit, number = "millis", f"{value.text} * 1000"
    if not is_whole(value.type):
        number = f"cast({number} AS bigint)"
    known = f"{value.text} >= {FIRST_SECOND * each} AND {value.text} < {END_SECOND * each}"
    return f"if({known}, timestamp_{unit}({number}), NULL)"


def _counts(values: Sequence[Value]) -> Refusal:
    if len(values) > 1 and whole_literal(values[1]) not in COUNTED:
        return "its second argument must be a known precision", "write 0 for seconds, 3 for milliseconds, 6 for micro"
    return None


_CONVERTED: Final = (
    "date_format(convert_timezone({1}, {2}, cast(try_to_timestamp({0}, 'yyyy-MM-dd HH:mm:ss') AS timestamp_ntz)), "
    "'yyyy-MM-dd HH:mm:ss')"
)


def _part(name: str) -> SqlFunction:
    return SqlFunction(1, 1, f"{name}({{0}})", "int")


TIMES_OF_FLINK: Final[Mapping[str, SqlFunction]] = MappingProxyType(
    {
        "FLOOR": _to_unit("floor", ""),
        "CEIL": _to_unit("ceil", "up"),
        "CEILING": _to_unit("ceil", "up"),
        "DATE_FORMAT": SqlFunction(2, 3, _formatted, "string", texts=(1,), refuses=_format(1)),
        "TO_TIMESTAMP": SqlFunction(1, 2, _to_timestamp, "timestamp", texts=(0, 1), refuses=_local),
        "TO_TIMESTAMP_LTZ": SqlFunction(1, 2, _counted, "timestamp", numbers=(0,), refuses=_counts),
        "TO_DATE": SqlFunction(1, 2, _to_date, "date", texts=(0, 1), refuses=_format(1)),
        "UNIX_TIMESTAMP": SqlFunction(0, 2, _unix_timestamp, "bigint", texts=(0, 1), refuses=_format(1, years=False)),
        "FROM_UNIXTIME": SqlFunction(
            1, 2, lambda v: f"from_unixtime({v[0].plain}{f', {_formed(v[1])}' if v[1:] else ''})", "string",
            numbers=(0,), refuses=_format(1, years=False),
        ),
        "CONVERT_TZ": SqlFunction(3, 3, _CONVERTED, "string", texts=(0, 1, 2)),
        "TIMESTAMPADD": SqlFunction(3, 3, _added, "", numbers=(1,), times=(2,), words=UNITS),
        "TIMESTAMPDIFF": SqlFunction(3, 3, _difference, "bigint", times=(1, 2), words=UNITS),
        "NOW": SqlFunction(0, 0, "current_timestamp()", "timestamp"),
        "PROCTIME": SqlFunction(0, 0, "current_timestamp()", "timestamp"),
        "CURRENT_ROW_TIMESTAMP": SqlFunction(0, 0, "current_timestamp()", "timestamp"),
        "YEAR": _part("year"),
        "QUARTER": _part("quarter"),
        "MONTH": _part("month"),
        "WEEK": _part("weekofyear"),
        "DAYOFYEAR": _part("dayofyear"),
        "DAYOFMONTH": _part("dayofmonth"),
        "DAYOFWEEK": _part("dayofweek"),
        "DAY": _part("day"),
        "HOUR": _part("hour"),
        "MINUTE": _part("minute"),
        "SECOND": _part("second"),
    }
)  # fmt: skip
