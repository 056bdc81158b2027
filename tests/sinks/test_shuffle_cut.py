"""The table of a shuffle as it was at the end of a batch: which version that is, what is needed, and how it is cut."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import StructType

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.sink import BatchMark
from rs_assets.connectors.source import BEGIN_ANEW, Reading
from rs_assets.errors import CheckpointError, RsError
from rs_assets.operators.shuffle.cut import cut, end_of, go_on, needed_files, newest_within, written_before
from rs_assets.operators.shuffle.reader import ShuffleReader
from rs_assets.recovery.savepoints.shuffled import Link, copied_in_order, readers_first, tables_of
from rs_assets.runtime.upkeep.shuffles import _unread
from tests.sinks.frames import ArrowFrame


def mark(batch, generation=1):
    return BatchMark("p1", generation, "spread_write", batch, 1)


class Shuffle:
    """A table whose batches are written by the sink, and readers' logs, without Spark."""

    def __init__(self, folder):
        self.folder, self.path = folder, folder / "writer" / "table"
        empty = pa.table({"n": pa.array([], pa.int64()), "batch": pa.array([], pa.int64())})
        write_deltalake(self.path, empty)
        self.log = CheckpointLog(folder / "reader" / "checkpoint")

    def batch(self, number, generation=1):
        writer, at = DeltaWriter("spread_write", str(self.path)), mark(number, generation)
        assert not writer.committed(at)
        writer.stage(ArrowFrame(pa.table({"n": [number], "batch": [number]}), parts=1), at).commit()

    def purge(self, batch):
        DeltaTable(self.path).delete(f"batch <= {batch}")

    def read(self, batch, version):
        """The reader's batch ends in front of a version."""
        offset = json.dumps({"reservoirVersion": version, "index": -1})
        for kind, lines in (("offsets", ["v2", json.dumps(ABOUT), f"spread:{offset}"]), ("commits", ["v1"])):
            (self.log.folder / kind).mkdir(parents=True, exist_ok=True)
            (self.log.folder / kind / str(batch)).write_text("\n".join(lines))

    def needed(self, batch, end):
        found = needed_files(self.path, self.log, "spread", batch=batch, end=end)
        names = [path.name for path in found]
        logs = sorted(int(name[:20]) for name in names if name.endswith((".json", ".checkpoint.parquet")))
        return logs, sorted(int(name.split("-b")[1][:12]) for name in names if name.startswith("g"))

    def rows(self):
        return sorted(row["n"] for row in DeltaTable(self.path).to_pyarrow_table().to_pylist())


ABOUT = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}


@pytest.fixture
def shuffle(tmp_path):
    """Versions: 1 to 3 are batches 0, 1 and 3 (2 had no rows), 4 purges batch 0, 5 is batch 4."""
    made = Shuffle(tmp_path)
    for number in (0, 1, 3):
        made.batch(number)
    made.purge(0)
    made.batch(4)
    return made


def test_the_end_of_a_batch_is_where_a_later_one_begins(shuffle):
    assert [end_of(shuffle.path, batch) for batch in (-1, 0, 1, 2, 3, 4, 9)] == [1, 2, 3, 3, 5, 6, 6]
    with pytest.raises(CheckpointError, match="is gone"):
        end_of(shuffle.folder / "none", 0)


def test_a_reader_goes_back_to_the_newest_batch_that_has_read_nothing_later(shuffle):
    for batch, version in enumerate((2, 2, 4, 5, 6)):
        shuffle.read(batch, version)
    assert [newest_within(shuffle.log, "spread", end, last=4) for end in (1, 2, 3, 5, 6)] == [-1, 1, 1, 3, 4]
    assert newest_within(shuffle.log, "other", 1, last=4) == 4
    (shuffle.log.folder / "offsets" / "3").unlink()
    with pytest.raises(CheckpointError, match="it is unknown what") as refused:
        newest_within(shuffle.log, "spread", 5, last=4)
    assert refused.value.remedy == "restore a savepoint"
    # Which has the plans up to a batch.
    shuffle.read(3, 5)
    assert newest_within(shuffle.log, "spread", 5, last=3) == 3


def test_what_is_needed_is_what_waits_and_what_the_table_holds(shuffle):
    for batch, version in enumerate((2, 3, 6)):
        shuffle.read(batch, version)
    # The purge has taken batch 0 out; the versions before are needed by the plan of the batch before, too.
    assert shuffle.needed(2, 6) == ([0, 1, 2, 3, 4, 5], [1, 3, 4])
    assert shuffle.needed(-1, 2) == ([0, 1], [0])
    assert shuffle.needed(1, 3) == ([0, 1, 2], [0, 1])
    DeltaTable(shuffle.path).create_checkpoint()
    shuffle.read(3, 6)
    shuffle.batch(5)
    shuffle.read(4, 7)
    assert shuffle.needed(4, 7) == ([5, 5, 6], [1, 3, 4, 5])
    shuffle.purge(5)
    DeltaTable(shuffle.path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert shuffle.needed(4, 9)[1] == []
    with pytest.raises(CheckpointError, match="at the end of its batch 3 are gone") as refused:
        shuffle.needed(3, 7)
    assert refused.value.remedy == "go back to a later batch, or restore a savepoint"
    assert shuffle.needed(4, 9)[1] == []


def test_a_table_that_was_cut_goes_on_under_the_same_versions(shuffle):
    copy = shuffle.folder / "copy"
    shutil.copytree(shuffle.path, copy)
    (copy / "_delta_log" / "_last_checkpoint").write_text("{}")
    cut(copy, end_of(copy, 1))
    assert DeltaTable(copy).version() == 2
    for _ in range(2):
        go_on(copy, mark(1), mark(1, generation=2))
    shuffle.path = copy
    assert DeltaWriter("spread_write", str(copy)).last_committed(mark(9, generation=2)) == 1
    shuffle.batch(2, generation=2)
    assert (DeltaTable(copy).version(), shuffle.rows()) == (4, [0, 1, 2])
    assert [end_of(copy, batch) for batch in (0, 1, 2)] == [2, 4, 5]


def test_a_writer_brings_a_reader_what_it_has_not_read(shuffle):
    writer = CheckpointLog(shuffle.folder / "writer" / "checkpoint")
    (writer.folder / "commits").mkdir(parents=True)
    for batch in range(5):
        (writer.folder / "commits" / str(batch)).write_text("v1")
    for batch, version in enumerate((1, 2, 4, 5)):
        shuffle.read(batch, version)
    found = [written_before(shuffle.path, writer, shuffle.log, "spread", batch) for batch in range(4)]
    assert found == [None, 0, 3, 3]


class Copied:
    def __init__(self, last):
        self.last = last


def links(folder):
    """First writes to second and third, second to third."""
    return [
        Link(
            table=folder / "writer" / "table",
            sink="spread_write",
            checkpoint=folder / "reader" / "checkpoint",
            writer=writer,
            reader=reader,
            source="spread",
        )
        for writer, reader in (("first", "second"), ("first", "third"), ("second", "third"))
    ]


def test_queries_are_copied_readers_first_and_again_if_they_are_ahead(shuffle):
    folders = [Path(name) for name in ("first", "second", "third", "alone")]
    order = [folder.name for folder in readers_first(folders, links(shuffle.folder))]
    assert order.index("third") < order.index("second") < order.index("first")
    for batch, version in enumerate((2, 3, 6)):
        shuffle.read(batch, version)
    asked = []

    def copy(folder, until):
        asked.append((folder.name, until))
        return Copied({"first": 1, "second": 2}.get(folder.name, 0) if until is None else until)

    done = copied_in_order([Path("first"), Path("second")], links(shuffle.folder)[:1], copy)
    assert asked == [("second", None), ("first", None), ("second", 1)]
    assert {name: copied.last for name, copied in done.items()} == {"first": 1, "second": 1}
    files = list(tables_of(links(shuffle.folder)[:1], done))
    assert DeltaTable(shuffle.path).version() == 5
    assert [path.name for path in files if path.suffix == ".json"] == [f"{version:020d}.json" for version in range(3)]


def test_a_reader_whose_first_batch_is_ahead_is_not_saved(shuffle):
    shuffle.read(0, 6)
    with pytest.raises(CheckpointError, match="the first batch of second has read rows of a batch"):
        copied_in_order([Path("first"), Path("second")], links(shuffle.folder)[:1], lambda f, _: Copied(0))


def test_a_writer_goes_back_to_a_batch_that_the_first_batch_of_its_reader_has_not_passed(shuffle):
    shuffle.read(0, 4)
    link = Link(
        table=shuffle.path, sink="spread_write", checkpoint=shuffle.log.folder, writer="w", reader="r", source="spread"
    )
    with pytest.raises(
        CheckpointError, match="the first batch of r has read rows that w has written after its"
    ) as refused:
        _unread(link, 0)
    assert refused.value.remedy == "go back to a later batch of w, or begin a new generation (--new-generation)"
    assert _unread(link, 3) is None


class Whole:
    """A place of rows, with nothing purged or something."""

    def __init__(self, *, purged=False):
        self.purged = purged

    def whole(self):
        return not self.purged

    def stream(self, spark, schema, *, name):
        return schema


def test_a_reader_begins_anew_where_other_fields_wait_or_rows_are_gone(shuffle):
    fields, others = (StructType().add(name, "long") for name in "no")

    def read(pinned, place):
        reading = Reading(
            spark=None, name="spread", folder=shuffle.folder / "fresh", schema_of=lambda infer: pinned or infer(),
            written_by=lambda _: fields, max_line_bytes=1,
        )  # fmt: skip
        return ShuffleReader(name="spread", after="spread_write", place=place).stream(reading)

    for pinned, place, what in (
        (others, Whole(), "other fields"),
        (None, Whole(purged=True), "rows of it were purged"),
    ):
        with pytest.raises(RsError, match=what) as refused:
            read(pinned, place)
        assert refused.value.remedy == BEGIN_ANEW
    # A new generation pins the fields anew, and begins with a table of its own.
    assert read(None, Whole()) == fields
