"""From a version of a table back to what its batch read, also behind a rewind."""

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rs_assets import Dimension, SessionWindow, StreamBuilder, Time, TumblingWindow, build_definitions
from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.offsets import storage_named
from rs_assets.catalog.offsets.base import CheckpointRow
from rs_assets.cli.recorded.fed_by import read_before
from rs_assets.cli.recorded.lineage import lineage_of, show_lineage
from rs_assets.common.home import Home
from rs_assets.compile.provenance import fields_of, provenance
from rs_assets.connectors.delta.writer import properties
from rs_assets.connectors.sink import BatchMark
from rs_assets.dagster.assets.stream_assets import StreamAssets, with_lineage
from rs_assets.errors import SinkError

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def row(generation, batch, offset, queue="a.log"):
    return CheckpointRow(
        namespace="shop", group="trip", topic="logs", name="logs", queue=queue, offset=str(offset), query="logs",
        generation=generation, batch_id=batch, run_id="r", at=NOW,
    )  # fmt: skip


@pytest.fixture
def pipeline(tmp_path):
    stream = StreamBuilder.data_stream("shop", "trip").from_file(
        tmp_path / "a.log", schema="n bigint", tail=True, name="logs"
    )
    return stream.to_delta("trip", name="out").build()


def test_the_first_batch_behind_a_rewind_began_where_the_kept_one_ended(pipeline, tmp_path):
    home = Home(tmp_path / "rs")
    with pytest.raises(SinkError, match="the table is not there yet") as refused:
        lineage_of([pipeline], "trip", version=None, home=home)
    assert refused.value.remedy == "run the pipeline first"
    rows = [row(1, batch, 10 * (batch + 1)) for batch in range(4)] + [row(2, 2, 45)]
    storage_named("delta", catalog=home.catalog).save(rows)
    for each in rows:
        mark = BatchMark("p", each.generation, "out", each.batch_id)
        table = home.table("shop", "trip")
        write_deltalake(table, pa.table({"n": [1]}), mode="append", commit_properties=properties(mark))
    newest = lineage_of([pipeline], "trip", version=None, home=home)
    assert (newest.generation, newest.batch_id) == (2, 2)
    assert [(s.start, s.end) for s in newest.splits] == [("20", "45")]
    undone = lineage_of([pipeline], "trip", version=3, home=home)
    assert [(s.start, s.end) for s in undone.splits] == [("30", "40")]


@pytest.mark.parametrize(
    ("rows", "place", "start"),
    [
        ([(1, 0, 10), (2, 0, 7)], (2, 0), None),
        ([(1, 0, 10), (1, 1, 20), (1, 2, 30), (3, 1, 15)], (3, 1), "10"),
        ([(1, 0, 10), (1, 1, 20), (2, 1, 12), (3, 2, 40)], (3, 2), "12"),
        ([(1, 0, 10), (1, 1, 20), (2, 0, 5), (2, 1, 8)], (2, 1), "5"),
    ],
    ids=["begun anew", "rewound twice", "rewound and on", "its own"],
)
def test_only_what_no_later_generation_went_back_behind_counts(rows, place, start):
    assert read_before([row(*each) for each in rows], place).get(("logs", "a.log")) == start


def test_a_split_that_was_not_in_the_last_batches_keeps_its_place():
    rows = [row(1, 0, 10, "b.log"), row(1, 0, 5), row(1, 1, 9), row(2, 1, 7)]
    assert read_before(rows, (2, 1)) == {("logs", "a.log"): "5", ("logs", "b.log"): "10"}


def test_a_batch_that_read_nothing_has_its_run_and_says_so(pipeline, tmp_path, capsys):
    """Windows that fire at the end of the input: no split moved, so the checkpoints have no row of that batch."""
    home = Home(tmp_path / "rs")
    storage_named("delta", catalog=home.catalog).save([row(1, 0, 10)])
    batch = {"pipeline": "shop.trip", "generation": 1, "query": "logs", "batch_id": 1, "number": 0, "at": NOW}
    told = {"kind": "CheckPoint", "source": "logs", "reconciled": False, "day": NOW.date()}
    Catalog(home.catalog).append("system_messages", [{**batch, **told, "run_id": "the-run"}])
    mark = BatchMark("p", 1, "out", 1)
    write_deltalake(home.table("shop", "trip"), pa.table({"n": [1]}), commit_properties=properties(mark))
    found = lineage_of([pipeline], "trip", version=None, home=home)
    assert (found.batch_id, found.run_id, found.splits) == (1, "the-run", ())
    show_lineage(found)
    assert "none" in capsys.readouterr().out


def test_a_name_in_square_brackets_is_shown(pipeline, tmp_path, capsys):
    home = Home(tmp_path / "rs")
    storage_named("delta", catalog=home.catalog).save([row(1, 0, 10, queue="in/[b]/[2026].log")])
    mark = BatchMark("p", 1, "out", 0)
    write_deltalake(home.table("shop", "trip"), pa.table({"n": [1]}), commit_properties=properties(mark))
    show_lineage(lineage_of([pipeline], "trip", version=None, home=home))
    assert "in/[b]/[2026].log" in capsys.readouterr().out


def windowed(tmp_path, window):
    stream = StreamBuilder.data_stream("shop", "trip").from_file(
        tmp_path / "a.log", schema="n bigint, ts timestamp", tail=True, name="logs"
    )
    counted = stream.window(window, name="w").count("n").water_mark(Time.minutes(1))
    return counted.to_delta("trip", name="out").build()


TEN = TumblingWindow.of(Time.minutes(10), "ts")
# Batch by batch: up to where it read, and the watermark that earlier batches had brought it to, in minutes.
READ = [(10, None), (20, 0), (30, 12), (40, 25), (50, 25)]


@pytest.mark.parametrize(
    ("window", "batch", "oldest", "start"),
    [
        # Windows of ten minutes that fire in batch 4, behind a watermark of 25 minutes, begin at 15 or later. Rows that
        # were read before batch 2 have at most 12 minutes and one of delay.
        (TEN, 4, 2, "20"),
        # Behind 12 minutes: from 2 on; before batch 1 rows had at most a minute.
        (TEN, 3, 1, "10"),
        (TEN, 1, None, None),
        (SessionWindow.of(Time.minutes(1), "ts"), 4, None, None),
    ],
    ids=["by the watermark", "one before", "no watermark yet", "sessions have no length"],
)
def test_lineage_of_windows_gives_the_offsets_that_can_have_fed_them(tmp_path, capsys, window, batch, oldest, start):
    home, pipeline = Home(tmp_path / "rs"), windowed(tmp_path, window)
    at = [None if mark is None else NOW + Time.minutes(mark) for _, mark in READ]
    rows = [
        replace(row(1, number, offset), watermark=at[number], query="w", name="w")
        for number, (offset, _) in enumerate(READ[: batch + 1])
    ]
    storage_named("delta", catalog=home.catalog).save(rows)
    mark = BatchMark("p", 1, "out", batch)
    write_deltalake(home.table("shop", "trip"), pa.table({"n": [1]}), commit_properties=properties(mark))
    found = lineage_of([pipeline], "trip", version=None, home=home)
    assert found.oldest_batch == oldest
    assert [(s.start, s.end) for s in found.fed] == [(start, str(READ[batch][0]))]
    show_lineage(found)
    assert f"logs: a.log  {start or 'beginning'} -> {READ[batch][0]}" in capsys.readouterr().out


def test_a_dimension_is_an_asset_that_what_looked_rows_up_stands_on(tmp_path):
    users = Dimension.from_file(tmp_path / "users.jsonl", schema="n bigint, tier string")
    stream = StreamBuilder.data_stream("shop", "named").from_file(tmp_path / "a", schema="n bigint", name="logs")
    pipeline = stream.dim_join(users, on="n", name="users").to_delta("tiers", name="out").build()
    specs = {spec.key.to_user_string(): spec for spec in build_definitions([pipeline]).resolve_all_asset_specs()}
    assert set(specs) == {"shop/named/logs", "shop/named/tiers", "shop/named/users_dimension"}
    above = {dep.asset_key.to_user_string() for dep in specs["shop/named/tiers"].deps}
    assert above == {"shop/named/logs", "shop/named/users_dimension"}
    assert "users.jsonl" in (specs["shop/named/users_dimension"].description or "")
    known = provenance(pipeline.topology, "out")
    keys = {StreamAssets.of(pipeline).key(step).to_user_string() for step, _ in fields_of(known, "tier")}
    assert keys == {"shop/named/logs", "shop/named/users_dimension"}


def test_a_dimension_that_a_pipeline_writes_is_the_asset_of_its_table(tmp_path):
    written = StreamBuilder.data_stream("shop", "users").from_file(tmp_path / "u", schema="n bigint, tier string")
    users = written.to_delta("users").build()
    stream = StreamBuilder.data_stream("shop", "named").from_file(tmp_path / "a", schema="n bigint", name="logs")
    named = stream.dim_join(Dimension.from_delta("users"), on="n", name="of").to_delta("tiers", name="out").build()
    _, reading = with_lineage([StreamAssets.of(users), StreamAssets.of(named)])
    assert not reading.dimensions
    assert reading.key("of").to_user_string() == "shop/users/users"
    assert [dep.asset_key.to_user_string() for dep in reading.specs["out"].deps] == [
        "shop/named/logs",
        "shop/users/users",
    ]
