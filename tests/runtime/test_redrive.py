"""Redrive: dead letters through the current code, each once, whatever happens in between."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rs_assets import EventTimePartitions, RsError, StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.connectors.delta.addition import Addition
from rs_assets.connectors.redrives import Redrives
from rs_assets.errors import CheckpointError, ConfigurationError, SinkError, TopologyError
from rs_assets.runtime.batch.work import BatchWork
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.redrive_letters import CHANGED, GONE, PARTLY, RECOMPUTED, UNCALLED
from rs_assets.runtime.upkeep.savepoints import restore, rewind, savepoint
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.pipeline import Pipeline

SCHEMA = "id bigint, ms bigint"
STRICT, MENDED = "ms BETWEEN 0 AND 1000", "ms >= 0"


class Log:
    """Files of records, each of which a batch reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def put(self, *records: tuple[int, int] | str) -> None:
        lines = [each if isinstance(each, str) else _line(*each) for each in records]
        name = f"f{len(list(self.folder.iterdir())):04d}.jsonl"
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))

    def stream(self, policy: str = "dead_letter", **settings: Any) -> DataStream:
        begin = StreamBuilder.data_stream("again", "hits")
        given = {"max_files_per_batch": 1, **settings}
        return begin.from_file(self.folder, schema=SCHEMA, name="file", bad_records=policy, **given)

    def hits(self, condition: str) -> Pipeline:
        return self.stream().expect(condition, on_fail="dead_letter", name="usual").to_delta("hits", name="out").build()


def _line(number: int, ms: int) -> str:
    return orjson.dumps({"id": number, "ms": ms}).decode()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "in")


def ids(options: RunOptions, name: str = "hits") -> list[int]:
    found = DeltaTable(options.home.table("again", name)).to_pyarrow_table()["id"].to_pylist()
    return sorted(found)


def letters(options: RunOptions) -> Counter[str]:
    found = dead_letters_of(options.home.dead_letters, "again", "hits").to_pylist()
    return Counter(letter["record"] for letter in found)


def test_letters_that_corrected_code_accepts_come_once_and_the_others_stay(log: Log, options: RunOptions) -> None:
    log.put((1, 5), (2, 2000), (3, -1))
    log.put((4, 3000), "nonsense", (5, 6))
    log.hits(STRICT).run(options)
    assert ids(options) == [1, 5]

    mended = log.hits(MENDED)
    planned = mended.redrive(options, plan=True)
    assert (planned.letters, planned.refused, planned.rows, ids(options)) == (2, 2, None, [1, 5])
    done = mended.redrive(options)
    assert (done.sink, done.letters, done.rows, done.refused, dict(done.left)) == ("out", 2, 2, 2, {})
    assert done.version == DeltaTable(options.home.table("again", "hits")).version()
    assert ids(options) == [1, 2, 4, 5]
    left = dead_letters_of(options.home.dead_letters, "again", "hits").to_pylist()
    assert {letter["record"]: letter["tries"] for letter in left} == {_line(3, -1): 1, "nonsense": 1}
    assert any("ms >= 0" in letter["reason"] for letter in left)

    again = mended.redrive(options)
    assert (again.letters, again.rows, again.refused, again.version) == (0, 0, 2, None)
    log.put((6, 7))
    assert mended.run(options).rows_in == 1
    assert ids(options) == [1, 2, 4, 5, 6]


class KilledError(Exception):
    """The process ends here."""


def killed(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, when: str) -> None:
    """Let the next call of a method end the process before it begins, or after it has ended."""
    method = getattr(owner, name)

    def dies(self: object, *arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, name, method)
        if when == "after":
            method(self, *arguments, **named)
        raise KilledError(f"{when} {name}")

    monkeypatch.setattr(owner, name, dies)


KILLS = [
    (Addition, "staged", "after"),
    (Redrives, "claim", "before"),
    (Redrives, "claim", "after"),
    (Addition, "commit", "after"),
    (Redrives, "settle", "before"),
    (Redrives, "settle", "after"),
]


@pytest.mark.parametrize(("owner", "name", "when"), KILLS, ids=[f"{when}-{name}" for _, name, when in KILLS])
def test_redrive_killed_at_a_step_ends_with_each_row_once(
    owner: type, name: str, when: str, log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put((1, 5), (2, 2000), (3, 3000), (4, -1))
    log.hits(STRICT).run(options)
    mended = log.hits(MENDED)
    killed(monkeypatch, owner, name, when)
    with pytest.raises(RsError, match=f"{when} {name}"):
        mended.redrive(options)
    committed = (owner, name, when) in KILLS[3:]
    assert ids(options) == ([1, 2, 3] if committed else [1])

    # Another choice of letters must not overlook what the first one has done.
    chosen = mended.redrive(options, where=f"record LIKE '%{_line(2, 2000)[1:7]}%'")
    assert (chosen.letters, ids(options)) == ((0, [1, 2, 3]) if committed else (1, [1, 2]))
    mended.redrive(options)
    assert (ids(options), letters(options)) == ([1, 2, 3], Counter({_line(4, -1): 1}))
    log.put((5, 5))
    mended.run(options)
    assert ids(options) == [1, 2, 3, 5]


def test_redrive_that_slept_commits_nothing_after_a_later_one(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put((1, 5), (2, 2000))
    log.hits(STRICT).run(options)
    mended, commit = log.hits(MENDED), Addition.commit

    def slept(self: Addition, *arguments: Any) -> Any:
        monkeypatch.setattr(Addition, "commit", commit)
        assert mended.redrive(options).letters == 1
        return commit(self, *arguments)

    monkeypatch.setattr(Addition, "commit", slept)
    with pytest.raises(SinkError, match="a later redrive") as refused:
        mended.redrive(options)
    assert "the later one goes on" in refused.value.remedy
    assert (ids(options), letters(options)) == ([1, 2], Counter())


def test_batches_that_come_meanwhile_and_the_rows_of_letters_are_all_there(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put((1, 5), (2, 2000))
    log.hits(STRICT).run(options)
    mended, placed = log.hits(MENDED), Addition._properties
    others = iter(((3, 5), (4, 5)))

    def meanwhile(self: Addition, *arguments: Any) -> Any:
        made = placed(self, *arguments)
        if more := next(others, None):
            log.put(more, (9, -1))
            mended.run(options)
        return made

    monkeypatch.setattr(Addition, "_properties", meanwhile)
    assert mended.redrive(options).letters == 1
    assert (ids(options), letters(options)) == ([1, 2, 3, 4], Counter({_line(9, -1): 2}))
    # Its commit lost twice: it comes after the batches of then, and goes with them.
    rewind(mended.topology, 1, options)
    assert (ids(options), letters(options)[_line(2, 2000)]) == ([1, 3], 1)
    mended.run(options)
    assert mended.redrive(options).letters == 1
    assert ids(options) == [1, 2, 3, 4]


def test_redrive_into_a_stream_that_runs_adds_the_rows_once(log: Log, options: RunOptions) -> None:
    log.put((1, 5), (2, 2000), (3, -1))
    log.hits(STRICT).run(options)
    mended, done = log.hits(MENDED), threading.Semaphore(0)
    with mended.start(replace(options, on_progress=lambda _: done.release())):
        log.put((4, 5))
        assert done.acquire(timeout=120)
        assert mended.redrive(options).letters == 1
        log.put((5, 5), (6, -1))
        assert done.acquire(timeout=120)
    assert (ids(options), letters(options)) == ([1, 2, 4, 5], Counter({_line(3, -1): 1, _line(6, -1): 1}))
    assert mended.redrive(options).letters == 0


def test_rewind_keeps_or_undoes_a_redrive_with_its_letters(log: Log, options: RunOptions) -> None:
    log.put((1, 5), (2, 2000))
    log.put((3, 5))
    log.hits(STRICT).run(options)
    mended = log.hits(MENDED)
    assert mended.redrive(options).letters == 1
    log.put((4, 5))
    log.put((5, 5))
    mended.run(options)

    rewind(mended.topology, 2, options)
    assert (ids(options), letters(options)) == ([1, 2, 3, 4], Counter())
    assert mended.redrive(options).letters == 0
    rewind(mended.topology, 0, options)
    assert (ids(options), letters(options)) == ([1], Counter({_line(2, 2000): 1}))
    done = mended.redrive(options)
    assert (done.letters, ids(options), letters(options)) == (1, [1, 2], Counter())
    mended.run(options)
    assert (ids(options), mended.redrive(options).letters) == ([1, 2, 3, 4, 5], 0)
    mended.run(replace(options, new_generation=True))
    assert (ids(options), letters(options)) == ([1, 2, 3, 4, 5], Counter())


def test_way_back_and_forward_again_counts_the_redrive_that_the_table_has(log: Log, options: RunOptions) -> None:
    log.put((1, 5), (2, 2000))
    log.put((3, 5))
    log.hits(STRICT).run(options)
    mended = log.hits(MENDED)
    assert mended.redrive(options).letters == 1
    saved = savepoint(mended.topology, options)
    rewind(mended.topology, 0, options)
    assert (ids(options), letters(options)) == ([1], Counter({_line(2, 2000): 1}))
    assert mended.redrive(options).letters == 1
    assert ids(options) == [1, 2]

    restore(mended.topology, options, savepoint_id=saved.id)
    assert (ids(options), letters(options)) == ([1, 2, 3], Counter())
    assert mended.redrive(options).letters == 0
    mended.run(options)
    assert ids(options) == [1, 2, 3]


def test_rewind_while_rows_are_added_is_not_mixed_with_them(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put((1, 5), (2, 2000))
    log.put((3, 5))
    log.hits(STRICT).run(options)
    mended, commit, settle = log.hits(MENDED), Addition.commit, Redrives.settle

    def back(owner: type, name: str, method: Callable[..., Any]) -> None:
        def later(self: object, *arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(owner, name, method)
            rewind(mended.topology, 0, options)
            return method(self, *arguments, **named)

        monkeypatch.setattr(owner, name, later)

    back(Addition, "commit", commit)
    with pytest.raises(SinkError, match="has gone back"):
        mended.redrive(options)
    assert (ids(options), letters(options)) == ([1], Counter({_line(2, 2000): 1}))
    mended.run(options)
    back(Redrives, "settle", settle)
    with pytest.raises(SinkError, match="has gone back") as refused:
        mended.redrive(options)
    assert "start the redrive again" in refused.value.remedy
    assert (ids(options), letters(options)) == ([1], Counter({_line(2, 2000): 1}))
    assert mended.redrive(options).letters == 1
    mended.run(options)
    assert (ids(options), letters(options)) == ([1, 2, 3], Counter())


def test_batch_that_other_code_computed_again_leaves_its_letters(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed after its dead letters, before its rows, and the corrected code has accepted the record."""
    log.put((1, 5))
    log.hits(STRICT).run(options)
    log.put((2, 2000), (3, 5))

    def dies(*_: object) -> None:
        raise KilledError("after the letters")

    write = BatchWork._write_dead_letters

    def written(self: BatchWork, *arguments: Any, **named: Any) -> None:
        write(self, *arguments, **named)
        dies()

    with monkeypatch.context() as crash:
        crash.setattr(BatchWork, "_write_dead_letters", written)
        with pytest.raises(RsError, match="after the letters"):
            log.hits(STRICT).run(options)
    mended = log.hits(MENDED)
    mended.run(options)
    assert (ids(options), letters(options)) == ([1, 2, 3], Counter({_line(2, 2000): 1}))
    assert dict(mended.redrive(options).left) == {RECOMPUTED: 1}
    assert ids(options) == [1, 2, 3]


def test_records_on_which_a_function_raised_come_when_it_does_not(log: Log, options: RunOptions) -> None:
    log.put((1, 5), (2, 0), (3, 7), (4, -1))
    log.put((5, 0))

    def hits(safe: Callable[[dict[str, int]], dict[str, int]]) -> Pipeline:
        return log.stream("quarantine").map(safe, schema=SCHEMA, name="shares").to_delta("hits").build()

    hits(lambda row: {"id": row["id"], "ms": 100 // row["ms"]}).run(options)
    assert ids(options) == [1, 3, 4]

    def shares(row: dict[str, int]) -> dict[str, int]:
        if row["id"] == 5:
            raise ValueError("not this one")
        return {"id": row["id"], "ms": 100 // (row["ms"] or 1)}

    done = hits(shares).redrive(options)
    assert (done.letters, done.refused, ids(options)) == (1, 1, [1, 2, 3, 4])
    (left,) = dead_letters_of(options.home.dead_letters, "again", "hits").to_pylist()
    assert "not this one" in left["reason"]


def test_records_that_failed_in_sql_are_found_one_by_one_if_some_still_fail(log: Log, options: RunOptions) -> None:
    log.put((1, 5), (2, 0), (3, 7), (4, 0), (5, 0))

    def hits(share: str) -> Pipeline:
        return log.stream("quarantine").map("id", f"{share} AS ms", name="shares").to_delta("hits").build()

    hits("CAST(100 / ms AS BIGINT)").run(options)
    assert ids(options) == [1, 3]
    done = hits("CAST(100 / if(id = 4, ms, ms + 1) AS BIGINT)").redrive(options)
    assert (done.letters, done.refused, ids(options)) == (2, 1, [1, 2, 3, 5])
    assert letters(options) == Counter({_line(4, 0): 1})


def test_letters_of_which_other_rows_may_be_in_the_output_are_left(log: Log, options: RunOptions) -> None:
    log.put((1, 5), (2, 2000))
    first = log.stream().flat_map("explode(array(id, 9)) AS id", name="twice")
    first.expect("id <> 2", on_fail="dead_letter", name="usual").to_delta("hits").build().run(options)
    assert ids(options) == [1, 9, 9]
    # The current code has no such step: what was true of the code of then was noted with the letter.
    mended = log.stream().expect("id > 0", on_fail="dead_letter", name="usual").map("id").to_delta("hits").build()
    done = mended.redrive(options)
    assert (done.letters, dict(done.left), ids(options)) == (0, {PARTLY: 1}, [1, 9, 9])


def test_letters_whose_input_is_gone_are_left_and_the_others_come(log: Log, options: RunOptions) -> None:
    log.put((1, 5), (2, 2000))
    log.put((3, 2000))
    log.hits(STRICT).run(options)
    (log.folder / "f0001.jsonl").unlink()
    done = log.hits(MENDED).redrive(options)
    assert (done.letters, dict(done.left), ids(options)) == (1, {GONE: 1}, [1, 2])
    assert str(done) == "1 redriven into out: 1 row, in version 1\n1 left: the input of its batch is gone"


def test_letters_in_whose_place_another_record_is_now_are_left(log: Log, options: RunOptions) -> None:
    log.put((1, 5), (2, 2000), (3, 7), (4, 2000))
    log.put((5, 5), '{"id": 6, "ms": 2000, "text": "\u00fc\u20ac"}')
    log.hits(STRICT).run(options)
    file = log.folder / "f0000.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    # In the first place is now the next record, whose row is in the table, and in the second one there is none.
    file.write_text("".join([lines[0], *lines[2:]]))
    done = log.hits(MENDED).redrive(options)
    assert (done.letters, dict(done.left), ids(options)) == (1, {CHANGED: 2}, [1, 3, 5, 6])


def test_redrive_during_which_a_function_begins_to_raise_changes_nothing(
    log: Log, options: RunOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put((1, 5), (2, 0))
    down, staged = tmp_path / "down", Addition.staged

    def hits(least: int) -> Pipeline:
        def shares(row: dict[str, int]) -> dict[str, int]:
            if down.exists():
                raise ConnectionError("the service is down")
            return {"id": row["id"], "ms": 100 // max(row["ms"], least)}

        return log.stream("quarantine").map(shares, schema=SCHEMA, name="shares").to_delta("hits").build()

    def ends(self: Addition, rows: Any) -> Any:
        down.touch()
        return staged(self, rows)

    hits(0).run(options)
    monkeypatch.setattr(Addition, "staged", ends)
    with pytest.raises(RsError, match="the service is down"):
        hits(1).redrive(options)
    assert (ids(options), letters(options)) == ([1], Counter({_line(2, 0): 1}))
    monkeypatch.setattr(Addition, "staged", staged)
    down.unlink()
    assert (hits(1).redrive(options).letters, ids(options)) == (1, [1, 2])


def test_what_cannot_be_redriven_is_refused_with_a_remedy(log: Log, options: RunOptions) -> None:
    with pytest.raises(CheckpointError, match="has not read anything yet"):
        log.hits(MENDED).redrive(options)
    log.put((2, 2000))
    log.hits(STRICT).run(options)
    with pytest.raises(SinkError, match="no batch of this generation") as refused:
        log.hits(MENDED).redrive(options)
    assert "write a batch with rows first" in refused.value.remedy
    log.put((1, 5))
    log.hits(MENDED).run(options)
    with pytest.raises(ConfigurationError, match="does not accept 'cause = 1'") as unknown:
        log.hits(MENDED).redrive(options, where="cause = 1")
    assert "reason" in unknown.value.remedy
    assert log.hits(MENDED).redrive(options, where="batch_id = 0").letters == 1
    assert ids(options) == [1, 2]


# A condition, what is said of it, words of the remedy, and what they say to write.
CONDITIONS = [
    ("record LIKE '%2000%' OR", "does not accept", "write a whole condition", "record LIKE '%2000%' OR tries > 0"),
    ("record LIKE '%2000%' -- not all", "", "", ""),
    ("reason = 1", "fails for a row: [CAST_INVALID_INPUT]", "a text with a text in quotes", "record LIKE '%2000%'"),
    ("CAST(reason AS INT) = 1", "fails for a row: [CAST_INVALID_INPUT]", "cast it by TRY_CAST(... AS BIGINT)",
     "record LIKE '%2000%' AND TRY_CAST(reason AS BIGINT) IS NULL"),
]  # fmt: skip


def test_condition_that_is_not_whole_or_fails_is_refused_with_a_remedy_that_works(
    log: Log, options: RunOptions
) -> None:
    """A name after a condition was read as the name of it, so that half of a condition chose dead letters."""
    log.put((1, 5), (2, 2000), (3, 3000))
    log.hits(STRICT).run(options)
    mended = log.hits(MENDED)
    for where, said, remedy, right in CONDITIONS:
        if said:
            with pytest.raises(ConfigurationError) as refused:
                mended.redrive(options, where=where, plan=True)
            assert (said in refused.value.what, remedy in refused.value.remedy) == (True, True), where
        assert mended.redrive(options, where=right or where, plan=True).letters == 1, where


def test_two_redrives_at_the_same_time_do_not_both_claim(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put((1, 5), (2, 2000), (3, 3000))
    log.hits(STRICT).run(options)
    mended, claim = log.hits(MENDED), Redrives.claim

    def late(self: Redrives, *arguments: Any, **named: Any) -> bool:
        monkeypatch.setattr(Redrives, "claim", claim)
        assert mended.redrive(options, where="line = 2").letters == 1
        return claim(self, *arguments, **named)

    monkeypatch.setattr(Redrives, "claim", late)
    with pytest.raises(SinkError, match="another redrive of these dead letters has begun") as refused:
        mended.redrive(options)
    assert "start the redrive again" in refused.value.remedy
    assert mended.redrive(options).letters == 1
    assert (ids(options), letters(options)) == ([1, 2, 3], Counter())


def test_redrive_during_which_keys_are_forgotten_does_not_bring_them_back(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put((1, 5), (2, 2000), (3, 3000))
    log.hits(STRICT).run(options)
    mended, claim = log.hits(MENDED), Redrives.claim

    def late(self: Redrives, *arguments: Any, **named: Any) -> bool:
        monkeypatch.undo()
        claimed = claim(self, *arguments, **named)
        assert mended.forget({"id": [2]}, options, savepoints="remove").complete
        return claimed

    monkeypatch.setattr(Redrives, "claim", late)
    with pytest.raises(CheckpointError, match="in the meantime"):
        mended.redrive(options)
    assert ids(options) == [1]
    assert mended.redrive(options).letters == 1
    assert ids(options) == [1, 3]
    assert mended.forget({"id": [2]}, options).complete


def test_dead_letters_of_several_outputs_are_chosen_by_their_query(tmp_path: Path, options: RunOptions) -> None:
    one, two = Log(tmp_path / "one"), Log(tmp_path / "two")
    for log in (one, two):
        log.put((1, 5), (2, 2000))

    def both(condition: str) -> Pipeline:
        begin = StreamBuilder.data_stream("again", "hits")
        for name, log in (("one", one), ("two", two)):
            read = begin.from_file(log.folder, schema=SCHEMA, name=name, bad_records="dead_letter")
            done = read.expect(condition, on_fail="dead_letter", name=f"usual_{name}").to_delta(name)
        return done.build()

    both(STRICT).run(options)
    with pytest.raises(ConfigurationError, match="several outputs: one_table, two_table") as refused:
        both(MENDED).redrive(options)
    assert "query = '...'" in refused.value.remedy
    assert both(MENDED).redrive(options, where="query = 'two'").letters == 1
    assert both(MENDED).redrive(options).letters == 1
    assert [ids(options, name) for name in ("one", "two")] == [[1, 2], [1, 2]]


def test_letters_of_two_sources_in_one_batch_come_together(tmp_path: Path, options: RunOptions) -> None:
    one, two = Log(tmp_path / "one"), Log(tmp_path / "two")
    # Each has the same lines, so places and texts are those of the other one, too.
    one.put((1, 5), (2, 2000), (3, -1))
    two.put((1, 5), (2, 2000), (3, 3000))

    def both(condition: str) -> Pipeline:
        begin = StreamBuilder.data_stream("again", "hits")
        read = [begin.from_file(log.folder, schema=SCHEMA, name=log.folder.name) for log in (one, two)]
        united = read[0].union(read[1], name="both").expect(condition, on_fail="dead_letter", name="usual")
        return united.to_delta("hits", name="out").build()

    both(STRICT).run(options)
    done = both(MENDED).redrive(options)
    assert (done.letters, done.refused, done.rows, ids(options)) == (3, 1, 3, [1, 1, 2, 2, 3])
    (left,) = dead_letters_of(options.home.dead_letters, "again", "hits").to_pylist()
    assert (left["source"], left["record"]) == ("one", _line(3, -1))


def test_letters_of_a_log_whose_first_line_is_zero_come(tmp_path: Path, options: RunOptions) -> None:
    """Two records of the first version of a table, which is the place of both."""
    table = str(tmp_path / "read")
    for numbers, times in (([1, 2], [2000, 3000]), ([3], [5])):
        write_deltalake(table, pa.table({"id": numbers, "ms": times}), mode="append")

    def hits(condition: str) -> Pipeline:
        read = StreamBuilder.data_stream("again", "hits").from_delta(table, name="read", starting_version=0)
        return read.expect(condition, on_fail="dead_letter", name="usual").to_delta("hits", name="out").build()

    hits(STRICT).run(options)
    assert ids(options) == [3]
    done = hits(MENDED).redrive(options)
    assert (done.letters, dict(done.left), ids(options)) == (2, {}, [1, 2, 3])


def test_interrupted_redrive_into_an_output_that_is_gone_needs_its_code(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put((1, 5), (2, 2000))
    log.hits(STRICT).run(options)
    killed(monkeypatch, Redrives, "settle", "before")
    with pytest.raises(RsError, match="before settle"):
        log.hits(MENDED).redrive(options)
    other = StreamBuilder.data_stream("again", "hits").from_file(log.folder, schema=SCHEMA, name="other")
    more = other.to_delta("more", name="more").build()
    with pytest.raises(ConfigurationError, match="a redrive into 'out' was interrupted") as refused:
        more.redrive(options)
    assert "use code that has 'out'" in refused.value.remedy
    assert log.hits(MENDED).redrive(options).letters == 0
    assert (ids(options), letters(options)) == ([1, 2], Counter())


def test_backfill_takes_the_records_of_dead_letters_after_a_window(tmp_path: Path, options: RunOptions) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    rows = ((1, "10:05", 5), (2, "10:06", 2000), (3, "11:30", 5))
    lines = [orjson.dumps({"id": n, "ts": f"2026-01-05 {at}:00", "ms": ms}).decode() for n, at, ms in rows]
    (folder / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    hours = EventTimePartitions.hourly("start_time", since="2026-01-01")

    def counted(condition: str) -> Pipeline:
        read = StreamBuilder.data_stream("again", "hits").from_file(folder, schema="id bigint, ts timestamp, ms bigint")
        usual = read.expect(condition, on_fail="dead_letter", name="usual")
        counts = usual.window(TumblingWindow.of(Time.minutes(10), "ts"), name="minutes").group_by("id").count("n")
        return counts.to_delta("hits", partitions=hours).build()

    counted(STRICT).run(options)
    counted(MENDED).run(replace(options, keep_state=True))
    with pytest.raises(TopologyError, match="'minutes', whose state has gone on") as refused:
        counted(MENDED).redrive(options)
    assert "rs-assets backfill" in refused.value.remedy
    (done,) = counted(MENDED).backfill("2026-01-05-10:00", options)
    assert (done.rows_before, done.rows) == (1, 2)


def test_letters_that_a_function_of_for_each_refused_are_left(log: Log, options: RunOptions) -> None:
    def sent(row: dict[str, Any]) -> None:
        assert row["id"] != 2

    def pipeline(condition: str) -> Pipeline:
        hits = log.stream("quarantine").expect(condition, on_fail="dead_letter", name="usual")
        hits = hits.for_each(sent, name="sent")
        return hits.to_delta("hits", name="out").build()

    log.put((1, 5), (2, 6), (3, 2000))
    pipeline(STRICT).run(options)
    assert ids(options) == [1]
    done = pipeline(MENDED).redrive(options)
    assert (done.letters, dict(done.left)) == (1, {UNCALLED: 1})
    assert ids(options) == [1, 3]
    assert letters(options) == {_line(2, 6): 1}
