"""Builds a pipeline from statements."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, get_args

from rs_assets.errors import ConfigurationError, SqlError, TopologyError
from rs_assets.operators.window.trigger import HOLD, ONCE, Firing
from rs_assets.sql.connectors.sinks import upsert_columns, written
from rs_assets.sql.plan.catalog import catalog_of
from rs_assets.sql.plan.outputs import Selected
from rs_assets.sql.plan.planner import Planner, QueryContext, step_name
from rs_assets.sql.plan.query import selected_of
from rs_assets.sql.plan.stateful import is_read_by_time, lacks_one_state
from rs_assets.sql.read.durations import duration
from rs_assets.sql.read.lexer import TOO_DEEP
from rs_assets.sql.read.reader import statements
from rs_assets.sql.read.source import Dialect, Text
from rs_assets.sql.read.statements import Emit, Insert
from rs_assets.sql.systems.source_table import Bound
from rs_assets.stream.builder import StreamBuilder
from rs_assets.stream.draft import StepRef

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.pipeline import Pipeline

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_CAST = re.compile(r"\.with_fields\((\w+)='cast\(\1 as ([^']+)\)'\)")
# What a statement cannot say, and what does the same.
_SHUFFLE = ".shuffle("
OWN_TABLE = "write the rows of each side to one table in Delta, by an INSERT each, and read that in another file"
_STEP = re.compile(r"(?:step|window|union) '([a-z0-9_]+)'")


def pipeline_from_sql(
    sql: str | PathLike[str],
    *,
    namespace: str = "sql",
    job: str | None = None,
    tables: Mapping[str, Bound] | None = None,
    variables: Mapping[str, str] | None = None,
    dialect: Dialect = "flink",
    renamed: Mapping[str, str] | None = None,
    description: str = "",
) -> Pipeline:
    """The pipeline of a file of streaming SQL, or of its text; docs/sql.md describes the dialect.

    A path is a `Path`, or a text that ends in `.sql`. `job` is by default the name of the file, or of the first
    table that is written. `tables` passes rows or a `MemoryChannel` for tables by name, which override their options.
    With `dialect="spark"` statements and functions are those of Spark. `${NAME}` in the text
    is replaced from `variables`, else from the environment. `renamed` and `description` are as for `build()`.

    SqlError, with line and column, is raised before anything is read or written.

    >>> pipeline = pipeline_from_sql('''
    ...     CREATE TABLE clicks (page STRING, ms BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
    ...         WITH ('connector' = 'filesystem', 'path' = 'clicks.jsonl', 'format' = 'json');
    ...     CREATE TABLE pages (page STRING, hits BIGINT, until TIMESTAMP(3)) WITH ('connector' = 'print');
    ...     INSERT INTO pages SELECT page, COUNT(*), TUMBLE_END(ts, INTERVAL '1' MINUTE) FROM clicks
    ...         WHERE ms > 100 GROUP BY page, TUMBLE(ts, INTERVAL '1' MINUTE)
    ... ''')
    >>> print(pipeline.describe())
    sql.pages  fingerprint ...
      clicks       file_source  [json clicks.jsonl]
      pages_where  filter <- clicks  [`ms` > 100]
    * pages_group  window_aggregate <- pages_where  [tumbling 0:01:00 by page: count]
      pages_row    map <- pages_group  [...]
      pages        print_sink <- pages_row
    """
    text = text_of(sql, variables or {}, dialect)
    try:
        catalog = catalog_of(text, statements(text))
        named = job or step_name(Path(text.file).stem if text.file else catalog.inserts[0].table.text)
        planner = Planner(text, catalog, StreamBuilder.data_stream(namespace, named), tables or {})
        last = _planned(planner)
        with PositionedErrors(planner, catalog.inserts[0].table.start):
            return last.build(renamed=renamed, description=description)
    except RecursionError:
        raise text.error(TOO_DEEP, 0, remedy="move parts of it into views") from None


def _planned(planner: Planner) -> DataStream:
    """The streams of all statements, in order; the last one leads to the others."""
    streams = []
    for insert in planner.catalog.inserts:
        with PositionedErrors(planner, insert.table.start):
            streams.append(_inserted(planner, insert))
    return streams[-1]


def text_of(sql: str | PathLike[str], variables: Mapping[str, str], dialect: Dialect = "flink") -> Text:
    """The text of statements, read from its file, with its variables filled in."""
    if dialect not in get_args(Dialect):
        raise ConfigurationError(
            f"unknown dialect {dialect!r}", remedy=f"use one of: {', '.join(map(repr, get_args(Dialect)))}"
        )
    is_path = not isinstance(sql, str) or (sql.strip().endswith(".sql") and "\n" not in sql.strip())
    file = fspath(sql).strip() if is_path else None
    try:
        text = Path(file).read_text(encoding="utf-8-sig") if file is not None else fspath(sql)
    except OSError as error:
        raise ConfigurationError(f"the file {file} cannot be read: {error.strerror}", remedy="name a file") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"the file {file} is not in UTF-8: {error.reason}", remedy="save it in UTF-8"
        ) from error
    return Text(_filled(Text(text, file, dialect), variables), file, dialect)


def _filled(text: Text, variables: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1]
        made = variables.get(name, os.environ.get(name))
        if made is None:
            raise text.error(
                f"the variable {name!r} has no value", found.start(), remedy=f"variables={{{name!r}: ...}}"
            )
        return made

    return _VARIABLE.sub(value, text.sql)


def _inserted(planner: Planner, insert: Insert) -> DataStream:
    name = step_name(insert.table.text)
    context = QueryContext(
        name, firing=_firing(planner, insert.emit), root=name, upsert_columns=upsert_columns(planner, insert)
    )
    made = planner.divided(
        lambda: selected_of(planner, insert.tree, context),
        lambda found: found.relation.stream.step,
        lacks_one_state,
        is_read_by_time,
    )
    _check_fires(planner, insert, made, context)
    return written(planner, insert, made, replace(context, firing=ONCE))


def _check_fires(planner: Planner, insert: Insert, made: Selected, context: QueryContext) -> None:
    """SqlError for EMIT without a window that it applies to."""
    step = made.relation.stream.step
    steps = step.upstream() if isinstance(step, StepRef) else ()
    if insert.emit and not any(getattr(each.node, "firing", ONCE) == context.firing for each in steps):
        raise planner.error(
            "EMIT needs a window, and this query has none", insert.emit[0].at,
            remedy="remove EMIT, or group by a window: GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
        )  # fmt: skip


def _firing(planner: Planner, emits: tuple[Emit, ...]) -> Firing:
    """When windows of a statement fire in addition to their end, by EMIT."""
    firing = ONCE
    for emit in emits:
        if emit.delay is None:
            raise planner.error(
                "EMIT WITHOUT DELAY is not supported", emit.at, remedy="EMIT WITH DELAY '10' SECOND BEFORE WATERMARK"
            )
        every = duration(planner.text, emit.delay, emit.at)
        if emit.side != "AFTER":
            firing = replace(firing, before=every)
        if emit.side != "BEFORE":
            firing = replace(firing, after=every, hold=HOLD)
    return firing


class PositionedErrors:
    """Adds the position of the clause of a step to errors of the topology; without a step, `at`."""

    def __init__(self, planner: Planner, at: int) -> None:
        self.planner, self.at = planner, at

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """SqlError for an error of the topology, and for an expression that is nested too deeply."""
        if isinstance(error, RecursionError):
            raise self.planner.text.error(TOO_DEEP, self.at, remedy="move parts of it into views") from None
        if not isinstance(error, TopologyError) or isinstance(error, SqlError):
            return
        found = _STEP.search(error.what)
        step = str(error.facts.get("step") or (found[1] if found else ""))
        # A statement has no steps that a cast could be.
        remedy = _CAST.sub(lambda cast: f"CAST({cast[1]} AS {cast[2].upper()})", error.remedy)
        remedy = OWN_TABLE if _SHUFFLE in remedy else remedy
        raise self.planner.text.error(
            error.what, self.planner.steps.get(step, self.at), remedy=remedy, step=step or None
        ) from error
