"""Every row is somewhere: used, dead or late, for every kind of window, in the report as in the dead letters."""

from collections import Counter
from dataclasses import replace

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import HoppingWindow, MemoryChannel, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.runtime.replay.replay import Replay
from rs_assets.testing import PipelineDriver
from tests.operators.model import at, counted, emitted_sessions, emitted_slices, windows_of

SCHEMA = "key string, ts timestamp"
DELAY = 5
TEN, FOUR = Time.seconds(10), Time.seconds(4)
WINDOWS = {
    "tumbling": TumblingWindow.of(TEN, "ts"),
    "hopping": HoppingWindow.of(TEN, FOUR, "ts"),
    "session": SessionWindow.of(FOUR, "ts"),
    "live": TumblingWindow.of(TEN, "ts"),
    "fired": HoppingWindow.of(TEN, FOUR, "ts"),
}
MODEL = {
    "tumbling": lambda batches: emitted_slices(batches, size=10, slide=10, delay=DELAY),
    "hopping": lambda batches: emitted_slices(batches, size=10, slide=4, delay=DELAY),
    "session": lambda batches: emitted_sessions(batches, gap=4, delay=DELAY),
    "live": lambda batches: emitted_slices(batches, size=10, slide=10, delay=DELAY),
    "fired": lambda batches: emitted_slices(batches, size=10, slide=4, delay=DELAY),
}


def begin(**options):
    source = StreamBuilder.data_stream("test", "accounts")
    return source.from_file("in.jsonl", schema=SCHEMA, bad_records="dead_letter", **options)


def add_windows(source, kinds):
    """Windows of several kinds behind one source, each with a query of its own."""
    for kind in kinds:
        emit = "on_window_update" if kind == "live" else "on_window_close"
        windows = source.window(WINDOWS[kind], name=kind, emit=emit).group_by("key").count("n")
        windows = windows.late_firings("totals") if kind == "fired" else windows
        windows.water_mark(Time.seconds(DELAY)).to_data_stream().to_print(name=f"{kind}_rows")


def windowed(source, kinds):
    """A pipeline of them."""
    add_windows(source, kinds)
    return source.build()


def letters(home):
    path = home / "catalog" / "dead_letters"
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist() if path.exists() else []
    return Counter((row["query"], row["reason"].split(":")[0]) for row in rows)


def check_sums(report, rows):
    """What must hold in every report."""
    assert report.rows_in == len(rows)
    for query in report.queries:
        assert query.rows_read == query.rows_on + query.rows_dead + query.rows_late
    assert report.rows_late == sum(query.rows_late for query in report.queries)


def check_windows(found, query, batches, kind):
    groups, dead, late = MODEL[kind](batches)
    assert (query.rows_in, query.rows_dead, query.rows_late) == (sum(map(len, batches)), dead, late)
    if kind == "live":
        # Each update replaces the one before it.
        found = {(r["key"], r["start_time"]): r for r in sorted(found, key=lambda r: r["fire_time"])}.values()
    assert windows_of(row for row in found if row.get("final", True)) == counted(groups)


TIMES = st.one_of(st.none(), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
ROWS = st.lists(st.tuples(st.sampled_from("ab"), TIMES), min_size=2, max_size=10)
# A window that emits on each update is a tumbling one: closing apart they are alike.
ALL_KINDS = ("hopping", "session", "live", "fired")


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(ROWS, min_size=3, max_size=3))
def test_rows_are_used_dead_or_late_for_each_kind_of_window(driver, tmp_path_factory, batches):
    home = tmp_path_factory.mktemp("rs")
    batches = [[{"key": k, "ts": None if s is None else at(s)} for k, s in rows] for rows in batches]
    source = begin()
    source.to_print(name="plain")
    with PipelineDriver(windowed(source, ALL_KINDS), spark=driver, home=home) as running:
        for rows in batches:
            running.push(rows)
            running.step()
        running.finish()
        report = running.report()
        every = [row for rows in batches for row in rows]
        check_sums(report, every)
        queries = {query.query: query for query in report.queries}
        for kind in ALL_KINDS:
            check_windows(running.take(f"{kind}_rows"), queries[kind], batches, kind)
        assert len(running.take("plain")) == queries["file"].rows_on == len(every)
    told = letters(home)
    for kind in ALL_KINDS:
        assert told[kind, "no event time"] == queries[kind].rows_dead
        assert told[kind, "late"] == queries[kind].rows_late
    assert sum(told.values()) == report.rows_dead + report.rows_late


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_late_row_is_counted_and_told(driver, tmp_path, kind):
    with PipelineDriver(windowed(begin(), [kind]), spark=driver, home=tmp_path) as running:
        for second in (0, 60, 2):
            running.push([{"key": "a", "ts": at(second)}])
            running.step()
        report = running.report()
    assert (report.rows_in, report.rows_dead, report.rows_late) == (3, 0, 1)
    assert letters(tmp_path) == {(kind, "late"): 1}


def test_what_two_queries_refuse_is_counted_and_told_once(driver, tmp_path):
    schema = "key string, ts timestamp"
    source = StreamBuilder.data_stream("test", "shared").from_file("in", schema=SCHEMA, bad_records="quarantine")

    def checked(row):
        if row["key"] == "bad":
            raise ValueError("bad")
        return row

    shared = source.map(checked, schema=schema, name="checked")
    add_windows(shared, ["tumbling"])
    own = shared.map(lambda row: {"key": row["key"][:5], "ts": row["ts"]}, schema=schema, name="own")
    with PipelineDriver(windowed(own, ["hopping"]), spark=driver, home=tmp_path) as running:
        rows = [{"key": key, "ts": at(1)} for key in ("a", "bad", None, "b", "bad")]
        running.push(rows)
        running.step()
        report = running.report()
    check_sums(report, rows)
    dead = {query.query: query.rows_dead for query in report.queries}
    assert dead == {"tumbling": 2, "hopping": 3}
    assert report.rows_dead == 3
    assert letters(tmp_path) == {("tumbling", "step 'checked' raised ValueError"): 2,
                                 ("hopping", "step 'own' raised TypeError"): 1}  # fmt: skip


def test_sums_hold_over_plain_sinks_windows_shuffles_and_a_batch_that_comes_again(options, tmp_path):
    path = tmp_path / "in.jsonl"
    begun = StreamBuilder.data_stream("test", "sums")
    source = begun.from_file(path, schema=SCHEMA, tail=True, bad_records="dead_letter")
    kept = MemoryChannel()
    source.to_memory(kept, name="plain")
    for name, stream in (("near", source), ("far", source.shuffle(1, strategy="delta", name="between"))):
        windows = stream.window(TumblingWindow.of(TEN, "ts"), name=name).count("n").to_data_stream()
        windows.to_memory(MemoryChannel(), name=f"{name}_rows")
    job = windows.build()

    def run(*lines):
        with path.open("a") as file:
            file.write("".join(line + "\n" for line in lines))
        return job.run(options)

    first = run('{"key":"a","ts":"2024-01-01T00:01:00Z"}', '{"key":"a"}', "broken")
    assert (first.rows_in, first.rows_dead, first.rows_late, len(kept.rows())) == (3, 3, 0, 2)
    second = run('{"key":"a","ts":"2024-01-01T00:00:00Z"}')
    assert (second.rows_in, second.rows_dead, second.rows_late) == (1, 0, 2)
    told = letters(options.home.root)
    assert told == {
        ("file", "malformed JSON"): 1, ("near", "no event time"): 1, ("far", "no event time"): 1,
        ("near", "late"): 1, ("far", "late"): 1,
    }  # fmt: skip
    for report in (first, second):
        for query in report.queries:
            assert query.rows_read == query.rows_on + query.rows_dead + query.rows_late
    # Spark forgets that it had the last batch of the windows: it comes again, and counts once.
    commits = sorted((options.home.job("test", "sums") / "g0001" / "near" / "checkpoint" / "commits").glob("[0-9]*"))
    commits[-1].unlink()
    third = run()
    near = next(query for query in third.queries if query.query == "near")
    assert (near.rows_in, near.rows_on, near.rows_dead, near.rows_late) == (0, 0, 0, 0)
    assert letters(options.home.root) == told


def test_a_batch_names_the_steps_that_rows_went_through(options):
    """Dagster materializes an asset when data went through it, not when its query had a batch."""
    channel, batches = MemoryChannel(schema="n bigint, ts timestamp"), []
    stream = StreamBuilder.data_stream("test", "steps").from_memory(channel, name="read")
    stream.filter("n > 10").to_memory(MemoryChannel(), name="large")
    window = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").count("n").to_data_stream()
    pipeline = window.to_memory(MemoryChannel(), name="counts").build()
    channel.put({"n": 1, "ts": at(1)})
    pipeline.run(replace(options, on_progress=batches.append))
    assert {batch.query: batch.steps for batch in batches} == {"read": {"read"}, "tens": {"read", "tens"}}
    batches.clear()
    channel.put({"n": 11, "ts": at(30)})
    pipeline.run(replace(options, on_progress=batches.append))
    assert {name for batch in batches for name in batch.steps} == {"read", "tens", "large", "counts"}


def test_letters_are_looked_for_where_something_was_refused(driver, tmp_path, monkeypatch):
    asked = []
    dead_letters_of = Replay.dead_letters_of

    def listen(self, dead, **job):
        asked.extend((each.step, each.late) for each in dead)
        return dead_letters_of(self, dead, **job)

    monkeypatch.setattr(Replay, "dead_letters_of", listen)
    with PipelineDriver(windowed(begin(), ["tumbling"]), spark=driver, home=tmp_path) as running:
        for second in (0, None, 60, 2):
            running.push([{"key": "a", "ts": None if second is None else at(second)}])
            running.step()
    # Not at the source as well, and late rows only in the batch that had one.
    assert asked == [("tumbling", False), ("tumbling", True)]
    assert letters(tmp_path) == {("tumbling", "no event time"): 1, ("tumbling", "late"): 1}
