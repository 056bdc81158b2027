"""What the progress bar tells of a batch, and how much is shown of a table. No Spark."""

import io
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.console import Console
from rich.progress import Progress

from rs_assets import StreamBuilder
from rs_assets.cli.console import Bar, show_results
from rs_assets.pipeline.runtime.report import BatchProgress, RunReport


def progress(**facts):
    always = {"query": "q", "steps": frozenset(), "batch_id": 0, "rows_dead": 0, "rows_late": 0, "rows_out": {}}
    return BatchProgress(**always, seconds=2.0, **facts)


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({"rows_in": 5000}, "batch 1, 5,000 rows, 2,500 rows/s"),
        ({"rows_in": 0}, "batch 1, 0 rows"),
        ({"rows_in": 2, "watermark": timedelta(minutes=90)}, "batch 1, 2 rows, 1 rows/s, watermark 1.5 h behind"),
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
