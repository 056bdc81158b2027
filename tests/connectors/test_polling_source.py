"""A poller as a source: what was polled is spooled with its cursor, and is neither lost nor doubled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from rs_assets import MemoryChannel, StreamBuilder, Time
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.connectors.own.plan import Position
from rs_assets.connectors.own.polling import POLL_SPLIT, PollPlan
from rs_assets.connectors.own.spool import Spool
from rs_assets.errors import ConfigurationError, DataLossError, SourceReadError
from rs_assets.sources import PollingSource


@dataclass
class Mailbox(PollingSource):
    """A file of rows, each handed out once unless it is shared: what was polled is removed when `spooled` is called."""

    path: Path
    schema: str = "n bigint"
    keep: int = 1
    most: int = 2
    shared: bool = False
    every: timedelta = timedelta(0)

    def poll(self, cursor):
        rows = [json.loads(line) for line in self.path.read_text().splitlines()]
        new = [row for row in rows if row["n"] > (cursor or 0)][: self.most]
        return new, new[-1]["n"] if new else cursor

    def spooled(self, cursor):
        if self.shared:
            return
        lines = self.path.read_text().splitlines()
        self.path.write_text("".join(f"{line}\n" for line in lines if json.loads(line)["n"] > cursor))


def put(path, *numbers):
    with path.open("a") as file:
        file.writelines(f"{json.dumps({'n': n})}\n" for n in numbers)


def plan(tmp_path, **settings):
    return PollPlan(Mailbox(tmp_path / "box", **settings), Spool(tmp_path / "spool"))


def read(of, start, end):
    batches = of.read(POLL_SPLIT, start.get(POLL_SPLIT, Position(0, 0)).next, end[POLL_SPLIT].next)
    return [json.loads(value)["n"] for batch in batches for value in batch.column("value").to_pylist()]


def test_should_spool_a_poll_with_its_cursor_before_it_is_read(tmp_path):
    put(tmp_path / "box", 1, 2, 3)
    first = plan(tmp_path).next({}, None)
    # Another process, after a crash before anything was planned: the same rows, and no other poll.
    again = plan(tmp_path)
    assert again.next({}, None) == first == {POLL_SPLIT: (0, 2)}
    assert read(again, {}, first) == [1, 2]
    # The batch is not computed yet, nor uploaded: a home that is lost now polls these rows again.
    assert len((tmp_path / "box").read_text().splitlines()) == 3
    second = again.next(first, None)
    assert (tmp_path / "box").read_text() == '{"n": 3}\n'
    assert read(plan(tmp_path), first, second) == [3]
    assert again.next(second, None) is second
    # Without one of the files the rows are an error, and not passed over.
    Spool(tmp_path / "spool").files()[0][2].unlink()
    with pytest.raises(DataLossError, match="row 0 of a poller is not in its spool"):
        read(again, {}, second)


def test_should_bound_batches_and_the_spool(tmp_path):
    put(tmp_path / "box", *range(1, 8))
    one, at, found = plan(tmp_path, most=3, keep=1), {}, []
    while (end := one.next(at, 2)) != at:
        found += [read(one, at, end)]
        at = end
        one.committed(at)
    assert found == [[1, 2], [3], [4, 5], [6], [7]]
    assert [(first, last) for first, last, _ in Spool(tmp_path / "spool").files()] == [(6, 7)]


def test_should_tell_the_system_again_after_a_crash_between_the_two(tmp_path):
    put(tmp_path / "box", 1)
    Spool(tmp_path / "spool").add(list(_batches({"n": 1})), 1)
    assert plan(tmp_path).next({POLL_SPLIT: Position(0, 1)}, None) == {POLL_SPLIT: (0, 1)}
    assert (tmp_path / "box").read_text() == ""


def _batches(*rows):
    from rs_assets.connectors.own.lines import batches_of

    return batches_of(POLL_SPLIT, enumerate(rows))


class Odd(PollingSource):
    """Returns what is not rows and a cursor."""

    schema = "n bigint"

    def __init__(self, found):
        self.found = found

    def poll(self, cursor):
        return self.found


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([{"n": 1}], "must return rows and a cursor"),
        (([{"n": 1}], object()), "has no form in JSON"),
        (([3], 1), "a row must be a dict"),
        ((3, 1), "Odd.poll has raised TypeError"),
        (([{"n": object()}], 1), "a value of type object has no form in JSON"),
    ],
)
def test_should_refuse_what_is_not_rows_and_a_cursor(tmp_path, found, text):
    spool = Spool(tmp_path / "spool")
    with pytest.raises(SourceReadError, match=text):
        PollPlan(Odd(found), spool).next({}, None)
    assert spool.files() == []


def test_should_go_on_once_a_poll_is_mended(tmp_path):
    one = PollPlan(Odd([{"n": 1}]), Spool(tmp_path / "spool"))
    with pytest.raises(SourceReadError) as raised:
        one.next({}, None)
    assert raised.value.remedy == "return rows, cursor"
    one.source.found = [{"n": object()}], 1
    with pytest.raises(SourceReadError) as raised:
        one.next({}, None)
    assert "return texts, numbers, booleans" in raised.value.remedy
    one.source.found = [{"n": 1}], {1}
    with pytest.raises(SourceReadError) as raised:
        one.next({}, None)
    assert "a text, a number, a list or a dict" in raised.value.remedy
    one.source.found = [{"n": 1}], [1]
    assert read(one, {}, one.next({}, None)) == [1]
    assert one.spool.cursor() == [1]


def test_should_wait_after_a_poll_without_rows(tmp_path):
    box = tmp_path / "box"
    put(box)
    one = plan(tmp_path, every=timedelta(hours=1))
    assert one.next({}, None) == {}
    put(box, 1)
    assert one.next({}, None) == {}
    assert plan(tmp_path).next({}, None) == {POLL_SPLIT: (0, 1)}


class World:
    """A mailbox and a pipeline that copies it; each run has a sink of its own, so that a repeated row shows."""

    def __init__(self, tmp_path, options):
        self.box, self.options = tmp_path / "box", options
        self.log = CheckpointLog(options.home.job("shop", "mail") / "g0001" / "mailbox" / "checkpoint")

    def stream(self, **settings):
        return StreamBuilder.data_stream("shop", "mail").from_source(Mailbox(self.box, **settings))

    def run(self, **settings):
        out = MemoryChannel()
        self.stream(**settings).to_memory(out).build().run(self.options)
        return sorted(row["n"] for row in out.rows())


def test_should_read_each_row_once_over_restarts(tmp_path, options):
    world = World(tmp_path, options)
    put(world.box, 1, 2, 3)
    assert world.run() == [1, 2, 3]
    assert world.run() == []
    put(world.box, 4)
    assert world.run() == [4]
    last = world.log.last_committed()
    for name in (str(last), f".{last}.crc"):
        (world.log.folder / "commits" / name).unlink(missing_ok=True)
    put(world.box, 5)
    assert world.run() == [4, 5]
    put(world.box, 6)
    files = [file for _, _, file in Spool(world.log.folder.parent / "own" / "mailbox").files()]
    for file in files:
        file.rename(tmp_path / file.name)
    with pytest.raises(DataLossError, match="is not in its spool") as refused:
        world.run()
    assert "put the files of the folder back" in refused.value.remedy
    for file in files:
        (tmp_path / file.name).rename(file)
    assert world.run() == [6]


def test_should_refuse_two_queries_that_would_divide_the_rows(tmp_path, options):
    world = World(tmp_path, options)
    put(world.box, 1, 2)

    def twice(**settings):
        stream, out = world.stream(**settings), MemoryChannel()
        for step in ("one", "two"):
            stream.distinct("n", within=Time.hours(1), name=step).to_memory(out, name=f"{step}_out")
        stream.build().run(options)
        return out.rows()

    with pytest.raises(ConfigurationError, match="2 queries of the pipeline read the source") as refused:
        twice()
    assert "shared = True" in refused.value.remedy
    assert sorted(row["n"] for row in twice(shared=True)) == [1, 1, 2, 2]
