"""Log entries of our own: they say what delta-rs would, and stand only where nobody else has written meanwhile."""

import errno
import json
import os
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from rs_assets.connectors.delta import table as delta_table
from rs_assets.connectors.delta.log.fast_append import append_entry, put_entry
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import LeaseLostError, SinkError
from tests.sinks.frames import mark, numbers, write


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "t ä")


def read(path):
    return sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist())


def entries(path):
    return sorted(Path(path, "_delta_log").glob("*.json"))


def own(path):
    """The versions that have an entry of our own."""
    return [int(file.stem) for file in entries(path) if b'"engineInfo":"rs-assets"' in file.read_bytes()]


def batches(writer, first, last):
    for batch in range(first, last):
        assert write(writer, numbers(batch), mark(batch)) == 1


def by_delta_rs():
    """No entry of our own comes about."""
    return patch.object(delta_table, "put_entry", lambda *_, **__: False)


def test_a_batch_reads_no_log_that_nobody_else_has_written(path):
    writer = DeltaWriter("rows", path)
    batches(writer, 0, 2)
    with patch.object(DeltaTable, "update_incremental", side_effect=AssertionError("read")):
        batches(writer, 2, 60)
    assert own(path) == [*range(1, 60)]
    assert read(path) == [*range(60)]
    assert DeltaTable(path).transaction_version(mark(0).writer) == 59


def test_an_entry_says_what_delta_rs_says(path):
    """All but times, names of files and who wrote it."""

    def told(place):
        actions = [json.loads(line) for line in entries(place)[-1].read_text().split("\n") if line]
        for action in actions:
            action.get("commitInfo", {}).update(timestamp=0, engineInfo="", clientVersion="", isBlindAppend=True)
            if "add" in action:
                kept = {name: value for name, value in action["add"].items() if value is not None}
                action["add"] = kept | {"path": "", "modificationTime": 0, "stats": json.loads(kept["stats"])}
        return sorted(actions, key=str)

    frame = numbers(1, None, -(2**63), s=["ä\u2028", None, '"'], b=[True, False, None])
    for place, how in ((path, nullcontext()), (f"{path} too", by_delta_rs())):
        writer = DeltaWriter("rows", place)
        write(writer, frame, mark(0))
        with how:
            assert write(writer, frame, mark(1)) == 3
    assert (own(path), own(f"{path} too")) == ([1], [])
    assert told(path) == told(f"{path} too")
    assert DeltaTable(path).history(1)[0]["rs.batch_id"] == "1"


def test_a_new_generation_replaces_what_entries_of_our_own_brought(path):
    DeltaTable.create(path, pa.schema([("n", pa.int64())]))
    writer = DeltaWriter("rows", path)
    batches(writer, 0, 2)
    assert own(path) == [1, 2]
    assert write(writer, numbers(9), mark(0, generation=2)) == 1
    assert read(path) == [9]


def test_checkpoints_of_the_log_are_left_to_delta_rs(path):
    DeltaTable.create(path, pa.schema([("n", pa.int64())]), configuration={"delta.checkpointInterval": "4"})
    writer = DeltaWriter("rows", path)
    batches(writer, 0, 13)
    made = sorted(int(file.name[:20]) for file in Path(path, "_delta_log").glob("*.checkpoint.parquet"))
    assert made == [3, 7, 11]
    assert not {3, 7, 11} & {*own(path)}
    assert read(path) == [*range(13)]


def test_a_file_system_without_links_gets_every_batch_by_delta_rs(path):
    def refuse(*_, **__):
        raise OSError(errno.EPERM, "no links")

    writer = DeltaWriter("rows", path)
    with patch.object(os, "link", refuse):
        batches(writer, 0, 4)
    assert own(path) == []
    assert read(path) == [0, 1, 2, 3]
    assert not list(Path(path).rglob("_rs_staged/**/*.json"))


def test_an_entry_never_takes_the_place_of_another(tmp_path):
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{7:020d}.json").write_bytes(b"theirs")
    told = CommitProperties(app_transactions=[Transaction("w", 1)])
    assert not put_entry(str(tmp_path), 7, append_entry([], told, ["p"]), beside=tmp_path)
    assert (log / f"{7:020d}.json").read_bytes() == b"theirs"
    assert put_entry(str(tmp_path), 8, b"ours", beside=tmp_path)
    assert sorted(file.name for file in tmp_path.rglob("*.json")) == [f"{7:020d}.json", f"{8:020d}.json"]


def test_a_rule_that_comes_between_two_batches_is_kept(path):
    writer = DeltaWriter("rows", path)
    batches(writer, 0, 4)
    assert not writer.committed(mark(4))
    staged = writer.stage(numbers(4), mark(4))
    DeltaTable(path).alter.add_constraint({"small": "n < 100"})
    with pytest.raises(SinkError, match="constraints"):
        staged.commit()
    assert read(path) == [0, 1, 2, 3]


def test_a_table_that_is_put_back_between_staging_and_commit_gets_nothing(path):
    writer = DeltaWriter("rows", path)
    batches(writer, 0, 3)
    assert not writer.committed(mark(3))
    staged = writer.stage(numbers(3), mark(3))
    old = entries(path)[2].read_bytes()
    entries(path)[2].unlink()
    with pytest.raises(SinkError):
        staged.commit()
    assert read(path) == [0, 1]
    # Another file of the same content is not what was read.
    Path(path, "_delta_log", f"{2:020d}.json").write_bytes(old)
    assert write(writer, numbers(3), mark(3)) == 1
    assert read(path) == [0, 1, 2, 3]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_table_that_others_restore_between_staging_and_commit_gets_nothing(path, fresh):
    writer = DeltaWriter("rows", path)
    batches(writer, 0, 3)
    writer = DeltaWriter("rows", path) if fresh else writer
    assert not writer.committed(mark(3))
    staged = writer.stage(numbers(3), mark(3))
    write_deltalake(path, pa.table({"n": [-1]}), mode="append")
    DeltaTable(path).restore(1)
    with pytest.raises(SinkError, match="RESTORE by another writer in version 4"):
        staged.commit()
    DeltaTable(path).restore(2)
    assert not writer.committed(mark(3))
    assert write(writer, numbers(3), mark(3)) == 1
    assert read(path) == [0, 1, 2, 3]


class Shared:
    """A table with a sink of ours and others who write to it; `rows` is what must be in it."""

    def __init__(self, path, interval):
        self.path, self.rows, self.batch, self.others, self.token = path, [], 0, 0, 1
        configuration = {"delta.checkpointInterval": interval} if interval else {}
        DeltaTable.create(path, pa.schema([("n", pa.int64())]), configuration=configuration)
        self.writer, self.staged = DeltaWriter("rows", path), None

    @property
    def mark(self):
        return mark(self.batch, token=self.token)

    def stage(self):
        assert not self.writer.committed(self.mark)
        self.staged = self.writer.stage(numbers(self.batch), self.mark)

    def commit(self):
        if self.staged is None:
            self.stage()
        assert self.staged.commit() == 1
        self.staged = None
        self.noted(self.batch)
        self.batch += 1

    def again(self):
        assert not self.batch or self.writer.committed(mark(self.batch - 1, token=self.token))

    def other_rows(self):
        write_deltalake(self.path, pa.table({"n": [-1]}), mode="append")
        self.noted(-1)

    def other_sink(self):
        assert write(DeltaWriter("more", self.path), numbers(-2), mark(self.others, pipeline="p2", sink="more")) == 1
        self.others += 1
        self.noted(-2)

    def compaction(self):
        DeltaTable(self.path).optimize.compact()

    def takeover(self):
        late, before, staged = self.writer, self.mark, self.staged
        self.token, self.writer, self.staged = self.token + 1, DeltaWriter("rows", self.path), None
        self.commit()
        with pytest.raises(LeaseLostError):
            staged.commit() if staged else late.committed(before)

    def overwrite(self):
        if self.writer.handle.own >= 0 and self.staged is None:
            write_deltalake(self.path, pa.table({"n": self.rows}), mode="overwrite")
            with pytest.raises(SinkError, match="rows that we wrote"):
                self.writer.committed(self.mark)
            # The remedy: a start that takes the table as it is.
            self.writer = DeltaWriter("rows", self.path)
            self.writer.accept_changes(mark(self.batch - 1, token=self.token))

    def noted(self, *rows):
        self.rows += rows
        assert read(self.path) == sorted(self.rows)
        assert (DeltaTable(self.path).transaction_version(mark(0).writer) or 0) == max(self.last, 0)

    @property
    def last(self):
        return max(self.rows, default=-1)


STEPS = ("stage", "commit", "again", "other_rows", "other_sink", "compaction", "takeover", "overwrite")


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(STEPS), min_size=4, max_size=12), st.sampled_from(["", "1", "3"]))
def test_what_others_do_in_between_is_seen(tmp_path_factory, steps, interval):
    shared = Shared(str(tmp_path_factory.mktemp("t") / "t"), interval)
    for step in ("commit", *steps, "commit"):
        if step != "stage" or shared.staged is None:
            getattr(shared, step)()
    assert shared.writer.last_committed(shared.mark) == shared.batch - 1
