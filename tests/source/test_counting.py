"""Looking at the lines of whole files by blocks, against looking at them one by one."""

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
from rs_assets.connectors.files.whole.counting import Checked, FileWatch, check_lines
from rs_assets.connectors.files.whole.known_files import FileFacts, Same, compared
from rs_assets.errors import BadRecordError, DataLossError, SourceReadError

LINES = st.lists(
    st.sampled_from(
        [b"", b" ", b"\t\r", b"a", b"ab c", b"[1]", b" [", b"x" * 9, b'"', b'a"b"', b'"x" "', b"a\rb", b"\0", b'"\0"']
    ),
    max_size=30,
)


def one_by_one(content: bytes, cap: int) -> Checked:
    lines = content.split(b"\n")
    last = lines.pop()
    beyond = sum(len(line) > cap for line in lines) + (len(last) > cap + 1)
    every = [*lines, last]
    returns = b"\r" in last or any(b"\r" in line.removesuffix(b"\r") for line in lines)
    nul = not beyond and any(b"\0" in line and b'"' in line for line in every)
    return Checked(beyond, unbalanced=any(line.count(b'"') % 2 for line in every), returns=returns, nul=nul)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES, ended=st.booleans(), block=st.integers(1, 12), cap=st.sampled_from([5, 1000]))
def test_blocks_of_any_size_give_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], ended: bool, block: int, cap: int
) -> None:
    content = b"\n".join(lines) + b"\n" * ended
    file = tmp_path / "a.jsonl"
    file.write_bytes(content)
    monkeypatch.setattr(counting, "BLOCK_BYTES", block)
    assert check_lines(file, cap=cap) == one_by_one(content, cap)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_archives_are_looked_at_unpacked(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.jsonl{suffix}"
    content = b'"id\n' + b"x" * 9 + b"\n"
    file.write_bytes(gzip.compress(content) if suffix == ".gz" else pa.compress(content, codec="zstd", asbytes=True))
    assert check_lines(file, cap=5) == Checked(1, unbalanced=True)


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

    def test_noted_sizes_are_by_path(self, file: Path) -> None:
        noted = self.watch(file).noted()
        assert {path: FileFacts.of(number).size for path, number in noted.items()} == {str(file): 16}

    def test_a_line_beyond_the_cap_is_refused(self, file: Path) -> None:
        watch = self.watch(file, cap=5)
        with pytest.raises(SourceReadError, match="more than 5 bytes") as raised:
            watch.check_lengths()
        assert raised.value.facts["file"] == file
        with pytest.raises(BadRecordError, match="more than 5 bytes"):
            watch.check_records()

    def test_a_file_that_vanished_is_named_with_its_batch(self, file: Path) -> None:
        watch = self.watch(file)
        watch.check_records()
        file.unlink()
        with pytest.raises(DataLossError, match="is gone") as raised:
            watch.check()
        assert (raised.value.facts["file"], raised.value.facts["batch"]) == (file, 7)

    def test_a_file_that_was_touched_is_named(self, file: Path) -> None:
        watch = self.watch(file)
        watch.check_records()
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
    looked: list[int] = []
    monkeypatch.setattr(counting._Quotes, "feed", lambda _self, data, _ends: looked.append(len(data)))
    for name, form in (("a.jsonl", "json"), ("a.log", "text"), ("a.csv", "csv")):
        (tmp_path / name).write_bytes(b'"id"\n"1"\n')
        assert not looked
        TestWatch.watch(tmp_path / name, form=form).check_records()
    assert looked


def test_a_file_that_is_put_back_as_it_was_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id\n1\n")
    watch = TestWatch.watch(file)
    watch.check_records()
    file.rename(tmp_path / "away")
    with pytest.raises(DataLossError) as raised:
        watch.check()
    assert raised.value.remedy.startswith("put the file back as it was")
    (tmp_path / "away").rename(file)
    watch.check()
