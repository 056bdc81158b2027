"""Reports of a run, in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from html import escape
from typing import Any

import pyarrow as pa

from rs_assets.common.plural import count_of
from rs_assets.errors import ConfigurationError
from rs_assets.operators.window.durations import EPOCH

# Seconds since 1970 that are taken for milliseconds are before it, until the year 2969.
SECONDS_END = datetime(1971, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """One finished batch of one query.

    `steps` are those that rows went through: sources with rows, sinks with rows, changed state. `rows_out` and
    `offsets` are by sink and by source; times are UTC. `rows_shuffled` came from other queries through a durable
    shuffle and are not in `rows_in`. `rows_in_again` of `rows_in`, and `rows_dead_again` of `rows_dead`, are counted by
    another query too. `gates` are the rows that came to a step and those that it rejected, by source and by step with
    event time (followed by a dot and the side, if it has several). `late` are the late rows by step. `expectations` are
    the rows that each expectation judged, and those that failed. `rows_refused` are rows of windows that a step after
    the window could not compute. `replayed`: an earlier run had planned the batch and not completed it. `counted`: the
    catalog has the batch of an earlier run, after which the checkpoint went back: its rows count no more in sums.
    `newest` is the greatest event time of its rows.
    """

    query: str
    steps: frozenset[str]
    batch_id: int
    rows_in: int
    rows_in_again: int = 0
    rows_shuffled: int = 0
    rows_dead: int
    rows_dead_again: int = 0
    rows_late: int
    rows_refused: int = 0
    rows_out: Mapping[str, int]
    seconds: float
    state_rows: int = 0
    state_bytes: int = 0
    watermark: datetime | None = None
    offsets: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    expectations: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    replayed: bool = False
    counted: bool = False
    generation: int = 1
    newest: datetime | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """The rows "in", "dead" and "late" that this batch adds to sums; none if they are `counted`."""
        return {} if self.counted else {"in": self.rows_in, "dead": self.rows_dead, "late": self.rows_late}

    @property
    def judged(self) -> Mapping[str, tuple[int, int]]:
        """What the expectations of this batch add to sums."""
        return {} if self.counted else self.expectations


# The fields that a query's report sums up over its batches, besides the rows by sink.
ADDED = (
    "rows_in",
    "rows_in_again",
    "rows_shuffled",
    "rows_dead",
    "rows_dead_again",
    "rows_late",
    "rows_refused",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReport:
    """The sums of one query over a run; `rows_in` + `rows_shuffled` = `rows_on` + `rows_dead` + `rows_late`.

    All numbers are of this query alone, whatever other queries read and reject; see `BatchProgress` for rows that
    another query counts as well.
    """

    query: str
    rows_in: int = 0
    rows_in_again: int = 0
    rows_shuffled: int = 0
    rows_dead: int = 0
    rows_dead_again: int = 0
    rows_late: int = 0
    rows_refused: int = 0
    rows_out: Mapping[str, int] = field(default_factory=dict)
    rows_open: int = 0
    batches: int = 0
    expectations: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    newest: datetime | None = None

    @property
    def rows_on(self) -> int:
        """Rows that passed every gate of this query."""
        return self.rows_read - self.rows_dead - self.rows_late

    @property
    def rows_read(self) -> int:
        """Rows of sources and of durable shuffles."""
        return self.rows_in + self.rows_shuffled

    def plus(self, batch: BatchProgress) -> QueryReport:
        """This report with one more batch."""
        out = {k: self.rows_out.get(k, 0) + batch.rows_out.get(k, 0) for k in {*self.rows_out, *batch.rows_out}}
        sums = {name: getattr(self, name) + getattr(batch, name) for name in ADDED if not batch.counted}
        judged = {**self.expectations, **{name: _added(self, batch, name) for name in batch.judged}}
        return replace(
            self,
            **sums,
            rows_out=out,
            rows_open=batch.state_rows,
            batches=self.batches + 1,
            expectations=judged,
            newest=max((at for at in (self.newest, batch.newest) if at is not None), default=None),
        )


def _added(report: QueryReport, batch: BatchProgress, expectation: str) -> tuple[int, int]:
    (rows, failed), (more, more_failed) = (each.expectations.get(expectation, (0, 0)) for each in (report, batch))
    return rows + more, failed + more_failed


def unmet(queries: Iterable[QueryReport], on_fail: Mapping[str, str]) -> tuple[str, ...]:
    """A warning for each expectation that rows did not meet; `on_fail` has what becomes of them, by step.

    >>> unmet([QueryReport(query="q", expectations={"has_page": (9, 2), "has_ms": (9, 0)})], {"has_page": "skip"})
    ("2 of 9 rows did not meet the expectation 'has_page' (on_fail='skip')",)
    """
    return tuple(
        f"{failed:,} of {count_of(rows, 'row')} did not meet the expectation {name!r} (on_fail={on_fail[name]!r})"
        for q in queries
        for name, (rows, failed) in q.expectations.items()
        if failed
    )


def unused(queries: Iterable[QueryReport]) -> tuple[str, ...]:
    """A warning for each query that could use none of its input rows.

    >>> unused([QueryReport(query="w", rows_in=5, rows_dead=5), QueryReport(query="v", rows_in=5, rows_dead=4)])
    ("query 'w' could use none of the 5 rows that it read; with bad_records='dead_letter' the dead letters say why",)
    """
    return tuple(
        f"query {q.query!r} could use none of the {count_of(q.rows_read, 'row')} that it read; with"
        " bad_records='dead_letter' the dead letters say why"
        for q in queries
        if q.rows_read and q.rows_dead == q.rows_read
    )


CHANGED_UNREAD = (
    "the pipeline has changed and there was nothing new to read: rows that it wrote before are as they were;"
    " --new-generation (new_generation=True) reads all input again"
)


def unread(queries: Iterable[QueryReport], *, changed: bool) -> tuple[str, ...]:
    """A warning if the pipeline was `changed` since it last read a row, and has read none in this run.

    >>> unread([QueryReport(query="w")], changed=True)
    ('the pipeline has changed and there was nothing new to read: rows that it wrote before are as they were; ...)
    """
    return () if not changed or any(q.rows_read for q in queries) else (CHANGED_UNREAD,)


def unwaited(queries: Iterable[QueryReport], steps: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A warning for each query with late rows whose `steps`, by query, have no watermark delay.

    >>> unwaited([QueryReport(query="w", rows_in=9, rows_late=2), QueryReport(query="v")], {"w": ["w"], "v": ["v"]})
    ("2 rows came too late for step 'w', which has no water_mark: .water_mark(...) says how long it waits for others",)
    """
    return tuple(
        f"{count_of(q.rows_late, 'row')} came too late for step {', '.join(map(repr, steps[q.query]))}, which has no"
        " water_mark: .water_mark(...) says how long it waits for others"
        for q in queries
        if q.rows_late and steps.get(q.query)
    )


def long_ago(
    queries: Iterable[QueryReport], steps: Mapping[str, Sequence[str]], fields: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """A warning for each query all of whose event times are in 1970: they count seconds.

    `steps` and `fields` have the steps of those times, and their fields, by query.

    >>> seconds = datetime(1970, 1, 21, 11, 2, tzinfo=UTC)
    >>> long_ago([QueryReport(query="w", newest=seconds), QueryReport(query="v")], {"w": ["w"]}, {"w": ["at"]})
    ("no event time of step 'w' is after 1970-01-21 ...; ..., .with_fields(at='timestamp_seconds(at)'), in SQL ...)
    """
    return tuple(
        f"no event time of step {', '.join(map(repr, steps[q.query]))} is after {q.newest:%Y-%m-%d %H:%M:%S} UTC: a"
        f" number is taken as milliseconds since 1970; if it counts seconds, {_as_times(fields[q.query])}"
        for q in queries
        if q.newest is not None and EPOCH < q.newest < SECONDS_END and steps.get(q.query)
    )


def _as_times(fields: Sequence[str]) -> str:
    """How fields that count seconds become times, in Python and in SQL."""
    made = ", ".join(f"{field}='timestamp_seconds({field})'" for field in fields)
    return f".with_fields({made}), in SQL {', '.join(f'TO_TIMESTAMP_LTZ({field}, 0)' for field in fields)}"


def unfired(queries: Iterable[QueryReport]) -> tuple[str, ...]:
    """A warning for each query that keeps state although its input has ended.

    >>> unfired([QueryReport(query="w", rows_open=2), QueryReport(query="v")])
    ("query 'w' keeps 2 rows of state though its input has ended, and will not emit them",)
    """
    return tuple(
        f"query {q.query!r} keeps {count_of(q.rows_open, 'row')} of state though its input has ended, and will not emit"
        f" {'it' if q.rows_open == 1 else 'them'}"
        for q in queries
        if q.rows_open
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The report of a run.

    Rows that several queries read count once, and so do records that one step rejects in several queries. Each window
    judges event times independently: a row that two windows reject is dead twice, and late twice if it is late for
    both. So `rows_in` = rows used + `rows_dead` + `rows_late` holds for each of `queries` by its own numbers, and for
    their sum; for the pipeline's numbers if it has one query.

    `rows_open` are groups in state whose windows have not fired and wait for the next run. `sealed` says that the input
    has ended. `recovered_from` names the savepoint from which a lost checkpoint was restored. `unchanged_since` has the
    last batch of each query, if nothing was new since and Spark was not needed. `shuffles` names the
    sinks that feed other queries. `previews` are the first open windows of each step of the queries with a batch, as
    they would fire now; `warnings` lists background failures.
    """

    pipeline: str
    run_id: str
    generation: int
    seconds: float
    sealed: bool
    recovered_from: str = ""
    unchanged_since: Mapping[str, int] = field(default_factory=dict)
    queries: tuple[QueryReport, ...]
    shuffles: frozenset[str] = frozenset()
    tables: Mapping[str, str] = field(default_factory=dict)
    previews: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """The report in one line."""
        took = f"{count_of(self.batches, 'batch')} in {self.seconds:.1f} s"
        tables = f"; tables: {', '.join(self.tables)}" if self.tables else ""
        return f"<RunReport {self.pipeline}: {self.rows_in_words}; {took}{tables}>"

    def _repr_html_(self) -> str:
        """The same for notebooks, with the location of each table and the warnings."""
        took = f"{count_of(self.batches, 'batch')} in {self.seconds:.1f} s"
        lines = [
            f"<b>{escape(self.pipeline)}</b>: {self.rows_in_words}; {took}",
            *(f"report.table({escape(repr(step))}): <code>{escape(path)}</code>" for step, path in self.tables.items()),
            *(f"<b>warning</b>: {escape(warning)}" for warning in self.warnings),
        ]
        return "<br>".join(lines)

    @property
    def unchanged_in_words(self) -> str:
        """Since which checkpoint nothing was new, if Spark was not needed; else empty."""
        if not self.unchanged_since:
            return ""
        read = {query: batch for query, batch in self.unchanged_since.items() if batch >= 0}
        since = [f"{batch} of {query}" if len(read) > 1 else str(batch) for query, batch in read.items()]
        return f"nothing new since checkpoint {', '.join(since)}" if read else "nothing new since the start"

    @property
    def rows_in_words(self) -> str:
        """The row counts as text."""
        return (
            f"{count_of(self.rows_in, 'row')} in, {self.rows_out:,} out, {self.rows_dead:,} dead,"
            f" {self.rows_late:,} late, {count_of(self.rows_open, 'group')} open"
        )

    def table(self, name: str) -> pa.Table:
        """The current rows of a Delta table that the pipeline writes, by table name or step name.

        An Arrow table: `.to_pandas()`, `polars.from_arrow(...)` and DuckDB accept it. ConfigurationError if there is no
        such table, or none yet.
        """
        from rs_assets.connectors.delta.rows import dataset_of
        from rs_assets.connectors.delta.table import open_table

        by_table = {path.rstrip("/").rpartition("/")[2]: path for path in self.tables.values()}
        path = {**by_table, **self.tables}.get(name)
        if path is None:
            raise ConfigurationError(
                f"the pipeline writes no table {name!r}", remedy=f"use one of: {', '.join(self.tables) or 'none'}"
            )
        table = open_table(path)
        if table is None:
            raise ConfigurationError(
                f"{name!r} has no rows yet, or is not a Delta table", remedy="look into its folder"
            )
        return dataset_of(table, path).to_table()

    @property
    def rows_in(self) -> int:
        """Rows read from outside, each once."""
        return sum(q.rows_in - q.rows_in_again for q in self.queries)

    @property
    def rows_dead(self) -> int:
        """Rows that could not be used, once for each step that rejected them."""
        return sum(q.rows_dead - q.rows_dead_again for q in self.queries)

    @property
    def rows_late(self) -> int:
        """Rows that came after all their windows had closed, over all windows."""
        return sum(q.rows_late for q in self.queries)

    @property
    def rows_refused(self) -> int:
        """Rows of windows that a later step could not compute; under quarantine they are dead letters."""
        return sum(q.rows_refused for q in self.queries)

    @property
    def expectations(self) -> Mapping[str, tuple[int, int]]:
        """The rows that each expectation judged, and those that did not meet it, by step."""
        return {name: counts for q in self.queries for name, counts in q.expectations.items()}

    @property
    def rows_out(self) -> int:
        """Rows written, over all sinks; rows into durable shuffles stay in the pipeline."""
        return sum(rows for q in self.queries for sink, rows in q.rows_out.items() if sink not in self.shuffles)

    @property
    def rows_open(self) -> int:
        """Groups of windows in state, over all queries."""
        return sum(q.rows_open for q in self.queries)

    @property
    def batches(self) -> int:
        """Batches that did something, over all queries."""
        return sum(q.batches for q in self.queries)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data, for JSON and metadata."""
        numbers = ("rows_in", "rows_out", "rows_dead", "rows_late", "rows_refused", "rows_open", "batches")
        return {
            "pipeline": self.pipeline,
            "run_id": self.run_id,
            "generation": self.generation,
            "sealed": self.sealed,
            "recovered_from": self.recovered_from,
            "unchanged_since": dict(self.unchanged_since),
            "warnings": list(self.warnings),
            "seconds": round(self.seconds, 3),
            **{name: getattr(self, name) for name in numbers},
            "expectations": {name: list(counts) for name, counts in self.expectations.items()},
            "sinks": {s: rows for q in self.queries for s, rows in q.rows_out.items() if s not in self.shuffles},
            "tables": dict(self.tables),
        }
