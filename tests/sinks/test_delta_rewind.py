"""A Delta table goes back and forward with its pipeline: exactly the rows of the batch, or refused and unchanged."""

import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets.connectors.delta.rewind import AFRESH
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError
from tests.sinks.frames import ArrowFrame


def mark(batch, generation=1, token=1):
    return BatchMark("p1", generation, "rows", batch, token)


class Table:
    """A table of one pipeline, whose batches are written by the sink, without Spark."""

    def __init__(self, path):
        self.path = str(path)
        self.writer = DeltaWriter("rows", self.path)

    def batch(self, number, generation=1, rows=2):
        values = pa.table({"batch": [number] * rows, "generation": [generation] * rows})
        writer, at = DeltaWriter("rows", self.path), mark(number, generation)
        assert not writer.committed(at)
        assert writer.stage(ArrowFrame(values, parts=1), at).commit() == rows

    def others(self, value=-1):
        write_deltalake(self.path, pa.table({"batch": [value], "generation": [0]}), mode="append")

    def go(self, kept, begun, *, generation=1, had=-1):
        writer = DeltaWriter("rows", self.path)
        marks = mark(kept, generation), mark(kept, begun)
        writer.check_rewind(*marks, had=had)
        return writer.rewind(*marks, had=had)

    def rows(self):
        found = DeltaTable(self.path).to_pyarrow_table().to_pylist()
        return sorted((row["generation"], row["batch"]) for row in found)

    def batches(self):
        return sorted(set(self.rows()))

    def version(self):
        return DeltaTable(self.path).version()


@pytest.fixture
def table(tmp_path):
    return Table(tmp_path / "t")


def test_going_back_twice_takes_back_what_the_first_return_kept(table):
    for number in range(6):
        table.batch(number)
    table.go(3, begun=2)
    table.go(1, begun=3, generation=2)
    assert table.batches() == [(1, 0), (1, 1)]
    table.batch(2, generation=3)
    table.go(1, begun=4, generation=3)
    assert table.batches() == [(1, 0), (1, 1)]


def test_going_forward_again_brings_the_rows_of_the_later_savepoint(table):
    for number in range(3):
        table.batch(number)
    table.go(0, begun=2)
    table.batch(1, generation=2)
    assert table.go(2, begun=3) == "restored to version 2"
    assert table.batches() == [(1, 0), (1, 1), (1, 2)]
    assert table.writer.last_committed(mark(0, generation=3)) == 2
    table.go(1, begun=4, generation=2)
    assert table.batches() == [(1, 0), (2, 1)]


def test_a_return_is_found_done_when_it_comes_twice(table):
    table.batch(0)
    table.batch(1)
    assert table.go(0, begun=2) == "restored to version 0"
    version = table.version()
    assert table.go(0, begun=2) == "is already rewound"
    assert table.version() == version


def test_a_table_that_lost_what_it_had_is_refused(table):
    table.batch(0)
    table.batch(1)
    with pytest.raises(SinkError, match="ends at batch 1 and had batch 4") as refused:
        table.go(3, begun=2, had=4)
    assert refused.value.remedy == f"go back to batch 1 or before, restore the table as it was, or {AFRESH}"
    assert table.version() == 1
    assert table.go(1, begun=2, had=4) == "had nothing to undo"


def test_a_table_that_is_gone_is_refused_unless_it_never_had_anything(table):
    with pytest.raises(SinkError, match="no batch and had batch 4"):
        table.go(4, begun=2, had=4)
    assert table.go(4, begun=2) == "there is no table"


def cleaned(table, entries):
    """The log without its first entries, as retention leaves it."""
    DeltaTable(table.path).create_checkpoint()
    log = Path(table.path) / "_delta_log"
    for number in range(entries):
        (log / f"{number:020}.json").unlink()


def test_a_log_that_was_cleaned_is_no_proof_of_an_empty_table(table):
    for number in range(6):
        table.batch(number)
    cleaned(table, 5)
    before = table.rows()
    for kept in (1, 0):
        with pytest.raises(SinkError, match="reaches back to version 5"):
            table.go(kept, begun=2)
    assert table.rows() == before
    assert table.version() == 5
    assert table.go(5, begun=2) == "had nothing to undo"


def test_a_table_that_never_had_anything_of_ours_may_have_a_cleaned_log(table):
    for value in range(4):
        table.others(value)
    cleaned(table, 3)
    assert table.go(2, begun=2) == "had nothing to undo"


@pytest.mark.parametrize("name", ["q?x", "a #1"])
def test_a_history_that_cannot_be_read_is_refused(tmp_path, name):
    table = Table(tmp_path / name)
    table.batch(0)
    table.batch(1)
    with pytest.raises(SinkError, match="history of the table cannot be read") as refused:
        table.go(0, begun=2)
    assert refused.value.remedy == "a table's path must not hold # or ?: move the table, and name its new path"
    assert table.version() == 1
    moved = Table(Path(table.path).rename(tmp_path / "moved"))
    assert moved.go(0, begun=2) == "restored to version 0"


def test_rows_of_others_are_not_taken_back(table):
    table.batch(0)
    table.batch(1)
    table.others()
    with pytest.raises(SinkError, match="another writer wrote version 2"):
        table.go(0, begun=2)
    assert table.version() == 2


def test_files_that_were_vacuumed_are_missed_before_anything_is_touched(table):
    table.batch(0)
    table.batch(1)
    DeltaTable(table.path).optimize.compact()
    DeltaTable(table.path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    version = table.version()
    with pytest.raises(SinkError, match="a vacuum has removed . files? of version 0 of the table") as refused:
        table.writer.check_rewind(mark(0), mark(0, 2))
    assert refused.value.remedy == f"go back to a later batch, or {AFRESH}"
    assert table.version() == version
    assert table.go(1, begun=2) == "had nothing to undo"


def test_a_version_whose_log_is_gone_is_refused_and_a_new_generation_replaces_the_rows(table):
    for number in range(6):
        table.batch(number)
    cleaned(table, 3)
    with pytest.raises(SinkError, match="version 3 of the table can no longer be read") as refused:
        table.go(3, begun=2)
    assert refused.value.remedy == AFRESH
    table.batch(0, generation=2)
    assert table.batches() == [(2, 0)]


def test_a_table_of_a_later_generation_is_gone_back_to_once_more(table):
    for number in range(3):
        table.batch(number)
    table.go(1, begun=2)
    [change] = table.writer.changes_by_others(mark(2))
    assert change.remedy == f"go back once more (rs-assets rewind or restore), or {AFRESH}"
    table.go(0, begun=3, generation=2)
    assert table.writer.changes_by_others(mark(0, generation=3)) == ()
    assert table.batches() == [(1, 0)]


def test_a_compacted_version_has_the_rows_of_one_that_was_vacuumed(table):
    table.batch(0)
    table.batch(1)
    DeltaTable(table.path).optimize.compact()
    table.batch(2)
    DeltaTable(table.path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert table.go(1, begun=2) == "restored to version 2"
    assert table.batches() == [(1, 0), (1, 1)]
    assert table.writer.last_committed(mark(0, generation=2)) == 1
    with pytest.raises(SinkError, match="a vacuum has removed . files? of version 0 of the table"):
        table.go(0, begun=3, generation=2)


def test_going_before_the_first_rows_empties_the_table(table):
    table.batch(2)
    table.batch(3)
    assert table.go(1, begun=2) == "emptied: it had no batch before"
    assert table.rows() == []
    assert table.go(3, begun=3) == "restored to version 1"
    assert table.batches() == [(1, 2), (1, 3)]
    assert table.go(0, begun=4) == "emptied: it had no batch before"
    assert table.go(1, begun=5) == "had nothing to undo"


def test_settings_of_a_table_survive_its_return(table):
    table.batch(0)
    table.batch(1)
    DeltaTable(table.path).alter.set_table_properties({"delta.logRetentionDuration": "interval 90 days"})
    DeltaTable(table.path).alter.add_constraint({"small": "batch < 100"})
    before = DeltaTable(table.path).metadata().configuration
    table.go(0, begun=2)
    assert DeltaTable(table.path).metadata().configuration == before


def told(table, generation=1):
    return [(change.severity, change.what) for change in table.writer.changes_by_others(mark(0, generation))]


def test_what_others_did_since_our_last_commit_is_told(table):
    for number in range(3):
        table.batch(number)
    assert told(table) == []
    table.others()
    DeltaTable(table.path).optimize.compact()
    assert told(table) == []
    DeltaTable(table.path).delete("batch = 0")
    assert [severity for severity, _ in told(table)] == ["warning"]
    DeltaTable(table.path).restore(0)
    assert [severity for severity, _ in told(table)] == ["error"]
    # The remedy: the table as it was.
    DeltaTable(table.path).restore(2)
    assert told(table) == []


def test_the_rows_come_back_by_a_rewind_when_others_cleared_the_table(table):
    for number in range(3):
        table.batch(number)
    DeltaTable(table.path).delete()
    assert told(table)[0][0] == "error"
    table.go(2, begun=2, had=2)
    assert table.batches() == [(1, 0), (1, 1), (1, 2)]
    assert told(table, generation=2) == []


def test_a_table_that_was_cleared_on_purpose_is_taken_as_it_is(table):
    for number in range(3):
        table.batch(number)
    DeltaTable(table.path).delete()
    assert [change.acceptable for change in table.writer.changes_by_others(mark(0))] == [True]
    table.writer.accept_changes(mark(0))
    assert told(table) == []
    table.batch(3)
    assert table.batches() == [(1, 3)]
    table.go(2, begun=2)
    assert table.batches() == []
    table.go(1, begun=3, generation=1)
    assert table.batches() == [(1, 0), (1, 1)]


def test_a_writer_stops_when_others_take_its_rows_while_it_runs(table):
    table.batch(0)
    writer = DeltaWriter("rows", table.path)

    def write(number):
        frame = ArrowFrame(pa.table({"batch": [number], "generation": [1]}), parts=1)
        assert not writer.committed(mark(number))
        writer.stage(frame, mark(number)).commit()

    write(1)
    table.others()
    DeltaTable(table.path).delete("batch = -1")
    write(2)
    DeltaTable(table.path).restore(1)
    with pytest.raises(SinkError, match="RESTORE by another writer"):
        write(3)
    DeltaTable(table.path).restore(4)
    write(3)
    assert table.batches() == [(1, 0), (1, 1), (1, 2), (1, 3)]


def test_an_old_checkpoint_is_told_from_the_one_that_the_table_went_on_with(table):
    table.batch(0)
    table.batch(1)
    table.go(0, begun=2)
    assert "is of generation 2" in told(table, generation=1)[0][1]
    assert told(table, generation=2) == []


def test_the_last_commit_of_ours_is_found_behind_many_of_others(table):
    table.batch(0)
    for value in range(20):
        table.others(value)
    assert told(table) == []
    DeltaTable(table.path).restore(10)
    assert told(table) == []
    DeltaTable(table.path).delete()
    assert [severity for severity, _ in told(table)] == ["error"]


class Pipeline:
    """What a pipeline wrote, in plain Python: by point, the rows that its checkpoint stands for."""

    def __init__(self, table):
        self.table, self.generation, self.last, self.begun = table, 1, -1, 1
        self.stands = {(1, -1): []}

    def batch(self, empty):
        before = self.stands[self.generation, self.last]
        self.last += 1
        rows = [] if empty else [(self.generation, self.last)]
        if rows:
            self.table.batch(self.last, self.generation, rows=1)
        self.stands[self.generation, self.last] = before + rows

    def go(self, number):
        points = sorted(point for point in self.stands if point[1] >= 0)
        if not points:
            return
        generation, batch = points[number % len(points)]
        self.begun += 1
        exists = DeltaTable.is_deltatable(self.table.path)
        before = (self.table.version(), self.table.rows()) if exists else None
        try:
            self.table.go(batch, begun=self.begun, generation=generation)
        except SinkError:
            assert (self.table.version(), self.table.rows()) == before
            return
        for (of, at), rows in list(self.stands.items()):
            if of == generation and at <= batch:
                self.stands[self.begun, at] = rows
        self.generation, self.last = self.begun, batch


def happens(pipeline, step):
    table = pipeline.table
    match step:
        case ("batch", empty):
            pipeline.batch(empty)
        case ("go", number):
            pipeline.go(number)
        case (what,) if DeltaTable.is_deltatable(table.path):
            if what == "compact":
                DeltaTable(table.path).optimize.compact()
            elif what == "vacuum":
                DeltaTable(table.path).vacuum(0, dry_run=False, enforce_retention_duration=False)
            elif what == "others":
                table.others()
            elif what == "clean":
                _clean(table)
    if DeltaTable.is_deltatable(table.path):
        ours = [row for row in table.rows() if row[0]]
        assert ours == sorted(pipeline.stands[pipeline.generation, pipeline.last])


def _clean(table):
    """The log's retention: all entries are old, but the newest one."""
    DeltaTable(table.path).create_checkpoint()
    log = Path(table.path) / "_delta_log"
    for entry in sorted(log.glob("*.json"))[:-1]:
        entry.unlink()


STEPS = st.one_of(
    st.tuples(st.just("batch"), st.booleans()),
    st.tuples(st.just("batch"), st.just(value=False)),
    st.tuples(st.just("go"), st.integers(0, 1000)),
    st.tuples(st.sampled_from(["compact", "vacuum", "others", "clean"])),
)


@given(steps=st.lists(STEPS, max_size=14))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_whatever_happens_the_rows_are_right_or_it_was_refused_and_nothing_changed(tmp_path, steps):
    pipeline = Pipeline(Table(tmp_path / f"t{time.monotonic_ns()}"))
    for step in steps:
        happens(pipeline, step)
