"""Lateness by record: which rows count, and which are late, does not hang on the cut into batches."""

import json
from collections import defaultdict

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import (
    CalendarWindow,
    CountWindow,
    CumulateWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    StreamBuilder,
    Time,
    TumblingWindow,
)
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import RsError, SinkError, TopologyError
from rs_assets.operators.window.splits import SplitNotes
from rs_assets.testing import PipelineDriver
from tests.crash import Crash
from tests.operators.model import at, second

SCHEMA = "n bigint, key string, ts timestamp"
DELAY, SIZE, SLIDE, GAP, ROWS = 5, 12, 4, 4, 3
DAY = 86400


def hopping(ts, slide=SLIDE, size=SIZE):
    last = ts - ts % slide
    return [(start, start + size) for start in range(last - size + slide, last + 1, slide)]


def grouped(rows):
    """Rows in the order of event time, by key; those of one time in the order of their numbers."""
    groups = defaultdict(list)
    for ts, n, key in sorted(rows):
        groups[key].append((ts, n))
    return groups.items()


def in_windows(windows_of):
    def told(rows):
        found = defaultdict(list)
        for passed, ts, n, key in rows:
            for start, end in windows_of(ts):
                if passed is None or end > passed:
                    found[key, start, end].append(n)
        return sorted((*window, sorted(of)) for window, of in found.items())

    return told


def in_sessions(rows):
    told = []
    for key, of in grouped(row[1:] for row in rows):
        current = []
        for ts, n in of:
            if current and ts > current[-1][0] + GAP:
                told.append((key, current))
                current = []
            current = [*current, (ts, n)]
        told.append((key, current))
    return sorted((key, of[0][0], of[-1][0] + GAP, sorted(n for _, n in of)) for key, of in told)


def in_counts(rows):
    chunks = [(key, of[i : i + ROWS]) for key, of in grouped(row[1:] for row in rows) for i in range(0, len(of), ROWS)]
    return sorted((key, of[0][0], of[-1][0], sorted(n for _, n in of)) for key, of in chunks)


def in_sliding(rows):
    """Only those that end with a row: the others begin a microsecond behind one."""
    told = set()
    for key, of in grouped(row[1:] for row in rows):
        for end, _ in of:
            told.add((key, end - GAP, end, tuple(sorted(n for ts, n in of if end - GAP <= ts <= end))))
    return sorted((*window, list(of)) for *window, of in told)


# A window, what makes it fire more than once, the model of its rows, and the time by which a row is late for it.
KINDS = {
    "tumbling": (TumblingWindow.of(Time.seconds(SIZE), "ts"), None, in_windows(lambda ts: hopping(ts, SIZE))),
    "hopping": (HoppingWindow.of(Time.seconds(SIZE), Time.seconds(SLIDE), "ts"), None, in_windows(hopping)),
    "fired": (
        HoppingWindow.of(Time.seconds(SIZE), Time.seconds(SLIDE), "ts"),
        lambda window: window.emit_before(Time.seconds(3)),
        in_windows(hopping),
    ),
    "cumulating": (
        CumulateWindow.of(Time.seconds(SIZE), Time.seconds(SLIDE), "ts"),
        None,
        in_windows(lambda ts: [(ts - ts % SIZE, end) for _, end in hopping(ts) if end <= ts - ts % SIZE + SIZE]),
    ),
    "calendar": (CalendarWindow.days("UTC", "ts"), None, in_windows(lambda ts: hopping(ts, DAY, DAY))),
    "session": (SessionWindow.of(Time.seconds(GAP), "ts"), None, in_sessions),
    "count": (CountWindow.of(ROWS, "ts"), None, in_counts),
    "sliding": (SlidingWindow.of(Time.seconds(GAP), "ts"), None, in_sliding),
}
LAST_END = {
    "tumbling": lambda ts: hopping(ts, SIZE)[-1][1],
    "hopping": lambda ts: hopping(ts)[-1][1],
    "fired": lambda ts: hopping(ts)[-1][1],
    "cumulating": lambda ts: ts - ts % SIZE + SIZE,
    "calendar": lambda ts: ts - ts % DAY + DAY,
}


def judged(kind, rows):
    """What is told of `rows` (split, n, key, second) in the end, and which of them were late for which watermark."""
    used, late, marks = [], [], {}
    for split, n, key, ts in rows:
        passed = marks[split] - DELAY if split in marks else None
        if passed is not None and LAST_END.get(kind, lambda ts: ts)(ts) <= passed:
            late.append((n, passed))
        else:
            used.append((passed, ts, n, key))
        marks[split] = max(ts, marks.get(split, ts))
    return KINDS[kind][2](used), sorted(late)


def pipeline(kind, splits):
    builder = StreamBuilder.data_stream("test", f"by_record_{kind}")
    first, *others = [builder.from_file(f"{s}.jsonl", schema=SCHEMA, name=s, tail=True) for s in splits]
    for other in others:
        first = first.union(other)
    window, often, _ = KINDS[kind]
    made = first.window(window, name="step").group_by("key").collect("n", "all").late_to("late")
    made = often(made) if often else made
    # What falls silent is waited for as long as the test takes.
    made = made.water_mark(Time.seconds(DELAY), per="split", idle_timeout=Time.hours(1), lateness="record")
    return made.to_data_stream().to_print().build()


def run(driver, kind, batches, splits, restarts=()):
    late = 0
    with PipelineDriver(pipeline(kind, splits), spark=driver) as running:
        for number, batch in enumerate(batches):
            for split, n, key, ts in batch:
                running.push([{"n": n, "key": key, "ts": at(ts)}], split)
            running.step()
            if number in restarts:
                late += running.report().rows_late
                running.restart()
        running.finish()
        late += running.report().rows_late
        rows = [row for row in running.take("print") if row.get("final", True)]
        refused = sorted((row["n"], second(row["watermark"])) for row in running.take("late_table"))
    if kind == "sliding":
        rows = [row for row in rows if row["start_time"].microsecond == 0]
    told = sorted((r["key"], second(r["start_time"]), second(r["end_time"]), sorted(r["all"])) for r in rows)
    assert late == len(refused)
    return told, refused


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_should_use_the_same_rows_however_they_are_cut(driver, data):
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    splits = "abc"[: data.draw(st.integers(1, 3))]
    drawn = data.draw(
        st.lists(st.tuples(st.sampled_from(splits), st.sampled_from("xy"), st.integers(0, 40)), min_size=8, max_size=40)
    )
    rows = [(split, n, key, ts + n) for n, (split, key, ts) in enumerate(drawn)]
    ends = sorted(data.draw(st.sets(st.integers(1, len(rows) - 1), max_size=4)))
    batches = [rows[a:b] for a, b in zip([0, *ends], [*ends, len(rows)], strict=True)]
    restarts = data.draw(st.sets(st.integers(0, 4), max_size=2))
    assert run(driver, kind, batches, splits, restarts) == judged(kind, rows)


class Followed:
    """A file that grows by some seconds a run, in windows of twelve."""

    def __init__(self, options, folder):
        self.options, self.log, self.rows = options, folder / "in.jsonl", []
        self.log.touch()

    def run(self, *seconds, **how):
        self.rows += [("in", len(self.rows) + n, "k", ts) for n, ts in enumerate(seconds)]
        with self.log.open("a") as file:
            for _, n, key, ts in self.rows[len(self.rows) - len(seconds) :]:
                file.write(json.dumps({"n": n, "key": key, "ts": at(ts).isoformat()}) + "\n")
        # What one record is made into is judged as one.
        source = StreamBuilder.data_stream("shop", "followed").from_file(self.log, schema=SCHEMA, tail=True)
        both = source.flat_map(twice, schema=SCHEMA).window(KINDS["hopping"][0], name="step").group_by("key")
        made = both.collect("n", "all").late_to("late").water_mark(Time.seconds(DELAY), per="split", lateness="record")
        return made.to_data_stream().to_delta("told").build().run(self.options, **how)

    def check(self):
        tables = [DeltaTable(self.options.home.table("shop", name)) for name in ("told", "late")]
        told, late = (table.to_pyarrow_table().to_pylist() for table in tables)
        windows, refused = judged("hopping", self.rows)
        assert sorted((row["n"], second(row["watermark"])) for row in late) == sorted([*refused, *refused])
        made = sorted((r["key"], second(r["start_time"]), second(r["end_time"]), sorted(r["all"])) for r in told)
        assert made == [(*place, sorted([*of, *of])) for *place, of in windows]


def twice(row):
    return [dict(row), dict(row)]


@pytest.mark.parametrize("moment", ["commit", pytest.param("note", marks=pytest.mark.long)])
def test_a_batch_that_is_computed_again_judges_as_before(options, tmp_path, monkeypatch, moment):
    world = Followed(options, tmp_path)
    world.run(1, 40, 20, 39)
    with monkeypatch.context() as patched:
        if moment == "commit":
            Crash(patched, DeltaWriter, behind=True, name="late_table")
        else:
            note = SplitNotes.note

            def cut(self, *args, **how):
                note(self, *args, **how)
                raise SinkError("crash behind the note")

            patched.setattr(SplitNotes, "note", cut)
        with pytest.raises(RsError, match="crash"):
            world.run(41, 9, 60, 52, 41)
    world.run(42, 61, 54)
    world.run(80, 30, finish=True)
    world.check()


def by_record(source, window, **options):
    made = source.window(window, name="step").count("n")
    return made.water_mark(Time.seconds(5), lateness="record", **options).to_data_stream().to_print().build()


def test_is_refused_where_records_have_no_order():
    builder = StreamBuilder.data_stream("test", "refused")
    window = TumblingWindow.of(Time.seconds(10), "ts")
    with pytest.raises(TopologyError, match="'whole' reads whole files in parts"):
        by_record(builder.from_file("in/*.jsonl", schema=SCHEMA, name="whole"), window, per="split")
    followed = builder.from_file("in/*.jsonl", schema=SCHEMA, name="followed", tail=True)
    with pytest.raises(TopologyError, match="per='input', lateness='record'"):
        by_record(followed, window)
    with pytest.raises(TopologyError, match="time of arrival"):
        by_record(followed, TumblingWindow.of(Time.seconds(10)), per="split")
