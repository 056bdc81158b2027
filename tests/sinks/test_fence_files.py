"""A folder of JSON lines knows who wrote to it: another pipeline, another home, a newer driver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rs_assets.connectors.files.writer import FileWriter
from rs_assets.connectors.sink import BatchMark, Claim, LastWriter
from rs_assets.errors import LeaseLostError, SinkError


@pytest.fixture
def writer(tmp_path):
    return FileWriter("out", str(tmp_path / "out"))


def mark(batch, *, pipeline_id="p1", name="shop.a", number=1, known=(), token=1, generation=1):
    claim = Claim(pipeline=name, number=number, home=f"here:{name}", known=frozenset({number, *known}))
    return BatchMark(pipeline_id, generation, "out", batch, token, claim)


def write(writer, batch):
    """As a query does it, but for Spark."""
    if writer.committed(batch):
        return 0
    hidden = Path(writer.path) / f".{batch.folder}.tmp"
    hidden.mkdir(parents=True)
    file = hidden / "part-0.json"
    file.write_text('{"n":1}\n')
    return writer._publish(hidden, {file: file.stat().st_size}, batch)


def test_a_batch_is_written_once(writer):
    assert [write(writer, mark(0)) for _ in range(2)] == [1, 0]
    assert writer.last_writer(mark(1)) == LastWriter(token=1, claim=1, pipeline_id="p1", home="here:shop.a")


def test_a_batch_of_another_pipeline_is_not_taken_for_ones_own(writer):
    write(writer, mark(0))
    other = mark(0, pipeline_id="p2", name="shop.b")
    with pytest.raises(SinkError, match="has batches of the sink p1/out"):
        writer.committed(other)
    assert writer.last_writer(other).claim == 0


def test_neither_is_one_of_another_home(writer):
    write(writer, mark(0))
    write(writer, mark(1, number=7, known={1}))
    with pytest.raises(LeaseLostError, match="another home has written as shop.a") as lost:
        write(writer, mark(1, number=8, known={1}))
    assert lost.value.facts["other_home"] == "here:shop.a"


def test_two_homes_that_write_at_the_same_moment_keep_their_files_apart(writer, spark):
    rows = spark.createDataFrame([(1,), (2,)], "n int")
    theirs, ours = (
        mark(0),
        replace(mark(0), claim=Claim(pipeline="shop.a", number=7, home="copy", known=frozenset({7}))),
    )
    staged = [writer.stage(rows, each) for each in (theirs, ours)]
    assert len([*Path(writer.path).glob(".*.tmp")]) == 2
    assert staged[0].commit() == 2
    with pytest.raises(LeaseLostError, match="another home has written as shop.a"):
        staged[1].commit()
    assert [path.name for path in Path(writer.path).iterdir()] == [f"batch={theirs.folder}"]
    assert spark.read.json(writer.path).count() == 2


def test_a_lost_home_of_the_same_name_is_remembered(writer):
    write(writer, mark(0, pipeline_id="lost", number=5, token=9))
    assert writer.last_writer(mark(0, pipeline_id="new")) == LastWriter(claim=5, pipeline_id="lost", home="here:shop.a")


def test_a_newer_driver_is_noticed(writer):
    write(writer, mark(0, token=4))
    with pytest.raises(LeaseLostError, match="newer_token=4"):
        writer.committed(mark(0, token=3))


def test_a_rewind_leaves_its_own_claim(writer):
    for batch in range(3):
        write(writer, mark(batch))
    kept = mark(1, number=2, known={1})
    writer.rewind(kept, kept.of_generation(2))
    assert writer.last_writer(kept.of_generation(2)).claim == 2


def test_folders_of_earlier_releases_are_ones_own(writer):
    write(writer, mark(0))
    (Path(writer.path) / f"batch={mark(0).folder}" / ".rs_start").unlink()
    assert writer.committed(mark(0))
    assert writer.last_writer(mark(1)) == LastWriter()


def test_a_token_alone_stops_who_slept_inside_a_return(writer):
    for batch in range(2):
        write(writer, mark(batch))
    writer.raise_fence(mark(-1, number=2, token=2))
    with pytest.raises(LeaseLostError):
        writer.rewind(mark(0), mark(0, generation=2), 1)
    assert sorted(path.name for path in Path(writer.path).glob("batch=*")) == [
        "batch=g0001-b000000000000",
        "batch=g0001-b000000000001",
    ]
    assert writer.last_writer(mark(1)) == LastWriter(token=2, claim=1, pipeline_id="p1", home="here:shop.a")


def test_a_token_is_not_raised_in_a_folder_of_others(writer):
    write(writer, mark(0, pipeline_id="p2", name="shop.b"))
    writer.raise_fence(mark(-1, number=2, token=2))
    assert writer.last_writer(mark(0, pipeline_id="p2", name="shop.b")).token == 1
