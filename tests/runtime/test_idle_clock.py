"""Windows by arrival time fire while nothing arrives."""

import threading
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable

from rs_assets import CalendarWindow, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.runtime.run.idle import IdleClock, IdleSides
from rs_assets.runtime.run.idle_time import IdleTime
from rs_assets.runtime.run.last_rows import LastRows
from rs_assets.testing import PipelineDriver
from tests.operators.model import START, at


def second(moment):
    return round((moment - START).total_seconds())


def test_should_fire_an_arrival_time_window_without_further_input(options):
    out, fired = MemoryChannel(), threading.Event()
    channel = MemoryChannel(schema="page string")
    window = TumblingWindow.of(Time.seconds(1))
    stream = StreamBuilder.data_stream("shop", "idle").from_memory(channel)
    job = stream.window(window).group_by("page").count("n").to_data_stream().to_memory(out).build()

    def listen(batch):
        if any(batch.rows_out.values()):
            fired.set()

    with job.start(replace(options, interval=timedelta(milliseconds=50), on_progress=listen)):
        channel.put({"page": "/"}, {"page": "/"})
        assert fired.wait(60), "no window fired"
    assert sum(row["n"] for row in out.rows()) == 2


def test_a_run_fires_windows_by_arrival_time_that_have_ended_since_the_last_one(options, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"page": "/"}\n{"page": "/"}\n')
    stream = StreamBuilder.data_stream("shop", "runs").from_file(tmp_path / "in", schema="page string")
    window = stream.window(TumblingWindow.of(Time.milliseconds(100))).group_by("page").count("n")
    job = window.to_data_stream().to_delta("counts").build()
    assert job.run(options).rows_open == 1
    assert job.run(options).rows_open == 0
    rows = DeltaTable(options.home.table("shop", "counts")).to_pyarrow_table().to_pylist()
    assert [(row["page"], row["n"]) for row in rows] == [("/", 2)]


def test_idle_time_does_not_pass_while_a_stream_waits_for_a_table():
    # Nothing else of the query is asked for.
    plan = SimpleNamespace(
        name="met", sources=("users", "clicks"), feeding=lambda _: {"one": ("users",), "two": ("clicks",)}
    )
    work = SimpleNamespace(heard={"users": 0.0}, reached={"one": at(9)})
    tables = SimpleNamespace(awaited=True)
    query = SimpleNamespace(tables=tables, keeps_rows=True, plan=plan, work=work, topology=None)
    clock = 0.0
    last = LastRows(lambda: clock)
    clock = 1e6
    sides, idle = IdleSides((query,), Time.seconds(60), last), IdleTime((query,), Time.seconds(60), last)
    # Nothing else of the query is asked for, also when the wait has just ended.
    for tables.awaited in (True, False):
        sides.look()
        idle.look()
        clock += 59


def test_event_time_goes_on_with_the_wall_clock_while_nothing_comes(driver):
    stream = StreamBuilder.data_stream("shop", "silent").from_file("in.jsonl", schema="page string, ts timestamp")
    windows = stream.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("page").count("n")
    job = windows.water_mark(Time.seconds(5)).to_data_stream().to_print().build()
    with PipelineDriver(job, spark=driver) as running:
        running.push([{"page": "/", "ts": at(s)} for s in (3, 12)])
        running.step()
        (query,) = running._running().queries.values()
        clock = query.work.heard["file"]
        idle = IdleTime((query,), Time.seconds(60), LastRows(lambda: clock))

        def later(seconds):
            nonlocal clock
            clock += seconds
            idle.look()
            running.step()
            return [second(row["start_time"]) for row in running.take()]

        assert (later(59), later(0.9)) == ([], [])
        # The greatest event time was 12: after a minute of silence it is 72, and both windows have closed.
        assert sorted(later(1)) == [0, 10]
        running.push([{"page": "/", "ts": at(s)} for s in (66, 74)])
        running.step()
        # 66 belongs to a window that ends at 70 and closes at 75: it is not late.
        assert running.report().rows_late == 0
        clock = query.work.heard["file"]
        assert later(59) == []
        assert sorted(later(5)) == [60, 70]
        running.push([{"page": "/", "ts": at(61)}])
        running.step()
        assert running.report().rows_late == 1


def test_time_goes_on_after_a_run_that_was_killed_with_open_windows(driver, monkeypatch):
    """A driver that restarts leaves what a kill leaves: the manifest does not have the number of open windows."""
    stream = StreamBuilder.data_stream("shop", "killed").from_file("in.jsonl", schema="page string, ts timestamp")
    open_now = {
        "clock": stream.window(TumblingWindow.of(Time.hours(1))).group_by("page").count("n"),
        "event": stream.window(TumblingWindow.of(Time.hours(1), "ts")).group_by("page").count("n"),
    }
    for window in open_now.values():
        moved = []
        with PipelineDriver(window.to_data_stream().to_print().build(), spark=driver) as running:

            def looked(running=running, moved=moved):
                (query,) = running._running().queries.values()
                with monkeypatch.context() as patched:
                    patched.setattr(type(query), "move_watermark", lambda _, at, gates=None: moved.append(at))
                    last = LastRows(lambda: 0.0)
                    last.now = lambda: 1e6
                    clock, idle = IdleClock.over([query]), IdleTime((query,), Time.seconds(60), last)
                    for _ in range(2):
                        clock._look()
                        idle.look()
                return len(moved)

            # Nothing was read yet.
            assert looked() == 0
            running.push([{"page": "/", "ts": at(1)}, {"page": "/", "ts": at(2)}])
            running.step()
            running.restart()
            assert looked() > 0


@pytest.mark.parametrize(
    ("window", "tick"),
    [
        (TumblingWindow.of(Time.seconds(1)), Time.milliseconds(200)),
        (SessionWindow.of(Time.minutes(1)), Time.seconds(6)),
        (CalendarWindow.months("Europe/Berlin"), Time.minutes(10)),
    ],
)
def test_should_look_at_the_clock_as_often_as_the_window_needs_it(window, tick):
    stream = StreamBuilder.data_stream("shop", "ticks").from_memory(MemoryChannel(schema="page string"))
    topology = stream.window(window).count("n").to_data_stream().to_print().build().topology
    query = SimpleNamespace(topology=topology, plan=plan_queries(topology)[0])
    assert IdleClock.over([query]).tick == tick


def test_sides_of_a_join_that_fall_silent_in_turn_go_by_each_others_time(driver):
    """Not by the clock, which is far ahead of these events: rows in order would be late behind it."""
    job = StreamBuilder.data_stream("shop", "turns")
    one, two = (job.from_file(f"{name}.jsonl", schema="k string, ts timestamp", name=name) for name in ("one", "two"))
    pairs = one.join(two, on="k", within=Time.seconds(5), time_field="ts", how="left", prefix="r_")
    with PipelineDriver(pairs.to_print().build(), spark=driver) as running:
        (query,) = running._running().queries.values()
        clock = 0.0
        idle = IdleSides((query,), Time.seconds(60), LastRows(lambda: clock))

        def step(key, seconds, *sides):
            for side in sides:
                running.push([{"k": key, "ts": at(seconds)}], side)
            running.step()

        step("a", 1, "one", "two")
        for seconds, own in ((30, "one"), (60, "two"), (90, "one")):
            step(own, seconds, own)
            clock = query.work.heard[own] + 60
            idle.look()
            running.step()
        step("b", 100, "one", "two")
        # What the first had alone came out when the second was let go of, and the other way round.
        found = [(row["k"], row["r_k"]) for row in running.take()]
        assert sorted(found, key=str) == [("a", "a"), ("b", "b"), ("one", None), ("one", None)]
        assert running.report().rows_late == 0
