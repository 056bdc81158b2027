"""Input that changed behind the back of a generation is refused."""

import json
from dataclasses import replace

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import DataLossError, SealedError, TopologyError
from rs_assets.runtime.options import RunOptions

SCHEMA = "n bigint, ts timestamp"


def rows(first, last):
    return "".join(json.dumps({"n": n, "ts": f"2024-01-01 00:00:{n:02d}"}) + "\n" for n in range(first, last))


def pipeline(path, out, **options):
    return StreamBuilder.data_stream("shop", "inputs").from_file(path, schema=SCHEMA, **options).to_memory(out).build()


def test_should_refuse_a_single_file_that_changed_after_its_end(tmp_path, options):
    path, out = tmp_path / "a.jsonl", MemoryChannel()
    path.write_text(rows(0, 3))
    job = pipeline(path, out)
    assert job.run(options).sealed
    assert job.run(options).batches == 0
    path.write_text(rows(0, 4))
    with pytest.raises(SealedError, match="more of it"):
        job.run(options)
    assert len(out.rows()) == 3
    assert job.run(replace(options, new_generation=True)).rows_in == 4


@pytest.mark.parametrize(
    "written", ["{}", "./x/../{}", ".//{}", "file:{here}/{}", "file://{here}/{}", "{here}/x/../{}"]
)
def test_should_anchor_a_path_where_the_source_is_made(tmp_path, monkeypatch, written):
    monkeypatch.chdir(tmp_path)
    built = pipeline(written.format("one.jsonl", here=tmp_path), MemoryChannel())
    monkeypatch.chdir("/")
    (source,) = built.topology.sources
    assert source.path == str(tmp_path / "one.jsonl")


def test_should_guard_relative_paths_as_absolute_ones(tmp_path, options, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(rows(0, 3))
    (tmp_path / "one.jsonl").write_text(rows(0, 2))
    monkeypatch.chdir(tmp_path)
    one, folder = pipeline("one.jsonl", MemoryChannel()), pipeline("x/../in", MemoryChannel(), name="other")
    monkeypatch.chdir(tmp_path / "in")
    assert (one.run(options).rows_in, one.run(options).batches) == (2, 0)
    with (tmp_path / "one.jsonl").open("a") as file:
        file.write(rows(2, 3))
    with pytest.raises(SealedError, match="more of it"):
        one.run(options)
    elsewhere = replace(options, home=Home(tmp_path / "elsewhere"))
    assert folder.run(elsewhere).rows_in == 3
    with (tmp_path / "in" / "a.jsonl").open("a") as file:
        file.write(rows(3, 4))
    with pytest.raises(DataLossError, match="what was added or replaced would be ignored"):
        folder.run(elsewhere)


def test_should_know_a_followed_file_behind_a_link(tmp_path, options):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "a.jsonl").write_text(rows(0, 3))
    job = pipeline(tmp_path / "link" / "a.jsonl", MemoryChannel(), tail=True)
    assert job.run(options, finish=True).sealed
    assert job.run(options).batches == 0


@pytest.mark.parametrize("path", ["ftp://host/a.jsonl", "hdfs://host/a.jsonl", "https://host/a.jsonl"])
def test_should_refuse_a_path_that_is_not_on_this_machine_before_it_runs(path):
    with pytest.raises(TopologyError, match="local or mounted"):
        pipeline(path, MemoryChannel())


def test_should_refuse_a_file_of_a_folder_that_grew_after_it_was_read(tmp_path, options):
    folder, out = tmp_path / "in", MemoryChannel()
    folder.mkdir()
    (folder / "a.jsonl").write_text(rows(0, 3))
    job = pipeline(folder, out)
    assert job.run(options).rows_in == 3
    (folder / "b.jsonl").write_text(rows(3, 5))
    assert job.run(options).rows_in == 2
    with (folder / "a.jsonl").open("a") as file:
        file.write(rows(5, 6))
    with pytest.raises(DataLossError, match="what was added or replaced would be ignored"):
        job.run(options)


def test_should_refuse_more_lines_of_a_followed_file_once_its_windows_were_finished(tmp_path, options):
    path, out = tmp_path / "a.jsonl", MemoryChannel()
    path.write_text(rows(0, 3))
    window = TumblingWindow.of(Time.seconds(10), "ts")
    stream = StreamBuilder.data_stream("shop", "inputs").from_file(path, schema=SCHEMA, tail=True)
    job = stream.window(window).count("n").to_data_stream().to_memory(out).build()
    report = job.run(options, finish=True)
    assert (report.sealed, [row["n"] for row in out.rows()]) == (True, [3])
    assert job.run(options).batches == 0
    with path.open("a") as file:
        file.write(rows(3, 4))
    with pytest.raises(SealedError, match="more of it"):
        job.run(options)


def test_should_refuse_other_rows_of_an_array(options: RunOptions):
    out = MemoryChannel()
    source = StreamBuilder.data_stream("shop", "inputs").from_array([{"n": 1}])
    assert source.to_memory(out).build().run(options).rows_in == 1
    other = StreamBuilder.data_stream("shop", "inputs").from_array([{"n": 1}, {"n": 2}])
    with pytest.raises(SealedError, match="not those it began with"):
        other.to_memory(out).build().run(options)
