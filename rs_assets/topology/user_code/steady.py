"""Finds expressions whose result differs when they are computed again: they ask for the clock, or for chance."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rs_assets.topology.user_code.quoting import QUOTED
from rs_assets.topology.user_code.spark_column import parts_of

if TYPE_CHECKING:
    from pyspark.sql import Column

# Functions of Spark's SQL, of conditions and of scripts that ask for the clock: with any arguments, only without
# arguments, and also without parentheses.
CALLED: Final = (
    *("now", "newdate", "today", "curdate", "getdate", "gettime", "curstamp_second", "timestamp_second"),
    "current_time",
)
EMPTY: Final = ("unix_timestamp", "unixtimestamp", "unixtime", "curstamp", "timestamp")
BARE: Final = ("current_timestamp", "current_date", "localtimestamp")
# Functions of Spark's SQL whose result differs from call to call.
CHANCE: Final = (
    *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle"),
    *("monotonically_increasing_id", "spark_partition_id"),
)
# Texts that Spark reads as a time of the clock, where it reads a time.
MOMENTS: Final = re.compile(r"(now|today|tomorrow|yesterday)\b[^'\"]*", re.IGNORECASE)
_MOMENT = "'(now|today|tomorrow|yesterday)'"
_OF_TIME = r"(?:date|timestamp(?:_[ln]tz)?)"
_CLOCK = (
    rf"({'|'.join(CALLED)})\s*\(|({'|'.join(EMPTY)})\s*\(\s*\)|({'|'.join(BARE)})\b"
    rf"|(?:try_)?to_{_OF_TIME}\s*\(\s*{_MOMENT}|{_OF_TIME}\s*\(?\s*{_MOMENT}"
    rf"|(?:try_)?cast\s*\(\s*{_MOMENT}\s*as\s+{_OF_TIME}\b"
)
CLOCK: Final = re.compile(rf"(?<![\w.])(?:{_CLOCK})|{_MOMENT}\s*::\s*{_OF_TIME}\b", re.IGNORECASE)
DRAWN: Final = re.compile(rf"(?<![\w.])({'|'.join(CHANCE)})\s*\(", re.IGNORECASE)
UNSTEADY: Final = re.compile(rf"{DRAWN.pattern}|{CLOCK.pattern}", re.IGNORECASE)
# The SQL inside of a Column that is written before Spark runs.
_INNER = re.compile(rf"(?<![\w.])expr\(\s*({QUOTED.pattern})", re.DOTALL)


def clock_of(text: str) -> str | None:
    """The function or time of a text, in SQL or of a Column, that asks for the clock; None without one.

    >>> clock_of("ts > now() - INTERVAL 1 DAY"), clock_of("timestamp(ts) > since AND page = 'now()' AND `today` > 1")
    ('now', None)
    >>> clock_of("ts < TIMESTAMP 'now'"), clock_of("CAST('today' AS DATE)"), clock_of("page = 'today'")
    ('now', 'today', None)
    >>> clock_of("col('ts') > expr('now()')"), clock_of("rand() > 0.5")
    ('now', None)
    """
    return _first(CLOCK, text)


def chance_of(text: str) -> str | None:
    """The function of a text whose result differs from call to call; None without one.

    >>> chance_of("price * rand (7)"), chance_of("col('id') + expr('uuid()')"), chance_of("uuid = 'rand()'")
    ('rand', 'uuid', None)
    """
    return _first(DRAWN, text)


def unsteady(text: str) -> str | None:
    """The function or time of a text whose result differs when it is computed again; None without one.

    >>> unsteady("price * rand (7)"), unsteady("current_date - day"), unsteady("uuid = 'now()' AND `rand` > 1")
    ('rand', 'current_date', None)
    >>> unsteady("unix_timestamp() - s"), unsteady("unix_timestamp(day)"), unsteady("day < DATE 'yesterday'")
    ('unix_timestamp', None, 'yesterday')
    """
    return _first(UNSTEADY, text)


def unsteady_column(column: Column) -> str | None:
    """The same for a Column of a running Spark: of its functions, and of the SQL inside of it."""
    parts = parts_of(column)
    called = (name for name in parts.functions if name.lower() in {*CALLED, *BARE, *CHANCE})
    return next(called, None) or next(filter(None, map(unsteady, (*parts.texts, *parts.casts))), None)


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    for each in _texts(text):
        found = pattern.search(QUOTED.sub(_emptied, each))
        if found is not None:
            return str(next(filter(None, found.groups())))
    return None


def _texts(text: str) -> Iterator[str]:
    yield text
    yield from (str(ast.literal_eval(each[1])) for each in _INNER.finditer(text))


def _emptied(found: re.Match[str]) -> str:
    """A text without what is in it, unless it is a time of the clock."""
    moment = MOMENTS.fullmatch(found[0][1:-1].strip()) if found[0][0] != "`" else None
    return f"'{moment[1].lower()}'" if moment is not None else "''"
