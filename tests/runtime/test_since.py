"""New code that goes on from the state of a savepoint, against models in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from rs_assets import EventTimePartitions, SessionWindow, Time
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.errors import CheckpointError, DataLossError, SinkError, TopologyChangedError
from rs_assets.runtime.options import RunOptions
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.pipeline import Pipeline
from tests.runtime.test_batch_offsets import drop
from tests.runtime.test_capture import files, read
from tests.runtime.test_streamed import (
    DELAY,
    GAP,
    HOUR,
    Batches,
    Rows,
    beyond,
    corrected,
    drawn,
    once,
    sessions,
    sessions_of,
    table,
    updates,
    watermarks,
    written,
)

FIRST, ALL = 3, 7
Open = list[tuple[int, int, int, int]]


def carried(batches: Batches, now: Callable[[int], bool], cut: int) -> Rows:
    """The sessions that close in batch `cut` or later: of all records before it, and of those that `now` takes."""
    out, opened = Rows(), Open()
    for number, (batch, watermark) in enumerate(zip(batches, watermarks(batches, lambda _: True), strict=True)):
        for key, at in batch:
            if (number >= cut and not now(key)) or at + GAP <= watermark:
                continue
            merged = (key, at, at + GAP, 1)
            for each in [each for each in opened if each[0] == key and each[1] <= at + GAP and at <= each[2]]:
                opened.remove(each)
                merged = (key, min(each[1], merged[1]), max(each[2], merged[2]), each[3] + merged[3])
            opened.append(merged)
        if number >= cut:
            out.update((key, end, n) for key, _, end, n in opened if end <= watermark)
        opened = [each for each in opened if each[2] > watermark]
    out.update((key, end, n) for key, _, end, n in opened)
    return out


def test_sessions_go_on_from_a_savepoint_when_the_first_batches_are_no_longer_recorded(
    tmp_path: Path, options: RunOptions
) -> None:
    batches, folder = drawn(5, jitter=14, number=ALL), tmp_path / "in"
    sessions(written(folder, batches[:FIRST]), "id >= 0").run(options)
    rows_then = table(options, "id", "end_time", "n")
    saved = sessions(folder, "id >= 0").savepoint(options)
    written(folder, batches[FIRST:])
    sessions(folder, "id >= 0").run(options, finish=True)
    drop(CheckpointLog(options.home.job("capture", "hits") / "g0001" / "visits" / "checkpoint"), before=2)
    DeltaTable(str(options.home.catalog / "batch_offsets")).delete()
    with pytest.raises(DataLossError, match="are no longer recorded") as lost:
        sessions(folder, "id > 0").compare(options)
    assert "--savepoint ID" in lost.value.remedy
    home = files(options.home.root)
    same = sessions(folder, "id >= 0").compare(options, savepoint_id="newest")
    since = table(options, "id", "end_time", "n") - rows_then
    assert (same.empty, same.savepoint, same.rows_before) == (True, saved.id, since.total())
    assert str(same).splitlines()[0].endswith(f"since savepoint {saved.id}")
    found = sessions(folder, "id > 0").compare(options, savepoint_id=saved.id)
    assert since == sessions_of(batches, lambda _: True, lambda _: True) - rows_then
    # Sessions that were open then keep what they had.
    beyond(found, since, carried(batches, lambda key: key > 0, FIRST))
    assert files(options.home.root) == home


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "settings"),
    [(updates, {}), (corrected, {}), (once, {}), (once, {"mode": "upsert", "keys": ["id"]})],
    ids=["updates", "corrected", "once", "once upserted"],
)
def test_equal_code_gives_equal_rows_since_each_savepoint(
    tmp_path: Path, options: RunOptions, shape: Callable[[DataStream], DataStream], settings: dict[str, Any]
) -> None:
    batches, folder = drawn(8, jitter=14, number=ALL), tmp_path / "in"

    def of(condition: str) -> Pipeline:
        return shape(read(folder).filter(condition, name="kept")).to_delta("hits", name="out", **settings).build()

    saved = list[str]()
    for first in range(0, ALL, 2):
        written(folder, batches[first : first + 2])
        of("id >= 0").run(options)
        saved.append(of("id >= 0").savepoint(options).id)
    tried = [of("id >= 0").compare(options, savepoint_id=each) for each in saved]
    assert [each.empty for each in tried] == [True] * len(saved)
    assert (tried[0].batches > tried[1].batches, tried[-1].batches) == (True, 0)
    assert (tried[-1].rows_before == 0) == (not settings)
    assert not of("id > 9").compare(options, savepoint_id=saved[0]).empty


@pytest.mark.long
def test_partitions_are_compared_since_a_savepoint_after_a_compaction(tmp_path: Path, options: RunOptions) -> None:
    batches, folder = drawn(7, jitter=14, number=12), tmp_path / "in"
    hours = EventTimePartitions.hourly("end_time", since="2026-01-01")

    def of(condition: str) -> Pipeline:
        return sessions(folder, condition, partitions=hours)

    written(folder, batches[:5])
    of("id >= 0").run(options)
    rows_then = table(options, "id", "end_time", "n")
    of("id >= 0").savepoint(options)
    written(folder, batches[5:])
    of("id >= 0").run(options)
    DeltaTable(options.home.table("capture", "hits")).optimize.compact()
    since = Rows({row: n for row, n in (table(options, "id", "end_time", "n") - rows_then).items() if row[1] < 660})
    same, other = (of(each).compare(options, savepoint_id="newest") for each in ("id >= 0", "id > 0"))
    assert (same.empty, same.rows_before, same.partitions) == (True, since.total(), ("2026-01-05-09:00", HOUR))
    assert other.only_before > 0


def test_rows_that_the_table_has_lost_since_then_are_those_of_the_code(tmp_path: Path, options: RunOptions) -> None:
    folder, hours = tmp_path / "in", EventTimePartitions.hourly("ts", since="2026-01-01", settle=Time.minutes(0))

    def of(condition: str) -> Pipeline:
        return read(folder).filter(condition, name="kept").to_delta("hits", name="out", partitions=hours).build()

    written(folder, [[(1, 541), (2, 542), (3, 605)]])
    of("true").run(options)
    of("true").savepoint(options)
    written(folder, [[(4, 606), (5, 665)]])
    of("true").run(options)
    (done,) = of("id <> 2").backfill("2026-01-05-09:00", options)
    tried = of("true").compare(options, savepoint_id="newest", keys=["id"])
    assert (done.rows, tried.only_before, tried.only_after, tried.changed) == (1, 0, 1, 0)
    of("true").backfill("2026-01-05-09:00", options)
    assert of("true").compare(options, savepoint_id="newest").empty


@pytest.mark.long
def test_upserts_begin_with_the_table_of_then(tmp_path: Path, options: RunOptions) -> None:
    batches, folder = drawn(4, jitter=12, number=ALL), tmp_path / "in"

    def of(condition: str, **renamed: str) -> Pipeline:
        rows = read(folder).filter(condition, name="kept")
        return rows.to_delta("hits", name="out", mode="upsert", keys=["id"], order_by=["ts"]).build()

    def final(keep: Callable[[int], bool]) -> dict[int, int]:
        last = dict[int, int]()
        for number, batch in enumerate(batches):
            for key, at in (row for row in batch if number < FIRST or keep(row[1])):
                last[key] = max(last.get(key, 0), at)
        return last

    written(folder, batches[:FIRST])
    of("id >= 0").run(options)
    saved = of("id >= 0").savepoint(options)
    written(folder, batches[FIRST:])
    of("id >= 0").run(options)
    before, after = final(lambda _: True), final(lambda at: at % 2 == 0)
    assert table(options, "id", "ts") == Rows(before.items())
    assert of("id >= 0").compare(options, savepoint_id=saved.id).empty
    found = of("minute(ts) % 2 = 0").compare(options, savepoint_id=saved.id)
    assert (found.only_before, found.only_after) == (0, 0)
    assert found.changed == sum(1 for key, at in after.items() if before[key] != at) > 0


@pytest.mark.long
def test_a_savepoint_that_later_batches_do_not_follow_is_refused(tmp_path: Path, options: RunOptions) -> None:
    batches, folder = drawn(5, jitter=0, number=ALL), tmp_path / "in"
    pipeline = sessions(folder, "id >= 0")
    written(folder, batches[:1])
    pipeline.run(options)
    with pytest.raises(SinkError, match="there is no table"):
        pipeline.compare(options)
    written(folder, batches[1:4])
    pipeline.run(options)
    with pytest.raises(CheckpointError, match="there is no savepoint"):
        pipeline.compare(options, savepoint_id="newest")
    saved = pipeline.savepoint(options)
    written(folder, batches[4:])
    pipeline.run(options)
    at = saved.batches["visits"]
    pipeline.rewind(at - 1, options)
    with pytest.raises(CheckpointError, match=f"has left batch {at} of the savepoint"):
        pipeline.compare(options, savepoint_id=saved.id)
    pipeline.run(options)
    again = pipeline.savepoint(options)
    assert pipeline.compare(options, savepoint_id=again.id).batches == 0
    # The next generation reads all of it.
    pipeline.run(replace(options, new_generation=True))
    with pytest.raises(CheckpointError, match="has left batch"):
        pipeline.compare(options, savepoint_id=again.id)


@pytest.mark.long
def test_a_table_whose_version_of_then_is_gone_needs_a_later_savepoint(tmp_path: Path, options: RunOptions) -> None:
    batches, folder = drawn(5, jitter=0, number=ALL), tmp_path / "in"
    pipeline = sessions(folder, "id >= 0")
    written(folder, batches[:4])
    pipeline.run(options)
    assert table(options, "id")
    saved = pipeline.savepoint(options)
    written(folder, batches[4:])
    pipeline.run(options)
    hits = DeltaTable(options.home.table("capture", "hits"))
    hits.optimize.compact()
    hits.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(SinkError, match="a vacuum has removed") as refused:
        pipeline.compare(options, savepoint_id=saved.id)
    assert refused.value.remedy == "name a later savepoint"
    assert pipeline.compare(options, savepoint_id=pipeline.savepoint(options).id).empty


@pytest.mark.long
def test_state_that_does_not_fit_is_refused_and_a_renamed_step_goes_on(tmp_path: Path, options: RunOptions) -> None:
    batches, folder = drawn(5, jitter=0, number=4), tmp_path / "in"

    def of(step: str, *, total: bool = False, **settings: Any) -> Pipeline:
        visits = read(folder).window(SessionWindow.of(Time.minutes(GAP), "ts"), name=step)
        counts = visits.water_mark(Time.minutes(DELAY)).group_by("id").count("n")
        counts = counts.collect("ts", "all") if total else counts
        return counts.to_data_stream().to_delta("hits", name="out").build(**settings)

    written(folder, batches[:2])
    of("visits").run(options)
    of("visits").savepoint(options)
    written(folder, batches[2:])
    of("visits").run(options)
    assert of("stays", renamed={"visits": "stays"}).compare(options, savepoint_id="newest").empty
    with pytest.raises(TopologyChangedError, match="the state has other columns") as refused:
        of("visits", total=True).compare(options, savepoint_id="newest")
    assert refused.value.remedy == "compare from the first recorded batch on, without a savepoint"
    assert not of("visits", total=True).compare(options).only_before
    assert of("visits").compare(options, savepoint_id="newest").empty
