"""Proofs that closed partitions equal one batch over the recorded input, and the ledger that they are in."""

from __future__ import annotations

import errno
import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from rs_assets import Pipeline, StreamBuilder, Time, TumblingWindow, build_definitions
from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.ledger import SCHEMA, Ledger
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.errors import CheckpointError, ConfigurationError, TopologyChangedError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.digest import comparable
from rs_assets.runtime.recorded.prove import _facts
from rs_assets.runtime.upkeep import savepoints as going_back
from rs_assets.runtime.upkeep.returns import Return
from rs_assets.spark.driver import SparkDriver
from tests.runtime.test_backfill import NINE, TEN, Log, _at, counted, hourly, kept, log, rows, table

__all__ = ["log"]
PROOF = {"sink": "hits_table", "partition": TEN, "start": NINE, "rows_stream": 1, "equal": True}


def test_the_ledger_shows_entries_that_were_changed_removed_or_inserted(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "shop.hits")
    assert (ledger.entries(), ledger.first_break()) == ((), "")
    for number in range(3):
        ledger.add({**PROOF, "batch_id": number})
    Ledger(tmp_path, "shop.other").add(PROOF)
    assert ([entry["number"] for entry in ledger.entries()], ledger.first_break()) == ([0, 1, 2], "")
    kept = [dict(entry) for entry in ledger.entries()]

    def written(entries: list[dict[str, Any]]) -> str:
        data = pa.Table.from_pylist(entries, schema=SCHEMA)
        write_deltalake(str(tmp_path / "ledger"), data, mode="overwrite")
        return ledger.first_break()

    assert written(kept) == ""
    assert written([kept[0], kept[1] | {"rows_stream": 7}, kept[2]]).startswith("entry 1, of the partition")
    assert written([kept[0], kept[2]]) == "entry 1 is missing"
    assert written([kept[0], kept[1] | {"previous": "0" * 64}, kept[2]]) == "entry 1 does not follow the one before it"
    assert written([kept[1], kept[2]]) == "entry 0 is missing"
    assert written(kept[:2]) == "entry 2 is missing"
    assert written([*kept[:2], kept[1], kept[2]]) == "entry 1 is there twice"
    assert written([]) == "entry 0 is missing"


def test_the_newest_entries_are_missed_also_after_further_ones(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "shop.hits")
    for _ in range(3):
        ledger.add(PROOF)
    path = str(tmp_path / "ledger")
    DeltaTable(path).delete("number = 2")
    assert (len(ledger.entries()), ledger.first_break()) == (2, "entry 2 is missing")
    assert (ledger.add(PROOF)["number"], ledger.first_break()) == (3, "entry 2 is missing")
    DeltaTable(path).restore(0)
    assert (len(ledger.entries()), ledger.first_break()) == (1, "entry 1 is missing")
    DeltaTable(path).update({"number": "null"})
    assert (ledger.add(PROOF)["number"], ledger.first_break()) == (4, "entry 0 is missing")


def test_a_ledger_that_lacks_a_file_is_named(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "shop.hits")
    ledger.add(PROOF)
    (file,) = (tmp_path / "ledger").glob("*.parquet")
    away = file.rename(tmp_path / file.name)
    with pytest.raises(CheckpointError, match="the ledger cannot be read") as raised:
        ledger.first_break()
    assert raised.value.remedy == "restore its files from a backup"
    away.rename(file)
    assert (len(ledger.entries()), ledger.first_break()) == (1, "")


def test_two_writers_never_follow_the_same_entry(tmp_path: Path) -> None:
    ledgers = [Ledger(tmp_path, "shop.hits") for _ in range(3)]
    ledgers[0].add(PROOF)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda ledger: [ledger.add(PROOF) for _ in range(5)], ledgers))
    assert [entry["number"] for entry in ledgers[0].entries()] == list(range(16))
    assert ledgers[0].first_break() == ""


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param((Return, "act"), id="before the sinks"),
        pytest.param((going_back, "rewind_queries"), id="after the sinks"),
    ],
)
def test_while_a_rewind_is_interrupted_nothing_is_said_of_partitions(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch, moment: tuple[object, str]
) -> None:
    pipeline = counted(log)
    for records in ([(1, "10:05")], [(2, "11:15")], [(3, "12:30")]):
        log.put(*records)
        pipeline.run(options)
    before = pipeline.partitions(options)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(*moment, killed)
        with pytest.raises(KeyboardInterrupt):
            pipeline.rewind(0, options)
    looks = (pipeline.partitions, pipeline.prove, pipeline.compare, partial(pipeline.backfill, TEN))
    for look in looks:
        with pytest.raises(CheckpointError, match="the last rollback was interrupted") as refused:
            look(options=options)
        assert "rs-assets rewind" in str(refused.value.remedy)
    assert Ledger(options.home.catalog, "fill.hits").entries() == ()
    pipeline.rewind(0, options)
    assert pipeline.partitions(options).closed == ()
    pipeline.run(options)
    assert [(each.key, each.rows) for each in pipeline.partitions(options).closed] == [
        (each.key, each.rows) for each in before.closed
    ]
    assert all(proof.equal for proof in pipeline.prove(options))


def late_in(pipeline: Pipeline, options: RunOptions, key: str) -> int:
    return next(each.late for each in pipeline.partitions(options).partitions if each.key == key)


def test_late_records_of_a_backfill_that_is_not_in_the_catalog_are_known_by_the_table(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = counted(log)
    for records in ([(1, "10:05")], [(1, "11:15")], [(2, "10:06")], [(1, "12:30")]):
        log.put(*records)
        pipeline.run(options)
    append = Catalog.append

    def full(catalog: Catalog, table: str, *given: Any, **more: Any) -> None:
        if table == "operations":
            raise OSError(errno.ENOSPC, "No space left on device")
        append(catalog, table, *given, **more)

    with monkeypatch.context() as patched:
        # As a kill right after the commit leaves it.
        patched.setattr(Catalog, "append", full)
        pipeline.backfill(TEN, options)
    assert late_in(pipeline, options, TEN) == 0
    assert [(each.equal, each.rows_stream) for each in pipeline.prove(options, partition=TEN)] == [(True, 2)]
    assert pipeline.backfill(TEN, options, judge="as_now")[0].rows == 2
    pipeline.backfill(TEN, options, judge="as_then")
    assert late_in(pipeline, options, TEN) == 1
    assert [(each.equal, each.rows_stream) for each in pipeline.prove(options, partition=TEN)] == [(True, 1)]


def test_a_partition_equals_a_batch_until_it_is_changed_by_hand(log: Log, options: RunOptions) -> None:
    pipeline = counted(log)
    for records in ([(1, "10:05"), (2, "10:07")], [(1, "11:15")], [(1, "10:06")], [(1, "12:30")]):
        log.put(*records)
        pipeline.run(options)
    assert [(each.partition[-5:], each.equal, each.rows_stream) for each in pipeline.prove(options)] == [
        ("10:00", True, 2),
        ("11:00", True, 1),
    ]
    assert pipeline.prove(options) == ()
    table(options).delete("id = 2")
    (proof,) = pipeline.prove(options)
    assert (proof.equal, proof.rows_stream, proof.rows_batch, proof.only_stream) == (False, 1, 2, ())
    assert '"id":2' in proof.only_batch[0]
    assert "only by the batch" in str(proof)
    # With the late record of a backfill the rows are others, and equal again.
    pipeline.backfill(TEN, options)
    (proof,) = pipeline.prove(options)
    assert (proof.equal, proof.rows_stream) == (True, 2)
    ledger = Ledger(options.home.catalog, "fill.hits")
    assert ([entry["equal"] for entry in ledger.entries()], ledger.first_break()) == ([True, True, False, True], "")


def test_rows_that_were_replaced_since_are_proved_again_also_if_they_are_as_many(log: Log, options: RunOptions) -> None:
    def valued(**fields: str) -> Pipeline:
        rows_of = log.stream().with_fields(**fields)
        return rows_of.to_delta("hits", partitions=hourly("ts", settle=Time.minutes(0))).build()

    former, current = valued(value="id"), valued(value="id + 1")
    log.put((1, "10:05"), (2, "10:07"), (3, "11:15"))
    former.run(options)
    assert [(each.partition, each.holds) for each in former.prove(options)] == [(TEN, True)]
    assert former.prove(options) == ()
    (proof,) = current.prove(options, partition=TEN)
    assert (proof.holds, proof.code_changed) == (False, True)
    assert "the table may have the rows of the former code" in str(proof)
    former.prove(options)
    # As many rows as were proved, and others.
    current.backfill(TEN, options)
    assert [(each.partition, each.holds) for each in former.prove(options)] == [(TEN, False)]
    assert [(each.partition, each.holds) for each in current.prove(options)] == [(TEN, True)]
    current.run(replace(options, new_generation=True))
    assert [(each.partition, each.holds) for each in current.prove(options)] == [(TEN, True)]
    assert current.prove(options) == ()
    for fields in ({"value": "id + 1", "more": "id"}, {"value": "cast(id AS int)"}):
        with pytest.raises(TopologyChangedError, match="that the table lacks, or has as another type: (more|value)"):
            valued(**fields).prove(options, partition=TEN)
    fewer = log.stream().to_delta("hits", name="hits_table", partitions=hourly("ts", settle=Time.minutes(0))).build()
    (proof,) = fewer.prove(options, partition=TEN)
    assert (proof.holds, proof.left_out) == (True, ("value",))
    assert "not compared, as the current code does not make it: value" in str(proof)


def test_rows_whose_nulls_are_in_other_places_are_not_equal(spark: SparkSession) -> None:
    def equal(schema: str, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        frames = [comparable(spark.createDataFrame([row], schema)) for row in (one, other)]
        return bool(_facts(*frames)["equal"])

    assert equal("n bigint, m bigint", (1, None), (1, None))
    assert not equal("n bigint, m bigint", (1, None), (None, 1))
    assert not equal("n array<bigint>", ([1, None],), ([None, 1],))
    assert not equal("n struct<a: bigint, b: map<string, bigint>>", ((1, {"a": None}),), ((1, {"a": 1}),))
    assert equal("n double", (0.0,), (-0.0,))


@pytest.mark.long
def test_the_oldest_partition_that_lost_all_rows_before_its_first_proof_is_found(log: Log, options: RunOptions) -> None:
    pipeline = counted(log)
    # The last one is late, and would be in an hour without rows.
    for records in ([(1, "10:05"), (2, "10:07")], [(1, "12:15")], [(1, "08:06"), (1, "13:30")]):
        log.put(*records)
        pipeline.run(options)
    table(options).delete("start_time < '2026-01-05T11:00:00Z'")
    found = [(each.partition[-5:], each.equal, each.rows_stream, each.rows_batch) for each in pipeline.prove(options)]
    assert found == [("10:00", False, 0, 2), ("11:00", True, 0, 0), ("12:00", True, 1, 1)]


@pytest.mark.long
def test_sums_of_doubles_are_equal_whatever_the_order_of_rows(tmp_path: Path, options: RunOptions) -> None:
    chance, folder = random.Random(3), tmp_path / "doubles"
    folder.mkdir()
    at = datetime(2026, 1, 5, 10, tzinfo=UTC)
    for number in range(6):
        times = (at + timedelta(seconds=n) for n in range(number * 700, number * 700 + 700))
        rows = ({"ms": chance.random() * 10 ** chance.randrange(-6, 7), "ts": f"{ts:%F %T}"} for ts in times)
        lines = [json.dumps(row) for row in rows]
        chance.shuffle(lines)
        (folder / f"f{number}.jsonl").write_text("\n".join(lines) + "\n")
    begin = StreamBuilder.data_stream("fill", "sums")
    hits = begin.from_file(folder, schema="ms double, ts timestamp", max_files_per_batch=1, name="file")
    sums = hits.window(TumblingWindow.of(Time.minutes(10), "ts")).water_mark(Time.minutes(20)).sum("ms", "total")
    pipeline = sums.to_delta("hits", partitions=hourly()).build()
    pipeline.run(options, finish=True)
    assert [each.equal for each in pipeline.prove(options)] == [True, True]


@pytest.mark.long
def test_the_check_in_dagster_names_the_partition_that_differs(
    log: Log, options: RunOptions, driver: SparkDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put((1, "10:05"), (2, "11:07"), (3, "12:00"))
    pipeline = kept(log)
    pipeline.run(options)
    monkeypatch.setenv("RS_HOME", str(options.home.root))
    monkeypatch.setattr(SparkResource, "driver", driver)
    job = build_definitions([pipeline]).resolve_job_def("fill_hits_proof")

    def checked(instance: dg.DagsterInstance) -> tuple[bool, str | None]:
        result = job.execute_in_process(instance=instance)
        (evaluation,) = result.get_asset_check_evaluations()
        return evaluation.passed, evaluation.description

    with dg.DagsterInstance.ephemeral() as instance:
        assert checked(instance) == (True, None)
        table(options).delete("id = 1")
        assert checked(instance) == (False, f"unequal: {TEN}")
        pipeline.backfill(TEN, options)
        assert checked(instance) == (True, None)
    assert rows(options, "ts")[(_at("10:05"),)] == 1
    with pytest.raises(ConfigurationError, match="needs the first partition"):
        pipeline.prove(options, to=TEN)
    assert pipeline.prove(options, partition=TEN, to=TEN)[0].equal
    DeltaTable(str(options.home.catalog / "ledger")).delete("number = 0")
    with dg.DagsterInstance.ephemeral() as instance:
        assert checked(instance) == (False, "entry 0 is missing")
