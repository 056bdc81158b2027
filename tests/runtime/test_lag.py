"""What is unread, how fast it is read and comes, and when a pipeline will have caught up."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.desired_state import request_run
from rs_assets.catalog.lease import Lease
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.cli.main import main
from rs_assets.common.home import Home
from rs_assets.connectors.files.lines.offsets import dump_offsets
from rs_assets.connectors.files.lines.planner import Planner
from rs_assets.dagster.assets.freshness import judged
from rs_assets.dagster.place import Place
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run import lag as module
from rs_assets.runtime.run.durations import FILE, Limit, note_durations, parts_of
from rs_assets.runtime.run.lag import SourceLag, lag, lines_of, unread

AT = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
LINE = '{"n":1}\n'


def measured(**facts):
    usual = {"source": "orders", "query": "q", "at": AT, "unread": 600, "unit": "records", "running": True}
    return SourceLag(**usual | facts)


@pytest.mark.parametrize(
    ("facts", "state", "at"),
    [
        ({"unread": 0}, "caught up", AT),
        ({"unread": 0, "running": False}, "caught up", AT),
        ({"running": False, "read_per_s": 9.0, "arriving_per_s": 0.0, "batch_s": 1.0}, "stopped", None),
        ({}, "unknown", None),
        ({"read_per_s": 30.0, "batch_s": 1.0}, "unknown", None),
        ({"read_per_s": 30.0, "arriving_per_s": 30.0, "batch_s": 1.0}, "growing", None),
        ({"read_per_s": 30.0, "arriving_per_s": 10.0, "batch_s": 1.0}, "catching up", AT + timedelta(seconds=30)),
        ({"read_per_s": 300.0, "arriving_per_s": 0.0, "batch_s": 1.0}, "keeping up", AT + timedelta(seconds=2)),
        (
            {"unread": 100, "read_per_s": 30.0, "arriving_per_s": 10.0, "batch_s": 1.0, "wait_s": 10.0},
            "catching up",
            AT + timedelta(seconds=20),
        ),
        ({"read_per_s": 1e-9, "arriving_per_s": 0.0, "batch_s": 1.0}, "catching up", None),
    ],
)
def test_a_lag_with_these_rates_gives_its_state_and_time(facts, state, at):
    found = measured(**facts)
    assert (found.state, found.caught_up_at) == (state, at)
    assert found.reached_within(timedelta(seconds=30)) == (at is not None)
    assert not found.reached_within(timedelta(seconds=-1))


def test_a_time_on_another_day_has_its_date():
    text = str(measured(unread=360_000, read_per_s=11.0, arriving_per_s=1.0, batch_s=1.0))
    assert text.endswith("360,000 records unread, reads 11/s, 1/s arrive, catching up, caught up at 22:00:00 UTC")
    text = str(measured(unread=3_600_000, read_per_s=11.0, arriving_per_s=1.0, batch_s=1.0))
    assert text.endswith("caught up at 2026-01-09 16:00:00 UTC")


def test_the_lines_of_a_source_that_two_queries_read_have_their_query():
    found = [measured(unread=0), measured(unread=0, query="late"), measured(unread=0, source="users")]
    assert lines_of(found) == ["q of orders: nothing unread", "late of orders: nothing unread", "users: nothing unread"]


@pytest.fixture
def home(tmp_path):
    return Home.at(str(tmp_path / "home"))


@pytest.fixture
def file(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in" / "a.jsonl"


@pytest.fixture
def pipeline(file):
    followed = StreamBuilder.data_stream("shop", "logs").from_file(file.parent, schema="n int", tail=True)
    return followed.to_delta("copies", name="copies").build()


class Batches:
    """Spark's log of the pipeline, written without Spark: batches that take two seconds each."""

    def __init__(self, home, file):
        self.home, self.file, self.ends = home, file, {}
        self.job = home.job("shop", "logs")
        manifests.save(
            self.job, Manifest(pipeline_id="p", queries={"file": QueryFacts(generation=1, sinks={"copies": 0})})
        )
        self.log = self.job / "g0001" / "file" / "checkpoint"

    def add(self, lines):
        """A batch that reads so many new lines."""
        with self.file.open("a") as out:
            out.write(LINE * lines)
        number = len(self.ends)
        self.ends = {**self.ends, number: Planner(str(self.file.parent)).plan(self.ends.get(number - 1, {}))}
        begun = 1_767_000_000 + 10 * number
        meta = {"batchWatermarkMs": 0, "batchTimestampMs": begun * 1000, "conf": {}}
        texts = {
            f"offsets/{number}": f"v2\n{json.dumps(meta)}\nfile:{json.dumps(dump_offsets(self.ends[number]))}",
            f"commits/{number}": "v1\n{}",
        }
        for name, text in texts.items():
            (self.log / name).parent.mkdir(parents=True, exist_ok=True)
            (self.log / name).write_text(text)
        os.utime(self.log / "commits" / str(number), (begun + 2, begun + 2))


@pytest.fixture
def batches(home, file):
    return Batches(home, file)


def test_a_pipeline_before_its_first_run_has_all_input_unread(pipeline, home, file):
    file.write_text(LINE * 5)
    (found,) = pipeline.lag(RunOptions(home=home))
    assert (found.unread, found.unit, found.read_per_s, found.state) == (40, "bytes", None, "stopped")
    assert str(found) == "file: 40 bytes unread, stopped"


def test_the_rate_of_reading_is_that_of_the_newest_batches(pipeline, home, batches, file):
    for lines in (1000, *[10] * 9, 30):
        batches.add(lines)
    (found,) = lag(pipeline.topology, home)
    # The first batch is not one of the ten newest.
    assert (found.read_per_s, found.batch_s) == (120 * len(LINE) / 20, 2.0)
    assert str(found) == "file: nothing unread"
    with file.open("a") as out:
        out.write(LINE * 3)
    assert unread(pipeline.topology, home).bytes == 3 * len(LINE)


def test_input_that_comes_between_two_looks_gives_the_rate_of_arrival(pipeline, home, batches, file, monkeypatch):
    batches.add(100)
    with file.open("a") as out:
        out.write(LINE * 50)

    def sleep(seconds):
        assert seconds == 4
        with file.open("a") as out:
            out.write(LINE * 10)

    monkeypatch.setattr(module, "sleep", sleep)
    with Lease.acquire(home.leases, pipeline="shop.logs", run_id="r"):
        (found,) = lag(pipeline.topology, home, over=timedelta(seconds=4))
    assert (found.unread, found.arriving_per_s, found.read_per_s) == (480, 20.0, 400.0)
    assert (found.state, found.running) == ("keeping up", True)


def test_the_wait_for_the_next_batch_is_part_of_the_forecast(pipeline, home, batches, file, monkeypatch):
    batches.add(100)
    with file.open("a") as out:
        out.write(LINE * 50)
    monkeypatch.setattr(module, "sleep", lambda _: None)
    request_run(batches.job, "r", timedelta(hours=1))
    with Lease.acquire(home.leases, pipeline="shop.logs", run_id="r"):
        (found,) = lag(pipeline.topology, home, over=timedelta(seconds=4))
        assert found.wait_s == 3600 - found.at.timestamp() % 3600
        assert (found.caught_up_at - found.at).total_seconds() == pytest.approx(found.wait_s + 1)
        plan(batches, batches.ends[0], datetime.now(UTC))
        assert [each.wait_s for each in lag(pipeline.topology, home)] == [0]


def test_the_interval_of_another_run_is_no_wait(pipeline, home, batches):
    batches.add(100)
    request_run(batches.job, "r", timedelta(hours=1))
    with Lease.acquire(home.leases, pipeline="shop.logs", run_id="of a run to the end of the input"):
        assert [each.wait_s for each in lag(pipeline.topology, home)] == [0]
    assert [each.wait_s for each in lag(pipeline.topology, home)] == [0]


def test_the_check_of_an_old_output_has_what_is_unread(home, file):
    file.write_text(LINE)
    read = StreamBuilder.data_stream("shop", "old").from_file(file.parent, schema="n int, ts timestamp", tail=True)
    window = read.window(TumblingWindow.of(Time.minutes(1), "ts"), name="minutes").group_by("n").count("rows")
    topology = window.to_data_stream().to_delta("per_minute").build().topology
    found = judged(topology, "minutes", Place(home=home), timedelta(minutes=5))
    assert (found.passed, found.metadata["unread"].text) == (False, "file: 8 bytes unread, stopped")


def test_the_command_fails_if_the_input_is_not_read_in_time(project_with, file):
    runner = project_with(file)
    file.write_text(LINE)
    done = runner("lag", "logs", "--over", "0", "--within", "60")
    assert (done.exit_code, done.output) == (1, "file: 8 bytes unread, stopped\n")
    shown = json.loads(runner("lag", "logs", "--over", "0", "--json").output)
    assert [(each["source"], each["unread"], each["state"]) for each in shown] == [("file", 8, "stopped")]


def test_a_pipeline_whose_sources_end_is_refused(project_with, file):
    done = project_with(file)("lag", "once")
    assert done.exit_code == 1
    assert "shop.once has no source whose unread input can be counted: sources that end and folders" in done.output


@pytest.fixture
def project_with(tmp_path, monkeypatch, home):
    """Runs a command over the pipelines `logs`, which follows a folder, and `once`, which ends."""

    def made(file):
        (tmp_path / "lagging_pipelines.py").write_text(
            "from rs_assets import StreamBuilder\n"
            f"stream, folder = StreamBuilder.data_stream('shop', 'logs'), {str(file.parent)!r}\n"
            "read = stream.from_file(folder, schema='n int', tail=True)\n"
            "logs = read.to_delta('copies', name='copies').build()\n"
            "once = StreamBuilder.data_stream('shop', 'once').from_array([{'n': 1}]).to_print().build()\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("RS_HOME", str(home.root))
        return lambda *words: CliRunner().invoke(main, [*words, "-m", "lagging_pipelines"])

    return made


def plan(batches, ends, begun):
    """A batch that is planned and not committed."""
    number = len(batches.ends)
    meta = {"batchWatermarkMs": 0, "batchTimestampMs": int(begun.timestamp() * 1000), "conf": {}}
    (batches.log / "offsets" / str(number)).write_text(f"v2\n{json.dumps(meta)}\nfile:{json.dumps(dump_offsets(ends))}")


def test_the_first_batch_is_left_out_of_the_rate_once_there_are_others(pipeline, home, batches):
    batches.add(1000)
    batches.add(10)
    (found,) = lag(pipeline.topology, home)
    assert found.read_per_s == 10 * len(LINE) / 2


def test_files_that_are_gone_since_they_were_read_count_for_the_rate(pipeline, home, batches, file):
    for lines in (10, 50, 20):
        batches.add(lines)
    old = file.rename(file.with_name("b.jsonl"))
    # The new file is there first, so it has another number of its own.
    file.write_text(LINE)
    old.unlink()
    (found,) = lag(pipeline.topology, home)
    assert (found.unread, found.read_per_s) == (len(LINE), 70 * len(LINE) / 4)


def test_a_batch_that_hangs_lowers_the_rate_and_ends_in_the_alert(pipeline, home, batches, file):
    batches.add(100)
    batches.add(100)
    with file.open("a") as out:
        out.write(LINE * 10)
    ends = Planner(str(file.parent)).plan(batches.ends[1])
    with Lease.acquire(home.leases, pipeline="shop.logs", run_id="r") as lease:
        plan(batches, ends, datetime.now(UTC))
        (found,) = lag(pipeline.topology, home)
        assert found.read_per_s == 100 * len(LINE) / 2
        plan(batches, ends, datetime.now(UTC) - timedelta(hours=2))
        # Its driver has begun only now: the batch was planned by an earlier one.
        (found,) = lag(pipeline.topology, home)
        assert found.read_per_s == 100 * len(LINE) / 2
        long_ago = replace(lease.row, acquired_at=datetime.now(UTC) - timedelta(hours=1))
        with patch.object(module, "read_lease", lambda *_: long_ago):
            (found,) = lag(pipeline.topology, home)
        assert found.read_per_s == pytest.approx(100 * len(LINE) / 3602, rel=0.01)


def test_a_driver_without_signs_of_life_on_another_machine_does_not_run(pipeline, home, batches, file):
    batches.add(100)
    with file.open("a") as out:
        out.write(LINE * 10)
    with Lease.acquire(home.leases, pipeline="shop.logs", run_id="r") as lease:
        elsewhere = replace(lease.row, host="another")
        with patch.object(module, "read_lease", lambda *_: elsewhere):
            assert [each.running for each in lag(pipeline.topology, home)] == [True]
        silent = replace(elsewhere, renewed_at=datetime.now(UTC) - timedelta(hours=1))
        with patch.object(module, "read_lease", lambda *_: silent):
            assert [each.state for each in lag(pipeline.topology, home)] == ["stopped"]


def test_a_time_between_two_looks_is_not_negative(project_with, file):
    done = project_with(file)("lag", "logs", "--over", "-1")
    assert (done.exit_code, "--over" in done.output) == (2, True)


def test_the_part_that_takes_most_of_a_batch_is_named_while_its_run_goes_on(pipeline, home, batches, file):
    for lines in (10, 10, 30):
        batches.add(lines)
    with file.open("a") as out:
        out.write(LINE * 3)
    took = {"triggerExecution": 1000, "addBatch": 950, "latestOffset": 10}
    progress = {"numInputRows": 30, "durationMs": took, "stateOperators": []}
    query = SimpleNamespace(
        progress=progress, plan=SimpleNamespace(states=()), work=SimpleNamespace(took={"copies": 0.75})
    )
    driver = SimpleNamespace(
        call=lambda look: look(SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2)))
    )
    options = SimpleNamespace(driver=driver, run_id="one")
    session = SimpleNamespace(folder=batches.job, queries={"file": query}, options=options)
    with Lease.acquire(home.leases, pipeline="shop.logs", run_id="one", ttl=Time.minutes(1)):
        (found,) = lag(pipeline.topology, home)
        assert found.limit is None
        note_durations(session)
        # A trigger without input says nothing of a batch.
        query.progress = {"numInputRows": 0, "durationMs": {"triggerExecution": 1}, "stateOperators": []}
        note_durations(session)
        (found,) = lag(pipeline.topology, home)
        assert found.limit == Limit("sink 'copies'", 0.75)
        assert str(found).endswith("unknown, 75 % of a batch: sink 'copies'")
        assert found.as_dict()["limit"] == {"part": "sink 'copies'", "share": 0.75}
    # Another run, and none.
    assert lag(pipeline.topology, home)[0].limit is None
    with Lease.acquire(home.leases, pipeline="shop.logs", run_id="two", ttl=Time.minutes(1)):
        assert lag(pipeline.topology, home)[0].limit is None
        (batches.job / FILE).write_text("[]")
        assert lag(pipeline.topology, home)[0].limit is None


def test_states_have_the_names_of_their_steps_if_each_has_one_operator():
    def operator(ms, partitions=1):
        return {"allUpdatesTimeMs": ms, "allRemovalsTimeMs": 0, "commitTimeMs": 0, "numShufflePartitions": partitions}

    def parts(states, *operators):
        took = {"triggerExecution": 9000, "addBatch": 9000}
        progress = {"numInputRows": 1, "durationMs": took, "stateOperators": list(operators)}
        found = parts_of(progress, states, {}, 4)
        return {name: seconds for name, seconds in found.items() if name.startswith("state")}

    # Spark begins with the last one.
    assert parts(("tens", "minutes"), operator(1000), operator(4000)) == {
        "state of 'minutes'": 1.0, "state of 'tens'": 4.0,
    }  # fmt: skip
    assert parts(("a", "b"), operator(1000), operator(2000), operator(3000)) == {"state of 'a' and 'b'": 6.0}
    assert parts(("a",), operator(8000, partitions=8)) == {"state of 'a'": 2.0}
    assert parts(("a",), operator(8000, partitions=2)) == {"state of 'a'": 4.0}
