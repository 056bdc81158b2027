"""What the progress bar tells of a batch, where it is drawn, and what is shown of a table. No Spark."""

import io
import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.console import Console
from rich.progress import Progress

from rs_assets import StreamBuilder
from rs_assets.cli.run.console import Bar, show_places, show_results
from rs_assets.connectors.console.writer import as_table, terminal
from rs_assets.runtime.report import BatchProgress, RunReport


def progress(**facts):
    always = {"query": "q", "steps": frozenset(), "batch_id": 0, "rows_dead": 0, "rows_late": 0, "rows_out": {}}
    return BatchProgress(**{**always, "seconds": 2.0, **facts})


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({"rows_in": 5000}, "batch 1, 5,000 rows, 2,500 rows/s"),
        ({"rows_in": 0}, "batch 1, 0 rows"),
        ({"rows_in": 2, "watermark": timedelta(minutes=90)}, "batch 1, 2 rows, 1 rows/s, watermark lags 1.5 h"),
        (
            {"rows_in": 2, "watermark": datetime(2020, 1, 5, 9, tzinfo=UTC)},
            "batch 1, 2 rows, 1 rows/s, watermark 2020-01-05 09:00:00",
        ),
        ({"rows_in": 2, "watermark": datetime(1970, 1, 1, tzinfo=UTC)}, "batch 1, 2 rows, 1 rows/s"),
        ({"rows_in": 2, "watermark": datetime(9999, 12, 30, tzinfo=UTC)}, "batch 1, 2 rows, 1 rows/s"),
    ],
)
def test_a_batch_tells_its_speed_and_its_lag(batch, said):
    if isinstance(batch.get("watermark"), timedelta):
        batch = {**batch, "watermark": datetime.now(UTC) - batch["watermark"]}
    pipeline = StreamBuilder.data_stream("shop", "hits").from_array([{"n": 1}]).to_print().build()
    with Progress(console=Console(file=io.StringIO())) as shown:
        bar = Bar(pipeline, shown)
        bar.show(progress(**batch))
        assert shown.tasks[0].description == said


def test_a_bar_without_a_batch_says_whether_spark_runs():
    pipeline = StreamBuilder.data_stream("shop", "hits").from_array([{"n": 1}]).to_print().build()
    with Progress(console=Console(file=io.StringIO())) as shown:
        bar = Bar(pipeline, shown)
        assert shown.tasks[0].description == "starting"
        bar.begun()
        assert shown.tasks[0].description == "Spark runs; no batch so far"


def test_rows_of_a_source_count_once_whichever_of_its_queries_is_the_first():
    pipeline = StreamBuilder.data_stream("shop", "hits").from_array([{"n": 1}]).to_print().build()
    with Progress(console=Console(file=io.StringIO())) as shown:
        bar, said = Bar(pipeline, shown), []
        for query, again in (("second", 20), ("first", 0), ("first", 0)):
            bar.show(progress(query=query, rows_in=20, rows_in_again=again))
            said.append(bar.rows)
    assert said == [20, 20, 40]


def test_some_rows_of_a_table_are_shown_and_all_are_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path))
    path = str(tmp_path / "hits")
    write_deltalake(path, pa.table({"path": ["/"] * 9, "requests": range(9)}))
    out = io.StringIO()
    tables = {"hits": path}
    report = RunReport(pipeline="a", run_id="r", generation=1, seconds=1, sealed=False, queries=(), tables=tables)
    show_results(report, Console(file=out, width=60))
    text = out.getvalue()
    assert ("hits (9 rows)" in text, "│ /    │        4 │" in text, "│        5 │" in text) == (True, True, False)


# What Dagster does to a step: standard output goes to a file from here on.
CHILD = """
import os, sys
from rich.console import Console
from rs_assets import StreamBuilder
from rs_assets.cli.run.console import bar_of

pipeline = StreamBuilder.data_stream("shop", "bar").from_array([{"n": 1}]).to_print().build()
with bar_of(pipeline, Console(), hidden=False) as bar:
    log = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
    kept = os.dup(1)
    os.dup2(log, 1)
    bar.progress.update(bar.task, description="batch 1, 20 rows")
    bar.progress.refresh()
    print("a line of the log", flush=True)
    os.dup2(kept, 1)
"""


def test_the_bar_moves_while_standard_output_goes_to_a_file(tmp_path):
    ours, theirs = pty.openpty()
    log = tmp_path / "step.out"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(log)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    seen = bytearray()
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert child.wait(timeout=60) == 0, seen.decode()
    assert "batch 1, 20 rows" in seen.decode()
    assert log.read_text() == "a line of the log\n"


def printed(table, width):
    out = Console(width=width, file=io.StringIO())
    out.print(table)
    return out.file.getvalue()


def test_a_table_tells_numbers_and_times_without_what_is_only_rounding():
    at = datetime(2026, 1, 5, 9, 0, 1, 185000, tzinfo=UTC)
    rows = pa.table({"sum": [448.01000000000005, 3067380000000.5, None], "at": [at, at.replace(microsecond=0), None]})
    text = printed(as_table(rows, title="", max_rows=3), 80)
    for value in ("448.01 ", " 3067380000000.5 ", " 2026-01-05 09:00:01.185 ", " 2026-01-05 09:00:01 "):
        assert value in text


def test_a_narrow_table_cuts_no_value():
    text = printed(as_table(pa.table({"id": ["abcdefghij" * 4], "n": [1]}), title="", max_rows=1), 30)
    assert re.sub(r"[^a-j]", "", text.split("id")[1].split("\u2501")[-1]) == "abcdefghij" * 4
    assert "\u2026" not in text


def test_where_standard_output_is_no_terminal_a_table_is_as_wide_as_its_rows(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    terminal().print(as_table(pa.table({"path": ["/x" * 100]}), title="", max_rows=1))
    assert "/x" * 100 in sys.stdout.getvalue()


def test_a_path_stands_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path))
    out = Console(width=40, file=io.StringIO())
    path = "/tables" * 20
    show_places(SimpleNamespace(tables={"revenue": path}), out)
    assert f" revenue  {path}\n" in out.file.getvalue()
