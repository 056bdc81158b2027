"""Windows that emit their row on each update, against the reference model."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import duckdb
import pyarrow as pa
import pytest
from dagster import DagsterInstance
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets import HoppingWindow, StreamBuilder, Time, TumblingWindow, build_definitions
from rs_assets.common.home import Home
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.connectors.sink import Staged
from rs_assets.errors import RsError, TopologyChangedError, TopologyError
from rs_assets.testing import PipelineDriver
from tests.operators.model import START, at, counted, updated, windows_of

SCHEMA = "key string, v bigint, ts timestamp"
UPDATES = "on_window_update"
TEN = TumblingWindow.of(Time.seconds(10), "ts")
WINDOWS = {10: TEN, 5: HoppingWindow.of(Time.seconds(10), Time.seconds(5), "ts")}
DELAY = 15
# In no order, with two rows (at 3 and 8) that are late where the water mark is DELAY.
BATCHES = [[1, 12, 4], [5, 31], [3, 28, 8, 13], [33, 40], [60]]


def rows(*seconds, key="a"):
    return [{"key": key, "v": second, "ts": at(second)} for second in seconds]


def stream(channel=None, *, window=TEN, emit=UPDATES, name="window", delay=DELAY):
    channel = channel or MemoryChannel(schema=SCHEMA)
    begun = StreamBuilder.data_stream("test", "updates").from_memory(channel)
    windows = begun.window(window, name=name, emit=emit).group_by("key").count("n")
    return windows.water_mark(Time.seconds(delay)).to_data_stream()


def read(options, table):
    return DeltaTable(options.home.table("test", table)).to_pyarrow_table().to_pylist()


def results(found):
    """Rows without the time of their emission."""
    return sorted((row["key"], row["start_time"], row["end_time"], row["n"]) for row in found)


def counts(batches=BATCHES, *, slide=10):
    """What each batch of rows of one key emits."""
    made = updated([rows(*seconds) for seconds in batches], size=10, slide=slide, delay=DELAY)
    return [counted(changed) for changed, _ in made]


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    events=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), min_size=4, max_size=20),
    cuts=st.sets(st.integers(1, 19), max_size=4),
    restarts=st.sets(st.integers(0, 4), max_size=1),
    slide=st.sampled_from(sorted(WINDOWS)),
)
def test_should_emit_what_each_batch_changed(driver, events, cuts, restarts, slide):
    arrived = [{"key": key, "v": second, "ts": at(second)} for key, second in events]
    edges = [0, *sorted(cut for cut in cuts if cut < len(arrived)), len(arrived)]
    batches = [arrived[first:last] for first, last in pairwise(edges)]
    expected = list(updated(batches, size=10, slide=slide, delay=DELAY))
    last, late = {}, 0
    with PipelineDriver(stream(window=WINDOWS[slide]).to_print().build(), spark=driver) as running:
        for number, (batch, (changed, _)) in enumerate(zip(batches, expected, strict=True)):
            running.push(batch)
            running.step()
            emitted = running.take()
            assert windows_of(emitted) == counted(changed)
            last |= {tuple(row[name] for name in ("key", "start_time", "end_time")): row["n"] for row in emitted}
            if number in restarts:
                late += running.report().rows_late
                running.restart()
        running.finish()
        assert running.take() == []
        report = running.report()
    assert (late + report.rows_late, report.rows_open) == (sum(count for _, count in expected), 0)
    final = {group: there for changed, _ in expected for group, there in changed.items()}
    assert sorted((*group, n) for group, n in last.items()) == counted(final)


@pytest.mark.parametrize("slide", sorted(WINDOWS))
def test_should_give_all_aggregates_of_a_window_as_it_stands(driver, slide):
    begun = StreamBuilder.data_stream("test", "updates").from_file("in.jsonl", schema=SCHEMA)
    windows = begun.window(WINDOWS[slide], emit=UPDATES).count("n").sum("v", "total").avg("v", "mean").min("v", "least")
    windows = windows.max("v", "most").distinct("v", "different").count_distinct("v", "exactly").collect("v", "order")
    windows = windows.water_mark(Time.seconds(DELAY))
    batches = [rows(*seconds) for seconds in BATCHES]
    with PipelineDriver(windows.to_data_stream().to_print().build(), spark=driver) as running:
        for batch, (changed, _) in zip(batches, updated(batches, size=10, slide=slide, delay=DELAY), strict=True):
            running.push(batch)
            running.step()
            found = {row["start_time"]: row for row in running.take()}
            values = {start: sorted(row["v"] for row in there) for (_, start, _), there in changed.items()}
            assert found.keys() == values.keys()
            for start, vs in values.items():
                assert {k: v for k, v in found[start].items() if not k.endswith("_time")} == {
                    "n": len(vs),
                    "total": sum(vs),
                    "mean": sum(vs) / len(vs),
                    "least": vs[0],
                    "most": vs[-1],
                    "different": vs,
                    "exactly": len(vs),
                    "order": vs,
                }


def test_should_tell_updates_apart_by_the_time_of_their_emission(driver):
    began = datetime.now(UTC)
    with PipelineDriver(stream().to_print().build(), spark=driver) as running:
        for second in (1, 2, 3):
            running.push(rows(second))
            running.step()
        found = running.take()
    times = [row["fire_time"] for row in found]
    assert [row["n"] for row in found] == [1, 2, 3]
    assert began - timedelta(seconds=1) < times[0] < times[1] < times[2] < datetime.now(UTC)


@pytest.mark.long
@pytest.mark.parametrize("connector", ["native", "jvm"])
def test_should_keep_one_row_a_window_in_a_table(options, connector):
    channel = MemoryChannel(schema=SCHEMA)
    windows = stream(channel, window=WINDOWS[5], delay=100)
    windows.to_delta("latest", mode="upsert", keys=["key", "start_time"], connector=connector)
    job = windows.to_delta("whole", mode="complete").to_delta("changes").build()
    cuts = (BATCHES[0], [second for seconds in BATCHES[1:] for second in seconds])
    batches = [rows(*seconds) + rows(*seconds[:2], key=None) for seconds in cuts]
    for batch in batches:
        channel.put(*batch)
        job.run(options)
    channel.close()
    report = job.run(options)
    assert (report.sealed, {q.query: q.rows_open for q in report.queries}["window"]) == (True, 0)

    table = pa.Table.from_pylist([{"key": row["key"], "s": row["v"]} for batch in batches for row in batch])
    hops = "SELECT key, s // 5 * 5 - hop AS start, count(*) FROM given, unnest([0, 5]) hops(hop) GROUP BY ALL"
    found = duckdb.from_arrow(table).query("given", hops).fetchall()
    expected = sorted(((key, at(start), at(start + 10), n) for key, start, n in found), key=str)
    for name in ("latest", "whole"):
        stored = [(row["key"], row["start_time"], row["end_time"], row["n"]) for row in read(options, name)]
        assert sorted(stored, key=str) == expected
    changes = read(options, "changes")
    newest = {(row["key"], row["start_time"]): row for row in sorted(changes, key=lambda row: row["fire_time"])}
    assert sorted(((*key, row["n"]) for key, row in newest.items()), key=str) == [(k, s, n) for k, s, _, n in expected]
    assert len(changes) > len(newest)


def test_should_hand_updates_to_the_steps_behind(driver):
    def doubled(row):
        return {"key": row["key"], "twice": 2 * row["n"]}

    behind = stream().filter("n > 1").with_fields(half="n / 2")
    job = behind.map(doubled, schema="key string, twice bigint").to_print().build()
    with PipelineDriver(job, spark=driver) as running:
        for seconds in ([1], [2], [3, 4]):
            running.push(rows(*seconds))
            running.step()
        assert [row["twice"] for row in running.take()] == [4, 8]
        running.finish()
        assert running.take() == []


def test_should_forget_windows_that_a_filter_keeps_back_without_a_row(driver):
    with PipelineDriver(stream().filter("n > 5").to_print().build(), spark=driver) as running:
        running.push(rows(1))
        running.step()
        assert running.report().rows_open == 1
        running.finish()
        assert (running.take(), running.report().rows_open) == ([], 0)


def test_should_tell_the_memory_of_state(options):
    channel, seen = MemoryChannel(schema=SCHEMA), []
    channel.put(*rows(1, 2))
    stream(channel).to_memory(MemoryChannel()).build().run(replace(options, on_progress=seen.append))
    assert [batch.state_bytes > 0 for batch in seen if batch.state_rows] == [True]


def test_should_let_go_of_windows_by_arrival_time_while_nothing_arrives(options):
    channel, seen = MemoryChannel(schema=SCHEMA), []
    over = threading.Event()

    def listen(batch):
        seen.append(batch.state_rows)
        if 0 in seen and max(seen):
            over.set()

    job = stream(channel, window=TumblingWindow.of(Time.seconds(1)), delay=0).to_memory(out := MemoryChannel()).build()
    with job.start(replace(options, interval=timedelta(milliseconds=50), on_progress=listen)) as running:
        channel.put(*rows(1, 2))
        assert over.wait(60), "the window stayed in state"
        assert running.session.report().rows_open == 0
    assert [row["n"] for row in out.rows()] == [2]


@pytest.mark.parametrize("behind", [False, True], ids=["before the commit", "behind the commit"])
def test_should_write_every_update_once_over_failed_batches(options, monkeypatch, behind):
    channel = MemoryChannel(schema=SCHEMA)
    job = stream(channel).to_delta("changes").to_delta("latest", mode="upsert", keys=["key", "start_time"]).build()
    written, commits = DeltaWriter.stage, []

    def stage(sink, batch, mark):
        staged = written(sink, batch, mark)

        def commit():
            commits.append(mark)
            # Each batch fails once, at its first sink.
            fails = commits.count(mark) == 1 and sink.name == "changes_table"
            if fails and not behind:
                raise RsError("crash")
            count = staged.commit()
            if fails and count:
                raise RsError("crash")
            return count

        return Staged(commit)

    for seconds in BATCHES:
        channel.put(*rows(*seconds))
        with monkeypatch.context() as patched:
            patched.setattr(DeltaWriter, "stage", stage)
            with pytest.raises(RsError, match="crash"):
                job.run(options)
        job.run(options)
    job.run(options, finish=True)
    expected = counts()
    assert results(read(options, "changes")) == sorted(row for batch in expected for row in batch)
    assert results(read(options, "latest")) == sorted({row[:3]: row for batch in expected for row in batch}.values())


def kept(driver, tmp_path, emit):
    """A window with one row in state, in the home `tmp_path`."""
    with PipelineDriver(stream(emit=emit).to_print().build(), spark=driver, home=tmp_path) as running:
        running.push(rows(1))
        running.step()


@pytest.mark.parametrize(("before", "after"), [("on_window_close", UPDATES), (UPDATES, "on_window_close")])
def test_should_refuse_state_whose_windows_were_emitted_otherwise(driver, tmp_path, before, after):
    kept(driver, tmp_path, before)
    with pytest.raises(
        TopologyChangedError, match=r"(?s)- window_aggregate.*\+ window_aggregate.*--keep-state"
    ) as error:
        PipelineDriver(stream(emit=after).to_print().build(), spark=driver, home=tmp_path).__enter__()
    assert str(error.value).count(f"emit={UPDATES}") == 1


@pytest.mark.parametrize(
    ("emit", "choice", "read"),
    [
        (UPDATES, {"keep_state": True}, 1),
        ("on_window_close", {"keep_state": True}, 1),
        (UPDATES, {"reset_steps": ("window",)}, 2),
    ],
)
def test_should_go_on_with_the_state_if_it_is_asked_to(options, emit, choice, read):
    channel, out = MemoryChannel(schema=SCHEMA), MemoryChannel()
    other = "on_window_close" if emit == UPDATES else UPDATES
    channel.put(*rows(1))
    stream(channel, emit=other).to_memory(out).build().run(options)
    out.take()
    channel.put(*rows(2))
    report = stream(channel, emit=emit).to_memory(out).build().run(replace(options, **choice), finish=True)
    first = [row for row in out.take() if row["start_time"] == START]
    assert (report.rows_in, [row["n"] for row in first]) == (read, [2])


def test_should_only_change_the_fingerprint_of_windows_that_emit_updates():
    plain, close, update = (
        made.to_print().build().topology
        for made in (stream(emit="on_window_close"), stream(emit="on_window_close"), stream())
    )
    assert plain.fingerprint == close.fingerprint != update.fingerprint
    assert "emit" not in "".join(plain.state_shape())


def test_should_give_updates_and_whole_tables_queries_of_their_own():
    topology = stream().to_print().to_delta("whole", mode="complete").build().topology
    assert [(plan.name, plan.output_mode) for plan in plan_queries(topology)] == [
        ("window", "update"),
        ("window_complete", "complete"),
    ]


def test_should_say_so_in_the_description():
    pipeline = stream().to_print().build()
    assert "tumbling 0:00:10 by key: n, on each update" in pipeline.describe()
    assert "tumbling 0:00:10 by key: n, on each update" in pipeline.describe(mermaid=True)
    assert "update" not in stream(emit="on_window_close").to_print().build().describe().replace("test.updates", "")


@pytest.mark.parametrize("emit", ["on_update", "", None, True, 3, ["on_window_update"], b"on_window_update"])
def test_should_refuse_what_is_no_way_to_emit(emit):
    with pytest.raises(TopologyError, match=r"(?s)'window' cannot emit.*on_window_close, on_window_update"):
        stream(emit=emit)


def test_should_refuse_state_and_durable_shuffles_behind_updates():
    again = stream().filter("n > 1").window(TumblingWindow.of(Time.seconds(20), "end_time"), name="again").sum("n")
    with pytest.raises(TopologyError, match=r"(?s)step 'again' would count each update of window 'window'.*fire once"):
        again.to_data_stream().to_print().build()
    shuffled = stream().shuffle(2, keys=["key"], strategy="delta", name="spread").to_print()
    with pytest.raises(TopologyError, match=r"(?s)step 'spread_write' would count each update"):
        shuffled.build()


@pytest.mark.parametrize(
    "keys",
    [["key"], ["start_time"], ["key", "fire_time"], ["key", "start_time", "n"], ["key", "start_time", "fire_time"]],
)
def test_should_refuse_keys_that_do_not_tell_windows_apart(keys):
    updates = stream().filter("n > 0").to_delta("latest", mode="upsert", keys=keys)
    with pytest.raises(TopologyError, match=r"(?s)step 'latest_table': .* do not distinguish.*'key', 'start_time'"):
        updates.build()
    # Behind a step that makes other columns only the user knows, and one row a window may replace any other.
    stream().map("key AS page", "start_time").to_delta("latest", mode="upsert", keys=["page"]).build()
    stream(emit="on_window_close").to_delta("latest", mode="upsert", keys=keys).build()


@pytest.mark.parametrize("keys", [["key", "start_time"], ["end_time", "key"], ["key", "start_time", "end_time"]])
def test_should_take_keys_that_do(keys):
    stream().to_delta("latest", mode="upsert", keys=keys).build()


def test_should_have_no_real_time(options):
    source = StreamBuilder.data_stream("test", "updates").from_kafka(
        "localhost:1", "in", schema=SCHEMA, bad_records="skip"
    )
    windows = source.window(TEN, emit=UPDATES).count("n").to_data_stream()
    with pytest.raises(TopologyError, match="'window' cannot be run in real time: it keeps state"):
        windows.to_kafka("localhost:1", "out").build().start(options, latency="real-time")


def test_should_run_in_dagster(tmp_path, driver):
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f'{{"key": "a", "v": {n}, "ts": "{at(n).isoformat()}"}}\n' for n in range(25)))
    begun = StreamBuilder.data_stream("test", "updates").from_file(log, schema=SCHEMA, tail=True)
    windows = begun.window(TEN, emit=UPDATES).group_by("key").count("n").to_data_stream()
    job = windows.to_delta("latest", mode="upsert", keys=["key", "start_time"]).build()
    config = {
        "resources": {"rs_spark": {"config": {"share": True}}, "rs_run": {"config": {"home": str(tmp_path / "rs")}}},
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
    }
    with DagsterInstance.ephemeral() as instance:
        done = build_definitions([job]).resolve_job_def("test_updates_run")
        events = done.execute_in_process(run_config=config, instance=instance).get_asset_materialization_events()
        assert {event.asset_key.path[-1] for event in events} == {"file", "window", "latest"}
    found = DeltaTable(Home(tmp_path / "rs").table("test", "latest")).to_pyarrow_table().to_pylist()
    assert sorted(row["n"] for row in found) == [5, 10, 10]
