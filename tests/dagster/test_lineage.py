"""From a version of a table back to what its batch read, also behind a rewind."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rs_assets import StreamBuilder
from rs_assets.cli.lineage import lineage_of, read_before, show_lineage
from rs_assets.engine.checkpoint.catalog import Catalog
from rs_assets.engine.checkpoint.storage import storage_named
from rs_assets.engine.checkpoint.storage.base import CheckpointRow
from rs_assets.engine.home import Home
from rs_assets.engine.sink.base import BatchMark
from rs_assets.engine.sink.delta import properties

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
    assert "none: the batch read nothing" in capsys.readouterr().out
