"""Several steps with state in one query against the reference model."""

import json
import os
from dataclasses import dataclass
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import CalendarWindow, HoppingWindow, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.testing import PipelineDriver
from tests.operators.driving import cut, driven
from tests.operators.model import at, dated, emitted, emitted_sessions, emitted_slices, sessions, sliced

SCHEMA = "key string, ts timestamp"
# Its days begin at 23:00 UTC, an hour before the rows do.
ZONE = "Europe/Berlin"
ROWS = [{"key": key, "ts": at(s)} for s in range(0, 200, 3) for key in "ab" if (s // 3 + ord(key)) % 4]


@dataclass(frozen=True)
class Hopping:
    """A hopping window and its model; a tumbling one if it slides by its size."""

    size: int
    slide: int
    offset: int = 0

    def of(self, field):
        offset = Time.seconds(self.offset)
        if self.slide == self.size:
            return TumblingWindow.of(Time.seconds(self.size), field, offset=offset)
        return HoppingWindow.of(Time.seconds(self.size), Time.seconds(self.slide), field, offset=offset)

    def all(self, rows):
        return sliced(rows, size=self.size, slide=self.slide, offset=self.offset)

    def emitted(self, batches, delay):
        return emitted_slices(batches, size=self.size, slide=self.slide, delay=delay, offset=self.offset)


def Tumbling(size, offset=0):  # noqa: N802  beside its like
    return Hopping(size, size, offset)


@dataclass(frozen=True)
class Days:
    """Days of ZONE and their model."""

    def of(self, field):
        return CalendarWindow.days(ZONE, field)

    def all(self, rows):
        return dated(rows, unit="day", zone=ZONE)

    def emitted(self, batches, delay):
        return emitted(batches, self.all, delay=delay)


@dataclass(frozen=True)
class Session:
    """A session window and its model."""

    gap: int

    def of(self, field):
        return SessionWindow.of(Time.seconds(self.gap), field)

    def all(self, rows):
        return sessions(rows, gap=self.gap)

    def emitted(self, batches, delay):
        return emitted_sessions(batches, gap=self.gap, delay=delay)


@dataclass(frozen=True)
class Chain:
    """Counts by key in windows `first`, and over those, by the time `field`, their number and sum in `second`."""

    first: Any
    second: Any
    field: str

    def stream(self, delay=0, source=None):
        source = source or StreamBuilder.data_stream("test", "chain").from_file("in.jsonl", schema=SCHEMA)
        counted = source.window(self.first.of("ts"), name="first").group_by("key").count("n")
        counts = counted.water_mark(Time.seconds(delay)).to_data_stream().filter("n > 0")
        return counts.window(self.second.of(self.field), name="second").count("parts").sum("n").to_data_stream()

    def expected(self, batches, delay):
        """Start, end, number and sum of each window of `second`, and how many rows were late."""
        groups, _, late = self.first.emitted(batches, delay)
        made = [
            {"key": 0, "ts": start if self.field == "start_time" else end, "n": len(rows)}
            for (_, start, end), rows in groups.items()
        ]
        return sorted(
            (start, end, len(rows), sum(row["n"] for row in rows))
            for (_, start, end), rows in self.second.all(made).items()
        ), late


CHAINS = [
    Chain(Tumbling(10), Tumbling(60), "start_time"),
    Chain(Tumbling(10), Tumbling(60), "end_time"),
    Chain(Tumbling(10), Tumbling(25), "start_time"),
    Chain(Hopping(20, 5), Hopping(30, 10), "start_time"),
    Chain(Hopping(20, 5), Tumbling(7), "start_time"),
    Chain(Tumbling(10), Session(15), "end_time"),
    Chain(Hopping(20, 10), Session(11), "start_time"),
    Chain(Session(8), Tumbling(60), "end_time"),
    Chain(Tumbling(10, 3), Tumbling(60, 7), "start_time"),
    Chain(Hopping(20, 10, 5), Tumbling(30, 5), "start_time"),
    Chain(Days(), Tumbling(7200), "start_time"),
    Chain(Tumbling(10), Days(), "start_time"),
    Chain(Days(), Days(), "start_time"),
]


def found(rows):
    return sorted((row["start_time"], row["end_time"], row["parts"], row["n"]) for row in rows)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_should_equal_the_model_under_any_cut_with_late_rows_and_restarts(driver, data):
    chain, delay = data.draw(st.sampled_from(CHAINS)), data.draw(st.sampled_from([0, 20]))
    rows = data.draw(st.permutations(ROWS)) if data.draw(st.booleans()) else ROWS
    batches = cut(data, rows, least=1)
    pipeline = chain.stream(delay).to_print().build()
    with driven(pipeline, driver, batches, restart=lambda: data.draw(st.booleans())) as (running, late):
        taken = running.take()
    assert (found(taken), late) == chain.expected(batches, delay)


@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_should_be_one_query(chain):
    (plan,) = plan_queries(chain.stream().to_print().build().topology)
    assert (plan.name, plan.states, plan.watermark_steps) == ("second", ("first", "second"), ("first",))


def test_should_judge_by_the_watermark_of_the_batch_before(options, tmp_path):
    """So Spark does in a chain: while batches follow one another a row may come one batch later than elsewhere."""
    batches = [[{"key": "a", "ts": at(s)} for s in seconds] for seconds in ([1], [35], [2], [3, 60], [36], [61])]
    for number, rows in enumerate(batches):
        lines = [json.dumps({**row, "ts": row["ts"].isoformat()}) + "\n" for row in rows]
        file = tmp_path / f"in-{number}.jsonl"
        file.write_text("".join(lines))
        os.utime(file, (1000 + number, 1000 + number))
    job = StreamBuilder.data_stream("test", "files")
    source = job.from_file(tmp_path / "in-*.jsonl", schema=SCHEMA, max_files_per_batch=1, bad_records="dead_letter")
    channel = MemoryChannel()
    chain = Chain(Tumbling(10), Tumbling(60), "start_time")
    report = chain.stream(source=source).to_memory(channel).build().run(options)
    # The row at 2 came when 35 had just been seen, the row at 3 a batch later.
    assert found(channel.take()) == [(at(0), at(60), 2, 4)]
    letters = DeltaTable(options.home.dead_letters).to_pyarrow_table().to_pylist()
    assert report.rows_late == len(letters) == 1
    assert [(row["step"], json.loads(row["record"])["ts"]) for row in letters] == [("first", at(3).isoformat())]


def test_should_hand_rows_on_through_a_python_step(driver):
    source = StreamBuilder.data_stream("test", "python").from_file("in.jsonl", schema=SCHEMA)
    tens = source.window(TumblingWindow.of(Time.seconds(10), "ts"), name="first").group_by("key").count("n")
    some = tens.to_data_stream().filter(lambda row: row["key"] == "a").for_each(lambda row: row.clear())
    stream = some.window(TumblingWindow.of(Time.seconds(60), "start_time"), name="second").count("parts").sum("n")
    with PipelineDriver(stream.to_data_stream().to_print().build(), spark=driver) as running:
        running.push(ROWS)
        running.finish()
        only = [row for row in ROWS if row["key"] == "a"]
        assert found(running.take()) == Chain(Tumbling(10), Tumbling(60), "start_time").expected([only], 0)[0]


def test_should_feed_one_window_by_two_over_different_sources(driver):
    job = StreamBuilder.data_stream("test", "two")
    tens = []
    for name, delay in (("left", 0), ("right", 30)):
        source = job.from_file(f"{name}.jsonl", schema=SCHEMA, name=name)
        window = (
            source.window(TumblingWindow.of(Time.seconds(10), "ts"), name=f"{name}_tens").group_by("key").count("n")
        )
        tens.append(window.water_mark(Time.seconds(delay)).to_data_stream())
    both = tens[0].union(tens[1]).window(TumblingWindow.of(Time.seconds(60), "start_time"), name="minutes")
    with PipelineDriver(both.count("parts").sum("n").to_data_stream().to_print().build(), spark=driver) as running:
        for first in range(0, len(ROWS), 30):
            running.push(ROWS[first : first + 30], "left")
            running.push(ROWS[first : first + 30], "right")
            running.step()
        running.restart()
        running.finish()
        assert running.report().rows_late == 0
        doubled = [(start, end, 2 * parts, 2 * n) for start, end, parts, n in once()]
        assert found(running.take()) == doubled


def once():
    return Chain(Tumbling(10), Tumbling(60), "start_time").expected([ROWS], 0)[0]
