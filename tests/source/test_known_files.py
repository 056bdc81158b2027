"""Whole files that were read: each is read once, whatever happens to its folder, and what cannot be told is refused."""

from __future__ import annotations

import gzip
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.checkpoint.log import PlannedFile
from rs_assets.common.files import modified_ms
from rs_assets.connectors.files.listing import existing_files, located
from rs_assets.connectors.files.whole import spark_files as native
from rs_assets.connectors.files.whole.known_files import FileFacts, Former, Same, as_uri_path, compared
from rs_assets.errors import DataLossError, SourceReadError, TopologyChangedError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.run import run as ended


def put(folder: Path, name: str, *numbers: int, time: int = 0) -> Path:
    """A file of rows, with a time of its own."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        pq.write_table(pa.table({"id": list(numbers)}), file)
    else:
        file.write_text("".join(f'{{"id":{number}}}\n' for number in numbers))
    os.utime(file, (1_700_000_000 + (time or numbers[0]),) * 2)
    return file


def run(path: Path, options: RunOptions, **source: object) -> list[int]:
    """The ids that one run has read."""
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("files", "known").from_file(str(path), **({"schema": "id long"} | source))
    stream.to_memory(out).build().run(options)
    return sorted(row["id"] for row in out.rows())


def planned(file: Path) -> PlannedFile:
    return PlannedFile(file.as_uri(), modified_ms(file.stat()), 0)


def test_located_resolves_links_to_folders_and_keeps_names_of_files(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    put(disk, "x/a.jsonl", 1)
    (tmp_path / "link").symlink_to("disk")
    (disk / "named.jsonl").symlink_to("x/a.jsonl")
    assert located(f"{tmp_path}/link") == str(disk)
    assert located(f"{tmp_path}/link/x/*.jsonl") == f"{disk}/x/*.jsonl"
    assert located(f"{tmp_path}/link/named.jsonl") == f"{disk}/named.jsonl"
    assert existing_files(f"{tmp_path}/link") == [disk / "named.jsonl", disk / "x/a.jsonl"]


def test_existing_files_link_to_a_folder_below_the_path_is_refused_or_followed(tmp_path: Path) -> None:
    put(tmp_path, "in/a.jsonl", 1)
    put(tmp_path, "disk/b.jsonl", 2)
    (tmp_path / "in/sub").symlink_to(tmp_path / "disk")
    (tmp_path / "disk/loop").symlink_to(tmp_path / "in")
    for path in ("in", "in/*", "in/*/*.jsonl"):
        with pytest.raises(SourceReadError, match="a link to a folder"):
            existing_files(f"{tmp_path}/{path}")
    found = existing_files(f"{tmp_path}/in", follow=True)
    assert found == [tmp_path / "in/a.jsonl", tmp_path / "in/sub/b.jsonl"]


def test_compared_time_or_digest_tells_a_file_from_one_of_its_size(tmp_path: Path) -> None:
    file = put(tmp_path, "a.jsonl", 1)
    number, time = FileFacts.read(file).number, modified_ms(file.stat())
    assert compared(file, file.stat(), time, number) is Same.YES
    os.utime(file, (1, 1))
    assert compared(file, file.stat(), time, number) is Same.YES
    assert compared(file, file.stat(), time, FileFacts(file.stat().st_size).number) is Same.UNKNOWN
    put(tmp_path, "a.jsonl", 2)
    assert compared(file, file.stat(), time, number) is Same.NO


def test_renamed_only_a_file_that_is_gone_is_taken_for_the_former_one(tmp_path: Path) -> None:
    file = put(tmp_path, "a.jsonl", 1)
    former = Former({str(file): planned(file)}, {str(file): FileFacts.read(file).number})
    twin = put(tmp_path, "twin.jsonl", 1)
    assert former.renamed(twin, twin.stat(), {}) is None
    file.unlink()
    assert former.renamed(twin, twin.stat(), {}) is not None
    other = put(tmp_path, "other.jsonl", 2, time=1)
    assert former.renamed(other, other.stat(), {}) is None
    packed = put(tmp_path, "a.jsonl.gz", 1)
    assert former.renamed(packed, packed.stat(), {}) is not None


@pytest.mark.parametrize("name", ["a.jsonl", "a b%1é'(x)+~.jsonl", "日本 {1}[2].jsonl"])
def test_as_uri_path_is_what_java_writes(spark, tmp_path: Path, name: str) -> None:
    path = spark._jvm.org.apache.hadoop.fs.Path(f"/data/{name}")
    assert as_uri_path(f"/data/{name}") == path.toUri().toString()


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "tail"])
def test_run_project_that_moves_with_its_input_reads_nothing_again(
    tmp_path: Path, options: RunOptions, ending: str
) -> None:
    form = {"parquet": {"format": "parquet"}, "tail": {"tail": True}}.get(ending, {})
    put(tmp_path, f"a/data/1.{ending}", 1, 2)
    put(tmp_path, f"a/data/sub/x y.{ending}", 3)
    assert run(tmp_path / "a/data", options, **form) == [1, 2, 3]
    (tmp_path / "a").rename(tmp_path / "b")
    put(tmp_path, f"b/data/2.{ending}", 4)
    assert run(tmp_path / "b/data", options, **form) == [4]
    shutil.copytree(tmp_path / "b", tmp_path / "c")
    for file in (tmp_path / "c").rglob("*.*"):
        os.utime(file, (5, 5))
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "link").symlink_to("c")
    assert run(tmp_path / "link/data", options, **form) == []
    assert run(tmp_path / f"link/data/*.{ending}", options, **form) == []


def test_run_file_that_is_renamed_packed_or_replaced_is_refused_and_goes_on_when_put_back(
    tmp_path: Path, options: RunOptions
) -> None:
    folder = tmp_path / "in"
    file, other = put(folder, "a.jsonl", 10), put(folder, "0.jsonl", 11)
    assert run(folder, options) == [10, 11]
    file.rename(folder / "done.jsonl")
    with pytest.raises(DataLossError, match="seems to have another name") as refused:
        run(folder, options)
    assert str(file) in refused.value.remedy
    (folder / "done.jsonl").rename(file)
    assert run(folder, options) == []
    packed = folder / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    os.utime(packed, ns=(file.stat().st_mtime_ns,) * 2)
    file.unlink()
    with pytest.raises(DataLossError, match="seems to have another name"):
        run(folder, options)
    packed.touch()
    assert run(folder, options) == [10]
    put(folder, "0.jsonl", 12)
    with pytest.raises(DataLossError, match="a file changed after it was read") as changed:
        run(folder, options)
    assert "put new records into new files" in changed.value.remedy
    put(folder, "0.jsonl", 11, time=99)
    put(folder, "1.jsonl", 12)
    assert run(folder, options) == [12]
    assert other.exists()


def test_run_file_that_is_renamed_between_two_batches_is_refused(tmp_path: Path, options: RunOptions) -> None:
    folder = tmp_path / "in"
    file = put(folder, "a.jsonl", 1)
    put(folder, "b.jsonl", 2)
    moving = iter([lambda: file.rename(folder / "done.jsonl")])
    renaming = replace(options, on_progress=lambda _: next(moving, lambda: None)())
    pipeline = StreamBuilder.data_stream("files", "known").from_file(str(folder), schema="id long")
    pipeline = pipeline.to_memory(MemoryChannel()).build()
    with pipeline.start(renaming) as running, pytest.raises(DataLossError, match="seems to have another name"):
        running.await_termination(240)
    (folder / "done.jsonl").rename(file)
    put(folder, "c.jsonl", 3)
    assert run(folder, options) == [3]


def test_run_link_to_a_folder_is_read_or_named(tmp_path: Path, options: RunOptions) -> None:
    put(tmp_path, "disk/1.jsonl", 1)
    (tmp_path / "data").symlink_to("disk")
    assert run(tmp_path / "data/*.jsonl", options) == [1]
    put(tmp_path, "disk/2.jsonl", 2)
    assert run(tmp_path / "data", options) == [2]
    put(tmp_path, "more/3.jsonl", 3)
    (tmp_path / "disk/sub").symlink_to(tmp_path / "more")
    with pytest.raises(SourceReadError, match="a link to a folder"):
        run(tmp_path / "data", options)


def test_run_followed_file_behind_a_link_to_a_folder_is_read_once(tmp_path: Path, options: RunOptions) -> None:
    put(tmp_path, "disk/1.jsonl", 1)
    put(tmp_path, "in/2.jsonl", 2)
    (tmp_path / "in/sub").symlink_to(tmp_path / "disk")
    (tmp_path / "disk/back").symlink_to(tmp_path / "in")
    assert run(tmp_path / "in", options, tail=True) == [1, 2]
    with (tmp_path / "disk/1.jsonl").open("a") as file:
        file.write('{"id":3}\n')
    assert run(tmp_path / "in", options, tail=True) == [3]


def test_run_sources_that_exchange_their_paths_are_refused(tmp_path: Path, options: RunOptions) -> None:
    put(tmp_path, "a/1.jsonl", 1)
    put(tmp_path, "b/2.jsonl", 2)

    def both(left: str, right: str) -> list[int]:
        out = MemoryChannel()
        builder = StreamBuilder.data_stream("files", "swapped")
        one = builder.from_file(str(tmp_path / left), schema="id long", name="one")
        two = builder.from_file(str(tmp_path / right), schema="id long", name="two")
        one.union(two).to_memory(out).build().run(options)
        return sorted(row["id"] for row in out.rows())

    assert both("a", "b") == [1, 2]
    with pytest.raises(TopologyChangedError, match="would be read from its beginning") as refused:
        both("b", "a")
    assert "each read the same input as before" in refused.value.remedy
    assert both("a", "b") == []


def test_files_of_1970_are_read_after_those_of_a_clock_that_was_ahead(tmp_path: Path, options: RunOptions) -> None:
    put(tmp_path / "in", "ahead", 1, time=4_300_000_000 - 1_700_000_000)
    assert run(tmp_path / "in", options) == [1]
    put(tmp_path / "in", "old", 2, time=-1_700_000_000)
    assert run(tmp_path / "in", options) == [2]


@pytest.mark.parametrize("name", ["_metadata", "_common_metadata", "_metadata.jsonl"])
def test_a_hidden_file_that_spark_lists_is_not_read(tmp_path: Path, options: RunOptions, name: str) -> None:
    put(tmp_path / "in", "a.jsonl", 1)
    put(tmp_path / "in", name, 9)
    assert run(tmp_path / "in", options) == [1]
    put(tmp_path / "in", "b.jsonl", 2)
    assert run(tmp_path / "in", options) == [2]


def test_files_that_spark_would_not_find_by_two_stars_are_named(tmp_path: Path, options: RunOptions) -> None:
    pattern = tmp_path / "in" / "**" / "*.jsonl"
    put(tmp_path / "in", "one/a.jsonl", 1)
    assert run(pattern, options) == [1]
    deeper = put(tmp_path / "in", "one/two/b.jsonl", 2)
    with pytest.raises(SourceReadError, match=r"(?s)\*\* is one folder in it.*name the folder") as refused:
        run(pattern, options)
    assert refused.value.facts["file"] == str(deeper)
    assert run(tmp_path / "in", options) == [2]


@pytest.mark.parametrize("pattern", ["{a,b}*/*.jsonl", "[^c]*/*.jsonl", r"a\*/*.jsonl", "{a?,{a,c}*}/x*"])
def test_run_changed_file_is_noticed_whatever_the_pattern(tmp_path: Path, options: RunOptions, pattern: str) -> None:
    file = put(tmp_path, "a*/x.jsonl", 1)
    assert existing_files(str(tmp_path / pattern)) == [file]
    assert run(tmp_path / pattern, options) == [1]
    with file.open("a") as more:
        more.write('{"id":2}\n')
    with pytest.raises(DataLossError, match="a file changed after it was read"):
        run(tmp_path / pattern, options)


def test_a_link_to_itself_is_no_file(tmp_path: Path) -> None:
    file = put(tmp_path, "a.jsonl", 1)
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "missing").symlink_to("nowhere")
    assert existing_files(str(tmp_path)) == existing_files(str(tmp_path), follow=True) == [file]


def test_run_file_that_spark_passed_over_is_named_and_read_under_another_name(
    tmp_path: Path, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two files that are far apart in time Spark forgets the older one, if it is let."""
    monkeypatch.setattr(native, "MAX_FILE_AGE", "1s")
    monkeypatch.setattr(ended, "GRACE_MS", -60_000)
    folder = tmp_path / "in"
    put(folder, "new.jsonl", 1, time=99)
    equal = put(folder, "_day=1.jsonl", 9, time=99)
    assert run(folder, options) == [1, 9]
    assert equal in existing_files(str(folder))
    old = put(folder, "old.jsonl", 2, time=1)
    put(folder, ".hidden.jsonl", 3)
    put(folder, "half.jsonl._COPYING_", 4)
    for _ in range(2):
        with pytest.raises(SourceReadError, match="it was not read") as refused:
            run(folder, options)
        assert refused.value.facts["file"] == old
    monkeypatch.setattr(native, "MAX_FILE_AGE", "365000d")
    assert run(folder, options) == [2]
