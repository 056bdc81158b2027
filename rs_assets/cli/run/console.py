"""The output of a run: a progress bar, the results, and where to find more."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from rs_assets.checkpoint.log import NOTHING_READ
from rs_assets.common.home import Home
from rs_assets.common.loading import uncollected
from rs_assets.common.plural import count_of, plural
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.console.writer import as_table, terminal
from rs_assets.connectors.delta.log.store import is_table
from rs_assets.connectors.delta.rows import dataset_of
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.source import Metered
from rs_assets.dagster.runs.launch import Launched, LaunchRequest, launch
from rs_assets.operators.window.event_time import moving
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.report import BatchProgress, QueryReport, RunReport
from rs_assets.stream.pipeline import Pipeline

COMMAND = "rs-assets"
# How many rows of each result are shown.
PREVIEW_ROWS = 5
OF_NOW = timedelta(days=1)
# A stop before the beginning or after the end of the work.
STOPPED = "stopped; the next start goes on from its last commit"
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def run_and_show(pipeline: Pipeline, request: LaunchRequest, *, plain: bool, as_json: bool) -> None:
    """Run `pipeline` to the end of its input and show the results; raises the RsError that ended it."""
    out = terminal()
    run_id: str | None = None
    with bar_of(pipeline, out, hidden=as_json) as bar:
        if plain:
            options = RunOptions(
                on_progress=bar.show,
                preview_rows=PREVIEW_ROWS,
                new_generation=request.new_generation,
                reset_steps=request.reset_steps,
                keep_state=request.keep_state,
            )
            report = pipeline.run(options, finish=request.finish or None)
        else:
            done = _launched(pipeline, request, bar)
            run_id, report = done.run_id, done.report
    if as_json:
        sys.stdout.write(json.dumps({**report.as_dict(), "dagster_run_id": run_id}) + "\n")
        return
    show_report(report, out)
    if report.batches:
        show_results(report, out)
        show_open(report, out)
    show_next(run_id, out)


def _launched(pipeline: Pipeline, request: LaunchRequest, bar: Bar) -> Launched:
    """The run of `pipeline` through Dagster; ClickException, without a trace, if a person stopped it."""
    with uncollected():
        from dagster import DagsterExecutionInterruptedError, Failure

    try:
        return launch(pipeline, "run", request=request, listener=bar.show, begun=bar.begun, preview_rows=PREVIEW_ROWS)
    except Failure as ended:
        raise click.ClickException(f"{ended.description}; the next run goes on from here") from None
    except DagsterExecutionInterruptedError:
        # The second interrupt, while the run waited for its batch in flight.
        raise click.ClickException("stopped at once; the next run goes on from its last commit") from None


def stand_by(pipeline: Pipeline) -> None:
    """Wait until the driver of `pipeline` is gone, then run its stream as `start_and_watch` does.

    Its run in Dagster begins before the wait.
    """
    out = terminal()
    out.print(f"standby of {pipeline.name}: starting Spark; Ctrl-C ends it")
    _stream(pipeline, LaunchRequest(standby=True), out)


def start_and_watch(pipeline: Pipeline) -> None:
    """Start `pipeline` through Dagster and show its batches until Ctrl-C."""
    out = terminal()
    out.print(f"{pipeline.name} runs; Ctrl-C drains and stops it")
    _stream(pipeline, LaunchRequest(), out)


def _stream(pipeline: Pipeline, request: LaunchRequest, out: Console) -> None:
    from dagster import DagsterExecutionInterruptedError

    report: RunReport | None = None
    said = "drained and stopped; the next start goes on from here"
    with bar_of(pipeline, out, hidden=False) as bar:
        try:
            done = launch(pipeline, "start", request=request, listener=bar.show, begun=bar.begun, said=bar.say)
            report = done.report
        except (KeyboardInterrupt, DagsterExecutionInterruptedError) as stopped:
            said = str(stopped) or STOPPED
    for warning in report.warnings if report is not None else ():
        out.print(f"[bold yellow]warning[/]: {escape(warning)}")
    out.print(said)


class Bar:
    """A progress bar over the bytes of the input."""

    def __init__(self, pipeline: Pipeline, progress: Progress) -> None:
        self.pipeline = pipeline
        self.progress = progress
        self.batches = 0
        self._read: Counter[str] = Counter()
        self._first_read = 0
        self._done: dict[tuple[str, str], int] = {}
        readers = {source.name: reader_of(source) for source in pipeline.topology.sources}
        self._metered = {name: reader for name, reader in readers.items() if isinstance(reader, Metered)}
        self.total = sum(reader.size() for reader in self._metered.values())
        self.task: TaskID = progress.add_task("starting", total=None)

    def begun(self) -> None:
        """Show that Spark and the queries have started."""
        if not self.batches:
            self.progress.update(self.task, description="Spark runs; no batch so far")

    def say(self, text: str) -> None:
        """Show what a standby does, on a line of its own, too: a log has no bar."""
        self.progress.console.print(text, soft_wrap=True)
        self.progress.update(self.task, description=text)

    def show(self, batch: BatchProgress) -> None:
        """Advance by one batch."""
        self.batches += 1
        if not batch.counted:
            self._read[batch.query] += batch.rows_in
            self._first_read += batch.rows_in - batch.rows_in_again
        for source, offset in batch.offsets.items():
            if source in self._metered and offset != NOTHING_READ:
                self._done[batch.query, source] = self._metered[source].done(offset)
        reached = min(self._done.values(), default=0)
        total = self.total if self._done and self.total else None
        self.progress.update(self.task, description=self._said(batch), total=total, completed=reached)

    @property
    def rows(self) -> int:
        """The rows that were read; those of one source count once, even if several queries read them."""
        return max(self._first_read, *self._read.values(), 0)

    def _said(self, batch: BatchProgress) -> str:
        parts = [f"batch {self.batches}", count_of(self.rows, "row")]
        if batch.rows_in and batch.seconds:
            parts.append(f"{batch.rows_in / batch.seconds:,.0f} rows/s")
        at = moving(batch.watermark)
        if at is not None:
            lag = datetime.now(UTC) - at
            # For old rows the time is more useful than the lag.
            parts.append(
                f"watermark lags {in_short(lag)}" if abs(lag) < OF_NOW else f"watermark {at:%Y-%m-%d %H:%M:%S}"
            )
        return ", ".join(parts)

    def end(self) -> None:
        """Fill the bar."""
        self.progress.update(self.task, total=1, completed=1)


@contextmanager
def bar_of(pipeline: Pipeline, out: Console, *, hidden: bool) -> Iterator[Bar]:
    """A bar on the terminal of `out` while `pipeline` runs."""
    columns = (SpinnerColumn(), TextColumn(f"[bold]{pipeline.name}"), BarColumn(), TextColumn("{task.description}"))
    with _own_terminal(out) as console:
        shown = Progress(
            *columns, TimeElapsedColumn(), console=console, disable=hidden, redirect_stdout=False, redirect_stderr=False
        )
        with shown as progress:
            bar = Bar(pipeline, progress)
            yield bar
            bar.end()


@contextmanager
def _own_terminal(out: Console) -> Iterator[Console]:
    """The terminal of `out`, even if standard output is redirected: Dagster writes the output of steps to a file.

    A bar is drawn on terminals only: it would fill the log of a stream that runs for months.
    """
    if not out.file.isatty():
        yield out
        return
    with os.fdopen(os.dup(out.file.fileno()), "w", encoding=out.encoding) as terminal:
        yield Console(file=terminal)


def show_report(report: RunReport, out: Console) -> None:
    """The sums of a run; with several queries a line for each."""
    for warning in report.warnings:
        out.print(f"\n[bold yellow]warning[/]: {escape(warning)}")
    if report.recovered_from:
        out.print(f"\n[bold]recovered[/]: the checkpoint was gone and came back from {report.recovered_from}")
    if not report.batches:
        since = f"; {report.unchanged_in_words}, found without Spark" if report.unchanged_since else ""
        out.print(f"\n[bold]no new input[/]: nothing was read, nothing was written again{since}", soft_wrap=True)
        return
    alone = len(report.queries) == 1
    out.print(
        f"\n{_bold(report.rows_in)} in{_parts(report, report.queries[0]) if alone else ''};"
        f" {_bold(report.rows_out)} out in {count_of(report.batches, 'batch')}, {report.seconds:.1f} s",
        soft_wrap=True,
    )
    # Each query reads, and decides, for itself.
    for query in () if alone else report.queries:
        out.print(f"  {query.query}: {query.rows_read:,}{_parts(query, query)}", soft_wrap=True)
    if report.rows_open:
        out.print(f"{count_of(report.rows_open, 'row')} of state (open windows, rows of joins), kept for the next run")


def _bold(rows: int) -> str:
    return f"[bold]{rows:,}[/] {plural(rows, 'row')}"


def _parts(of: RunReport | QueryReport, query: QueryReport) -> str:
    """The counts of used, dead and late rows."""
    return f" = {query.rows_on:,} used + {count_of(of.rows_dead, 'dead letter')} + {of.rows_late:,} late"


def show_results(report: RunReport, out: Console) -> None:
    """Some rows of each table, and the paths of the tables."""
    for step, path in report.tables.items():
        table = open_table(path) if Path(path).exists() else None
        if table is None:
            continue
        rows = dataset_of(table, path).head(PREVIEW_ROWS)
        out.print()
        out.print(as_table(_first(rows), title=f"{step} ({count_of(table.count(), 'row')})", max_rows=PREVIEW_ROWS))
    show_places(report, out)


def show_places(report: RunReport, out: Console) -> None:
    """The paths of the tables, each in one line, so that they can be copied."""
    places = dict(report.tables)
    dead_letters = Home.default().dead_letters
    if is_table(dead_letters):
        places["dead letters"] = dead_letters
    if not places:
        return
    out.print("\n[italic]where the tables are[/]")
    width = max(map(len, places), default=0)
    for step, path in places.items():
        out.print(f" {step:<{width}}  {escape(path)}", soft_wrap=True)


def show_open(report: RunReport, out: Console) -> None:
    """The first open windows of each step, as they would fire now."""
    for step, rows in report.previews.items():
        out.print()
        unseen = [column.name for column in rows.schema if pa.types.is_null(column.type)]
        title = f"{step}: windows that are still open, as they would fire now"
        out.print(as_table(_first(rows).drop_columns(["open", *unseen]), title=title, max_rows=PREVIEW_ROWS))
        if unseen:
            out.print(f"known when they fire: {escape(', '.join(unseen))}")


def show_next(run_id: str | None, out: Console) -> None:
    """How to see the run in Dagster."""
    if run_id is not None:
        out.print(
            f"\nsee this run in Dagster: [bold]{called()} ui[/], then http://127.0.0.1:3000/runs/{run_id}",
            soft_wrap=True,
        )


def called() -> str:
    """How to call `rs-assets`: its path if it is not on the PATH, as after `make run` without an activated environment.

    >>> called().endswith("rs-assets")
    True
    """
    own = Path(sys.executable).with_name(COMMAND)
    if shutil.which(COMMAND) or not own.exists():
        return COMMAND
    return str(own.relative_to(Path.cwd())) if own.is_relative_to(Path.cwd()) else str(own)


def _first(rows: pa.Table) -> pa.Table:
    """Window rows in the order of their ends, without `fire_time`, which follows from the others."""
    if not {"end_time", "fire_time"} <= set(rows.schema.names):
        return rows
    return rows.sort_by([("end_time", "ascending")]).drop_columns(["fire_time"])


def in_short(time: timedelta) -> str:
    """A duration in its largest unit, for people.

    >>> in_short(timedelta(seconds=3)), in_short(timedelta(minutes=90)), in_short(timedelta(days=320))
    ('3 s', '1.5 h', '320 d')
    """
    seconds = time.total_seconds()
    size, unit = next((each for each in UNITS if abs(seconds) >= each[0]), UNITS[-1])
    return f"{round(seconds / size, 1 if size > 1 else 0):g} {unit}"
