"""The plans of batches in the catalog, by which batches are read again that Spark's log has dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.batch_offsets import offsets_row, older_batches
from rs_assets.catalog.catalog import Catalog
from rs_assets.checkpoint.log import BatchOffsets, CheckpointLog
from rs_assets.checkpoint.recalled import RecalledLog
from rs_assets.runtime.options import RunOptions
from tests.runtime.test_batch_times import BEGUN, SCHEMA, put

AT = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass
class History:
    """A query that goes back now and then; `lineage` are the batches that count, `rows` all that were ever recorded."""

    lineage: list[BatchOffsets] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    clock: int = 0

    def commit(self) -> None:
        self.clock += 1
        at = AT + timedelta(seconds=self.clock)
        made = BatchOffsets(len(self.lineage), AT, at, {"file": str(self.clock)})
        before = self.lineage[-1] if self.lineage else None
        self.rows.append({"batch_id": made.batch_id, **offsets_row(made, before)})
        self.lineage.append(made)

    def catalog(self, *, without: int | None = None) -> Catalog:
        """A catalog that has all rows, but the one of the batch that counts with the number `without`."""
        gone = self.lineage[without].started if without is not None else None

        class Rows:
            def rows(_, table: str, **equal: object) -> list[dict[str, Any]]:  # noqa: N805  this object is the test's
                return [row for row in self.rows if row["planned"] != gone]

        return cast("Catalog", Rows())


@given(st.lists(st.integers(-4, 6), min_size=1, max_size=12), st.data())
def test_the_batches_that_count_should_be_found_after_any_returns(moves: list[int], data: st.DataObject) -> None:
    history = History()
    history.commit()
    for move in moves:
        for _ in range(move):
            history.commit()
        if move < 0:
            del history.lineage[max(len(history.lineage) + move, 1) :]
    history.commit()
    first = data.draw(st.integers(0, len(history.lineage) - 1))
    found = older_batches(history.catalog(), pipeline="p", query="q", first=history.lineage[first])
    assert found == {each.batch_id: each for each in history.lineage[:first]}
    if first > 1:
        lost = data.draw(st.integers(0, first - 1))
        known = older_batches(history.catalog(without=lost), pipeline="p", query="q", first=history.lineage[first])
        assert known == {each.batch_id: each for each in history.lineage[lost + 1 : first]}


def drop(log: CheckpointLog, *, before: int) -> None:
    """Remove the oldest batches from a log, as Spark does after a hundred."""
    for folder in ("offsets", "commits"):
        for batch in range(before):
            (log.folder / folder / str(batch)).unlink()


def test_batches_that_spark_has_dropped_should_be_read_again(tmp_path: Path, options: RunOptions) -> None:
    folder = put(tmp_path / "in", [1, 2], [61, 62], [121, 30], [185])
    hits = StreamBuilder.data_stream("times", "dropped").from_file(
        folder, schema=SCHEMA, max_files_per_batch=1, name="file"
    )
    window = hits.window(TumblingWindow.of(Time.minutes(1), "ts"), name="windows").count("n")
    pipeline = window.water_mark(Time.minutes(5)).to_delta("windows").build()
    pipeline.run(options, finish=True)
    rows = [{"start_time": BEGUN + timedelta(minutes=minute)} for minute in range(4)]
    before = [pipeline.records_of(row, options) for row in rows]
    log = CheckpointLog(options.home.job("times", "dropped") / "g0001" / "windows" / "checkpoint")
    kept = {batch: log.offsets(batch) for batch in log.planned_batches()}
    drop(log, before=3)
    assert [pipeline.records_of(row, options) for row in rows] == before
    recalled = RecalledLog(
        log.folder,
        recall=lambda first: older_batches(
            Catalog(options.home.catalog), pipeline="times.dropped", query="windows", first=first
        ),
    )
    assert {batch: recalled.offsets(batch) for batch in kept} == kept


def test_a_renamed_source_should_be_found_under_its_new_name(tmp_path: Path) -> None:
    log = tmp_path / "windows" / "checkpoint"
    (log / "offsets").mkdir(parents=True)
    meta = '{"batchWatermarkMs":0,"batchTimestampMs":1000,"conf":{}}'
    (log / "offsets" / "5").write_text(f'v2\n{meta}\nold:{{"logOffset":5}}')
    seen = list[BatchOffsets]()

    def recall(first: BatchOffsets) -> dict[int, BatchOffsets]:
        seen.append(first)
        return {4: BatchOffsets(4, AT, AT, {"old": '{"logOffset":4}'})}

    recalled = RecalledLog(log, {"new": "old"}, recall=recall)
    assert [recalled.source_offset("new", batch) for batch in (3, 4, 5)] == [-1, 4, 5]
    assert [first.sources for first in seen] == [{"old": '{"logOffset":5}'}]
