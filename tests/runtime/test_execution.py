"""What is read of Spark's execution of a batch."""

from datetime import UTC, datetime, timedelta

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.runtime.batch.execution import BatchExecution
from rs_assets.testing import PipelineDriver

START = datetime(2024, 1, 1, tzinfo=UTC)


def row(second):
    return {"k": "a", "ts": START + timedelta(seconds=second)}


def test_measured_is_what_a_walk_over_the_plan_finds(driver, monkeypatch):
    found, measured = [], BatchExecution.measured

    def both(self, spark):
        found.append((measured(self, spark), self.walked()))
        return found[-1][0]

    monkeypatch.setattr(BatchExecution, "measured", both)
    rows = StreamBuilder.data_stream("test", "measured").from_file("in.jsonl", schema="k string, ts timestamp")
    windows = rows.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("k").count("rows")
    pipeline = windows.water_mark(Time.seconds(5)).to_data_stream().to_print().build()
    with PipelineDriver(pipeline, spark=driver) as running:
        for seconds in ([1, 2], [40], [3, 41]):
            running.push(map(row, seconds))
            running.step()
    states, times = zip(*(one for one, _ in found), strict=True)
    assert [one for one, _ in found] == [other for _, other in found]
    assert max(state.rows for state in states) >= 1
    assert max(state.dropped for state in states) >= 1
    assert any(state.moved and state.size for state in states)
    seen = [each for at in times for each in at.values()]
    assert sum(each.rows for each in seen) == 5
    assert max(each.greatest for each in seen) == START + timedelta(seconds=41)
