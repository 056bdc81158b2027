"""Counting the records of whole files by blocks, against counting them one by one."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets.checkpoint.log import PlannedFile
from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.files.whole import counting
from rs_assets.connectors.files.whole.counting import Counted, FileWatch, count_records
from rs_assets.connectors.files.whole.known_files import FileFacts, Same, compared
from rs_assets.errors import BadRecordError, DataLossError, SourceReadError

LINES = st.lists(
    st.sampled_from([b"", b" ", b"\t\r", b"a", b"ab c", b"[1]", b" [", b"x" * 9, b'"', b'a"b"', b'"x" "']), max_size=30
)


def one_by_one(content: bytes, cap: int) -> Counted:
    lines = content.split(b"\n")
    last = lines.pop()
    beyond = sum(len(line) > cap for line in lines) + (len(last) > cap + 1)
    records = sum(bool(line.strip()) for line in [*lines, last])
    return Counted(records - beyond, beyond, unbalanced=any(line.count(b'"') % 2 for line in [*lines, last]))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES, ended=st.booleans(), block=st.integers(1, 12), cap=st.sampled_from([5, 1000]))
def test_blocks_of_any_size_give_the_same_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], ended: bool, block: int, cap: int
) -> None:
    content = b"\n".join(lines) + b"\n" * ended
    file = tmp_path / "a.jsonl"
    file.write_bytes(content)
    monkeypatch.setattr(counting, "BLOCK_BYTES", block)
    counted = count_records(file, cap=cap)
    expected = one_by_one(content, cap)
    assert (counted.records, counted.beyond) == (expected.records, expected.beyond)
    assert counted.unbalanced == expected.unbalanced


@pytest.mark.parametrize("content", [b"[1]\n", b'{"id":1}\n[]', b" \n\n  [1]\n", b"\xef\xbb\xbf[1]\n", b"{}\n\n\t[\n"])
def test_a_line_that_begins_like_an_array_is_noticed(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(content)
    assert count_records(file).arrays


@pytest.mark.parametrize("content", [b"", b'{"id":[1]}\n', b'{"id":\t[1]}\n\n \n{"x":[\n', b"x[\n"])
def test_an_array_within_a_line_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(content)
    for block in range(1, len(content) + 2):
        monkeypatch.setattr(counting, "BLOCK_BYTES", block)
        assert not count_records(file).arrays


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_archives_are_counted_unpacked(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.jsonl{suffix}"
    content = b'{"id":1}\n\n{"id":2}\n'
    file.write_bytes(gzip.compress(content) if suffix == ".gz" else pa.compress(content, codec="zstd", asbytes=True))
    assert count_records(file) == Counted(2)


class TestWatch:
    """A batch's files from the plan to the commit."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        file = tmp_path / "a b%.csv"
        file.write_bytes(b"id,name\n1,a\n2,b\n")
        return file

    @staticmethod
    def watch(file: Path, *, form: str = "csv", cap: int = 100) -> FileWatch:
        planned = PlannedFile(file.as_uri(), file.stat().st_mtime_ns // 1_000_000, 0)
        return FileWatch([planned], batch_id=7, counted=True, form=LineFormat(form), cap=cap)

    def test_a_header_is_no_record(self, file: Path) -> None:
        assert self.watch(file).rows() == 2
        assert self.watch(file, form="json").rows() == 3

    def test_noted_sizes_are_by_path(self, file: Path) -> None:
        noted = self.watch(file).noted()
        assert {path: FileFacts.of(number).size for path, number in noted.items()} == {str(file): 16}

    def test_a_line_beyond_the_cap_is_refused(self, file: Path) -> None:
        watch = self.watch(file, cap=5)
        with pytest.raises(SourceReadError, match="more than 5 bytes") as raised:
            watch.check_lengths()
        assert raised.value.facts["file"] == file
        with pytest.raises(BadRecordError, match="more than 5 bytes"):
            watch.rows()

    def test_an_array_fails_in_json_only(self, file: Path) -> None:
        file.write_bytes(b"[1],a\n")
        assert self.watch(file).rows() == 0
        with pytest.raises(BadRecordError, match="JSON array"):
            self.watch(file, form="json").rows()

    def test_a_file_that_vanished_is_named_with_its_batch(self, file: Path) -> None:
        watch = self.watch(file)
        watch.rows()
        file.unlink()
        with pytest.raises(DataLossError, match="is gone") as raised:
            watch.check()
        assert (raised.value.facts["file"], raised.value.facts["batch"]) == (file, 7)

    def test_a_file_that_was_touched_is_named(self, file: Path) -> None:
        watch = self.watch(file)
        watch.rows()
        os.utime(file, (1, 1))
        with pytest.raises(DataLossError, match="has changed") as raised:
            watch.check()
        assert raised.value.facts["file"] == file

    def test_a_time_just_before_a_millisecond_is_no_change(self, file: Path) -> None:
        os.utime(file, ns=(0, 1_795_381_138_319_999_913))
        planned = PlannedFile(file.as_uri(), 1_795_381_138_319, 0)
        FileWatch([planned], batch_id=7, counted=False, form=LineFormat("csv"), cap=100).check()
        assert compared(file, file.stat(), planned.modified_ms, None) is Same.YES


def test_should_look_for_quotes_in_csv_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # JSON is full of quotes, and looking at each takes longer than all the rest.
    looked: list[int] = []
    monkeypatch.setattr(counting._Quotes, "feed", lambda _self, data, _ends: looked.append(len(data)))
    for name in ("a.jsonl", "a.csv"):
        (tmp_path / name).write_bytes(b'"id"\n"1"\n')
    assert TestWatch.watch(tmp_path / "a.jsonl", form="json").rows() == 2
    assert not looked
    assert TestWatch.watch(tmp_path / "a.csv").rows() == 1
    assert looked
