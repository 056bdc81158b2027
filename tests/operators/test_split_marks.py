"""Watermarks by split: one that lags behind others is not late because of them, a silent one is waited for a while."""

import json
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.errors import TopologyError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.splits import BySplit, Silence, SplitNotes
from rs_assets.runtime.batch.split_watermarks import SplitWatermarks
from rs_assets.runtime.run.idle import IdleSplits
from rs_assets.runtime.upkeep.savepoints import rewind
from rs_assets.testing import PipelineDriver
from tests.operators.model import at, second

SCHEMA = "n bigint, ts timestamp"
TEN = TumblingWindow.of(Time.seconds(10), "ts")
SIZE, DELAY = 10, 5


def union(job="splits"):
    builder = StreamBuilder.data_stream("test", job)
    first, *others = [builder.from_file(f"{name}.jsonl", schema=SCHEMA, name=name) for name in "abc"]
    for other in others:
        first = first.union(other)
    return first


def pipeline(**options):
    window = union().window(TEN, name="tens").count("n").collect("n", "all").late_to("late")
    return window.water_mark(Time.seconds(DELAY), per="split", **options).to_data_stream().to_print().build()


class Model:
    """Windows that wait for the least of the greatest times of three splits, up to the batch before."""

    def __init__(self):
        self.windows, self.late, self.latest = defaultdict(list), [], {}
        self.mark = -1

    def batch(self, rows):
        for _, n, came in rows:
            start = came - came % SIZE
            if start + SIZE <= self.mark:
                self.late.append((n, self.mark))
            else:
                self.windows[start].append(n)
        for split, _, came in rows:
            self.latest[split] = max(came, self.latest.get(split, came))
        if len(self.latest) == 3:
            self.mark = max(self.mark, min(self.latest.values()) - DELAY)


EVENTS = st.lists(st.tuples(st.sampled_from("aaabbc"), st.integers(0, 30)), min_size=4, max_size=12)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(EVENTS, min_size=3, max_size=5), restarts=st.sets(st.integers(0, 4), max_size=2))
def test_should_equal_the_model_with_lagging_splits_and_restarts(driver, batches, restarts):
    model, numbers = Model(), iter(range(1000))
    # Each split has a time of its own: they lie up to a minute and a half apart.
    lags = {"a": 0, "b": 40, "c": 90}
    with PipelineDriver(pipeline(), spark=driver) as running:
        for number, batch in enumerate(batches):
            rows = [(split, next(numbers), 100 + number * 30 - lags[split] + offset) for split, offset in batch]
            for split, n, at_second in rows:
                running.push([{"n": n, "ts": at(at_second)}], split)
            running.step()
            model.batch(rows)
            if number in restarts:
                running.restart()
        running.finish()
        told = {second(row["start_time"]): sorted(row["all"]) for row in running.take("print")}
        late = [(row["n"], second(row["watermark"])) for row in running.take("late_table")]
    assert told == {start: sorted(rows) for start, rows in model.windows.items()}
    assert sorted(late) == sorted(model.late)


def test_a_silent_split_is_waited_for_as_long_as_the_idle_timeout(driver):
    clock = 0.0
    with PipelineDriver(pipeline(), spark=driver) as running:
        (query,) = running._running().queries.values()
        query.work.marks = replace(query.work.marks, now=lambda: clock)
        idle = IdleSplits((query,))

        def later(seconds, **rows):
            nonlocal clock
            clock += seconds
            for split, times in rows.items():
                running.push([{"n": time, "ts": at(time)} for time in times], split)
            idle.look()
            running.step()
            return [(second(row["start_time"]), sorted(row["all"])) for row in running.take("print")]

        # c has no rows at all, and b none after the first.
        assert later(0, a=[101], b=[102]) == []
        assert later(30, a=[120]) == []
        assert later(29.9) == []
        # Nothing came: b and c are let go of by a control row.
        assert later(0.1) == [(100, [101, 102])]
        # b is waited for again, and what the watermark has passed is late.
        assert later(1, b=[103, 112]) == []
        assert later(1, a=[150]) == []
        assert later(1, b=[131]) == [(110, [112])]
        # What comes behind a pause of all is no sign that a split is silent.
        assert later(600, a=[200]) == []
        late = [(row["n"], second(row["watermark"])) for row in running.take("late_table")]
    assert late == [(103, 115)]


class Followed:
    """Two files that grow: a run reads what was written since the run before."""

    def __init__(self, options, folder):
        self.options, self.folder, self.condition, self.name = options, folder, "true", "read"
        self.renamed, self.limit = {}, None

    def pipeline(self):
        source = StreamBuilder.data_stream("shop", "followed").from_file(
            self.folder / "*.jsonl", schema=SCHEMA, tail=True, name=self.name, max_rows_per_batch=self.limit
        )
        source = source.filter(self.condition)
        window = source.window(TEN, name="tens").count("n").late_to("late").water_mark(Time.seconds(DELAY), per="split")
        return window.to_data_stream().to_delta("counts").build(renamed=self.renamed)

    def run(self, *, finish=False, **rows):
        for name, times in rows.items():
            with (self.folder / f"{name}.jsonl").open("a") as file:
                file.writelines(json.dumps({"n": time, "ts": at(time).isoformat()}) + "\n" for time in times)
        return self.pipeline().run(self.options, finish=finish)

    def read(self, table):
        return DeltaTable(self.options.home.table("shop", table)).to_pyarrow_table().to_pylist()


def test_files_lag_behind_one_another_over_runs_and_behind_a_rewind(options, tmp_path):
    world = Followed(options, tmp_path)
    world.run(ahead=[500], behind=[10])
    world.run(behind=[31])
    # The file that is ahead says nothing now: the other one alone has moved the watermark to 26.
    world.run(behind=[12, 29])
    assert [(row["n"], second(row["watermark"])) for row in world.read("late")] == [(12, 26)]
    rewind(world.pipeline().topology, 0, options)
    world.run(finish=True)
    # Read again in one batch, no row of the file is before another that closed its window.
    assert world.read("late") == []
    assert {second(row["start_time"]): row["n"] for row in world.read("counts")} == {10: 2, 20: 1, 30: 1, 500: 1}


def test_a_file_that_is_there_is_waited_for_however_few_rows_a_batch_has(options, tmp_path):
    world = Followed(options, tmp_path)
    world.limit = 2
    assert world.run(ahead=[10, 20, 30, 40, 50, 60], behind=[11, 21]).rows_late == 0
    world.run(finish=True)
    counts = {second(row["start_time"]): row["n"] for row in world.read("counts")}
    assert counts == {10: 2, 20: 2, 30: 1, 40: 1, 50: 1, 60: 1}


class Computed:
    """A batch that has found event times of splits, and that records how far the watermark goes."""

    def __init__(self, **latest):
        self.found, self.moved_to = latest, None

    def latest(self, _):
        return self.found

    def move_event_time(self, at):
        self.moved_to = at


def test_a_split_with_unread_input_is_not_idle_however_long_it_has_no_rows(tmp_path):
    clock, unread = [0.0], ["behind"]
    marks = SplitWatermarks(
        gate="w",
        by_split=BySplit(timedelta(seconds=60)),
        notes=SplitNotes.load(tmp_path),
        there=lambda _: iter(["ahead", "behind"]),
        unread=lambda _: iter(unread),
        now=lambda: clock[0],
    )

    def batch(number, **latest):
        marks.advance(made := Computed(**latest), number, first=0)
        clock[0] += 50
        return made.moved_to

    assert [batch(0, behind=3), batch(1, ahead=10), batch(2, ahead=20), batch(3, ahead=30)] == [None, 3, 3, 3]
    assert marks.due() is None
    unread.clear()
    assert marks.due() == EPOCH + timedelta(microseconds=30)
    assert batch(4, ahead=40) == 40


def test_a_renamed_source_has_the_progress_of_its_splits(options, tmp_path):
    world = Followed(options, tmp_path)
    world.run(ahead=[500], behind=[10])
    for name in ("once", "twice"):
        world.renamed, world.name = {world.name: name}, name
        world.run(behind=[31])
    # The file that is ahead has said nothing since.
    assert world.run(behind=[12, 29]).rows_late == 1


def test_what_the_code_before_a_rewind_has_noted_makes_no_row_late(options, tmp_path):
    world = Followed(options, tmp_path)
    world.run(a=[10], b=[12])
    world.run(a=[500], b=[500])
    # Times that were wrong: other code leaves them out.
    rewind(world.pipeline().topology, 0, options)
    world.condition, world.options = "n < 400", replace(options, keep_state=True)
    later = ({}, {"a": [510]}, {"a": [20], "b": [21]}, {"a": [30], "b": [31]}, {"finish": True})
    assert [world.run(**rows).rows_late for rows in later] == [0] * 5
    assert {second(row["start_time"]): row["n"] for row in world.read("counts")} == {10: 2, 20: 2, 30: 2}


def test_silence_counts_while_others_have_rows():
    silence, splits = Silence(Time.seconds(60), began=0.0), frozenset("ab")
    silence.hear(frozenset("ab"), 10)
    silence.hear(frozenset("a"), 50)
    assert silence.waited(splits, 69) == splits
    assert silence.waited(splits, 70) == {"a"}
    # Nobody had rows for a minute: nobody is let go of, also when the first of them has rows again.
    assert silence.waited(splits, 110) == splits
    silence.hear(frozenset("a"), 200)
    assert silence.waited(splits, 259) == splits
    silence.hear(frozenset("a"), 259)
    assert silence.waited(splits, 260) == {"a"}


def per_split(stream, window=TEN):
    return stream.window(window, name="tens").count("n").water_mark(Time.seconds(5), per="split").to_data_stream()


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda s: per_split(s, TumblingWindow.of(Time.seconds(10))), "time of arrival"),
        (lambda s: s.window(TEN).count().water_mark(Time.seconds(5), per="file"), "per='file'"),
        (lambda s: s.window(TEN).count().water_mark(Time.seconds(5), idle_timeout=Time.seconds(5)), "idle_timeout"),
        (
            lambda s: s.window(TEN).count().water_mark(Time.seconds(5), per="split", idle_timeout=Time.seconds(0)),
            "idle timeout of splits must be at least",
        ),
        (
            lambda s: per_split(
                s.window(TEN, name="first").count("n").to_data_stream(), TumblingWindow.of(Time.minutes(1), "end_time")
            ),
            "has a watermark or event-time bounds",
        ),
        (lambda s: per_split(s.shuffle(2, strategy="delta")), "after the durable shuffle"),
    ],
)
def test_what_cannot_be_is_refused(made, told):
    with pytest.raises(TopologyError, match=told):
        made(union("refused")).to_print().build()


def test_a_join_has_marks_of_its_own():
    builder = StreamBuilder.data_stream("test", "joined")
    left, right = (builder.from_file(f"{name}.jsonl", schema=SCHEMA, name=name) for name in ("left", "right"))
    joined = per_split(left).join(right, on="n", within=Time.minutes(1), time_field=("end_time", "ts"), prefix="other_")
    with pytest.raises(TopologyError, match="its query has others: tens, join.right"):
        joined.to_print().build()
