"""The current code over recorded batches, compared with the rows that a former version has written."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from deltalake import DeltaTable

from rs_assets import Home, StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.files.whole import reader
from rs_assets.errors import ConfigurationError, DataLossError, TopologyChangedError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.difference import Difference, Sample
from rs_assets.stream.pipeline import Pipeline
from tests.runtime.test_backfill import ELEVEN, SCHEMA, TEN, Log, counted, hour, hourly, kept, log, rows, windows

__all__ = ["log"]


def files(options: RunOptions) -> dict[str, str]:
    """The digest of each file of a home."""
    every = (path for path in options.home.root.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in every}


def summed(log: Log, condition: str = "id > 0", **aggregates: str) -> Pipeline:
    hits = log.stream().filter(condition, name="kept").window(TumblingWindow.of(Time.minutes(10), "ts"), name="windows")
    sums = hits.group_by("id").aggregate(**(aggregates or {"n": "count(*)"}))
    return sums.to_data_stream().to_delta("hits", partitions=hourly()).build()


def test_a_difference_is_printed_with_counts_columns_and_samples() -> None:
    samples = (
        Sample(change="only_before", before='{"id":1}', after=None),
        Sample(change="changed", before='{"id":2,"n":1,"page":"/"}', after='{"id":2,"n":2,"page":"/"}'),
    )
    found = Difference(
        partitions=(TEN,), batches=2, version=1, keys=("id",), rows_before=1_200, rows_after=2, only_before=1,
        changed=1, by_column={"n": 1}, columns_added=("m",), samples=samples,
    )  # fmt: skip
    assert str(found).splitlines() == [
        "1,200 rows before, 2 after, in 1 partition, from 2 batches",
        "only_before 1, only_after 0, changed 1",
        "  changed in n: 1",
        "  columns added: m",
        '  only_before: {"id":1}',
        '  changed: {"id":2,"n":1} -> {"n":2}',
    ]
    assert (found.empty, Difference().empty, Difference(columns_retyped=("n",)).empty) == (False, True, False)
    assert found.as_dict()["samples"][0] == {"change": "only_before", "before": '{"id":1}', "after": None}


def test_a_changed_filter_gives_exactly_its_rows_and_the_home_is_as_before(
    log: Log, options: RunOptions, tmp_path: Path
) -> None:
    log.put((1, "10:05"), (2, "10:07"), (2, "10:07"), (4, "10:08"))
    log.put((1, "11:15"), (3, "11:20"), (3, "12:30"))
    kept(log, "id < 4").run(options)
    home = files(options)
    assert kept(log, "id < 4").compare(options).empty
    into = tmp_path / "difference"
    found = kept(log, "id <> 2").compare(options, into=into)
    assert (found.partitions, found.rows_before, found.rows_after) == ((TEN, ELEVEN), 5, 4)
    assert (found.only_before, found.only_after, found.changed) == (2, 1, 0)
    # Both partitions are made in one pass.
    assert found.batches == 2
    written = DeltaTable(str(into)).to_pyarrow_table().to_pylist()
    assert sorted((row["partition"], row["change"], row["rows"]) for row in written) == [
        (TEN, "only_after", 1),
        (TEN, "only_before", 2),
    ]
    assert [(each.change, json.loads(each.before or each.after or "")["id"]) for each in found.samples] == [
        ("only_before", 2),
        ("only_after", 4),
    ]
    assert files(options) == home
    with pytest.raises(ConfigurationError, match="the table of the difference exists"):
        kept(log).compare(options, into=into)
    with pytest.raises(ConfigurationError, match="needs the first partition"):
        kept(log).compare(options, to=TEN)
    assert kept(log, "id < 4").compare(options, partition=TEN, to=ELEVEN).empty
    # Two rows have the id 2: the folder of a comparison that failed is gone.
    other = tmp_path / "other"
    with pytest.raises(ConfigurationError, match="2 rows with the same id"):
        kept(log, "id < 4").compare(options, keys=["id"], into=other)
    with pytest.raises(ConfigurationError, match="'page' is not a field of both sides"):
        kept(log, "id < 4").compare(options, keys=["page"])
    assert not other.exists()
    assert files(options) == home
    # The code that was tried replaces the rows, and no other.
    assert str(found).splitlines()[-1] == f"code {found.code}"
    with pytest.raises(ConfigurationError, match=f"and {found.code} was tried"):
        kept(log, "id < 4").backfill(TEN, options, to=ELEVEN, judge="as_then", code=found.code)
    kept(log, "id <> 2").backfill(TEN, options, to=ELEVEN, judge="as_then", code=found.code)
    assert kept(log, "id <> 2").compare(options).empty


def test_a_changed_aggregate_is_counted_by_key_and_column(log: Log, options: RunOptions) -> None:
    for records in (
        [(1, "10:05"), (1, "10:06"), (2, "10:07")],
        [(1, "11:15"), (9, "11:16")],
        [(1, "10:06")],
        [(1, "13:30")],
    ):
        log.put(*records)
        summed(log).run(options)
    before = hour(rows(options, "id", "start_time", "n"), 10)
    home = files(options)
    assert summed(log).compare(options, keys=["id", "start_time"]).empty
    # One counts differently, another has a column more and other records.
    found = summed(log, n="count(*) * 2 - 1").compare(options, keys=["id", "start_time"])
    twice = sum(1 for (_, _, n) in rows(options, "id", "start_time", "n") if n != n * 2 - 1)
    assert twice == 1
    assert (found.changed, dict(found.by_column), found.only_before, found.only_after) == (twice, {"n": twice}, 0, 0)
    (sample,) = found.samples
    assert [json.loads(text or "")["n"] for text in (sample.before, sample.after)] == [2, 3]
    more = summed(log, "id < 9", n="count(*)", m="max(id)").compare(options, keys=["id", "start_time"])
    assert (more.only_before, more.changed, more.columns_added) == (1, 0, ("m",))
    assert (more.rows_before, more.rows_after) == (4, 3)
    # The late record stays late: the rows are those that the stream would have written.
    assert before != hour(windows(log.records), 10)
    assert files(options) == home


def test_partitions_with_and_without_late_records_of_a_backfill_are_as_the_table_has_them(
    log: Log, options: RunOptions
) -> None:
    pipeline = counted(log)
    for records in ([(1, "10:05"), (1, "11:01")], [(1, "12:15")], [(1, "10:06"), (1, "11:02"), (1, "13:30")]):
        log.put(*records)
        pipeline.run(options)
    pipeline.backfill(ELEVEN, options)
    assert hour(rows(options, "id", "start_time", "n"), 11) == hour(windows(log.records), 11)
    found = pipeline.compare(options)
    assert (found.empty, [key[-5:] for key in found.partitions]) == (True, ["10:00", "11:00", "12:00"])
    assert found.rows_before == found.rows_after == sum(rows(options, "id").values())


def test_late_records_before_and_after_a_backfill_are_as_the_table_has_them(log: Log, options: RunOptions) -> None:
    pipeline = counted(log)
    for records in ([(1, "10:05")], [(1, "12:15")], [(1, "10:06")]):
        log.put(*records)
        pipeline.run(options)
    pipeline.backfill(TEN, options)
    before = hour(windows(log.records), 10)
    log.put((1, "10:07"), (1, "12:20"))
    pipeline.run(options)
    assert hour(rows(options, "id", "start_time", "n"), 10) == before
    assert pipeline.compare(options, partition=TEN).empty
    assert [proof.holds for proof in pipeline.prove(options)] == [True, True]


@pytest.mark.parametrize("settings", [{}, {"bad_records": "skip"}])
def test_json_lines_are_read_again_by_the_reader_of_the_stream(
    tmp_path: Path, options: RunOptions, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    folder = tmp_path / "in"
    bad = '{"id": "none"}\n' if settings else ""
    for name, line in {"k=1/a[1].jsonl": 5, "b c%20d.jsonl": 6, "e{f,g}.jsonl": 15}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{bad}{{"id": {line}, "ts": "2026-01-05 10:{line:02d}:00"}}\n', encoding="utf-8")
    read = StreamBuilder.data_stream("fill", "hits").from_file(folder, schema=SCHEMA, name="file", **settings)
    counts = read.window(TumblingWindow.of(Time.minutes(10), "ts"), name="windows").group_by("id").count("n")
    out = counts.to_data_stream()
    in_parts = out.to_delta("hits", partitions=hourly()).build()
    in_parts.run(options, finish=True)
    whole = replace(options, home=Home.at(str(tmp_path / "whole")))
    as_stream = out.to_delta("hits").build()
    as_stream.run(whole, finish=True)

    def by_line(*_: object) -> None:
        raise AssertionError("read line by line")

    monkeypatch.setattr(reader, "read_ranges", by_line)
    tried = in_parts.compare(options), as_stream.compare(whole)
    assert [(each.empty, each.streamed, each.rows_after) for each in tried] == [(True, False, 3), (True, True, 3)]


@pytest.mark.long
def test_windows_that_wait_for_other_rows_are_refused(log: Log, options: RunOptions) -> None:
    """The watermarks of recorded batches are those of the former code: rows that were late then would be late again."""

    def waiting(per: Literal["input", "split"] = "input", minutes: int = 0) -> Pipeline:
        hits = log.stream().window(TumblingWindow.of(Time.minutes(10), "ts"), name="windows").group_by("id").count("n")
        made = hits.emit_after(Time.minutes(1), until=Time.minutes(minutes)) if minutes else hits
        return made.water_mark(Time.minutes(1), per=per).to_data_stream().to_delta("hits").build()

    log.put((1, "10:05"), (2, "11:07"))
    waiting(minutes=5).run(options)
    for other in (waiting(per="split", minutes=5), waiting(minutes=60)):
        with pytest.raises(TopologyChangedError, match="'windows' has another watermark, so"):
            other.compare(options)
    # The state may go on.
    log.put((1, "13:30"))
    waiting(per="split", minutes=5).run(options)


def test_recorded_batches_that_do_not_fit_the_code_are_refused(log: Log, options: RunOptions, tmp_path: Path) -> None:
    log.put((1, "10:05"), (2, "11:07"))
    log.put((1, "13:30"))
    counted(log).run(options)
    home = files(options)
    begin = StreamBuilder.data_stream("fill", "hits")

    def changed(window: str = "windows", source: str = "file", delay: int = 0, folder: Path = log.folder) -> Pipeline:
        hits = begin.from_file(folder, schema=SCHEMA, name=source, max_files_per_batch=1)
        made = hits.window(TumblingWindow.of(Time.minutes(10), "ts"), name=window).group_by("id").count("n")
        late = made.water_mark(Time.minutes(delay)) if delay else made
        return late.to_data_stream().to_delta("hits", partitions=hourly()).build()

    assert changed().compare(options).empty
    other = tmp_path / "elsewhere"
    other.mkdir()
    for pipeline in (changed(window="renamed"), changed(source="other", folder=other), changed(delay=5), kept(log)):
        with pytest.raises(TopologyChangedError):
            pipeline.compare(options)
    with pytest.raises(TopologyChangedError, match="'windows' has another watermark, so"):
        changed(delay=5).compare(options)
    with pytest.raises(TopologyChangedError, match="reads another place"):
        changed(folder=other).compare(options)
    assert files(options) == home
    for file in log.folder.iterdir():
        file.unlink()
    with pytest.raises(DataLossError):
        changed().compare(options)
    assert files(options) == home
