"""Damage to the state, the sources and the disk is found and named."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rs_assets.errors import CheckpointError
from rs_assets.recovery.preflight import refuse
from rs_assets.recovery.repair import REPAIRS
from tests.checkpoint.broken import (
    CHANGES,
    LZ4_END,
    errors,
    flip,
    free_bytes,
    look,
    made,
    mend,
    only,
    source_log_text,
    zipped,
)


@pytest.fixture(autouse=True)
def room(monkeypatch):
    free_bytes(monkeypatch)


# --- state: state


@pytest.mark.parametrize(
    ("data", "what"),
    [(b"", "is empty"), (CHANGES[:-1], "is cut off"), (CHANGES[: -len(LZ4_END)], "is cut off"), (b"LZ4Block", "cut")],
)
@pytest.mark.parametrize("version", [2, 4])
def test_a_damaged_changelog_is_named_with_operator_partition_and_version(tmp_path, version, data, what):
    checkpoint = made(tmp_path / "c", sums=False)
    path = checkpoint.write(f"state/0/1/{version}.changelog", data)
    finding = only(checkpoint)
    assert (finding.code, finding.severity, finding.file) == ("state", "error", path)
    assert what in finding.meaning
    assert "operator 0 (stateStoreSave), partition 1: version 4 cannot be loaded" in finding.meaning


@pytest.mark.parametrize("name", ["state/0/0/25.changelog", "state/0/1/20.zip", "state/0/1/SSTs/0000020-0a1b.sst"])
def test_a_flipped_bit_in_the_state_is_found(tmp_path, name):
    checkpoint = made(tmp_path / "c", first=19, batches=25)
    flip(checkpoint.folder / name, at=20)
    assert (only(checkpoint).code, "checksum" in only(checkpoint).meaning) == ("state", True)


@pytest.mark.parametrize("name", ["state/0/0/2.changelog", "state/0/1/4.changelog"])
def test_a_lost_changelog_is_named(tmp_path, name):
    checkpoint = made(tmp_path / "c")
    checkpoint.remove(name)
    finding = only(checkpoint)
    assert (finding.code, finding.file) == ("state", checkpoint.folder / name)


def test_state_that_no_start_needs_may_be_gone_or_damaged(tmp_path):
    checkpoint = made(tmp_path / "c", first=19, batches=25)
    checkpoint.remove("state/0/0/20.changelog")
    checkpoint.write("state/0/0/7.changelog", b"")
    checkpoint.write("state/0/0/26.changelog", b"")
    checkpoint.write("state/0/0/9.zip", b"")
    assert look(checkpoint) == ()


@pytest.mark.parametrize("lost", ["state", "state/0", "state/0/0", "state/0/1"])
def test_lost_folders_of_state_are_found(tmp_path, lost):
    checkpoint = made(tmp_path / "c")
    shutil.rmtree(checkpoint.folder / lost)
    found = errors(checkpoint)
    assert {finding.code for finding in found} == {"state"}
    assert str(found[0].file).startswith(str(checkpoint.folder / lost))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b"PK junk", "is a damaged archive"),
        (zipped("0000020-0a1b.sst", 1200)[:-30], "is a damaged archive"),
        (zipped("gone.sst", 1200), "which is missing"),
        (zipped("0000020-0a1b.sst", 9), "1200 bytes instead of 9"),
        (zipped("../../../offsets/19", 9), "has an invalid table name"),
    ],
)
def test_a_damaged_snapshot_is_found(tmp_path, data, what):
    checkpoint = made(tmp_path / "c", first=19, batches=25)
    path = checkpoint.write("state/0/0/20.zip", data)
    finding = only(checkpoint)
    assert (finding.code, finding.file) == ("state", path)
    assert what in finding.meaning


def test_a_damaged_snapshot_with_an_older_way_to_it_says_so(tmp_path):
    checkpoint = made(tmp_path / "c", first=19, batches=25)
    for version in (22, 23):
        checkpoint.snapshot(version)
    path = checkpoint.write("state/0/0/23.zip", b"")
    assert "move it away: snapshot 22 and all changes" in only(checkpoint).remedy
    path.unlink()
    assert look(checkpoint) == ()


def test_another_number_of_partitions_is_found(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.expect(partitions=3)
    assert "in 2 partitions instead of 3" in only(checkpoint).meaning
    checkpoint.expect(partitions=0)
    assert look(checkpoint) == ()


@pytest.mark.parametrize("data", [b"", b"v1", b"v1\n{}", b"v9\n{}", b'v1\n{"operatorInfo":{},"stateStoreInfo":[{}]}'])
def test_a_damaged_description_of_an_operator_is_found(tmp_path, data):
    checkpoint = made(tmp_path / "c")
    path = checkpoint.write("state/0/_metadata/metadata", data)
    assert (only(checkpoint).code, only(checkpoint).severity, only(checkpoint).file) == ("state", "error", path)


def test_a_store_with_a_hostile_name_is_not_followed(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.stores = ("../../../../etc",)
    checkpoint.describe()
    assert "an invalid store" in only(checkpoint).meaning


# --- disk_full, source_log and the rest


@pytest.mark.parametrize(("free", "severity"), [(0, "error"), (64 * 2**20 - 1, "error"), (64 * 2**20, "warning")])
def test_a_disk_without_room_is_reported(tmp_path, monkeypatch, free, severity):
    checkpoint = made(tmp_path / "c")
    free_bytes(monkeypatch, free)
    assert (only(checkpoint).code, only(checkpoint).severity) == ("disk_full", severity)


def test_a_disk_that_does_not_answer_is_a_checkpoint_error(tmp_path, monkeypatch):
    def gone(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(shutil, "disk_usage", gone)
    with pytest.raises(CheckpointError, match="Input/output error"):
        look(made(tmp_path / "c"))


def test_the_lost_log_of_a_file_source_is_found(tmp_path):
    checkpoint = made(tmp_path / "c")
    shutil.rmtree(checkpoint.folder / "sources" / "file")
    found = only(checkpoint)
    assert (found.code, found.severity, found.file) == ("source_log", "error", checkpoint.folder / "sources" / "file")


@pytest.mark.parametrize("entry", [0, 2, 3])
def test_a_lost_entry_of_a_file_source_is_found(tmp_path, entry):
    checkpoint = made(tmp_path / "c")
    checkpoint.remove(f"sources/file/{entry}")
    assert (only(checkpoint).code, only(checkpoint).file.name) == ("source_log", str(entry))


@pytest.mark.parametrize("compacted", [4, 6, 9])
def test_a_log_that_was_compacted_after_the_batch_of_a_rewind_is_sound(tmp_path, compacted):
    checkpoint = made(tmp_path / "c")
    for entry in {*range(4, compacted + 3)} - {compacted}:
        checkpoint.write(f"sources/file/{entry}", source_log_text(entry))
    checkpoint.write(f"sources/file/{compacted}.compact", source_log_text(*range(compacted + 1)))
    assert not look(checkpoint)
    checkpoint.remove(f"sources/file/{compacted + 1}")
    assert (only(checkpoint).code, only(checkpoint).file.name) == ("source_log", str(compacted + 1))


@pytest.mark.parametrize("data", ["", "v1", "v1\n", "v1\n{", source_log_text(3)[:-1], source_log_text(3) + "\n"])
def test_a_damaged_entry_of_a_file_source_is_found(tmp_path, data):
    checkpoint = made(tmp_path / "c")
    path = checkpoint.write("sources/file/3", data)
    assert (only(checkpoint).code, only(checkpoint).file) == ("source_log", path)


def test_sources_that_come_and_go_are_only_told(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.expect(sources=("file", "other"))
    gone, new = look(checkpoint)
    assert {(finding.code, finding.severity) for finding in (gone, new)} == {("sources", "warning")}
    assert "'feed'" in gone.meaning
    assert "'other'" in new.meaning


def test_a_plan_that_lost_its_last_line_is_found_without_a_checksum(tmp_path):
    checkpoint = made(tmp_path / "c", sums=False)
    checkpoint.plan(3, file='{"logOffset":3}')
    assert (only(checkpoint).code, "'feed'" in only(checkpoint).meaning) == ("damaged_plan", True)


def test_leftovers_of_killed_runs_are_reported_and_removed(tmp_path):
    checkpoint = made(tmp_path / "c")
    names = ["offsets/.4.0a1b.tmp", "offsets/..4.0a1b.tmp.crc", "state/0/0/.5.changelog.0a1b.TID6.tmp"]
    for name in names:
        (checkpoint.folder / name).write_bytes(b"")
    outside = tmp_path / "outside.tmp"
    outside.write_bytes(b"keep")
    (checkpoint.folder / "link.tmp").symlink_to(outside)
    finding = only(checkpoint)
    assert (finding.severity, finding.repair) == ("warning", "clean_temporaries")
    assert "3 temporary files" in mend(checkpoint)
    assert outside.read_bytes() == b"keep"
    with pytest.raises(CheckpointError, match="has none"):
        REPAIRS["clean_temporaries"](checkpoint.folder, checkpoint.expected)


def test_hostile_names_in_folders_are_ignored(tmp_path):
    checkpoint = made(tmp_path / "c")
    names = ["²", "٣", "-1", "+5", "007", "1e3", "0x10", " 9", "9 ", "9\n", "9.tmpx", "\udcff", "9" * 200, "4.compact"]
    places = ["offsets", "commits", "state/0/0", "state/0", "state", "sources/file", "sources", "."]
    for place in places:
        for name in names[:-1] if place == "sources/file" else names:
            (checkpoint.folder / place / name).write_bytes(b"junk")
    for place in ("offsets", "commits"):
        (checkpoint.folder / place / "77").mkdir()
        (checkpoint.folder / place / "78").symlink_to(tmp_path)
        (checkpoint.folder / place / "79").symlink_to("79")
        os.mkfifo(checkpoint.folder / place / "80")
    assert look(checkpoint) == ()


@pytest.mark.parametrize("place", ["offsets", "commits", "state", "sources", "state/0/0", "metadata"])
def test_a_file_for_a_folder_and_a_folder_for_a_file_are_found(tmp_path, place):
    checkpoint = made(tmp_path / "c")
    path = checkpoint.folder / place
    if path.is_dir():
        shutil.rmtree(path)
        path.write_bytes(b"junk")
    else:
        path.unlink()
        path.mkdir()
    assert errors(checkpoint)


@pytest.mark.parametrize("name", sorted(REPAIRS))
def test_no_repair_touches_a_sound_checkpoint(tmp_path, name):
    checkpoint = made(tmp_path / "c", pending=True)
    before = contents(checkpoint.folder)
    with pytest.raises(CheckpointError, match=name):
        REPAIRS[name](checkpoint.folder, checkpoint.expected)
    assert contents(checkpoint.folder) == before


def test_no_repair_makes_anything_of_a_checkpoint_that_is_not_there(tmp_path):
    checkpoint = made(tmp_path / "c")
    for name in sorted(REPAIRS.keys() - {"write_metadata"}):
        with pytest.raises(CheckpointError):
            REPAIRS[name](tmp_path / "none", checkpoint.expected)
    assert not (tmp_path / "none").exists()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- refusing


def test_errors_are_refused_with_file_meaning_remedy_and_repair(tmp_path):
    checkpoint = made(tmp_path / "c", pending=True)
    checkpoint.write("offsets/4", b"")
    checkpoint.remove("metadata")
    with pytest.raises(CheckpointError) as caught:
        refuse(look(checkpoint), "shop.clicks")
    text = str(caught.value)
    for part in (
        "shop.clicks",
        "empty_plan",
        "offsets/4: is empty",
        "metadata",
        "remedy: ",
        "(repair drop_uncommitted)",
    ):
        assert part in text


def test_warnings_are_not_refused(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.expect(sources=("file", "feed", "new"))
    refuse(look(checkpoint), "shop.clicks")
