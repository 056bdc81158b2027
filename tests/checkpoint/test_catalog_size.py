"""What stays, stays small: the catalog is read in constant time, and lets go of its rows by itself."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from benchmarks.catalog import MOST_MB, fabricate, followed, readers
from rs_assets.catalog import layout
from rs_assets.catalog.catalog import Catalog, row_of
from rs_assets.catalog.offsets import CheckpointRow, storage_named
from rs_assets.catalog.offsets.delta import SCHEMA, DeltaStorage
from rs_assets.catalog.tidying import kept_for, tidy_catalog
from rs_assets.common.home import Home
from rs_assets.dagster.checkpoint_rows import checkpoints_of
from rs_assets.dagster.place import Place
from rs_assets.errors import ConfigurationError
from tests.work import calls_of

NOW = datetime.now(UTC)
SOURCE = "shop;logs;file;totals"
KEEP = timedelta(days=30)


def row(batch_id, queue="a.log", *, days_ago=0, generation=1, query="totals"):
    return CheckpointRow(
        namespace="shop",
        group="logs",
        topic="file",
        name=query,
        queue=queue,
        offset=str(batch_id),
        query=query,
        generation=generation,
        batch_id=batch_id,
        run_id="run",
        at=NOW - timedelta(days=days_ago),
    )


@pytest.fixture
def storage(tmp_path):
    return DeltaStorage(tmp_path / "checkpoints")


def places(rows):
    return [(each.generation, each.batch_id, each.queue) for each in rows]


@pytest.mark.parametrize("name", ["delta", "db", "memory"])
def test_the_newest_batch_of_a_source_is_found(tmp_path, name):
    storage = storage_named(name, catalog=tmp_path, url=f"sqlite:///{tmp_path}/checkpoints.db")
    assert storage.newest(SOURCE) == ()
    storage.save([row(7), row(7, "b.log"), row(9, query="other")])
    storage.save([row(8), row(8, "b.log")])
    storage.save([row(0, generation=2), row(0, "b.log", generation=2)])
    assert places(storage.newest(SOURCE)) == [(2, 0, "a.log"), (2, 0, "b.log")]
    assert places(storage.newest("shop;logs;file;other")) == [(1, 9, "a.log")]
    storage.finish()


def test_batches_before_a_place_are_found_in_joined_and_in_single_files(storage):
    for batch in range(40):
        storage.save([row(batch, days_ago=4 - batch // 10), row(batch, "b.log", days_ago=4 - batch // 10)])
        if batch == 25:
            storage.tidy([SOURCE], keep=KEEP)
    assert {each.batch_id for each in storage.newest(SOURCE, batches=12)} == set(range(28, 40))
    assert places(storage.newest(SOURCE, before=(1, 21))) == [(1, 20, "a.log"), (1, 20, "b.log")]
    assert {each.batch_id for each in storage.newest(SOURCE, batches=5, before=(1, 21))} == set(range(16, 21))
    assert storage.newest(SOURCE, before=(1, 0)) == ()
    assert {each.queue: each.offset for each in storage.newest(SOURCE)}["b.log"] == "39"


def test_old_rows_go_but_the_newest_of_each_queue_stays(storage):
    storage.save([row(0, "gone.log", days_ago=90), row(0, days_ago=90)])
    storage.save([row(1, "gone.log", days_ago=60), row(1, days_ago=60)])
    storage.save([row(2, days_ago=31)])
    storage.save([row(3, days_ago=29)])
    storage.save([row(4)])
    other = row(1, "alone.log", days_ago=400, query="other")
    storage.save([other])
    storage.tidy(None, keep=KEEP)
    kept = [(1, 1, "alone.log"), (1, 1, "gone.log"), (1, 3, "a.log"), (1, 4, "a.log")]
    assert sorted(places(storage.rows())) == sorted(kept)
    assert storage.newest("shop;logs;file;other") == (other,)
    storage.save([row(5, "gone.log")])
    storage.tidy(None, keep=KEEP, now=NOW + timedelta(days=60))
    assert sorted(places(storage.rows())) == [(1, 1, "alone.log"), (1, 4, "a.log"), (1, 5, "gone.log")]


def test_a_row_that_is_written_while_others_go_stays(storage, tmp_path, monkeypatch):
    for batch in range(3):
        storage.save([row(batch, days_ago=40 - batch)])
    writer = DeltaStorage(tmp_path / "checkpoints")
    found = layout.newest_of_each

    def meanwhile(*args, **how):
        writer.save([row(3)])
        return found(*args, **how)

    monkeypatch.setattr("rs_assets.catalog.offsets.delta.newest_of_each", meanwhile)
    storage.tidy([SOURCE], keep=KEEP)
    assert places(writer.rows()) == [(1, 2, "a.log"), (1, 3, "a.log")] or places(writer.rows()) == [(1, 3, "a.log")]
    assert storage.newest(SOURCE) == (row(3),)


def test_many_commits_of_a_day_become_one_file_and_what_was_replaced_goes(storage, tmp_path, monkeypatch):
    monkeypatch.setattr("rs_assets.catalog.offsets.delta.CROWD", 10)
    for batch in range(12):
        storage.save([row(batch)])
    assert storage.crowded([SOURCE])
    assert not storage.crowded(["shop;logs;file;other"])
    monkeypatch.setattr(layout, "READERS_H", 0)
    storage.tidy([SOURCE], keep=KEEP)
    assert not storage.crowded([SOURCE])
    assert len(list((tmp_path / "checkpoints").rglob("part-*.parquet"))) == 1
    assert [each.batch_id for each in storage.rows()] == list(range(12))


def test_a_table_of_the_former_layout_goes_on(tmp_path):
    path = tmp_path / "checkpoints"
    plain = {name: getattr(row(1), name) for name in SCHEMA.names}
    write_deltalake(str(path), pa.Table.from_pylist([plain], schema=SCHEMA))
    storage = DeltaStorage(path)
    storage.save([row(2), row(5, query="other")])
    storage.tidy(None, keep=KEEP)
    assert [each.batch_id for each in storage.newest(SOURCE, batches=3)] == [1, 2]
    assert not storage.crowded([SOURCE])


def message(batch, *, days_ago=0, pipeline="shop.logs"):
    return row_of(
        pipeline, generation=1, run_id="r", at=NOW - timedelta(days=days_ago), batch_id=batch, number=0, query="totals"
    )


def test_messages_splits_and_snapshots_go_too_but_what_still_counts(tmp_path):
    catalog = Catalog(tmp_path)
    catalog.append("system_messages", [message(0, days_ago=50), message(1, days_ago=1)])
    catalog.append("system_messages", [message(0, days_ago=50, pipeline="shop.other")])
    old = {"query": "totals", "source": "file", "batch_id": 0}
    events = [
        ("gone.log", "added", 50),
        ("gone.log", "removed", 49),
        ("here.log", "added", 50),
        ("new.log", "added", 1),
    ]
    for split, event, days in events:
        at = NOW - timedelta(days=days)
        catalog.append(
            "splits", [row_of("shop.logs", generation=1, run_id="r", at=at, split=split, event=event, **old)]
        )
    for days in (50, 49, 40):
        for kind in ("state", "savepoint"):
            at = NOW - timedelta(days=days)
            snapshot = row_of("shop.logs", generation=1, run_id="r", at=at, kind=kind, batch_id=days)
            catalog.append("snapshots", [snapshot])
    catalog.tidy("shop.logs", keep=KEEP)
    assert [each["batch_id"] for each in catalog.rows("system_messages", pipeline="shop.logs")] == [1]
    assert len(catalog.rows("system_messages", pipeline="shop.other")) == 1
    assert [each["split"] for each in catalog.rows("splits")] == ["here.log", "new.log"]
    assert [each["batch_id"] for each in catalog.rows("snapshots")] == [40, 40]
    tidy_catalog(tmp_path, keep=KEEP)
    assert catalog.rows("system_messages", pipeline="shop.other") == []


def test_how_long_rows_are_kept_is_set_in_days(monkeypatch):
    assert kept_for() == timedelta(days=30)
    monkeypatch.setenv("RS_CATALOG_DAYS", "7")
    assert kept_for() == timedelta(days=7)
    monkeypatch.setenv("RS_CATALOG_DAYS", "soon")
    with pytest.raises(ConfigurationError, match="RS_CATALOG_DAYS"):
        kept_for()


def test_reading_takes_the_same_work_after_months_as_after_two_days(tmp_path):
    (tmp_path / "in").mkdir()
    pipeline, homes = followed(tmp_path / "in"), {days: Home(tmp_path / f"rs-{days}") for days in (2, 40)}
    calls = {}
    for days, home in homes.items():
        fabricate(home, days=days, batches_a_day=1000)
        calls[days] = {what: calls_of(read)[1] for what, read in readers(pipeline, home)}
    assert len(calls[40]) >= 12
    # Each day is a file of its own, which is looked at by its name.
    most = {what: 2 * n + 100 * 40 for what, n in calls[2].items()}
    assert {what: (n, most[what]) for what, n in calls[40].items() if n > most[what]} == {}


def test_reading_after_months_takes_little_memory(tmp_path):
    (tmp_path / "in").mkdir()
    home, pipeline = Home(tmp_path / "rs"), followed(tmp_path / "in")
    fabricate(home, days=40, batches_a_day=1000)
    before = pa.default_memory_pool().max_memory()
    for _, read in readers(pipeline, home):
        read()
    assert pa.default_memory_pool().max_memory() - before < MOST_MB * 1e6
    [newest, *_] = checkpoints_of(pipeline.topology, Place(home=home))
    assert newest.batch_id == 40 * 1000 - 1
