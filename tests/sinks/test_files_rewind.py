"""Folders of batches go back, and forward again where nothing is lost: pure, and on a disk without Spark."""

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rs_assets.connectors.files.writer import FileWriter
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError


def mark(batch, generation=1):
    return BatchMark("p1", generation, "rows", batch)


class Files:
    """A sink of one pipeline; a batch of it is a folder with its name in a file."""

    def __init__(self, path):
        self.path, self.writer = path, FileWriter("rows", str(path))

    def batch(self, number, generation=1):
        folder = self.path / f"batch={mark(number, generation).folder}"
        folder.mkdir(parents=True)
        (folder / "part-0.json").write_text(f"{generation}.{number}\n")

    def go(self, kept, begun, *, generation=1, had=-1):
        marks = mark(kept, generation), mark(kept, begun)
        self.writer.check_rewind(*marks, had=had)
        return self.writer.rewind(*marks, had=had)

    def rows(self):
        return sorted(line for file in self.path.glob("batch=*/*.json") for line in file.read_text().split())


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path / "out")


def test_the_same_savepoint_is_restored_as_often_as_one_likes(files):
    for begun in (2, 3, 4):
        for number in (0, 1, 2)[begun > 2 :]:
            files.batch(number, generation=1 if begun == 2 else begun - 1)
        assert files.go(0, begun) == "2 batches removed"
        assert files.rows() == ["1.0"]
        assert files.writer.last_committed(mark(0, begun)) == 0


def test_going_back_twice_takes_back_what_the_first_return_kept(files):
    for number in range(6):
        files.batch(number)
    files.go(3, begun=2)
    files.go(1, begun=3, generation=2)
    assert files.rows() == ["1.0", "1.1"]


def test_another_batch_is_gone_to_where_files_of_this_one_were_removed(files):
    for number in range(3):
        files.batch(number)
    files.go(1, begun=2)
    with pytest.raises(SinkError, match="batches from 2 on were removed when the pipeline went back") as refused:
        files.go(2, begun=3)
    assert refused.value.remedy.startswith("go to another batch or savepoint, put the files back, or begin a new")
    files.go(1, begun=3)
    assert files.rows() == ["1.0", "1.1"]


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_touched(files, monkeypatch):
    for number in (0, 1):
        files.batch(number)
    with monkeypatch.context() as denied:
        denied.setattr("rs_assets.connectors.files.writer.os.access", lambda *_: False)
        with pytest.raises(SinkError, match="cannot be moved or removed: permission denied") as refused:
            files.writer.check_rewind(mark(0), mark(0, 2))
    assert "let this user write to the folder" in refused.value.remedy
    assert files.rows() == ["1.0", "1.1"]
    with monkeypatch.context() as denied:
        denied.setattr("rs_assets.connectors.files.writer.note_return", _denied)
        with pytest.raises(SinkError, match="Permission denied"):
            files.go(0, 2)
    assert files.rows() == ["1.0", "1.1"]
    # To the letter.
    assert files.go(0, 2) == "1 batch removed"
    assert files.rows() == ["1.0"]


def _denied(*_):
    raise PermissionError(13, "Permission denied")


def test_what_was_removed_cannot_be_had_again(files):
    for number in range(3):
        files.batch(number)
    files.go(0, begun=2)
    before = files.rows()
    with pytest.raises(SinkError, match="batches from 1 on were removed"):
        files.go(2, begun=3)
    assert files.rows() == before == ["1.0"]


def test_files_that_are_gone_are_missed(files):
    with pytest.raises(SinkError, match="no batch and had batch 3"):
        files.go(3, begun=2, had=3)
    assert files.go(3, begun=2) == "0 batches removed"


def test_a_generation_that_replaced_the_files_is_not_gone_behind(files):
    files.batch(0, generation=2)
    with pytest.raises(SinkError, match="generation 2 has replaced"):
        files.go(0, begun=3)


def test_a_return_that_was_cut_off_is_ended_by_the_next_one(files, monkeypatch):
    for number in range(4):
        files.batch(number)
    with monkeypatch.context() as crash:
        crash.setattr(
            "rs_assets.connectors.files.writer.shutil.rmtree", lambda _: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            files.go(1, begun=2)
    assert files.go(1, begun=3) == "2 batches removed"
    assert files.rows() == ["1.0", "1.1"]


def test_a_sink_remembers_the_batch_that_it_went_back_to_though_that_was_empty(files):
    files.batch(0)
    files.batch(5)
    files.go(3, begun=2, had=5)
    assert files.writer.last_committed(mark(0, 2)) == 3


STEPS = st.one_of(st.tuples(st.just("batch"), st.booleans()), st.tuples(st.just("go"), st.integers(0, 1000)))


@given(steps=st.lists(STEPS, max_size=20))
@settings(max_examples=150, deadline=None)
@example([("batch", False)] * 4 + [("go", 1), ("batch", False), ("go", 0), ("go", 1)])
def test_the_folders_are_those_of_the_batch_or_it_is_refused_and_nothing_changed(tmp_path_factory, steps):
    files = Files(tmp_path_factory.mktemp("files") / "out")
    generation, last, begun, stands = 1, -1, 1, {(1, -1): []}
    for what, number in steps:
        if what == "batch":
            rows, last = stands[generation, last], last + 1
            if not number:
                files.batch(last, generation)
            stands[generation, last] = rows if number else [*rows, f"{generation}.{last}"]
            continue
        points = sorted(point for point in stands if point[1] >= 0)
        if not points:
            continue
        of, batch = points[number % len(points)]
        begun += 1
        with suppress(SinkError):
            files.go(batch, begun, generation=of)
            stands |= {(begun, b): rows for (g, b), rows in list(stands.items()) if g == of and b <= batch}
            generation, last = begun, batch
        assert files.rows() == sorted(stands[generation, last])


def test_going_back_is_never_refused(files):
    for number in range(8):
        files.batch(number)
    for generation, batch in enumerate((6, 4, 4, 1), 1):
        files.go(batch, begun=generation + 1, generation=generation)
    assert files.rows() == ["1.0", "1.1"]
