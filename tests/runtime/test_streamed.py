"""New code over recorded batches as a stream: joins, sessions, chains and upserts, against models in plain Python."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from rs_assets import EventTimePartitions, Home, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.ledger import Ledger
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.errors import ConfigurationError, DataLossError, TopologyError
from rs_assets.operators.join.spec import JoinType
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.difference import Difference
from rs_assets.runtime.recorded.streamed import refuse_streamed
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.pipeline import Pipeline
from tests.runtime.test_batch_offsets import drop
from tests.runtime.test_capture import SCHEMA, files, put, read

# The id and the minute of the day of each record, by batch.
Batches = Sequence[Sequence[tuple[int, int]]]
Rows = Counter[tuple[Any, ...]]
DELAY, GAP, WITHIN = 3, 5, 4
HOUR = "2026-01-05-10:00"


def clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def written(folder: Path, batches: Batches) -> Path:
    for batch in batches:
        put(folder, [(key, clock(minute)) for key, minute in batch])
    return folder


def drawn(seed: int, *, jitter: int, number: int = 6) -> Batches:
    """Records of ten o'clock on, of which some are `jitter` minutes older than those before them."""
    chance = random.Random(seed)

    def record(batch: int) -> tuple[int, int]:
        return chance.randrange(4), 600 + 7 * batch + chance.randrange(-jitter, 7)

    return [[record(batch) for _ in range(5)] for batch in range(number)]


def minute(at: Any) -> int:
    return int(at.hour * 60 + at.minute)


def table(options: RunOptions, *fields: str) -> Rows:
    found = DeltaTable(options.home.table("capture", "hits")).to_pyarrow_table().to_pylist()

    def plain(row: dict[str, Any], name: str) -> Any:
        return minute(row[name]) if name.endswith(("time", "ts")) else row[name]

    return Counter(tuple(plain(row, name) for name in fields) for row in found)


def in_hour(rows: Rows) -> Rows:
    """Those whose time, the second value, is in HOUR."""
    return Rows({row: n for row, n in rows.items() if row[1] // 60 == 10})


def beyond(found: Difference, before: Rows, after: Rows) -> None:
    """The difference has just the rows that two models do not share."""
    assert (found.rows_before, found.rows_after) == (before.total(), after.total())
    assert (found.only_before, found.only_after) == ((before - after).total(), (after - before).total())
    assert found.only_before + found.only_after > 0


def watermarks(batches: Batches, seen: Callable[[int], bool]) -> Iterable[int]:
    """The watermark of each batch, by the records before it that the code of then has seen."""
    greatest = DELAY
    for batch in batches:
        yield greatest - DELAY
        greatest = max([greatest, *(at for key, at in batch if seen(key))])


def sessions_of(batches: Batches, then: Callable[[int], bool], now: Callable[[int], bool]) -> Rows:
    """Id, end and count of each session of the records that `now` takes, judged by the watermarks of `then`."""
    out, opened = Rows(), list[tuple[int, int, int, int]]()
    for batch, watermark in zip(batches, watermarks(batches, then), strict=True):
        for key, at in batch:
            if not now(key) or at + GAP <= watermark:
                continue
            merged = (key, at, at + GAP, 1)
            # A record at the end of a session continues it.
            for each in [each for each in opened if each[0] == key and each[1] <= at + GAP and at <= each[2]]:
                opened.remove(each)
                merged = (key, min(each[1], merged[1]), max(each[2], merged[2]), each[3] + merged[3])
            opened.append(merged)
        out.update((key, end, n) for key, _, end, n in opened if end <= watermark)
        opened = [each for each in opened if each[2] > watermark]
    out.update((key, end, n) for key, _, end, n in opened)
    return out


def sessions(folder: Path, condition: str, **settings: Any) -> Pipeline:
    kept = read(folder).filter(condition, name="kept")
    visits = kept.window(SessionWindow.of(Time.minutes(GAP), "ts"), name="visits")
    counts = visits.water_mark(Time.minutes(DELAY)).group_by("id").count("n").to_data_stream()
    return counts.to_delta("hits", name="out", **settings).build()


def test_sessions_of_other_code_are_those_of_a_model_with_the_watermarks_of_then(
    tmp_path: Path, options: RunOptions
) -> None:
    # Id 3, which the code of then has dropped, is ahead of all others: its times move no watermark.
    batches = [[*batch, (3, batch[0][1] + 40)] for batch in drawn(5, jitter=14)]
    folder = written(tmp_path / "in", batches)

    def then(key: int) -> bool:
        return key < 3

    sessions(folder, "id < 3").run(options, finish=True)
    before, home = sessions_of(batches, then, then), files(options.home.root)
    assert table(options, "id", "end_time", "n") == before
    same = sessions(folder, "id < 3").compare(options)
    assert (same.empty, same.whole, same.streamed, same.partitions) == (True, True, True, ())
    assert "in the whole table, from" in str(same)
    assert str(same).splitlines()[0].endswith("batches as a stream")
    beyond(sessions(folder, "id > 0").compare(options), before, sessions_of(batches, then, lambda key: key > 0))
    assert files(options.home.root) == home


@pytest.mark.long
def test_partitions_of_sessions_are_proved_as_a_stream_until_a_row_is_changed(
    tmp_path: Path, options: RunOptions
) -> None:
    batches = drawn(7, jitter=14, number=12)
    hours = EventTimePartitions.hourly("end_time", since="2026-01-01")
    pipeline = sessions(written(tmp_path / "in", batches), "id >= 0", partitions=hours)
    pipeline.run(options)
    rows = in_hour(sessions_of(batches, lambda _: True, lambda _: True))
    proofs = {each.partition: each for each in pipeline.prove(options)}
    assert {(each.method, each.holds, each.records) for each in proofs.values()} == {("stream", True, None)}
    assert (proofs[HOUR].rows_stream, proofs[HOUR].rows_batch) == (rows.total(), rows.total())
    assert pipeline.prove(options) == ()
    DeltaTable(options.home.table("capture", "hits")).delete("id = 1")
    (proof,) = pipeline.prove(options, partition=HOUR)
    gone = sum(n for row, n in rows.items() if row[0] == 1)
    assert (proof.holds, proof.rows_batch - proof.rows_stream, gone > 0) == (False, gone, True)
    assert "only by the stream" in str(proof)
    ledger = Ledger(options.home.catalog, "capture.hits")
    assert ({each["method"] for each in ledger.entries()}, ledger.first_break()) == ({"stream"}, "")


def updates(rows: DataStream) -> DataStream:
    window = rows.window(TumblingWindow.of(Time.minutes(10), "ts"), name="step", emit="on_window_update")
    return window.water_mark(Time.minutes(DELAY)).group_by("id").count("n").to_data_stream()


def corrected(rows: DataStream) -> DataStream:
    window = rows.window(TumblingWindow.of(Time.minutes(10), "ts"), name="step").emit_after(Time.minutes(2))
    return window.water_mark(Time.minutes(DELAY)).group_by("id").count("n").to_data_stream()


def once(rows: DataStream) -> DataStream:
    return rows.distinct("id", within=Time.minutes(6), time_field="ts", water_mark=Time.minutes(DELAY), name="step")


@pytest.mark.long
@pytest.mark.parametrize("shape", [updates, corrected, once])
def test_equal_code_gives_the_rows_that_depend_on_each_batch(
    tmp_path: Path, options: RunOptions, shape: Callable[[DataStream], DataStream]
) -> None:
    """Two runs, so that a batch without records comes between, too."""
    batches = drawn(8, jitter=14)

    def of(condition: str) -> Pipeline:
        return shape(read(tmp_path / "in").filter(condition, name="kept")).to_delta("hits", name="out").build()

    for part in (batches[:3], batches[3:]):
        written(tmp_path / "in", part)
        of("id >= 0").run(options)
    same, other = (of(condition).compare(options) for condition in ("id >= 0", "id > 0"))
    assert (same.empty, same.streamed, same.rows_before > 3) == (True, True, True)
    rows = DeltaTable(options.home.table("capture", "hits")).to_pyarrow_table()["id"].to_pylist()
    assert (other.only_before, other.only_after) == (rows.count(0), 0)
    assert other.only_before > 0


def joined(folder: Path, other: Path, within: int, how: JoinType = "inner", **settings: Any) -> Pipeline:
    begin = StreamBuilder.data_stream("capture", "hits")
    left, right = (
        begin.from_file(place, schema=SCHEMA, max_files_per_batch=1, name=name)
        for place, name in ((folder, "left"), (other, "right"))
    )
    near, delay = Time.minutes(within), Time.minutes(DELAY)
    pairs = left.join(
        right, on="id", within=near, time_field="ts", prefix="r_", water_mark=delay, name="pairs", how=how
    )
    return pairs.to_delta("hits", name="out", **settings).build()


def pairs_of(left: Batches, right: Batches, within: int, *, late: bool = False) -> Rows:
    """The pairs of records that are not late, or of all; the slower side has the watermark."""
    marks = [*map(min, *(watermarks(side, lambda _: True) for side in (left, right)))]

    def taken(side: Batches) -> list[tuple[int, int]]:
        return [
            row for batch, watermark in zip(side, marks, strict=True) for row in batch if late or row[1] > watermark
        ]

    met = ((a, b) for a in taken(left) for b in taken(right) if a[0] == b[0] and abs(a[1] - b[1]) <= within)
    return Rows((a[0], a[1], b[1]) for a, b in met)


@pytest.mark.long
def test_a_join_in_other_bounds_differs_by_the_pairs_of_a_model(tmp_path: Path, options: RunOptions) -> None:
    left, right = drawn(1, jitter=12), drawn(2, jitter=12)
    places = written(tmp_path / "left", left), written(tmp_path / "right", right)
    joined(*places, WITHIN).run(options, finish=True)
    before = pairs_of(left, right, WITHIN)
    assert table(options, "id", "ts", "r_ts") == before
    assert joined(*places, WITHIN).compare(options).empty
    found = joined(*places, WITHIN - 3).compare(options, into=tmp_path / "difference")
    beyond(found, before, pairs_of(left, right, WITHIN - 3))
    rows = DeltaTable(str(tmp_path / "difference")).to_pyarrow_table().to_pylist()
    assert {(row["partition"], row["change"]) for row in rows} == {("", "only_before")}
    assert sum(row["rows"] for row in rows) == found.only_before


def chained(folder: Path, condition: str, size: int) -> Pipeline:
    kept = read(folder).filter(condition, name="kept")
    small = kept.window(TumblingWindow.of(Time.minutes(size), "ts"), name="small")
    counts = small.water_mark(Time.minutes(DELAY)).group_by("id").count("n").to_data_stream()
    large = counts.window(TumblingWindow.of(Time.minutes(20), "start_time"), name="large").group_by("id")
    sums = large.aggregate(n="sum(n)", most="max(n)").to_data_stream()
    hours = EventTimePartitions.hourly("start_time", since="2026-01-01")
    return sums.to_delta("hits", name="out", partitions=hours).build()


def chain_of(batches: Batches, size: int, hour: int) -> Rows:
    small = Counter((key, at // size * size) for batch in batches for key, at in batch if key != 2)
    large: dict[tuple[int, int], list[int]] = {}
    for (key, start), n in small.items():
        large.setdefault((key, start // 20 * 20), []).append(n)
    return Rows((key, start, sum(n), max(n)) for (key, start), n in large.items() if start // 60 == hour)


@pytest.mark.long
def test_chained_windows_of_another_length_differ_in_closed_partitions(tmp_path: Path, options: RunOptions) -> None:
    batches = drawn(3, jitter=DELAY, number=14)
    folder = written(tmp_path / "in", batches)
    chained(folder, "id <> 2", 10).run(options)
    before, after = (chain_of(batches, size, 10) for size in (10, 5))
    same = chained(folder, "id <> 2", 10).compare(options)
    assert (same.empty, same.partitions, same.rows_before) == (True, (HOUR,), before.total())
    found = chained(folder, "id <> 2", 5).compare(options, keys=["id", "start_time"])
    lines = {row[:2]: row for row in before}
    assert (found.changed, found.only_before, found.only_after) == (
        sum(1 for row in after if lines[row[:2]] != row),
        0,
        0,
    )
    assert set(found.by_column) == {"most"}
    # With the rows of the new code, which a new generation writes, the backfill and the proof agree.
    pipeline = chained(folder, "id <> 2", 5)
    pipeline.run(replace(options, new_generation=True))
    DeltaTable(options.home.table("capture", "hits")).delete("id = 1")
    pipeline.backfill(HOUR, options, judge="as_then")
    assert in_hour(table(options, "id", "start_time", "n", "most")) == after
    (proof,) = pipeline.prove(options, partition=HOUR)
    assert (proof.holds, proof.records, proof.rows_batch) == (True, None, after.total())


@pytest.mark.long
def test_a_join_is_proved_by_the_pairs_of_one_batch_and_filled_with_late_ones(
    tmp_path: Path, options: RunOptions
) -> None:
    left, right = drawn(1, jitter=12, number=12), drawn(2, jitter=12, number=12)
    places = written(tmp_path / "left", left), written(tmp_path / "right", right)
    hours = EventTimePartitions.hourly("ts", since="2026-01-01")
    pipeline = joined(*places, WITHIN, partitions=hours)
    pipeline.run(options)

    def found() -> Rows:
        return in_hour(table(options, "id", "ts", "r_ts"))

    inner, every = in_hour(pairs_of(left, right, WITHIN)), in_hour(pairs_of(left, right, WITHIN, late=True))
    assert found() == inner != every
    (proof,) = pipeline.prove(options, partition=HOUR)
    assert (proof.equal, proof.holds, proof.records, proof.rows_batch) == (True, True, None, inner.total())
    assert "not accounted for" in str(proof)
    DeltaTable(options.home.table("capture", "hits")).delete("id = 1")
    (proof,) = pipeline.prove(options, partition=HOUR)
    gone = sum(n for row, n in inner.items() if row[0] == 1)
    assert (proof.equal, proof.rows_batch - proof.rows_stream, len(proof.only_stream)) == (False, gone, 0)
    pipeline.backfill(HOUR, options, judge="as_then")
    assert found() == inner
    same, other = (joined(*places, w, partitions=hours).compare(options, partition=HOUR) for w in (WITHIN, 1))
    assert (same.empty, same.streamed) == (True, False)
    beyond(other, inner, in_hour(pairs_of(left, right, 1)))
    pipeline.backfill(HOUR, options)
    assert found() == every


def newest(rows: DataStream, calls: Path, condition: str, **settings: Any) -> Pipeline:
    def call(row: dict[str, Any]) -> None:
        with calls.open("a") as file:
            file.write(f"{row['id']}\n")

    seen = rows.filter(condition, name="kept").for_each(call, name="seen").to_print(name="shown")
    return seen.to_delta("hits", name="out", mode="upsert", keys=["id"], **settings).build()


@pytest.mark.long
@pytest.mark.parametrize("settings", [{}, {"order_by": ["ts"]}], ids=["read last", "order_by"])
def test_upserts_are_compared_as_the_final_table_by_their_keys(
    tmp_path: Path, options: RunOptions, settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    batches, calls = drawn(4, jitter=12), tmp_path / "calls"
    folder = written(tmp_path / "in", batches)
    # All files are one batch.
    begin = StreamBuilder.data_stream("capture", "hits")
    stream = begin.from_file(folder, schema=SCHEMA, name="file")

    def of(condition: str) -> Pipeline:
        return newest(stream, calls, condition, **settings)

    def final(keep: Callable[[int], bool]) -> dict[int, int]:
        last: dict[int, int] = {}
        for key, at in (row for batch in batches for row in batch if keep(row[1])):
            last[key] = max(last.get(key, 0), at) if settings else at
        return last

    of("id >= 0").run(options)
    called = calls.read_bytes()
    before, after = final(lambda _: True), final(lambda at: at % 2 == 0)
    assert table(options, "id", "ts") == Rows(before.items())
    capsys.readouterr()
    assert of("id >= 0").compare(options).empty
    found = of("minute(ts) % 2 = 0").compare(options)
    gone = before.keys() - after.keys()
    assert (found.keys, found.only_before, found.changed) == (
        ("id",),
        len(gone),
        sum(1 for key, at in after.items() if before[key] != at),
    )
    assert (found.changed > 0, calls.read_bytes(), capsys.readouterr().out) == (True, called, "")


@pytest.mark.long
def test_only_the_batches_of_the_asked_partition_are_replayed(tmp_path: Path, options: RunOptions) -> None:
    hours = EventTimePartitions.hourly("ts", since="2026-01-01")
    times = [[(1, 600), (2, 610)], [(1, 700), (2, 705)], [(1, 790), (2, 780)], [(1, 900)], [(1, 960)]]
    places = written(tmp_path / "left", times), written(tmp_path / "right", times)

    def of(within: int) -> Pipeline:
        return joined(*places, within, "left", partitions=hours)

    of(WITHIN).run(options)
    found = of(WITHIN).compare(options, partition="2026-01-05-13:00")
    # The first two batches are older than the partition, the last comes after it has closed.
    assert (found.empty, found.streamed, found.rows_before, found.batches < 5) == (True, True, 2, True)
    assert of(WITHIN).compare(options, partition="2026-01-05-10:00", to="2026-01-05-13:00").rows_before == 6
    with pytest.raises(ConfigurationError, match="has not closed"):
        of(WITHIN).compare(options, partition="2026-01-05-16:00")
    # Nothing says what the first batches have read, and these records may be of any time.
    drop(CheckpointLog(options.home.job("capture", "hits") / "g0001" / "pairs" / "checkpoint"), before=2)
    DeltaTable(str(options.home.catalog / "batch_offsets")).delete()
    with pytest.raises(DataLossError, match="are no longer recorded") as lost:
        of(WITHIN).compare(options, partition="2026-01-05-13:00")
    assert "--new-generation" in lost.value.remedy
    of(WITHIN).run(replace(options, new_generation=True))
    assert of(WITHIN).compare(options, partition="2026-01-05-13:00").empty


@pytest.mark.long
def test_states_that_depend_on_arrival_are_refused_and_another_home_gives_the_table(
    tmp_path: Path, options: RunOptions
) -> None:
    folder = written(tmp_path / "in", drawn(6, jitter=0, number=2))

    def counted(condition: str) -> Pipeline:
        counts = read(folder).filter(condition, name="kept").window(SessionWindow.of(Time.minutes(GAP)), name="visits")
        return counts.group_by("id").count("n").to_data_stream().to_delta("hits", name="out").build()

    counted("id > 0").run(options, finish=True)
    with pytest.raises(TopologyError, match="goes by the order or the time of arrival") as refused:
        counted("id > 1").compare(options)
    assert "another home" in refused.value.remedy
    other = replace(options, home=Home(tmp_path / "other"))
    counted("id > 1").run(other, finish=True)
    was, now = ({key for (key,) in table(each, "id")} for each in (options, other))
    assert was - now == {1}
    with pytest.raises(ConfigurationError, match="there is no table 'lost'"):
        counted("id > 1").compare(options, sink="lost")
    with pytest.raises(ConfigurationError, match="no output of capture.hits is a Delta table"):
        read(folder).to_print().build().compare(options)
    plain = read(folder, "plain").to_delta("plain").build()
    plain.run(options)
    found = plain.compare(options)
    assert (found.empty, found.whole, found.rows_before) == (True, True, 10)


def test_followed_files_whose_rows_replace_each_other_are_read_in_the_order_of_their_batch(
    tmp_path: Path, options: RunOptions
) -> None:
    folder = tmp_path / "in"
    for number, name in enumerate(("b", "a")):
        put(folder, [(1, f"10:0{number}")])
        os.utime((folder / f"f{number:04d}.jsonl").rename(folder / name), (number, number))
    rows = StreamBuilder.data_stream("capture", "hits").from_file(folder, schema=SCHEMA, tail=True, name="file")
    pipeline = rows.to_delta("hits", mode="upsert", keys=["id"], name="out").build()
    pipeline.run(options)
    assert table(options, "id", "ts") == Rows([(1, 601)])
    assert pipeline.compare(options).empty


def test_rows_of_several_sources_of_which_the_last_read_stays_are_refused(tmp_path: Path) -> None:
    def asked(sources: int, **settings: Any) -> None:
        begin = StreamBuilder.data_stream("capture", "hits")
        one, *more = (begin.from_file(tmp_path / str(n), schema=SCHEMA, name=f"file_{n}") for n in range(sources))
        rows = one.union(*more, name="all") if more else one
        made = rows.to_delta("hits", mode="upsert", keys=["id"], name="out", **settings).build().topology
        sink = made["out"]
        assert isinstance(sink, DeltaSink)
        refuse_streamed(made, sink)

    # In the temporary home the sources have other orders of reading.
    with pytest.raises(TopologyError, match="they come from several sources"):
        asked(2)
    asked(2, order_by=["ts"])
    asked(1)


def test_a_temporary_home_shares_only_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RS_CATALOG", "RS_LEASES", "RS_SAVEPOINTS", "RS_DEAD_LETTERS"):
        monkeypatch.setenv(name, str(tmp_path / "shared"))
    own = Home(tmp_path / "own", tables_of=Home(tmp_path / "rs"), apart=True)
    places = (own.catalog, own.leases, own.savepoints, own.dead_letters, own.job("a", "b"))
    assert all(str(place).startswith(str(tmp_path / "own")) for place in places)
    assert own.table("a", "hits") == str(tmp_path / "rs" / "tables" / "a" / "hits")
