"""A run that would do nothing starts no Spark, and every reason to do something starts it."""

import json
import random
import shutil
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.home import Home
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.files.whole.modified_files import has_unread
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.connectors.memory.reader import MemoryReader
from rs_assets.connectors.source import Foreseeing
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.event_time import send_control
from rs_assets.runtime.job import unchanged
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.job.unchanged import RULES, needs_spark, seems_unchanged
from rs_assets.runtime.options import RunOptions, SavepointPolicy
from rs_assets.runtime.run import run as runs
from tests.unchanged import NoSpark, reason

SCHEMA = "n bigint, ts timestamp"
LOGS, FOLDER = "windows", "folder"


def line(n):
    return json.dumps({"n": n, "ts": f"2024-01-01 00:{n // 60 % 60:02d}:{n % 60:02d}"}) + "\n"


def rows(first, last):
    return "".join(map(line, range(first, last)))


def pipeline(place):
    """Windows over a file that grows, and a table of whole files."""
    source = StreamBuilder.data_stream("shop", "unchanged")
    grown = source.from_file(place / "log.jsonl", schema=SCHEMA, tail=True, name="log")
    grown.window(TumblingWindow.of(Time.seconds(10), "ts"), name=LOGS).group_by("n").count(
        "rows"
    ).to_data_stream().to_delta("w")
    whole = source.from_file(place / "in", schema=SCHEMA, name="files")
    return whole.to_delta("t", name=FOLDER).build()


@pytest.fixture(scope="module")
def ran(tmp_path_factory, driver):
    """A pipeline after a run; tests change copies of its home, and undo what they do to its input."""
    place = tmp_path_factory.mktemp("ran")
    (place / "in").mkdir()
    (place / "log.jsonl").write_text(rows(0, 25))
    (place / "in" / "a.jsonl").write_text(rows(0, 3))
    job, options = pipeline(place), RunOptions(home=Home(place / "home"), driver=driver)
    assert job.run(options).rows_in == 28
    return SimpleNamespace(place=place, job=job, options=options)


@pytest.fixture
def copied(ran, tmp_path):
    """The same with a home of its own."""
    shutil.copytree(ran.options.home.root, tmp_path / "home")
    return SimpleNamespace(place=ran.place, job=ran.job, options=replace(ran.options, home=Home(tmp_path / "home")))


def test_a_run_without_anything_new_starts_no_spark(ran):
    before = tree(ran.options.home.root)
    report = ran.job.run(replace(ran.options, driver=NoSpark()))
    assert len(report.unchanged_since) == 2
    assert (report.batches, report.rows_in, report.sealed, report.warnings) == (0, 0, False, ())
    assert report.rows_open > 0
    assert report.unchanged_in_words.startswith("nothing new since checkpoint ")
    assert report.as_dict()["unchanged_since"] == dict(report.unchanged_since)
    assert tree(ran.options.home.root) == before


def tree(home):
    """What runs leave: Spark's logs, control rows, and versions of tables."""
    logs = (home / "checkpoints").glob("*/*/*/*/*")
    files = [path for log in logs for path in log.rglob("*") if path.is_file() and "state" not in path.parts]
    checkpoints = {str(path.relative_to(home)): path.read_bytes() for path in files}
    tables = {str(log.parent): DeltaTable(str(log.parent)).version() for log in (home / "tables").rglob("_delta_log")}
    return checkpoints, tables


@contextmanager
def appended(file, text):
    size = file.stat().st_size
    with file.open("a") as log:
        log.write(text)
    yield
    with file.open("r+") as log:
        log.truncate(size)


@contextmanager
def added(file, text="{}\n"):
    file.write_text(text)
    yield
    file.unlink()


@contextmanager
def renamed(file, name):
    moved = file.rename(file.parent / name)
    yield
    moved.rename(file)


INPUT = {
    "a line more": (lambda place: appended(place / "log.jsonl", line(30)), "there is more of log"),
    "half a line": (lambda place: appended(place / "log.jsonl", '{"n": 1'), ""),
    "the file has another name": (lambda place: renamed(place / "log.jsonl", "log.1"), ""),
    "the file is gone": (lambda place: renamed(place / "log.jsonl", "../gone"), "there is more of log"),
    "a file more": (lambda place: added(place / "in" / "b.jsonl"), "there is more of files"),
    "an empty file": (lambda place: added(place / "in" / "b.jsonl", ""), "there is more of files"),
    "a file that Spark lists": (lambda place: added(place / "in" / "_metadata.jsonl"), "there is more of files"),
    "a hidden file": (lambda place: added(place / "in" / ".b.jsonl"), ""),
    "a file beside": (lambda place: added(place / "b.jsonl"), ""),
}


@pytest.mark.parametrize("name", INPUT)
def test_new_input_starts_spark(ran, name):
    change, why = INPUT[name]
    assert reason(ran.job, ran.options) == ""
    with change(ran.place):
        assert reason(ran.job, ran.options) == why
        assert seems_unchanged(ran.job.topology, ran.options, finish=None) == (not why)
    assert reason(ran.job, ran.options) == ""


OPTIONS = {
    "new_generation": True,
    "reset_steps": (LOGS,),
    "keep_state": True,
    "partitions": 7,
    "savepoints": SavepointPolicy(upload=True),
    "openlineage": True,
    "idle_timeout": timedelta(seconds=1),
    "close_on_idle": timedelta(seconds=1),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_changes_a_run_starts_spark(ran, name):
    assert reason(ran.job, replace(ran.options, **{name: OPTIONS[name]})) == "an option of the run asks for it"


def test_the_end_of_input_starts_spark(ran):
    assert reason(ran.job, ran.options, finish=True) == "open windows are to be fired"


def changed_manifest(**facts):
    def change(folder, _):
        manifests.save(folder, replace(manifests.load(folder), **facts))

    return change


def unfinished(_, query):
    last = max(int(p.name) for p in (query / "checkpoint" / "offsets").iterdir() if p.name.isdigit())
    shutil.copy(query / "checkpoint" / "offsets" / str(last), query / "checkpoint" / "offsets" / str(last + 1))


def moved_watermark(_, query):
    commits = query / "checkpoint" / "commits"
    last = commits / str(max(int(p.name) for p in commits.iterdir() if p.name.isdigit()))
    last.write_text(f'v1\n{{"nextBatchWatermarkMs":{1 << 42}}}')


def planned_file(_, query):
    folder = query.parent / next(p.name for p in query.parent.iterdir() if p.name != query.name) / "checkpoint"
    entries = folder / "sources" / "files"
    entry = (entries / "0").read_text()
    (entries / "1").write_text(entry.replace('"batchId":0', '"batchId":1').replace("a.jsonl", "b.jsonl"))


STORED = {
    "an unfinished batch": (unfinished, f"{LOGS} has a batch that is not committed"),
    "a watermark": (moved_watermark, f"{LOGS} has not applied its watermark"),
    "a control row": (lambda _, query: send_control(query / "control", EPOCH), f"{LOGS} has a control row to read"),
    "a file that no batch has": (planned_file, "there is more of files"),
    "no batch": (lambda _, query: shutil.rmtree(query / "checkpoint"), f"{LOGS} has read nothing yet"),
    "a damaged log": (
        lambda _, query: [(f.unlink(), f.write_text("{")) for f in (query / "checkpoint" / "commits").iterdir()],
        "its input cannot be seen: a commit file is damaged",
    ),
    "a rescale": (changed_manifest(rescaling=3), "the number of state partitions is not settled"),
    "no partitions": (changed_manifest(partitions=0), "the number of state partitions is not settled"),
    "another version": (changed_manifest(code="another"), "the pipeline has changed"),
}


@pytest.mark.parametrize("name", STORED)
def test_a_checkpoint_with_something_to_do_starts_spark(copied, name):
    change, why = STORED[name]
    folder = copied.options.home.job("shop", "unchanged")
    change(folder, folder / "g0001" / LOGS)
    assert reason(copied.job, copied.options).startswith(why)
    assert not seems_unchanged(copied.job.topology, copied.options, finish=None)


def test_a_recovered_checkpoint_starts_spark(ran):
    session = JobSession(ran.job.topology, ran.options)
    session.recovered_from = "savepoint 1"
    assert needs_spark(session, finish=None) == "the checkpoint was recovered"


def test_time_by_the_clock_starts_spark():
    source = StreamBuilder.data_stream("shop", "clock").from_memory(MemoryChannel(schema="n bigint"))
    window = source.window(TumblingWindow.of(Time.seconds(10))).group_by("n").count("rows")
    job = window.to_data_stream().to_memory(MemoryChannel()).build()
    assert RULES["a step goes by the clock"](SimpleNamespace(topology=job.topology))


def test_a_source_that_cannot_look_starts_spark(ran, monkeypatch):
    """As a channel, a database and all others without `has_more`."""
    readers = [reader_of(source) for source in ran.job.topology.sources]
    assert all(isinstance(reader, Foreseeing) for reader in readers)
    assert not isinstance(MemoryReader(name="rows", channel=MemoryChannel()), Foreseeing)
    monkeypatch.setattr(unchanged, "Foreseeing", MemoryReader)
    assert reason(ran.job, ran.options) == "there is more of log"


def test_a_first_start_and_a_refused_one_are_no_guess(tmp_path, ran):
    elsewhere = replace(ran.options, home=Home(tmp_path / "elsewhere"))
    assert not seems_unchanged(ran.job.topology, elsewhere, finish=None)
    assert not seems_unchanged(ran.job.topology, replace(ran.options, reset_steps=("other",)), finish=None)


def test_input_that_has_ended_needs_no_spark(tmp_path, options):
    (tmp_path / "one.jsonl").write_text(rows(0, 3))
    out = MemoryChannel()
    source = StreamBuilder.data_stream("shop", "ended").from_file(tmp_path / "one.jsonl", schema=SCHEMA)
    job = source.to_memory(out).build()
    assert job.run(options).sealed
    report = job.run(replace(options, driver=NoSpark()))
    assert (report.sealed, report.batches, len(report.unchanged_since)) == (True, 0, 1)
    assert len(out.rows()) == 3


@pytest.mark.parametrize("path", ["{a,b}/*.jsonl", "[ab]/*.jsonl", "a/**", "a\\*"])
def test_a_pattern_that_hadoop_may_read_otherwise_starts_spark(tmp_path, monkeypatch, path):
    log = SimpleNamespace(
        files=list, source="s", log=SimpleNamespace(source_offset=lambda *_: 0, last_committed=lambda: 0)
    )
    assert has_unread(str(tmp_path / path), log)
    assert not has_unread(str(tmp_path / "*.jsonl"), log)


CHANGES = (
    lambda place, n: appended_for_good(place / "log.jsonl", line(n)),
    lambda place, n: appended_for_good(place / "log.jsonl", line(n)[:9]),
    lambda place, n: appended_for_good(place / "log.jsonl", "\n"),
    lambda place, n: (place / "in" / f"{n}.jsonl").write_text(line(n)),
    lambda place, n: (place / "in" / f"_{n}.jsonl").write_text(line(n)),
    lambda place, n: (place / "in" / f"{n}.jsonl").write_text(""),
    lambda place, n: (place / "log.jsonl").touch(),
    lambda place, n: [file.unlink() for file in [*(place / "in").glob("*.jsonl")][:1]],
    lambda place, n: shutil.copytree(place / "in", place / "aside", dirs_exist_ok=True),
    lambda place, n: None,
)


def appended_for_good(file, text):
    with file.open("a") as log:
        log.write(text)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2))
def test_a_run_that_was_left_out_would_have_changed_nothing(tmp_path, options, monkeypatch, seed):
    """Random changes of the input, and the same run with Spark wherever it was found not to be needed."""
    monkeypatch.setattr(runs, "is_unchanged", lambda *_, **__: False)
    (tmp_path / "in").mkdir()
    (tmp_path / "log.jsonl").write_text(rows(0, 25))
    (tmp_path / "in" / "a.jsonl").write_text(rows(0, 3))
    job, chance, left_out = pipeline(tmp_path), random.Random(seed), 0
    # The second start completes the first batch's entry in Spark's log by the number of partitions.
    assert (job.run(options).rows_in, job.run(options).batches) == (28, 0)
    for step in range(12):
        chance.choice(CHANGES)(tmp_path, 100 * (seed + 1) + step)
        found, before = reason(job, options), tree(options.home.root)
        forced = job.run(options)
        if not found:
            left_out += 1
            assert forced.batches == 0
            assert tree(options.home.root) == before
    assert left_out
