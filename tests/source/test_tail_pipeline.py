"""A pipeline that follows growing files, over restarts, rotations and losses."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rs_assets import MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.connectors.files.lines.offsets import splits_of
from rs_assets.errors import DataLossError, SourceReadError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.report import BatchProgress, RunReport


def rows_of(first: int, last: int) -> bytes:
    return b"".join(b'{"id":%d}\n' % number for number in range(first, last + 1))


class Follower:
    """A pipeline over a path; each run has a sink of its own, so that a repeated row shows."""

    def __init__(self, path: Path, options: RunOptions, **source: object) -> None:
        self.path = path
        self.batches: list[BatchProgress] = []
        self.options = replace(options, on_progress=self.batches.append)
        self.source = {"schema": "id long", "tail": True} | source
        self.report: RunReport | None = None

    def run(self) -> list[int]:
        out = MemoryChannel()
        stream = StreamBuilder.data_stream("tail", "follow").from_file(self.path, **self.source)
        self.report = stream.to_memory(out).build().run(self.options)
        return [row["id"] for row in out.rows()]

    def splits(self) -> dict[str, int]:
        """The lines read of each split, as the last batch tells."""
        return {split.split: split.line for split in splits_of(self.batches[-1].offsets["file"])}

    @property
    def log(self) -> CheckpointLog:
        return CheckpointLog(self.options.home.job("tail", "follow") / "g0001" / "file" / "checkpoint")

    def forget_last_commit(self) -> int:
        """As after a crash: the last batch was planned, and is not committed."""
        last = self.log.last_committed()
        for name in (str(last), f".{last}.crc"):
            (self.log.folder / "commits" / name).unlink(missing_ok=True)
        return last


def test_a_growing_file_is_followed_and_an_unfinished_line_waits(tmp_path: Path, options: RunOptions) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(rows_of(1, 2) + b'{"id":')
    follower = Follower(file, options)
    assert follower.run() == [1, 2]
    assert follower.run() == []
    with file.open("ab") as more:
        more.write(b"3}\n" + rows_of(4, 4))
    assert follower.run() == [3, 4]
    assert follower.report is not None
    assert (follower.report.rows_in, follower.report.sealed) == (2, False)
    assert follower.splits() == {"a.jsonl": 4}


def test_the_end_of_the_input_does_not_lose_an_unfinished_line(tmp_path: Path, options: RunOptions) -> None:
    file, out = tmp_path / "a.jsonl", MemoryChannel()
    file.write_bytes(rows_of(1, 2) + b'{"id":3}')
    stream = StreamBuilder.data_stream("tail", "follow").from_file(file, schema="id long", tail=True)
    pipeline = stream.to_memory(out).build()
    with pytest.raises(SourceReadError, match="has no newline") as refused:
        pipeline.run(options, finish=True)
    assert (refused.value.facts["file"], refused.value.facts["line"]) == (str(file), 3)
    with file.open("ab") as more:
        more.write(b"\n")
    assert pipeline.run(options, finish=True).sealed
    assert [row["id"] for row in out.rows()] == [1, 2, 3]


def test_a_rotated_file_is_finished_and_its_successor_is_a_new_split(tmp_path: Path, options: RunOptions) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(rows_of(1, 2))
    follower = Follower(file, options)
    assert follower.run() == [1, 2]
    with file.open("ab") as more:
        more.write(rows_of(3, 3))
    file.rename(tmp_path / "a.jsonl.1")
    file.write_bytes(rows_of(4, 5))
    assert sorted(follower.run()) == [3, 4, 5]
    assert follower.splits() == {"a.jsonl": 3, "a.jsonl@2": 2}
    file.write_bytes(rows_of(6, 6))
    assert follower.run() == [6], "truncated and written anew in place"


def test_a_file_without_a_line_holds_no_watermark_back(tmp_path: Path, options: RunOptions) -> None:
    (tmp_path / "error.jsonl").touch()
    (tmp_path / "a.jsonl").write_text('{"ts":"2026-01-05 10:00:00"}\n{"ts":"2026-01-05 10:05:00"}\n')
    out = MemoryChannel()
    read = StreamBuilder.data_stream("tail", "quiet").from_file(tmp_path / "*.jsonl", schema="ts timestamp", tail=True)
    minutes = read.window(TumblingWindow.of(Time.minutes(1), "ts"), name="minutes").count("n")
    minutes.water_mark(Time.seconds(1), per="split").to_data_stream().to_memory(out).build().run(options)
    assert [row["n"] for row in out.rows()] == [1]


def test_a_new_file_is_a_new_split(tmp_path: Path, options: RunOptions) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(rows_of(1, 1))
    follower = Follower(folder, options)
    assert follower.run() == [1]
    (folder / "b ü [1].jsonl").write_bytes(rows_of(2, 3))
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(rows_of(4, 5)))
    assert sorted(follower.run()) == [2, 3, 4, 5]
    assert follower.splits() == {"a.jsonl": 1, "b ü [1].jsonl": 2, "c.jsonl.gz": 2}
    assert follower.run() == []


def test_batches_take_so_many_rows(tmp_path: Path, options: RunOptions) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(rows_of(1, 5))
    (folder / "b.jsonl").write_bytes(rows_of(6, 7))
    follower = Follower(folder, options, max_rows_per_batch=3)
    assert sorted(follower.run()) == list(range(1, 8))
    assert [batch.rows_in for batch in follower.batches] == [3, 3, 1]


def test_dead_letters_have_the_place_in_the_whole_file(tmp_path: Path, options: RunOptions) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(rows_of(1, 4) + b"no json\n" + rows_of(5, 5))
    follower = Follower(file, options, max_rows_per_batch=2, bad_records="dead_letter")
    assert sorted(follower.run()) == [1, 2, 3, 4, 5]
    (letter,) = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    assert (letter["split"], letter["line"], letter["offset"], letter["batch_id"]) == ("a.jsonl", 5, 36, 2)
    assert letter["record"] == "no json"


@pytest.mark.parametrize("how", ["deleted", "shrunk", "rewritten"])
@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_lines_lost_behind_the_plan_are_no_empty_batch(
    tmp_path: Path, options: RunOptions, how: str, policy: str
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(rows_of(1, 4))
    follower = Follower(file, options, max_rows_per_batch=2, bad_records=policy)
    assert follower.run() == [1, 2, 3, 4]
    last = follower.forget_last_commit()
    whole = file.read_bytes()
    kept = tmp_path / "kept" / "a.jsonl"
    kept.parent.mkdir()
    file.rename(kept)
    if how != "deleted":
        file.write_bytes(whole[:20] if how == "shrunk" else rows_of(5, 8))
    with pytest.raises(DataLossError) as raised:
        follower.run()
    facts = raised.value.facts
    assert (facts["file"], facts["start_byte"], facts["end_byte"]) == (str(file), 18, 36)
    assert (facts["start_line"], facts["end_line"]) == (3, 4)
    assert follower.log.last_committed() == last - 1
    kept.replace(file)
    assert follower.run() == [3, 4], "the remedy of the error"


def test_a_batch_that_was_planned_is_read_again_from_the_rotated_file(tmp_path: Path, options: RunOptions) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(rows_of(1, 2))
    follower = Follower(file, options)
    assert follower.run() == [1, 2]
    follower.forget_last_commit()
    file.rename(tmp_path / "a.jsonl.1")
    file.write_bytes(rows_of(3, 3))
    assert follower.run() == [1, 2, 3]
