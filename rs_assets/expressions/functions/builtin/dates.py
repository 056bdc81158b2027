"""Times as texts: arithmetic, formatting, parsing. Without a format a text is `yyyy-MM-dd HH:mm:ss` or ISO 8601."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

from rs_assets.errors import TopologyError
from rs_assets.expressions.functions.function import Family, Template
from rs_assets.expressions.functions.kinds import date_of, local_time_of, moment_of
from rs_assets.expressions.functions.literals import unquote

_row = Family("date").row

DEFAULT = "'yyyy-MM-dd HH:mm:ss'"
# For each unit, the count that is ten thousand years: Spark raises on times out of its range.
MOST = {"YEAR": 10_000, "QUARTER": 40_000, "MONTH": 120_000, "WEEK": 520_000, "DAY": 3_650_000}
# Years with a sign may have more digits than Spark can hold, then it raises.
_SIGNED = "'^.*(?:[+]|(?:^|[^0-9])-)[0-9]{5,}.*$| +'"
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def read_time(texts: Mapping[str, str]) -> str:
    """The time of the text, in the given format; of a text with a zone the local time of the zone of the script."""
    text = texts["s"]
    if "f" not in texts:
        return local_time_of(text, texts["zone"])
    return f"try_to_timestamp(regexp_replace(trim({text}), {_SIGNED}, ' '), {texts['f']})"


def instant(texts: Mapping[str, str]) -> str:
    """The same as an instant: a text without a zone is in the zone of the script."""
    if "f" not in texts:
        return moment_of(texts["s"], texts["zone"])
    time, zone = read_time(texts), texts["zone"]
    # Formats have no characters for a zone.
    return time if zone == "UTC" else f"to_utc_timestamp({time}, '{zone}')"


def near(texts: Mapping[str, str], made: Callable[[str], str]) -> str:
    """The SQL of the text of a date that is made of the date of a text; null after the last year.

    There are dates after it, but not all results of a function.
    """
    date = date_of(texts["s"], texts["zone"])
    return f"if(year({date}) between 1 and 9999, date_format({made(date)}, 'yyyy-MM-dd'), null)"


def written(time: str, texts: Mapping[str, str]) -> str:
    """The SQL of a time as a text, in the given format."""
    return f"date_format({time}, {texts.get('f', DEFAULT)})"


def moved(time: str, unit: str, count: str) -> str:
    """The SQL of a time plus `count` units; null if it is out of range."""
    most = MOST.get(unit)
    near = f"{count} between -{most} and {most} and " if most else ""
    return f"if({near}year({time}) between 1 and 9999, timestampadd({unit}, {count}, {time}), null)"


def _moved(unit: str = "") -> Template:
    return lambda texts: written(moved(read_time(texts), unit or texts["unit"], texts["n"]), texts)


def _moved_date(sign: str) -> Template:
    def template(texts: Mapping[str, str]) -> str:
        count = texts["n"]
        days = f"if({count} between -{MOST['DAY']} and {MOST['DAY']}, {sign}{count}, null)"
        return near(texts, lambda date: f"date_add({date}, {days})")

    return template


def _next_day(texts: Mapping[str, str]) -> str:
    day = (unquote(texts["day"]) or "").lower()
    if len(day) < 2 or not any(each.startswith(day) for each in _DAYS):
        raise TopologyError(f"{day!r} is not a day of the week", remedy=f"use one of: {', '.join(_DAYS)}")
    return near(texts, lambda date: f"next_day({date}, '{day[:3]}')")


def _date(texts: Mapping[str, str]) -> str:
    text, days = texts["s"], f"try_cast({texts['s']} as int)"
    return (
        f"case when trim({text}) not rlike '^-?[0-9]{{1,7}}$' then {date_of(text, texts['zone'])}"
        f" when {days} between -719162 and 2932896 then date_from_unix_date({days}) end"
    )


ONE, TWO = "s text", "s text, f readable"
_T = "'2017-09-15 13:14:15'"

_MOVED = tuple(
    row
    for names, unit, later in (
        ("addYear yearAdd add_years", "YEAR", "2018-09-15 13:14:15"),
        ("addMonth monthAdd add_months", "MONTH", "2017-10-15 13:14:15"),
        ("addWeek weekAdd", "WEEK", "2017-09-22 13:14:15"),
        ("addDay dayAdd add_days", "DAY", "2017-09-16 13:14:15"),
        ("addHour hourAdd add_hours", "HOUR", "2017-09-15 14:14:15"),
        ("addMinute minuteAdd add_minutes", "MINUTE", "2017-09-15 13:15:15"),
        ("addSecond secondAdd add_seconds", "SECOND", "2017-09-15 13:14:16"),
    )
    for name in (names.split()[0],)
    for row in (
        _row(
            names,
            "s text, n int",
            _moved(unit),
            "string",
            f"The time plus `n` {unit.lower()}s.",
            {f"{name}({_T},1)": later, f"{name}('x',1)": None, f"{name}({_T},null)": None},
        ),
        _row(
            names,
            "s text, n int, f readable",
            _moved(unit),
            "string",
            f"The same for a time in a format, plus `n` {unit.lower()}s.",
            {f"{name}('15.09.2017 13',0,'dd.MM.yyyy HH')": "15.09.2017 13"},
        ),
    )
)

DATES = (
    *_MOVED,
    _row(
        "dateadd adddate timeadd",
        "s text, n int, unit unit",
        _moved(),
        "string",
        "The time plus `n` units: yyyy, MM, dd, HH, mm, ss or a word.",
        {
            f"dateadd({_T},1,'MM')": "2017-10-15 13:14:15",
            f"dateadd({_T},-1,'mm')": "2017-09-15 13:13:15",
            "dateadd('2017-01-31  00:00:00',1,'month')": "2017-02-28 00:00:00",
        },
    ),
    _row(
        "date_add dateAddDays",
        "s text, n int",
        _moved_date(""),
        "string",
        "The date plus `n` days.",
        {"date_add('2017-09-15 00:00:00',30)": "2017-10-15", "date_add('x',1)": None},
    ),
    _row(
        "date_sub dateSubDays",
        "s text, n int",
        _moved_date("-"),
        "string",
        "The date minus `n` days.",
        {"date_sub('2017-10-15',30)": "2017-09-15"},
    ),
    _row(
        "dateDiff",
        "s text, start text",
        lambda t: f"datediff({date_of(t['s'], t['zone'])}, {date_of(t['start'], t['zone'])})",
        "int",
        "The days from the second date to the first.",
        {
            "dateDiff('2017-10-15 00:00:00','2017-09-15 00:00:00')": 30,
            "dateDiff('2017-09-15 00:00:00','2017-10-15 00:00:00')": -30,
            "dateDiff(null,'2017-10-15')": None,
        },
    ),
    _row(
        "timestampdiff timeDiff",
        "unit unit, s text, end text",
        lambda t: f"timestampdiff({t['unit']}, {read_time(t)}, {local_time_of(t['end'], t['zone'])})",
        "bigint",
        "The whole units from the first time to the second.",
        {"timestampdiff('hour','2017-09-15 00:00:00','2017-09-15 02:59:00')": 2},
    ),
    _row(
        "months_between monthsBetween",
        "s text, start text",
        lambda t: f"months_between({read_time(t)}, {local_time_of(t['start'], t['zone'])})",
        "double",
        "The months from the second time to the first.",
        {"months_between('2017-03-31','2017-02-28')": 1.0},
    ),
    _row(
        "date_format format dateFormat modifyFormat",
        "s text, to format",
        lambda t: written(read_time({"s": t["s"], "zone": t["zone"]}), {"f": t["to"]}),
        "string",
        "The time in a format.",
        {"date_format('2017-09-15 00:00:00','yyMMdd')": "170915", "format('x','yy')": None},
    ),
    _row(
        "date_format format dateFormat modifyFormat",
        "s text, f readable, to format",
        lambda t: written(read_time(t), {"f": t["to"]}),
        "string",
        "The time converted from one format to another.",
        {"date_format('0915-2017','MMdd-yyyy','yyyyMMdd')": "20170915"},
    ),
    _row(
        "datetrunc datefirst date_trunc",
        "s text, unit unit",
        lambda t: written(f"date_trunc('{t['unit']}', {read_time(t)})", t),
        "string",
        "The beginning of its year, month, day...",
        {
            f"datetrunc({_T},'MM')": "2017-09-01 00:00:00",
            f"datetrunc({_T},'hour')": "2017-09-15 13:00:00",
            f"datetrunc({_T},'mm')": "2017-09-15 13:14:00",
        },
    ),
    _row(
        "lastday last_day",
        ONE,
        lambda t: near(t, "last_day({})".format),
        "string",
        "The last date of its month.",
        {"lastday('2017-02-03')": "2017-02-28", "lastday('x')": None, "lastday('5000000-01-01')": None},
    ),
    _row(
        "nextday next_day",
        "s text, day word",
        _next_day,
        "string",
        "The next date after it that is the given day of the week.",
        {"nextday('2017-09-15','monday')": "2017-09-18"},
    ),
    _row(
        "to_date toDate",
        ONE,
        _date,
        "date",
        "The date of a text, or of a number of days since 1970.",
        {
            "to_date(100)": dt.date(1970, 4, 11),
            "to_date('2017-09-15')": dt.date(2017, 9, 15),
            "to_date('x')": None,
            "to_date(9999999)": None,
        },
    ),
    _row(
        "to_date toDate",
        TWO,
        f"try_to_date(regexp_replace({{s}}, {_SIGNED.replace('{', '{{').replace('}', '}}')}, ' '), {{f}})",
        "date",
        "The date of a text in a format.",
        {"to_date('20170915','yyyyMMdd')": dt.date(2017, 9, 15)},
    ),
    _row(
        "to_timestamp toTimestamp",
        ONE,
        instant,
        "timestamp",
        "The time of a text, in the zone of the script.",
        {"tochar(to_timestamp('2017-09-15  01:02:03'))": "2017-09-15 01:02:03", "to_timestamp('x')": None},
    ),
    _row(
        "to_timestamp toTimestamp",
        TWO,
        instant,
        "timestamp",
        "The time of a text in a format, in the zone of the script.",
        {"tochar(to_timestamp('150917','ddMMyy'))": "2017-09-15 00:00:00"},
    ),
    _row(
        "isValidTime isDate is_date",
        ONE,
        lambda t: f"({read_time(t)} is not null)",
        "boolean",
        "Whether it is a time.",
        {
            "isDate('2017-13-01')": False,
            "isDate('2017-12-01')": True,
            "isDate(null)": False,
            "isDate('12:30')": False,
            "isDate(concat(chr(9),'12:30'))": False,
        },
    ),
    _row(
        "isValidTime isDate is_date",
        TWO,
        lambda t: f"({read_time(t)} is not null)",
        "boolean",
        "Whether it is a time in a format.",
        {"isDate('01.12.2017','dd.MM.yyyy')": True, "isDate('+999999','yyyy')": False},
    ),
)
