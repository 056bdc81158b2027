"""Windows: as table functions, TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), size)), and inside GROUP BY, TUMBLE(ts, size)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from rs_assets.errors import TopologyError
from rs_assets.operators.window.spec import (
    AlignedWindow,
    CumulateWindow,
    HoppingWindow,
    SessionWindow,
    TumblingWindow,
    Window,
)
from rs_assets.sql.expressions.values import Role, Value
from rs_assets.sql.plan.planner import Planner, QueryContext
from rs_assets.sql.plan.relation import Column, Pending, Relation, Scope
from rs_assets.sql.plan.window_functions import WINDOWS
from rs_assets.sql.read.durations import duration, duration_text
from rs_assets.sql.read.lexer import CALL
from rs_assets.sql.read.source import nearest
from rs_assets.sql.read.types import TIMESTAMP

Rows = Callable[[Planner, Any, QueryContext], Relation]
# The columns that a window table function adds, and their roles.
BOUNDS: Final[Mapping[str, Role]] = MappingProxyType(
    {"window_start": "start", "window_end": "end", "window_time": "last"}
)
# The duration that is the distance between two windows.
PERIODS: Final[Mapping[str, int]] = MappingProxyType({"TUMBLE": 0, "HOP": 0, "CUMULATE": 1})
# How to declare the event time of a table.
DECLARED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "flink": "declare it in CREATE TABLE: WATERMARK FOR ts AS ts - INTERVAL '4' SECOND",
        "spark": "declare it in the query: FROM t WATERMARK ts DELAY OF INTERVAL 4 SECONDS",
    }
)
MILLISECOND: Final = timedelta(milliseconds=1)
# The columns of PARTITION BY after the table of SESSION.
PARTITION: Final = f"{CALL}PARTITION"
NONE: Final = timedelta(0)
# Placeholder for window bounds that are only known after grouping.
UNGROUPED: Final = "\0window bound"


def pending(planner: Planner, call: Any, context: QueryContext, rows: Rows) -> Relation:
    """The rows of the table or sub-query of a window function, to be grouped by the window's bounds."""
    kind = call.name.removeprefix(CALL)
    if kind not in WINDOWS:
        raise planner.error(f"unknown window {kind}", call, remedy=nearest(kind, WINDOWS))
    arguments = _arguments(planner, kind, call)
    if len(arguments) < 3 or arguments[0].key not in ("column", "subquery") or arguments[1].key != "column":
        raise planner.error(
            f"{kind} takes a table, a column and durations",
            call,
            remedy=f"write TABLE({kind}(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
        )
    relation = rows(planner, arguments[0], context)
    check_rows(planner, relation, call)
    if relation.pending is not None:
        raise planner.error("a window over windowed rows", call, remedy="group the rows of the first window")
    value = Scope(planner.text, relation.columns).find(arguments[1])
    window, field = window_of(planner, kind, arguments[1], value, arguments[2:], call)
    # The bounds of previous windows are plain values here.
    known = tuple(
        replace(each, value=replace(each.value, role="")) if each.value.role in BOUNDS.values() else each
        for each in relation.columns
    )
    columns = (*known, *_bounds(planner, window, value, relation, call))
    parts = _parts(planner, relation, call) if kind == "SESSION" else None
    return replace(cascaded(relation, window, value), columns=columns, pending=Pending(window, field, parts))


def check_rows(planner: Planner, relation: Relation, at: Any) -> None:
    """SqlError for a window over a table, whose rows have no event time."""
    if relation.changes:
        raise planner.error(
            "the rows of a table change, so they have no windows", at,
            remedy="group by a column: DATE_FORMAT(ts, 'yyyy-MM-dd HH')",
        )  # fmt: skip


def _parts(planner: Planner, relation: Relation, call: Any) -> tuple[Value, ...]:
    """The values of PARTITION BY."""
    named: list[Any] = next((each.expressions for each in call.expressions if each.name == PARTITION), [])
    return tuple(planner.over(relation).value(each) for each in named)


def check_parts(planner: Planner, pending: Pending, keys: Iterable[Value], at: Any) -> None:
    """SqlError if the keys of GROUP BY are not those of the session window."""
    wanted, given = pending.parts, list(keys)
    if wanted is None or {each.text for each in wanted} == {each.text for each in given}:
        return
    names = [each.field for each in given if each.field is not None]
    over = f"PARTITION BY {', '.join(names)}" if names and len(names) == len(given) else "PARTITION BY the same columns"
    raise planner.error(
        f"the sessions are {'partitioned by other columns than' if wanted else 'not partitioned by'} the GROUP BY keys",
        at,
        remedy=f"write {over} after the table in SESSION" if given else "add its columns of PARTITION BY to GROUP BY",
    )


def _arguments(planner: Planner, kind: str, call: Any) -> list[Any]:
    """The arguments in order; named ones may be in any order: SIZE => INTERVAL '10' SECOND."""
    given = [each for each in call.expressions if each.name != PARTITION]
    if not any(each.key == "kwarg" for each in given):
        return given
    known = ("DATA", "TIMECOL", *(name.upper() for name in WINDOWS[kind]), *(() if kind == "SESSION" else ("OFFSET",)))
    named: dict[str, Any] = {}
    for each in given:
        name = each.this.name.upper() if each.key == "kwarg" else ""
        if name not in known or name in named:
            raise planner.error(
                f"{kind} takes {', '.join(known)}, each once, if arguments are named", each,
                remedy="name all arguments, or none",
            )  # fmt: skip
        named[name] = each.expression
    return [named[name] for name in known if name in named]


def window_of(
    planner: Planner, kind: str, at: Any, value: Value | None, times: Sequence[Any], call: Any
) -> tuple[Window, str | None]:
    """The window of a call, and its event-time field; None for processing time."""
    field = event_field(planner, at, value)
    spans = [duration(planner.text, each) for each in times]
    wanted = len(WINDOWS[kind])
    if not wanted <= len(spans) <= wanted + (kind != "SESSION"):
        raise planner.error(
            f"{kind} takes {_times(kind)}, not {len(spans)}",
            call,
            remedy=f"write {kind}(ts, {', '.join(['INTERVAL ...'] * wanted)})",
        )
    offset = _offset(planner, spans[wanted], spans[PERIODS[kind]], times[wanted]) if len(spans) > wanted else NONE
    try:
        if kind == "SESSION":
            return SessionWindow.of(spans[0], field), field
        if kind == "TUMBLE":
            return TumblingWindow.of(spans[0], field, offset=offset), field
        if kind == "CUMULATE":
            return CumulateWindow.of(spans[1], spans[0], field, offset=offset), field
        # The slide is the first argument.
        return HoppingWindow.of(spans[1], spans[0], field, offset=offset), field
    except TopologyError as error:
        raise planner.error(error.what, call, remedy=error.remedy) from error


def _offset(planner: Planner, offset: timedelta, period: timedelta, at: Any) -> timedelta:
    """The non-negative offset of a window from the epoch; a negative one is shifted by a period."""
    if offset >= NONE:
        return offset
    if -offset >= period:
        raise planner.error(
            "an offset must be shorter than the distance between two windows", at,
            remedy=f"write its remainder: INTERVAL '{(offset % period) // MILLISECOND / 1000:g}' SECOND",
        )  # fmt: skip
    return offset % period


def _times(kind: str) -> str:
    names = WINDOWS[kind]
    return "one duration" if len(names) == 1 else " and ".join(f"a {name}" for name in names)


def cascaded(relation: Relation, window: Window, value: Value | None) -> Relation:
    """`relation` for a window by `value`: if that is the last instant of previous windows, it is in a separate query.

    Spark derives the end of a window only from its bounds, and the last instant is computed from them.
    """
    last = value is not None and value.role == "last" and window.time_field is not None
    return replace(relation, apart=True) if last and relation.stateful else relation


def event_field(planner: Planner, at: Any, value: Value | None) -> str | None:
    """The event-time field of a window, None for processing time; SqlError if it is not a time."""
    if value is not None and value.role == "proctime":
        return None
    if value is None or value.role not in ("rowtime", *BOUNDS.values()) or value.field is None:
        raise planner.error(
            f"{planner.text.written(at) or 'this'} is not an event time",
            at,
            remedy=DECLARED[planner.text.dialect],
        )
    return value.field


def _bounds(planner: Planner, window: Window, value: Value | None, relation: Relation, call: Any) -> list[Column]:
    taken = {column.name.casefold() for column in relation.columns}
    twice = next((name for name in BOUNDS if name in taken), None)
    if twice is not None:
        raise planner.error(
            f"the table already has a column {twice!r}", call, remedy="rename the column in a sub-query"
        )
    texts = _texts(window, value)
    return [Column(name, Value(texts[role], TIMESTAMP, role)) for name, role in BOUNDS.items()]


def _texts(window: Window, value: Value | None) -> Mapping[str, str]:
    """The bounds of the window of a row; rows of several windows, or of a session, only have them when grouped."""
    if not isinstance(window, TumblingWindow) or value is None or value.field is None:
        return dict.fromkeys(BOUNDS.values(), UNGROUPED)
    size, offset = (each // timedelta(microseconds=1) for each in (window.size, window.offset))
    micros = f"unix_micros({value.text})"
    start = f"timestamp_micros({micros} - pmod({micros} - {offset}, {size}))"
    return {
        "start": start,
        "end": f"({start} + {duration_text(window.size)})",
        "last": f"({start} + {duration_text(window.size - MILLISECOND)})",
    }


def bound_values(start: str, end: str) -> Mapping[Role, Value]:
    """The bounds of a window's rows, from their fields `start` and `end`."""
    return {
        "start": Value(start, TIMESTAMP, "start"),
        "end": Value(end, TIMESTAMP, "end"),
        "last": Value(f"({end} - {duration_text(MILLISECOND)})", TIMESTAMP, "last"),
    }


def regrouped(planner: Planner, relation: Relation, start: Value, at: Any) -> TumblingWindow:
    """The window with exactly the rows of one window of `relation`: as long as the distance between two starts."""
    window = relation.window
    if not isinstance(window, AlignedWindow) or start.field is None:
        raise planner.error(
            "the rows of these windows cannot be grouped by their windows again", at, remedy="use TUMBLE or HOP"
        )
    return TumblingWindow.of(window.slide, start.field, offset=window.offset)


def check_once(planner: Planner, relation: Relation, at: Any) -> None:
    """SqlError for rows that are in several windows each, if they are not grouped."""
    if relation.pending is not None and relation.pending.window.overlap:
        kind = "HOP" if isinstance(relation.pending.window, HoppingWindow) else "CUMULATE"
        raise planner.error(
            f"a row is in several {kind} windows, so it would be emitted more than once", at,
            remedy="GROUP BY window_start, window_end, or use the table without its window",
        )  # fmt: skip


def check_end(planner: Planner, window: Window | None, roles: Iterable[Role], at: Any) -> None:
    """SqlError for windows that begin together, if `roles` does not have their end."""
    if window is not None and "start_time" not in window.places and not {"end", "last"} & set(roles):
        raise planner.error(
            "CUMULATE windows begin together, so window_start does not identify one", at, remedy="add window_end"
        )


def check_bounds(planner: Planner, value: Value, at: Any, *, alone: bool = False) -> None:
    """SqlError for the bound of a window whose rows are not grouped; `alone` it is allowed."""
    if UNGROUPED in value.text and not (alone and value.text == UNGROUPED):
        raise planner.error(
            "the bounds of this window are only known after GROUP BY", at, remedy="GROUP BY window_start, window_end"
        )
