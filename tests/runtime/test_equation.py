"""The equation of a proof: each record of its batches is accounted for once, as a plain model has it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rs_assets import Dimension, HoppingWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.ledger import ADDED, SCHEMA, Ledger
from rs_assets.common.plural import count_of
from rs_assets.compile.planner.context import Flow
from rs_assets.compile.planner.table import COMPILE
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.equation import TERMS, Equation
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.pipeline import Pipeline
from rs_assets.topology.nodes.step import WithFields
from tests.runtime.test_backfill import SCHEMA as FIELDS
from tests.runtime.test_backfill import TEN, hourly

DAY = datetime(2026, 1, 5, tzinfo=UTC)
# The hashes that the release before ADDED gave to the entries of `former`.
HASHES = (
    "ddf1bf7b5367e08c44bcc47c4a5fd1f2a19f8e2223a6370f84119256d29294b1",
    "d1a44ad6e2cd065f30d962ebc0556cd68d18ac9bfa7efcb55b09f76deaf36830",
)
PROOF = {"sink": "hits_table", "partition": TEN, "start": DAY + timedelta(hours=9), "rows_stream": 1, "equal": True}
# The records of each batch: id and clock. An id below 0 is dropped, 99 does not meet an expectation, None is no JSON.
BATCHES: tuple[tuple[tuple[int | None, str], ...], ...] = (
    ((1, "10:05"), (2, "10:17"), (-1, "10:18"), (None, ""), (99, "10:20")),
    ((1, "10:40"), (3, "11:15"), (-2, "11:16")),
    # The first is late for all windows, the second for some of its hopping ones.
    ((1, "10:06"), (4, "10:59"), (5, "11:20"), (None, "")),
    ((6, "12:50"), (99, "12:51")),
    ((7, "13:05"), (8, "12:40")),
)


class Lines:
    """Files of records, each of which a batch reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def put(self, records: Iterable[tuple[int | None, str]]) -> None:
        rows = [json.dumps({"id": key, "ts": f"2026-01-05 {at}:00"}) if key is not None else "{" for key, at in records]
        (self.folder / f"f{len(list(self.folder.iterdir())):04d}.jsonl").write_text("\n".join(rows) + "\n")

    def stream(self) -> DataStream:
        begin = StreamBuilder.data_stream("fill", "hits")
        source = begin.from_file(self.folder, schema=FIELDS, max_files_per_batch=1, name="file", bad_records="skip")
        rows = source.filter("id >= 0", name="kept")
        return rows.expect("id <> 99", on_fail="skip", name="known")


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(tmp_path / "in")


def stateless(rows: DataStream) -> Pipeline:
    return rows.to_delta("hits", partitions=hourly("ts", settle=Time.minutes(0))).build()


def windowed(rows: DataStream, size: int, slide: int) -> Pipeline:
    window = HoppingWindow.of(Time.minutes(size), Time.minutes(slide), "ts")
    kind = window if size > slide else TumblingWindow.of(Time.minutes(size), "ts")
    counts = rows.window(kind, name="windows").group_by("id").count("n").to_data_stream()
    return counts.to_delta("hits", partitions=hourly()).build()


def run(pipeline: Pipeline, lines: Lines, options: RunOptions) -> None:
    for records in BATCHES:
        lines.put(records)
        pipeline.run(options)


def clock(at: str) -> datetime:
    return DAY + timedelta(hours=int(at[:2]), minutes=int(at[3:]))


def expected(hour: int, *, size: int, slide: int) -> Counter[str]:
    """The terms of the partition `hour`, as a plain model has them; `size` 0 is without state.

    Of windows only the batches are read that have good records in the reach of the partition.
    """
    found, watermark, newest = Counter[str](), DAY, max(clock(at) for batch in BATCHES for _, at in batch if at)
    start, end = DAY + timedelta(hours=hour), DAY + timedelta(hours=hour + 1, minutes=size)
    for batch in BATCHES:
        good = [clock(at) for key, at in batch if key is not None and key >= 0 and key != 99]
        for key, at in batch if not size or (max(good) >= start and min(good) < end) else ():
            found[_term(key, at, hour, size=size, slide=slide, passed=watermark, newest=newest)] += 1
        watermark = max([watermark, *good])
    return found


def _term(key: int | None, at: str, hour: int, *, size: int, slide: int, passed: datetime, newest: datetime) -> str:
    if key is None:
        return "dead"
    if key < 0 or key == 99:
        return "filtered"
    if not size:
        return "used" if clock(at).hour == hour else "elsewhere"
    length, step, start = timedelta(minutes=size), timedelta(minutes=slide), clock(at)
    start -= (start - DAY) % step
    windows = []
    while start + length > clock(at):
        windows.append(start)
        start -= step
    here = [start for start in windows if start.hour == hour]
    if any(start + length > passed for start in here):
        return "used"
    late = max(windows) + length <= passed
    if here or late:
        return "late"
    return "waiting" if max(windows) + length > newest else "elsewhere"


def terms(records: Equation) -> Counter[str]:
    return Counter({name: getattr(records, name) for name in TERMS})


def table(options: RunOptions, name: str) -> DeltaTable:
    return DeltaTable(str(options.home.catalog / name))


def test_a_ledger_of_an_earlier_release_is_audited_and_followed(tmp_path: Path) -> None:
    former = pa.schema([field for field in SCHEMA if field.name not in dict(ADDED)])
    at = datetime(2026, 1, 6, 4, 0, 0, 123456, tzinfo=UTC)
    entries = [
        {**PROOF, "pipeline": "shop.hits", "number": n, "proved_at": at, "batch_id": n, "previous": before, "hash": own}
        for n, (before, own) in enumerate(zip(("", HASHES[0]), HASHES, strict=True))
    ]
    write_deltalake(str(tmp_path / "ledger"), pa.Table.from_pylist(entries, schema=former))
    ledger = Ledger(tmp_path, "shop.hits")
    assert (ledger.first_break(), ledger.entries()[0]["rows_in"]) == ("", None)
    ledger.add({**PROOF, "rows_in": 7, "accounted": True})
    assert (ledger.first_break(), [entry["rows_in"] for entry in ledger.entries()]) == ("", [None, None, 7])
    now = [dict(entry) for entry in ledger.entries()]

    def written(*changed: dict[str, Any]) -> str:
        write_deltalake(str(tmp_path / "ledger"), pa.Table.from_pylist(list(changed), schema=SCHEMA), mode="overwrite")
        return ledger.first_break()

    assert written(*now) == ""
    assert written(*now[:2], now[2] | {"rows_in": None, "accounted": None}).startswith("entry 2, of the partition")
    assert written(now[0], now[1] | {"rows_in": 7}, now[2]).startswith("entry 1, of the partition")


@pytest.mark.parametrize(("size", "slide"), [(10, 10), (30, 10), (0, 0)])
def test_each_record_has_the_term_of_a_plain_model(size: int, slide: int, lines: Lines, options: RunOptions) -> None:
    pipeline = windowed(lines.stream(), size, slide) if size else stateless(lines.stream())
    run(pipeline, lines, options)
    proofs = pipeline.prove(options)
    hours = [int(each.partition[-5:-3]) for each in proofs]
    assert {10, 11} <= {*hours}
    for hour, proof in zip(hours, proofs, strict=True):
        assert (proof.equal, proof.holds, proof.records.miscounted) == (True, True, ())
        assert +terms(proof.records) == expected(hour, size=size, slide=slide)
        assert proof.records.rows_in == expected(hour, size=size, slide=slide).total()
        assert proof.records.counted == proof.batches
        assert sum(proof.records.filtered_by.values()) == proof.records.filtered
    ledger = Ledger(options.home.catalog, "fill.hits")
    newest = ledger.entries()[-1]
    assert (newest["accounted"], newest["rows_in"], ledger.first_break()) == (True, proofs[-1].records.rows_in, "")
    assert json.loads(newest["filtered_by"]) == proofs[-1].records.filtered_by


def changed(options: RunOptions, *columns: str) -> None:
    """Adds one to counts of the batch of four records, as a hand or a lost record would."""
    counts = table(options, "batch_counts")
    (batch,) = (row["batch_id"] for row in counts.to_pyarrow_table().to_pylist() if row["rows_in"] == 4)
    counts.update(predicate=f"batch_id = {batch}", updates={column: f"{column} + 1" for column in columns})


@pytest.mark.long
def test_counts_that_were_changed_by_hand_are_found(lines: Lines, options: RunOptions) -> None:
    pipeline = windowed(lines.stream(), 10, 10)
    run(pipeline, lines, options)
    changed(options, "rows_in", "rows_dead", "rows_late")
    proof = pipeline.prove(options)[0]
    assert (proof.equal, proof.holds, proof.records.unaccounted) == (True, False, 0)
    said = [
        "the stream has counted 5 records, there are 4",
        "the stream has counted 2 refused rows, there are 1",
        "the stream has counted 3 late rows, there are 2",
    ]
    assert [each.partition(": ")[2] for each in proof.records.miscounted] == said
    assert all(each in str(proof) for each in said)
    ledger = Ledger(options.home.catalog, "fill.hits")
    assert (ledger.entries()[0]["accounted"], json.loads(ledger.entries()[0]["miscounted"])) == (
        False,
        list(proof.records.miscounted),
    )
    # It is proved again. Without the counts of the stream nothing is compared with them.
    table(options, "batch_counts").delete()
    again = pipeline.prove(options)[0]
    assert (again.partition, again.holds, again.records.counted) == (proof.partition, True, 0)


@pytest.mark.long
def test_other_code_is_compared_by_the_records_that_were_read_alone(lines: Lines, options: RunOptions) -> None:
    run(stateless(lines.stream()), lines, options)
    changed(options, "rows_dead")
    assert not stateless(lines.stream()).prove(options)[0].holds
    other = stateless(lines.stream().filter("id < 1000", name="small"))
    (proof,) = other.prove(options, partition=TEN)
    assert (proof.holds, proof.records.counted) == (True, len(BATCHES))


@pytest.mark.long
def test_a_record_counts_once_whatever_rows_a_step_makes_of_it(lines: Lines, options: RunOptions) -> None:
    """Rows of one record in several partitions, and dropped or refused ones next to others."""
    both = "named_struct('id', id, 'ts', ts), named_struct('id', id, 'ts', ts - interval 1 hour)"
    rows = (
        lines.stream()
        .flat_map(f"inline(array({both})) AS (id, ts)", name="both")
        .filter("id <> 5 or hour(ts) > 10", name="some")
    )
    pipeline = stateless(rows)
    run(pipeline, lines, options)
    for proof in pipeline.prove(options):
        assert (proof.holds, proof.equal) == (True, True)
        assert sum(terms(proof.records).values()) == proof.records.rows_in == sum(map(len, BATCHES))
    (proof,) = pipeline.prove(options, partition=TEN)
    good = [(key, clock(at).hour) for batch in BATCHES for key, at in batch if key not in {None, -1, -2, 99}]
    assert proof.records.used == sum(hour == 10 or (hour == 11 and key != 5) for key, hour in good)
    assert proof.records.filtered_by == {"kept": 2, "known": 2}


def without_two(context: Any, node: WithFields, inputs: tuple[Flow, ...]) -> Flow:
    return Flow(inputs[0].df.filter("id <> 2"))


@pytest.mark.long
def test_a_record_that_a_step_loses_is_not_accounted_for(
    lines: Lines, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that passes on all rows does not; a filter after it does not take the blame."""
    rows = lines.stream().with_fields(twice="2 * id", name="twice").filter("id < 1000", name="small")
    pipeline = stateless(rows)
    run(pipeline, lines, options)
    monkeypatch.setattr("rs_assets.runtime.replay.replay.COMPILE", {**COMPILE, WithFields: without_two})
    (proof,) = pipeline.prove(options, partition=TEN)
    assert (proof.records.unaccounted, proof.holds) == (1, False)
    assert "1 unaccounted for" in str(proof)


def test_records_of_two_sources_a_dimension_and_lateness_by_record_are_accounted_for(
    tmp_path: Path, options: RunOptions
) -> None:
    """Each source has a watermark of its own, which judges its records one after the other."""
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    begin = StreamBuilder.data_stream("fill", "hits")
    sources = [begin.from_file(file, schema=FIELDS, tail=True, name=file.stem) for file in (one, two)]
    tiers = Dimension.from_loader(lambda: [{"id": n, "tier": n} for n in range(9)], schema="id bigint, tier bigint")
    known = sources[0].union(sources[1]).dim_join(tiers, on="id", name="tiers")
    window = known.window(TumblingWindow.of(Time.minutes(10), "ts"), name="windows").group_by("id").count("n")
    judged = window.water_mark(Time.minutes(1), per="split", lateness="record").to_data_stream()
    pipeline = judged.to_delta("hits", partitions=hourly()).build()
    runs = (
        ([(1, "10:05"), (2, "10:17"), (9, "10:18")], [(1, "10:01"), (3, "10:25")]),
        # The first of each is late by the one before it; the tier of 9 is unknown.
        ([(1, "10:06"), (4, "10:40")], [(2, "10:12"), (1, "10:31"), (9, "10:33")]),
        ([(5, "12:00")], [(5, "12:30")]),
    )
    for records in runs:
        for file, rows in zip((one, two), records, strict=True):
            with file.open("a") as lines:
                lines.writelines(json.dumps({"id": key, "ts": f"2026-01-05 {at}:00"}) + "\n" for key, at in rows)
        pipeline.run(options)
    (proof,) = pipeline.prove(options, partition=TEN)
    assert (proof.equal, proof.holds, proof.records.miscounted) == (True, True, ())
    assert +terms(proof.records) == Counter({"used": 6, "late": 2, "filtered": 2})
    assert (proof.records.rows_in, proof.records.filtered_by) == (10, {"tiers": 2})
    assert proof.records.counted == proof.batches
    assert "counts of the stream" not in str(proof)
    table(options, "batch_counts").delete()
    (again,) = pipeline.prove(options, partition=TEN)
    assert (again.holds, again.records.counted) == (True, 0)
    assert f"of {count_of(again.batches, 'batch')} there are no counts of the stream" in str(again)
