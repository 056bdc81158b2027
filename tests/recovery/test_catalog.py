"""What the catalog says is what happened: splits, messages and checkpoints, also after a driver that was killed."""

from dataclasses import dataclass, field, replace

import pytest
from tenacity import wait_none

from rs_assets import StreamBuilder
from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.offsets import storage_named
from rs_assets.catalog.offsets.messages import CheckPoint, CheckPointState
from rs_assets.connectors.sink import Staged
from rs_assets.errors import CheckpointHeldError
from rs_assets.runtime.record import bookkeeping
from rs_assets.runtime.record.bookkeeping import ASKED
from rs_assets.runtime.record.journal import Journal
from tests.forgetful import Forgetful


def lines(first, last):
    return b"".join(b'{"id":%d}\n' % n for n in range(first, last + 1))


@dataclass
class KeepingSink(Forgetful):
    """A sink that hears of splits and checkpoints, and answers as it is told to."""

    answer: CheckPointState = field(default_factory=CheckPointState.any)
    heard: list = field(default_factory=list)

    name = "keeping"

    def stage(self, batch, mark):
        rows = batch.toArrow().num_rows
        return Staged(lambda: self.heard.append(("rows", rows)) or rows)

    def on_system_message(self, message):
        self.heard.append((message.kind, getattr(message, "split", None)))
        return self.answer if isinstance(message, CheckPoint) else CheckPointState.any()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def run(folder, options, sink=None, **source):
    stream = StreamBuilder.data_stream("shop", "logs").from_file(folder, schema="id long", **({"tail": True} | source))
    return stream.to(sink or KeepingSink()).build().run(options)


def told(options):
    found = Catalog(options.home.catalog).rows("system_messages", pipeline="shop.logs")
    rows = sorted(found, key=lambda row: (row["generation"], row["batch_id"], row["number"]))
    return [(row["batch_id"], row["kind"], (row["split"] or "").rsplit("/")[-1]) for row in rows]


def checkpoints(options):
    return storage_named("delta", catalog=options.home.catalog).rows()


def test_splits_come_and_go_in_order_with_checkpoints(folder, options):
    (folder / "a.jsonl").write_bytes(lines(1, 3))
    run(folder, options)
    (folder / "b.jsonl").write_bytes(lines(4, 5))
    run(folder, options)
    (folder / "a.jsonl").unlink()
    (folder / "b.jsonl").write_bytes(lines(4, 6))
    run(folder, options)
    assert [(batch, kind) for batch, kind, _ in told(options)] == [
        (0, "NewSplit"),
        (0, "CheckPoint"),
        (1, "NewSplit"),
        (1, "CheckPoint"),
        (2, "RemoveSplit"),
        (2, "CheckPoint"),
        (2, "CheckPoint"),
    ]
    events = [row["event"] for row in Catalog(options.home.catalog).rows("splits")]
    assert events == ["added", "added", "removed"]
    last = [row for row in checkpoints(options) if row.batch_id == 2]
    assert {row.queue.rsplit("/")[-1] for row in last} == {"a.jsonl", "b.jsonl"}


def test_a_sink_hears_of_a_split_before_its_rows_and_of_the_checkpoint_behind_them(folder, options):
    (folder / "a.jsonl").write_bytes(lines(1, 3))
    sink = KeepingSink()
    run(folder, options, sink)
    assert [kind for kind, _ in sink.heard] == ["NewSplit", "rows", "CheckPoint"]


def test_a_bounded_source_ends_with_batch_finish(folder, options):
    (folder / "a.jsonl").write_bytes(lines(1, 3))
    sink = KeepingSink()
    run(folder / "a.jsonl", options, sink, tail=False)
    assert [kind for kind, _ in sink.heard] == ["NewSplit", "rows", "CheckPoint", "BatchFinish"]
    assert [kind for _, kind, _ in told(options)][-1] == "BatchFinish"


@dataclass
class BufferingSink(Forgetful):
    """Keeps rows in memory until a checkpoint; `held` are the answers that it gives before it flushes."""

    stored: list
    held: list = field(default_factory=list)
    kept: list = field(default_factory=list)
    asked: int = 0

    name = "buffering"

    def stage(self, batch, mark):
        rows = batch.toArrow().column("id").to_pylist()
        return Staged(lambda: self.kept.extend(rows) or len(rows))

    def on_system_message(self, message):
        if not isinstance(message, CheckPoint):
            return CheckPointState.any()
        self.asked += 1
        if self.held:
            answer = self.held.pop(0)
            return answer(message.offsets)
        self.stored.extend(self.kept)
        self.kept.clear()
        return CheckPointState.normal(message.offsets)


REFUSED = lambda _: CheckPointState.refuse("the database is away")  # noqa: E731
SMALLER = lambda offsets: CheckPointState.normal(dict.fromkeys(offsets, '{"byte":9,"line":1}'))  # noqa: E731
UNNAMED = lambda _: CheckPointState.normal({})  # noqa: E731


def test_a_checkpoint_that_a_sink_holds_back_holds_the_batch_which_comes_again(folder, options, monkeypatch):
    monkeypatch.setattr(bookkeeping, "PAUSE", wait_none())
    stored = []
    (folder / "a.jsonl").write_bytes(lines(1, 3))
    for held, why in (
        (REFUSED, "it refused: the database is away"),
        (SMALLER, r"is flushed up to .*\"line\":1}, and was read up to .*\"line\":3}"),
        (UNNAMED, "is flushed up to nothing"),
    ):
        # What this sink keeps is lost with it, as with a process that is killed.
        sink = BufferingSink(stored, held=[held] * ASKED)
        with pytest.raises(CheckpointHeldError, match=why):
            run(folder, options, sink)
        assert (sink.asked, sink.kept, stored) == (ASKED, [1, 2, 3], [])
    assert checkpoints(options) == ()
    assert run(folder, options, BufferingSink(stored)).rows_in == 3
    assert stored == [1, 2, 3]
    assert ['"line":3' in row.offset for row in checkpoints(options)] == [True]


def test_a_sink_that_flushes_when_it_is_asked_again_holds_nothing(folder, options, monkeypatch):
    monkeypatch.setattr(bookkeeping, "PAUSE", wait_none())
    (folder / "a.jsonl").write_bytes(lines(1, 3))
    sink = BufferingSink([], held=[REFUSED, SMALLER, UNNAMED, REFUSED])
    assert run(folder, options, sink).rows_in == 3
    assert (sink.asked, sink.stored) == (ASKED, [1, 2, 3])


def test_what_a_killed_driver_left_out_is_found_in_sparks_log(folder, options, monkeypatch):
    (folder / "a.jsonl").write_bytes(lines(1, 3))
    run(folder, options)
    with monkeypatch.context() as killed:
        killed.setattr(Journal, "put", lambda *_: None)
        (folder / "a.jsonl").write_bytes(lines(1, 4))
        run(folder, options)
    assert [batch for batch, _, _ in told(options)] == [0, 0]
    (folder / "a.jsonl").write_bytes(lines(1, 6))
    run(folder, options)
    assert [(batch, kind) for batch, kind, _ in told(options)][2:] == [(b, "CheckPoint") for b in (1, 2)]
    rows = checkpoints(options)
    assert [(row.batch_id, row.reconciled) for row in rows] == [(0, False), (1, True), (2, False)]
    offsets = [int(row.offset.split('"byte":')[1].split(",")[0]) for row in rows]
    assert offsets == sorted(offsets)


@pytest.mark.parametrize("name", ["memory", "db"])
def test_checkpoints_go_to_the_storage_that_is_named(folder, options, name, tmp_path):
    url = f"sqlite:///{tmp_path}/checkpoints.db" if name == "db" else None
    (folder / "a.jsonl").write_bytes(lines(1, 3))
    run(folder, replace(options, checkpoint_storage=name.upper(), storage_url=url))
    assert not (options.home.catalog / "checkpoints").exists()
    if url:
        stored = storage_named("db", catalog=options.home.catalog, url=url)
        assert [row.batch_id for row in stored.rows()] == [0]
        stored.finish()


def test_a_catalog_that_cannot_be_written_does_not_stop_a_batch(folder, options, monkeypatch):
    from rs_assets.errors import CheckpointError

    def fail(*_):
        raise CheckpointError("the disk is full")

    (folder / "a.jsonl").write_bytes(lines(1, 3))
    with monkeypatch.context() as broken:
        broken.setattr("rs_assets.runtime.record.journal.write_entries", fail)
        assert run(folder, options).rows_in == 3
    assert told(options) == []
    run(folder, options)
    assert [(batch, kind) for batch, kind, _ in told(options)] == [(0, "NewSplit"), (0, "CheckPoint")]
