"""Lines of growing files: what is planned is read exactly once, in order, at the right place, or refused."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets.connectors.files.lines import files
from rs_assets.connectors.files.lines import planner as planning
from rs_assets.connectors.files.lines.files import BOM, ENDS_BYTES, Identity, LineCounter
from rs_assets.connectors.files.lines.offsets import (
    Ended,
    LineRange,
    Offsets,
    dump_offsets,
    load_offsets,
    ranges_between,
    splits_of,
)
from rs_assets.connectors.files.lines.planner import FinalLine, Planner
from rs_assets.connectors.files.lines.reading import BATCH_ROWS, cut_range, read_range
from rs_assets.errors import CheckpointError, ConfigurationError, DataLossError, SourceReadError

MIB = 1 << 20


class Row(NamedTuple):
    split: str
    line: int
    offset: int
    length: int
    value: bytes


def rows_of(planned: LineRange, *, cap: int = 10 * MIB) -> list[Row]:
    found = []
    for batch in read_range(planned, max_line_bytes=cap):
        batch.validate(full=True)
        assert 0 < batch.num_rows <= BATCH_ROWS
        found += [Row(**row) for row in batch.to_pylist()]
    return found


def ranges(start: Offsets | None, end: Offsets) -> list[LineRange]:
    # Through JSON text, as Spark's log keeps it.
    before = None if start is None else json.dumps(dump_offsets(start))
    return [LineRange.load(item) for item in ranges_between(before, json.dumps(dump_offsets(end)))]


class Follower:
    """Plans and reads like a query does, with offsets that went through JSON."""

    def __init__(self, path: Path | str, **options: FinalLine) -> None:
        self.planner = Planner(str(path), **options)
        self.at: Offsets = {}

    def step(self, max_rows: int | None = None) -> list[Row]:
        end = load_offsets(json.dumps(dump_offsets(self.planner.plan(self.at, max_rows=max_rows))))
        found = [row for planned in ranges(self.at, end) for row in rows_of(planned)]
        self.at = end
        return found

    def values(self, max_rows: int | None = None) -> list[str]:
        return [row.value.decode() for row in self.step(max_rows)]


def append(file: Path, data: bytes) -> None:
    with file.open("ab") as out:
        out.write(data)


def reference(data: bytes, *, split: str, cap: int) -> list[Row]:
    """The same by splitting on newlines, one line after the other."""
    found, offset = [], 0
    for number, text in enumerate(data.split(b"\n"), start=1):
        last = offset + len(text) == len(data)
        skip = 3 if offset == 0 and text.startswith(BOM) else 0
        value = text[skip:]
        if value.endswith(b"\r") and (not last or value == b"\r"):
            value = value[:-1]
        if value:
            found.append(Row(split, number, offset + skip, len(value), value[:cap]))
        offset += len(text) + 1
    return found


TEXT = st.one_of(
    st.just(b""),
    st.just(b"\r"),
    st.just(b"\r\r"),
    st.text(st.sampled_from("aé漢🎈\r\x00"), max_size=12).map(str.encode),
    st.binary(max_size=8).map(lambda data: data.replace(b"\n", b"")),
    st.integers(30, 400).map(lambda size: b"x" * size),
)
CONTENT = st.tuples(
    st.sampled_from([b"", BOM]), st.lists(st.tuples(TEXT, st.sampled_from([b"\n", b"\r\n"])), max_size=40), TEXT
).map(lambda parts: parts[0] + b"".join(text + end for text, end in parts[1]) + parts[2])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=CONTENT,
    cuts=st.lists(st.integers(0, 4000), max_size=6),
    limits=st.lists(st.one_of(st.none(), st.integers(1, 9)), min_size=1, max_size=5),
    block=st.sampled_from([1, 2, 7, 64, MIB]),
    cap=st.sampled_from([1, 5, 50, MIB]),
    part=st.sampled_from([1, 40, MIB]),
)
def test_every_line_is_read_once_however_the_file_grew_and_was_cut(
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    cuts: list[int],
    limits: list[int | None],
    block: int,
    cap: int,
    part: int,
) -> None:
    monkeypatch.setattr(files, "BLOCK_BYTES", block)
    places = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    found: list[Row] = []
    at: Offsets = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.log"
        file.touch()
        for turn, (start, end) in enumerate(itertools.pairwise(places)):
            append(file, content[start:end])
            rule = FinalLine.DELIVER if end == len(content) else FinalLine.WAIT
            planner = Planner(str(file), final_line=rule)
            limit = limits[turn % len(limits)]
            while (following := planner.plan(at, max_rows=limit)) is not at:
                assert limit is None or sum(s.line for s in following.values()) <= limit + sum(
                    s.line for s in at.values()
                )
                for planned in ranges(at, following):
                    for piece in cut_range(planned, part_bytes=part):
                        found += rows_of(piece, cap=cap)
                at = following
    assert found == reference(content, split="a.log", cap=cap)


@settings(max_examples=60, deadline=None)
@given(content=CONTENT, limit=st.one_of(st.none(), st.integers(1, 7)), suffix=st.sampled_from([".gz", ".zst"]))
def test_an_archive_gives_the_lines_of_its_content(content: bytes, limit: int | None, suffix: str) -> None:
    packed = gzip.compress(content) if suffix == ".gz" else pa.compress(content, codec="zstd", asbytes=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"a{suffix}"
        file.write_bytes(packed)
        follower = Follower(folder)
        found = []
        while content:
            before = follower.at
            found += follower.step(limit)
            if follower.at == before:
                break
        assert found == reference(content, split=file.name, cap=10 * MIB)


def test_a_line_without_newline_waits_until_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"one\ntw")
    follower = Follower(file)
    assert follower.values() == ["one"]
    assert follower.planner.plan(follower.at) is follower.at
    append(file, b"o\n")
    assert follower.step() == [Row("a.log", 2, 4, 3, b"two")]


def test_a_line_without_newline_is_delivered_where_that_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"one\ntw")
    assert Follower(file, final_line=FinalLine.DELIVER).values() == ["one", "tw"]


def test_rows_are_given_out_oldest_file_first(tmp_path: Path) -> None:
    for age, name in enumerate(["c", "a", "b"]):
        (tmp_path / name).write_text("".join(f"{name}{number}\n" for number in range(3)))
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    follower = Follower(tmp_path)
    assert follower.values(4) == ["c0", "c1", "c2", "a0"]
    assert follower.values(4) == ["a1", "a2", "b0", "b1"]
    assert follower.values(4) == ["b2"]
    assert follower.values(4) == []


def test_a_file_whose_lines_the_limit_leaves_to_a_later_batch_is_a_split(tmp_path: Path) -> None:
    for age, (name, content) in enumerate({"a": "1\n2\n", "b": "3\n", "half": "4", "empty": ""}.items()):
        (tmp_path / name).write_text(content)
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    follower = Follower(tmp_path)
    assert follower.values(2) == ["1", "2"]
    assert [(name, split.line) for name, split in follower.at.items()] == [("a", 2), ("b", 0)]
    assert follower.planner.unread(follower.at) == {"b"}
    (tmp_path / "b").rename(tmp_path / "c")
    assert [(row.split, row.value) for row in follower.step(1)] == [("b", b"3")]
    assert follower.planner.plan(follower.at, max_rows=1) is follower.at
    assert not follower.planner.unread(follower.at)


def test_split_names_are_relative_to_the_directory_and_hidden_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "web" / ".git").mkdir(parents=True)
    for name in ("web/a.log", "_SUCCESS", ".b.swp", "web/.git/c"):
        (tmp_path / name).write_text("x\n")
    assert [row.split for row in Follower(tmp_path).step()] == ["web/a.log"]
    assert [row.split for row in Follower(f"{tmp_path}/w*/*.log").step()] == ["web/a.log"]


class TestRotation:
    def test_a_renamed_file_is_finished_before_its_successor(self, tmp_path: Path) -> None:
        file = tmp_path / "a.log"
        file.write_bytes(b"1\n2\n")
        follower = Follower(file)
        assert follower.values(1) == ["1"]
        file.rename(tmp_path / "a.log.1")
        append(tmp_path / "a.log.1", b"3\n")
        file.write_bytes(b"4\n")
        rows = follower.step()
        assert [(row.split, row.line, row.value) for row in rows] == [
            ("a.log", 2, b"2"),
            ("a.log", 3, b"3"),
            ("a.log@2", 1, b"4"),
        ]
        assert [Path(split.file).name for split in splits_of(dump_offsets(follower.at))] == ["a.log.1", "a.log"]

    def test_a_renamed_file_that_the_glob_matches_is_not_read_twice(self, tmp_path: Path) -> None:
        file = tmp_path / "a.log"
        follower = Follower(f"{tmp_path}/a.log*")
        seen = []
        for turn in range(5):
            for old in range(turn, 0, -1):
                (tmp_path / (f"a.log.{old - 1}" if old > 1 else "a.log")).rename(tmp_path / f"a.log.{old}")
            file.write_text(f"{turn}a\n{turn}b\n")
            seen += follower.values(1)
        while more := follower.values(1):
            seen += more
        assert seen == [f"{turn}{letter}" for turn in range(5) for letter in "ab"]

    def test_a_link_that_points_elsewhere_begins_another_split(self, tmp_path: Path) -> None:
        (tmp_path / "day1").write_text("1\n")
        (tmp_path / "day2").write_text("2\n")
        link = tmp_path / "current" / "a.log"
        link.parent.mkdir()
        link.symlink_to(tmp_path / "day1")
        follower = Follower(link)
        assert follower.values() == ["1"]
        link.unlink()
        link.symlink_to(tmp_path / "day2")
        append(tmp_path / "day1", b"1b\n")
        assert [(row.split, row.value) for row in follower.step()] == [("a.log", b"1b"), ("a.log@2", b"2")]

    def test_one_file_of_two_names_is_read_once(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("1\n")
        (tmp_path / "b").hardlink_to(tmp_path / "a")
        assert Follower(tmp_path).values() == ["1"]

    def test_a_file_truncated_in_place_begins_another_split(self, tmp_path: Path) -> None:
        file = tmp_path / "a.log"
        file.write_bytes(b"old line\n")
        follower = Follower(file)
        assert follower.values() == ["old line"]
        file.write_bytes(b"new\n")
        assert follower.step() == [Row("a.log@2", 1, 0, 3, b"new")]
        file.write_bytes(b"")
        assert follower.values() == []
        # It grows past the old place and begins with the same bytes: the truncation was noted nevertheless.
        file.write_bytes(b"new\nand more\n")
        assert [(row.split, row.value) for row in follower.step()] == [("a.log@3", b"new"), ("a.log@3", b"and more")]

    def test_a_file_that_begins_with_other_bytes_begins_another_split(self, tmp_path: Path) -> None:
        file = tmp_path / "a.log"
        file.write_bytes(b"old\n")
        follower = Follower(file)
        assert follower.values() == ["old"]
        file.write_bytes(b"new line\n")
        assert follower.step() == [Row("a.log@2", 1, 0, 8, b"new line")]

    def test_a_read_file_that_is_deleted_is_noted_once(self, tmp_path: Path) -> None:
        file = tmp_path / "a.log"
        file.write_bytes(b"1\n")
        follower = Follower(file)
        assert follower.values() == ["1"]
        file.unlink()
        assert follower.values() == []
        assert dump_offsets(follower.at)["splits"]["a.log"]["ended"] == "gone"  # type: ignore[index]
        assert follower.planner.plan(follower.at) is follower.at
        (tmp_path / "other").write_text("keeps the inode from being used again")
        file.write_bytes(b"2\n")
        assert [(row.split, row.value) for row in follower.step()] == [("a.log@2", b"2")]

    def test_offsets_do_not_grow_with_the_number_of_rotations(self, tmp_path: Path) -> None:
        file = tmp_path / "a.log"
        follower = Follower(file)
        for turn in range(12):
            if turn:
                file.replace(tmp_path / "a.log.1")
            file.write_text(f"{turn}\n")
            assert follower.values() == [str(turn)]
        assert len(follower.at) <= 4
        assert list(follower.at)[-1] == "a.log@12"

    def test_another_device_number_is_the_same_file(self, tmp_path: Path) -> None:
        file = tmp_path / "a.log"
        file.write_bytes(b"1\n2\n")
        follower = Follower(file)
        assert follower.values(1) == ["1"]
        text = json.dumps(dump_offsets(follower.at)).replace(f'"{file.stat().st_dev}-', '"999999-')
        follower.at = load_offsets(text)
        assert follower.step() == [Row("a.log", 2, 2, 1, b"2")]


class TestLoss:
    @pytest.fixture
    def planned(self, tmp_path: Path) -> LineRange:
        file = tmp_path / "a.log"
        file.write_bytes(b"1\n2\n3\n")
        start = Planner(str(file)).plan({}, max_rows=1)
        return ranges(start, Planner(str(file)).plan(start))[0]

    def check(self, planned: LineRange, why: str) -> None:
        with pytest.raises(DataLossError, match=why) as caught:
            rows_of(planned)
        facts = caught.value.facts
        assert facts["file"] == planned.file
        assert (facts["start_byte"], facts["end_byte"], facts["start_line"], facts["end_line"]) == (2, 6, 2, 3)

    def test_a_file_renamed_after_the_plan_is_read(self, planned: LineRange) -> None:
        Path(planned.file).rename(planned.file + ".1")
        Path(planned.file).write_bytes(b"x\ny\nz\n")
        assert [row.value for row in rows_of(planned)] == [b"2", b"3"]

    def test_a_file_that_vanished(self, planned: LineRange) -> None:
        Path(planned.file).unlink()
        self.check(planned, "it is gone")

    def test_a_file_that_another_one_took_the_place_of(self, planned: LineRange, tmp_path: Path) -> None:
        (tmp_path / "new").write_bytes(b"1\n2\n3\n")
        (tmp_path / "new").replace(planned.file)
        self.check(planned, "it is gone")

    def test_a_file_that_shrank(self, planned: LineRange) -> None:
        os.truncate(planned.file, 5)
        self.check(planned, "shrank to 5 bytes")

    def test_a_file_that_was_written_anew(self, planned: LineRange) -> None:
        Path(planned.file).write_bytes(b"one\ntwo\n")
        self.check(planned, "bytes have changed")

    def test_a_file_whose_lines_changed_between_its_ends(self, tmp_path: Path) -> None:
        file = tmp_path / "a.log"
        file.write_bytes(b"h" * 2000 + b"\na\nb\n" + b"t" * 2000 + b"\n")
        planned = ranges({}, Planner(str(file)).plan({}))[0]
        file.write_bytes(b"h" * 2000 + b"\nabc\n" + b"t" * 2000 + b"\n")
        with pytest.raises(DataLossError, match="lines have changed"):
            rows_of(planned)

    def test_a_file_truncated_while_it_is_read(self, tmp_path: Path) -> None:
        file = tmp_path / "a.log"
        file.write_bytes(b"x\n" * (2 * MIB))
        planned = ranges({}, Planner(str(file)).plan({}))[0]
        batches = read_range(planned)
        next(batches)
        os.truncate(file, 10)
        with pytest.raises(DataLossError):
            list(batches)

    def test_a_lost_range_is_not_cut_but_refused_where_it_is_read(self, planned: LineRange) -> None:
        Path(planned.file).unlink()
        assert cut_range(planned, part_bytes=1) == [planned]


class TestArchives:
    @pytest.mark.parametrize("codec", ["gzip", "zstd"])
    def test_one_that_is_cut_short_names_the_last_good_line(self, tmp_path: Path, codec: str) -> None:
        data = b"".join(b"%d %s\n" % (number, os.urandom(20).hex().encode()) for number in range(20000))
        packed = gzip.compress(data) if codec == "gzip" else pa.compress(data, codec="zstd", asbytes=True)
        file = tmp_path / ("a.gz" if codec == "gzip" else "a.zst")
        file.write_bytes(packed[: len(packed) // 2])
        with pytest.raises(SourceReadError, match="damaged or cut short after line") as caught:
            Planner(str(file)).plan({})
        line, byte = caught.value.facts["line"], caught.value.facts["byte"]
        assert isinstance(line, int)
        assert isinstance(byte, int)
        assert line > 1000
        assert data[:byte].count(b"\n") == line
        assert data[byte - 1 : byte] == b"\n"
        # What lies before the damage can still be read.
        start = Planner(str(file)).plan({}, max_rows=line)
        assert len(rows_of(ranges({}, start)[0])) == line

    def test_one_that_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "a.gz").write_bytes(b"plain text\n")
        with pytest.raises(SourceReadError, match="after line 0"):
            Planner(str(tmp_path)).plan({})

    def test_one_is_not_unpacked_again_once_it_was_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n2\n"))
        follower = Follower(tmp_path)
        assert follower.values(2) == ["1", "2"]
        monkeypatch.setattr(planning, "archive_blocks", None)
        assert follower.values(2) == []

    def test_a_member_that_was_added_is_read(self, tmp_path: Path) -> None:
        file = tmp_path / "a.gz"
        file.write_bytes(gzip.compress(b"1\n", mtime=0))
        follower = Follower(tmp_path)
        assert follower.values() == ["1"]
        append(file, gzip.compress(b"2\n", mtime=0))
        assert follower.step() == [Row("a.gz", 2, 2, 1, b"2")]


class TestLongLines:
    def test_a_long_line_is_cut_and_keeps_its_length_and_memory_is_bounded(self, tmp_path: Path) -> None:
        file = tmp_path / "a.log"
        with file.open("wb") as out:
            out.write(b"before\n")
            for _ in range(100):
                out.write(b"y" * MIB)
            out.write(b"\r\nafter\n")
        planned = ranges({}, Planner(str(file)).plan({}))[0]
        allocated = pa.total_allocated_bytes()
        tracemalloc.start()
        rows = rows_of(planned, cap=2 * MIB)
        peak = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - allocated
        tracemalloc.stop()
        assert peak < 20 * MIB
        assert [(row.line, row.offset, row.length) for row in rows] == [
            (1, 0, 6),
            (2, 7, 100 * MIB),
            (3, 7 + 100 * MIB + 2, 5),
        ]
        assert rows[1].value == b"y" * (2 * MIB)

    def test_many_short_lines_come_in_small_batches(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"z\n" * 100_000)
        assert len(Follower(tmp_path).step()) == 100_000


def test_frozen_means_that_later_lines_and_files_wait(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"1\n2\n")
    follower = Follower(tmp_path)
    follower.planner.freeze()
    append(file, b"3\n")
    (tmp_path / "b.log").write_bytes(b"4\n")
    assert follower.values(1) == ["1"]
    file.rename(tmp_path / "a.log.1")
    assert follower.values(1) == ["2"]
    assert follower.planner.plan(follower.at) is follower.at
    follower.planner = Planner(str(tmp_path))
    assert follower.values() == ["3", "4"]


def test_the_lag_counts_lines_where_that_is_cheap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"1\n2\n3\n4")
    planner = Planner(str(file))
    start = planner.plan({}, max_rows=1)
    assert [(s.line, s.byte) for s in splits_of(dump_offsets(planner.reach(start)))] == [(3, 6)]
    monkeypatch.setattr(planning, "LAG_SCAN_BYTES", 1)
    assert [(s.line, s.byte) for s in splits_of(dump_offsets(planner.reach(start)))] == [(1, 7)]


def test_a_range_written_by_hand_reads_to_the_end(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"1\n2\n3")
    assert [row.value for row in rows_of(LineRange.load({"file": str(file)}))] == [b"1", b"2", b"3"]
    planned = LineRange.load({"file": str(file), "split": "s", "start_line": 2, "start_byte": 2, "end_byte": None})
    assert rows_of(planned) == [Row("s", 2, 2, 1, b"2"), Row("s", 3, 4, 1, b"3")]
    with pytest.raises(DataLossError, match="is gone"):
        rows_of(LineRange.load({"file": str(tmp_path / "none")}))


@pytest.mark.parametrize(
    "bad", [{}, {"file": 3}, {"file": "a", "start_byte": -1}, {"file": "a", "end_byte": "9"}, {"file": "a", "to": 1}]
)
def test_a_range_that_is_none_is_refused(bad: Mapping[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="not a range of lines"):
        LineRange.load(bad)


@pytest.mark.parametrize(
    "bad",
    [
        "{}",
        "[]",
        "nonsense",
        '{"version": 2, "splits": {}}',
        '{"version": 1, "splits": {"a": {"file": "a", "id": "1-2-0-", "line": "1", "byte": 0}}}',
        '{"version": 1, "splits": {"a": {"file": "a", "id": "x", "line": 1, "byte": 0}}}',
    ],
)
def test_offsets_that_are_none_are_refused(bad: str) -> None:
    with pytest.raises(CheckpointError):
        load_offsets(bad)


def test_a_path_that_does_not_exist_is_refused_and_an_empty_one_waits(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        Planner(str(tmp_path / "none")).plan({})
    start: Offsets = {}
    assert Planner(str(tmp_path)).plan(start) is start
    assert Planner(f"{tmp_path}/*/*.log").plan(start) is start
    (tmp_path / "empty").touch()
    assert Planner(str(tmp_path)).plan(start) is start


def test_a_file_whose_name_looks_like_a_glob_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a[1].log"
    file.write_text("x\n")
    assert Follower(file).values() == ["x"]


def test_the_counter_stops_at_the_limit_even_at_the_end_of_a_block() -> None:
    counter = LineCounter(line=4, byte=10, rows=2)
    assert counter.feed(b"a\nb\n")
    counter.end_of_input()
    assert (counter.line, counter.byte) == (6, 14)


def test_a_file_name_that_is_not_utf8_is_carried_in_escaped_form(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"\xff.log")
    file.write_bytes(b"1\n")
    assert Follower(tmp_path).step() == [Row("\\udcff.log", 1, 0, 1, b"1")]


def test_a_file_rewritten_behind_the_reader_is_noticed_after_the_rows(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"x\n" * (2 * MIB))
    batches = read_range(ranges({}, Planner(str(file)).plan({}))[0])
    next(batches)
    with file.open("r+b") as out:
        out.write(b"y\n")
    with pytest.raises(DataLossError, match="bytes have changed"):
        list(batches)


@pytest.mark.parametrize("again", [b"3\n4\n", b"3\n4\n5\n"], ids=["as long", "longer"])
def test_a_file_that_was_written_anew_and_begins_alike_is_a_new_split(tmp_path: Path, again: bytes) -> None:
    head = b"x" * 2000 + b"\n"
    file = tmp_path / "a.log"
    file.write_bytes(head + b"1\n2\n")
    follower = Follower(file)
    assert follower.values()[1:] == ["1", "2"]
    append(file, b"")
    assert follower.step() == []
    # As by copytruncate, before the reader looks: the same inode, and as many bytes or more.
    file.write_bytes(head + again)
    assert [(row.split, row.value) for row in follower.step()[1:]] == [("a.log@2", value) for value in again.split()]


@pytest.mark.parametrize(("size", "device", "split"), [(2000, 0, "a.log"), (20, 1, "a.log"), (20, 0, "a.log@2")])
def test_a_copy_in_the_place_of_a_file_goes_on(tmp_path: Path, size: int, device: int, split: str) -> None:
    """As by an editor, or by a backup on another disk; a successor on this one may have the same short header."""
    file, copy = tmp_path / "a.log", tmp_path / "new"
    file.write_bytes(b"x" * size + b"\n1\n")
    follower = Follower(file)
    follower.step()
    append(file, b"2\n")
    copy.write_bytes(file.read_bytes())
    planned = ranges(follower.at, follower.planner.plan(follower.at))[0]
    copy.replace(file)
    old = follower.at["a.log"]
    key = old.identity.key._replace(device=old.identity.key.device + device)
    follower.at = {"a.log": replace(old, identity=replace(old.identity, key=key))}
    assert [(row.split, row.value) for row in follower.step()][-1] == (split, b"2")
    assert len(follower.at) == (1 if split == "a.log" else 2)
    if size > ENDS_BYTES:
        assert [row.value for row in rows_of(planned)] == [b"2"]


def test_an_offset_with_the_digest_of_the_first_kilobyte_alone_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"x\n" * 1000)
    follower = Follower(file)
    follower.step()
    split = follower.at["a.log"]
    with file.open("rb") as source:
        follower.at = {"a.log": replace(split, identity=Identity.of(source, 1024))}
    append(file, b"y\n")
    assert follower.step() == [Row("a.log", 1001, 2000, 1, b"y")]


def test_a_copy_in_the_place_of_a_rotated_file_goes_on_and_may_be_renamed(tmp_path: Path) -> None:
    """It is known by its own inode at once: no line of it needs to come before it has another name."""
    file, rotated, copy = tmp_path / "a.log", tmp_path / "a.log.1", tmp_path.parent / "copy"
    file.write_bytes(b"x\n" * 1000)
    follower = Follower(tmp_path)
    assert len(follower.step()) == 1000
    file.rename(rotated)
    file.write_text("new\n")
    assert follower.values() == ["new"]
    shutil.copy(rotated, copy)
    copy.rename(rotated)
    assert follower.values() == []
    rotated.rename(tmp_path / "a.log.2")
    assert follower.values() == []
    append(tmp_path / "a.log.2", b"y\n")
    assert follower.step() == [Row("a.log", 1001, 2000, 1, b"y")]


@pytest.mark.parametrize("others", [("a.log", "a.log.1"), ()])
def test_files_that_are_rotated_while_they_are_looked_at_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...]
) -> None:
    """Between a look at a file and its opening its name is that of another one, or of none."""
    for name in ("a.log", "a.log.1"):
        (tmp_path / name).write_text(f"{name}\n")
    follower, looks = Follower(tmp_path), list[Path]()
    assert sorted(follower.values()) == ["a.log", "a.log.1"]

    def look_and_rotate(file: Path) -> files.Seen | None:
        seen = files.look_at(file)
        looks.append(file)
        # The first look lists it.
        if file.name == "a.log.1" and looks.count(file) == 2:
            file.rename(tmp_path / "a.log.2")
            for name in others[:1]:
                (tmp_path / name).rename(tmp_path / others[1])
        return seen

    monkeypatch.setattr(planning, "look_at", look_and_rotate)
    assert follower.values() == follower.values() == []
    assert (tmp_path / "a.log.2").exists()
    assert all(split.ended is None for split in follower.at.values())


@pytest.mark.parametrize("begun", ["", "ha"])
@pytest.mark.parametrize("path", ["a.log", "*.log"])
def test_a_file_is_read_under_the_name_it_gets_before_its_first_line(tmp_path: Path, path: str, begun: str) -> None:
    """Each run comes after the rotation, and finds a file without a line: all lines of the day come later."""
    file, day = tmp_path / "a.log", ["half", "1", "2"]
    file.write_text(begun)
    follower = Follower(tmp_path / path)
    for number in range(3):
        assert follower.values() == ([] if number == 0 else day)
        append(file, ("half\n1\n2\n").removeprefix(begun).encode())
        for old in (2, 1):
            if (tmp_path / f"a.log.{old}").exists():
                (tmp_path / f"a.log.{old}").rename(tmp_path / f"a.log.{old + 1}")
        file.rename(tmp_path / "a.log.1")
        file.write_text(begun)
    assert follower.values() == day
    assert follower.planner.plan(follower.at) is follower.at


def test_a_file_that_has_the_inode_of_a_removed_one_without_a_line_is_another(tmp_path: Path) -> None:
    file, other = tmp_path / "a.log", tmp_path / "b.log"
    file.touch()
    follower = Follower(file)
    follower.step()
    file.unlink()
    other.write_text("another program\n")
    (split,) = follower.at.values()
    key = files.file_key(other.stat())
    follower.at = {"a.log": replace(split, identity=replace(split.identity, key=key))}
    assert follower.values() == []
    file.write_text("new\n")
    assert follower.values() == ["new"]


def test_a_run_with_fixed_sizes_does_not_see_the_one_file_that_comes_later(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_text("1\n")
    follower = Follower(file)
    assert follower.values() == ["1"]
    follower.planner.freeze()
    file.rename(tmp_path / "a.log.1")
    file.touch()
    assert follower.planner.plan(follower.at) is follower.at


def test_files_whose_names_look_like_those_of_later_splits_are_read_once(tmp_path: Path) -> None:
    """Of a name `a@2` it is not known whether it is the second file called `a`, or a file of that name."""
    follower = Follower(tmp_path)
    for day in ("events@20260105", "events", "events@20260106", "events@20260107"):
        (tmp_path / day).write_text(f"{day}\n")
        assert follower.values() == [day]
        assert follower.values() == []
    (tmp_path / "events").unlink()
    (tmp_path / "other").write_text("keeps the inode from being used again")
    (tmp_path / "events").write_text("another\n")
    assert [(row.split, row.value) for row in follower.step()] == [("events@2", b"another")]
    (tmp_path / "events@2").write_text("third\n")
    assert [(row.split, row.value) for row in follower.step()] == [("events@2@1", b"third")]
    assert follower.values() == []


def test_a_name_of_an_earlier_release_that_looks_like_that_of_a_later_split_stays(tmp_path: Path) -> None:
    (tmp_path / "events@20260105").write_text("1\n")
    follower = Follower(tmp_path)
    follower.step()
    [split] = follower.at.values()
    follower.at = {"events@20260105": split}
    (tmp_path / "events").write_text("2\n")
    assert [(row.split, row.value) for row in follower.step()] == [("events@20260106", b"2")]
    append(tmp_path / "events@20260105", b"3\n")
    (tmp_path / "events@20260106").write_text("4\n")
    assert sorted(follower.values()) == ["3", "4"]
    assert follower.values() == []


@pytest.mark.parametrize(
    ("pattern", "instead", "found"),
    [
        ("{a,b}/*.log", "b/*.log", ["b"]),
        ("[^a]/*.log", "[!a]/*.log", ["b"]),
        (r"a\*/*.log", "a[*]/*.log", ["a*"]),
        ("**", "**/*", ["a", "a*", "b"]),
    ],
)
def test_patterns_that_mean_other_files_elsewhere_are_refused(
    tmp_path: Path, pattern: str, instead: str, found: list[str]
) -> None:
    for name in ("a", "b", "a*"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.log").write_text(f"{name}\n")
    with pytest.raises(ConfigurationError, match=r"(?s)is not read as a pattern.*a source for each of \{a,b\}"):
        Follower(tmp_path / pattern).step()
    assert sorted(Follower(tmp_path / instead).values()) == found


def test_two_splits_never_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"1\n2\n")
    follower = Follower(file)
    assert follower.values(1) == ["1"]
    # An inode that was freed and used again by a file that begins alike.
    old = follower.at["a.log"]
    follower.at = {"a.log": replace(old, ended=Ended.GONE), "a.log@2": old}
    assert follower.step() == [Row("a.log@2", 2, 2, 1, b"2")]


def test_long_ranges_are_cut_into_parts_of_about_the_size_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BLOCK_BYTES", 10)
    file = tmp_path / "a.log"
    file.write_bytes(b"1234\n" * 20)
    planned = ranges({}, Planner(str(file)).plan({}))[0]
    parts = cut_range(planned, part_bytes=40)
    assert [(part.start_line, part.start_byte, part.end_byte, part.end_line) for part in parts] == [
        (1, 0, 40, 8),
        (9, 40, 80, 16),
        (17, 80, 100, 20),
    ]
    assert cut_range(planned, part_bytes=100) == [planned]
