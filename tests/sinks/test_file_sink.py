"""JSON lines: each batch is whole, says whose it is, and is written as exactly as its fields are."""

import json
import shutil
from pathlib import Path

import pytest

from rs_assets import StreamBuilder
from rs_assets.connectors.files.writer import FileWriter
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import SinkError, TopologyError
from tests.sinks.frames import mark, write


class JsonFrame:
    """Stands for a DataFrame that writes lines."""

    def __init__(self, *rows):
        self.rows, self.write = rows, self

    def options(self, **_):
        return self

    def json(self, path):
        Path(path).mkdir(parents=True)
        for part, row in enumerate(self.rows):
            Path(path, f"part-{part}.json").write_text(json.dumps(row) + "\n")
        Path(path, "part-9.json").touch()
        Path(path, ".part-0.json.crc").touch()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "out")


def read(path):
    return sorted(
        json.loads(line)["n"] for f in Path(path).glob("batch=*/*.json") for line in f.read_text().splitlines()
    )


def test_should_refuse_a_folder_of_another_pipeline_or_sink(path):
    write(FileWriter("out", path), JsonFrame({"n": 1}), mark(0))
    for other in (mark(0, pipeline="p2"), mark(0, sink="other")):
        for ask in (FileWriter("out", path).committed, FileWriter("out", path).last_committed):
            with pytest.raises(SinkError, match="has batches of the sink p1/rows") as caught:
                ask(other)
            assert "folder of its own" in caught.value.remedy
    # In a new generation, which would remove what is there.
    writer, later = FileWriter("out", path), mark(0, pipeline="p2", generation=2)
    assert not writer.committed(later)
    with pytest.raises(SinkError, match="has batches of the sink p1/rows"):
        writer.stage(JsonFrame({"n": 2}), later).commit()
    assert read(path) == [1]
    own = f"{path} of p2"
    write(FileWriter("out", own), JsonFrame({"n": 2}), mark(0, pipeline="p2"))
    Path(path).rename(f"{path} away")
    write(FileWriter("out", path), JsonFrame({"n": 3}), mark(0, sink="other"))
    assert (read(own), read(path), read(f"{path} away")) == ([2], [3], [1])


def test_should_replace_its_own_earlier_generations(path):
    write(FileWriter("out", path), JsonFrame({"n": 1}), mark(0))
    assert write(FileWriter("out", path), JsonFrame({"n": 2}), mark(0, generation=2)) == 1
    assert read(path) == [2]


def test_a_generation_without_rows_leaves_none_of_the_one_before(path):
    write(FileWriter("out", path), JsonFrame({"n": 1}), mark(0))
    writer, first, second = FileWriter("out", path), mark(0, generation=2), mark(1, generation=2)
    assert write(writer, JsonFrame(), first) == 0
    assert read(path) == []
    # Its folder is the record of the generation; later batches without rows leave none.
    assert FileWriter("out", path).last_committed(first) == 0
    assert write(writer, JsonFrame(), second) == 0
    assert FileWriter("out", path).last_committed(first) == 0
    assert write(writer, JsonFrame({"n": 2}), mark(2, generation=2)) == 1
    assert read(path) == [2]


@pytest.mark.parametrize("whole", [True, False])
def test_should_refuse_a_batch_whose_staged_files_are_gone(path, whole):
    writer = FileWriter("out", path)
    staged = writer.stage(JsonFrame({"n": 1}, {"n": 2}), mark(0))
    (hidden,) = Path(path).iterdir()
    shutil.rmtree(hidden) if whole else (hidden / "part-1.json").unlink()
    with pytest.raises(SinkError, match="has removed or changed . of . staged files?") as caught:
        staged.commit()
    assert "start again" in caught.value.remedy
    assert write(writer, JsonFrame({"n": 1}, {"n": 2}), mark(0)) == 2
    assert read(path) == [1, 2]


def test_should_refuse_to_go_on_without_what_it_wrote(path):
    writer = FileWriter("out", path)
    write(writer, JsonFrame({"n": 1}), mark(0))
    Path(path).rename(f"{path}.away")
    with pytest.raises(SinkError, match="had batch 0"):
        writer.committed(mark(1))
    Path(f"{path}.away").rename(path)
    assert write(writer, JsonFrame({"n": 2}), mark(1)) == 1
    assert read(path) == [1, 2]


def test_batches_of_an_earlier_release_do_not_say_whose_they_are(path):
    write(FileWriter("out", path), JsonFrame({"n": 1}), mark(0))
    next(Path(path).glob("*/_rs_writer")).unlink()
    writer = FileWriter("out", path)
    assert writer.last_committed(mark(0)) == 0
    assert writer.committed(mark(0))


def stream(name="twins"):
    return StreamBuilder.data_stream("shop", name).from_memory(MemoryChannel(schema="n bigint, at timestamp"))


SINKS = {
    "two file sinks": lambda s, p: s.to_file(p, name="a").to_file(f"{p}/../out", name="b"),
    "a table and files": lambda s, p: s.to_file(p, name="a").to_delta(p, name="b"),
    "append and complete": lambda s, p: s.to_delta("t", name="a").to_delta("t", name="b", mode="complete"),
    "append and upsert": lambda s, p: s.to_delta("t", name="a").to_delta("t", name="b", mode="upsert", keys=["n"]),
    "other keys": lambda s, p: s.to_delta(p, name="a", mode="upsert", keys=["n"]).to_delta(
        p, name="b", mode="upsert", keys=["at"]
    ),
}


@pytest.mark.parametrize("both", SINKS.values(), ids=SINKS)
def test_should_refuse_two_sinks_that_would_undo_each_other(path, both):
    with pytest.raises(TopologyError, match="'a' and 'b' share the target"):
        both(stream(), path).build()


def test_should_accept_sinks_that_may_share_a_table(path):
    stream().filter("n > 1").to_delta(path, name="a").to_delta(path, name="b").build()
    keys = {"mode": "upsert", "keys": ["n"]}
    stream().to_delta("t", name="a", **keys).to_delta("t", name="b", **keys).build()


def test_should_write_only_where_there_is_a_rename(options, path):
    def stream():
        return StreamBuilder.data_stream("shop", "places").from_array([{"n": 1}])

    for address in ("s3://bucket/out", "S3A://bucket/out", "gs://bucket/out"):
        with pytest.raises(
            TopologyError, match="files cannot be written to .*an object store has no rename"
        ) as refused:
            stream().to_file(address)
    assert ".to_delta('s3://bucket/table')" in refused.value.remedy
    stream().to_delta("s3://bucket/table").build()
    stream().to_file(f"file://{path}", name="out").build().run(options)
    assert [file.read_text() for file in Path(path).rglob("part-*.json")] == ['{"n":1}\n']


def test_should_write_microseconds_and_nulls(options, path):
    """Also in the record of a dead letter, so that it can be sent again as it was."""
    from datetime import UTC, datetime

    from deltalake import DeltaTable

    at = datetime(2026, 1, 5, 10, 0, 0, 123456, UTC)
    channel = MemoryChannel(schema="n bigint, at timestamp, more struct<at: timestamp>")
    channel.put({"n": 1, "at": at, "more": {"at": at}}, {"n": 2, "at": None, "more": None})
    builder = StreamBuilder.data_stream("shop", "exact").from_memory(channel, bad_records="quarantine")
    kept = builder.filter(lambda row: row["n"] / (row["n"] - 2) < 0)
    kept.filter("n > 0").to_file(path).to_delta("t").build().run(options)
    (line,) = [text for file in Path(path).glob("*/*.json") for text in file.read_text().splitlines()]
    text = "2026-01-05T10:00:00.123456Z"
    assert json.loads(line) == {"n": 1, "at": text, "more": {"at": text}}
    (letter,) = DeltaTable(options.home.dead_letters).to_pyarrow_table().to_pylist()
    assert json.loads(letter["record"]) == {"n": 2, "at": None, "more": None}
