"""What the runtime tells the readers of sources, and what it does with their answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.errors import SealedError, SinkError
from rs_assets.runtime.job.inputs import check_inputs
from rs_assets.runtime.record.following import Following


@dataclass
class Told:
    """A follower that keeps what it was told, and fails if it is to."""

    effect: str = "nothing is told"
    fails: bool = False
    committed_up_to: list[list[str | None]] = field(default_factory=list)
    finished_at: list[list[str | None]] = field(default_factory=list)

    def committed(self, ends):
        self.committed_up_to.append(list(ends))
        if self.fails:
            raise SinkError("away")

    def finish(self, ends):
        self.finished_at.append(list(ends))

    def close(self):
        pass


def log_of(folder, *ends, committed):
    """A log whose batches end at `ends`, of which so many are committed."""
    for kind in ("offsets", "commits"):
        (folder / kind).mkdir(parents=True)
    for number, end in enumerate(ends):
        text = f'v2\n{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{{}}}}\nin:{end}'
        (folder / "offsets" / str(number)).write_text(text)
    for number in range(committed):
        (folder / "commits" / str(number)).write_text("v1\n{}")
    return CheckpointLog(folder)


def test_should_know_where_a_batch_begins_and_ends(tmp_path):
    source = SourceLog(log_of(tmp_path, "-", "5", "9", committed=2), "in")
    assert [(source.batch(n).start, source.batch(n).end) for n in range(4)] == [
        (None, None),
        (None, "5"),
        ("5", "9"),
        ("9", None),
    ]
    assert (source.committed, source.offset(7)) == ("5", None)


def test_should_tell_followers_what_the_catalog_has_and_at_the_end_what_spark_has(tmp_path):
    logs = {"a": log_of(tmp_path / "a", "1", "2", "3", committed=3), "b": log_of(tmp_path / "b", "1", committed=0)}
    following, told = Following("nothing is told"), Told()
    following.follow("in", told, logs)
    (tmp_path / "b" / "commits" / "0").write_text("v1\n{}")
    following([SimpleNamespace(query="b", batch_id=0)])
    following.finish()
    assert (told.committed_up_to, told.finished_at) == ([["3", "1"]], [["3", "1"]])


def test_should_tell_the_other_followers_if_one_fails(tmp_path):
    following, failing, well = Following("nothing is told"), Told(fails=True), Told()
    for name, follower in (("first", failing), ("in", well)):
        following.follow(name, follower, {"q": log_of(tmp_path / name, "4", committed=1)})
    with pytest.raises(SinkError, match="away"):
        following([])
    assert well.committed_up_to == [["4"]]


def test_should_check_a_renamed_source_against_its_former_input(options):
    out = MemoryChannel()

    def job(rows, name, **renamed):
        stream = StreamBuilder.data_stream("shop", "renamed").from_array(rows, name=name)
        return stream.to_memory(out).build(renamed=renamed)

    job([{"n": 1}], "old").run(options)
    assert job([{"n": 1}], "new", old="new").run(options).rows_in == 0
    with pytest.raises(SealedError, match="not those it began with"):
        job([{"n": 2}], "newer", old="newer", new="newer").run(options)


def test_should_keep_what_readers_say_of_their_input_and_note_a_loss_once(tmp_path):
    class Losing:
        def check(self, start):
            start.note(["t-0: gone"])
            return {**start.known, "seen": 1}

    noted, manifest = [], replace(Manifest.new(), inputs={"a": {"file": 2}})
    plan = SimpleNamespace(name="q", sources=("a", "b"), counted_sources=("a",))
    logs = [(plan, log_of(tmp_path, "1", committed=1))]
    kept = check_inputs({"a": Losing(), "b": Losing()}, manifest, logs, lambda *told: noted.append(told))
    assert kept == {"a": {"file": 2, "seen": 1}, "b": {"seen": 1}}
    assert noted == [("a", ["t-0: gone"])]
