"""Times as numbers since 1970, and the current time. A text is in the zone of the script."""

from __future__ import annotations

from collections.abc import Mapping

from rs_assets.expressions.functions.builtin.dates import ONE, TWO, instant, written
from rs_assets.expressions.functions.function import Family, Template

_row = Family("date").row

# The seconds from the year 1 to the year 9999.
SECONDS = (-62_135_596_800, 253_402_300_799)


def _between(count: str, factor: int) -> str:
    return f"{count} between {SECONDS[0] * factor} and {SECONDS[1] * factor}"


def _of_epoch(builtin: str, factor: int) -> Template:
    """Seconds or milliseconds since 1970 as a text in the zone of the script."""

    def template(texts: Mapping[str, str]) -> str:
        time = f"if({_between(texts['n'], factor)}, {builtin}({texts['n']}), null)"
        return written(f"from_utc_timestamp({time}, '{texts['zone']}')", texts)

    return template


def _epoch(builtin: str) -> Template:
    """A text in the zone of the script as seconds or milliseconds since 1970."""
    return lambda texts: f"{builtin}({instant(texts)})"


EPOCHS = (
    _row(
        "fromunixtime from_unixtime",
        "n long",
        _of_epoch("timestamp_seconds", 1),
        "string",
        "Seconds since 1970 as a text in the zone of the script.",
        {"fromunixtime(1505404800)": "2017-09-14 16:00:00", "fromunixtime(9223372036854775807)": None},
    ),
    _row(
        "fromunixtime from_unixtime",
        "n long, f format",
        _of_epoch("timestamp_seconds", 1),
        "string",
        "Seconds since 1970 in a format.",
        {"fromunixtime(1505404800,'MMdd-yyyy')": "0914-2017"},
    ),
    _row(
        "linuxtochar linuxtime2string",
        "n long",
        _of_epoch("timestamp_seconds", 1),
        "string",
        "Seconds since 1970 as a text.",
        {"linuxtochar('1505404800')": "2017-09-14 16:00:00"},
    ),
    _row(
        "timestamp2string timeLong2String from_unix_millis",
        "n long",
        _of_epoch("timestamp_millis", 1000),
        "string",
        "Milliseconds since 1970 as a text.",
        {"timestamp2string(1505404800123)": "2017-09-14 16:00:00"},
    ),
    _row(
        "timestamp2string timeLong2String from_unix_millis",
        "n long, f format",
        _of_epoch("timestamp_millis", 1000),
        "string",
        "Milliseconds since 1970 in a format.",
        {"timestamp2string(1505404800123,'HH:mm:ss.SSS')": "16:00:00.123"},
    ),
    _row(
        "unixtimestamp unixtime unix_timestamp",
        "",
        "unix_seconds(current_timestamp())",
        "bigint",
        "The time of the batch, in seconds since 1970.",
        {">(unixtimestamp(),1000000000)": True},
    ),
    _row(
        "unixtimestamp unixtime unix_timestamp",
        ONE,
        _epoch("unix_seconds"),
        "bigint",
        "A time in the zone of the script, in seconds since 1970.",
        {"unixtimestamp('2017-09-14 16:00:00')": 1505404800, "unixtimestamp('x')": None},
    ),
    _row(
        "unixtimestamp unixtime unix_timestamp",
        TWO,
        _epoch("unix_seconds"),
        "bigint",
        "A time in a format, in seconds since 1970.",
        {"unixtimestamp('2017','yyyy')": 1483228800},
    ),
    _row(
        "curstamp timestamp getdate gettime",
        "",
        "unix_millis(current_timestamp())",
        "bigint",
        "The time of the batch, in milliseconds since 1970.",
        {">(curstamp(),1000000000000)": True},
    ),
    _row(
        "curstamp timestamp",
        ONE,
        _epoch("unix_millis"),
        "bigint",
        "A time in the zone of the script, in milliseconds since 1970.",
        {"curstamp('2017-09-14 16:00:00.123')": 1505404800123},
    ),
    _row(
        "curstamp timestamp",
        TWO,
        _epoch("unix_millis"),
        "bigint",
        "A time in a format, in milliseconds since 1970.",
        {"curstamp('2017','yyyy')": 1483228800000},
    ),
    _row(
        "curstamp_second timestamp_second",
        "",
        "unix_seconds(current_timestamp())",
        "bigint",
        "The time of the batch, in seconds since 1970.",
        {">(curstamp_second(),1000000000)": True},
    ),
    _row(
        "now newdate",
        "f format = 'yyyy-MM-dd HH:mm:ss'",
        "date_format(from_utc_timestamp(current_timestamp(), '{zone}'), {f})",
        "string",
        "The time of the batch as a text in the zone of the script.",
        {"length(now())": 19},
    ),
    _row(
        "today current_date",
        "",
        "date_format(from_utc_timestamp(current_timestamp(), '{zone}'), 'yyyy-MM-dd')",
        "string",
        "The date of the batch in the zone of the script.",
        {"length(today())": 10},
    ),
)
