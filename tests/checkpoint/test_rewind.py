"""A query goes back to an earlier batch as far as its files reach, and never into state that cannot be rebuilt."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rs_assets.errors import CheckpointError
from rs_assets.recovery.rewinding import StoreVersions, rewind, rewindable
from tests.checkpoint.fabricate import FakeQuery, remove, write


def query(tmp_path, batches: int = 8, **options) -> FakeQuery:
    made = FakeQuery(tmp_path / "q", **options).begin()
    for batch in range(batches):
        made.batch(batch)
    return made


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_newer_commits_and_plans_go_with_their_checksums(tmp_path):
    made = query(tmp_path)
    made.plan(8)
    assert rewind(made.checkpoint, 4) == (8, 7, 6, 5)
    for log in ("commits", "offsets"):
        assert names(made.checkpoint / log) == {n for i in range(5) for n in (str(i), f".{i}.crc")}
    assert json.loads((made.checkpoint / "metadata").read_text()) == {"id": made.query_id}


def test_newer_state_goes_too_so_that_no_later_start_loads_a_snapshot_of_batches_that_never_were(tmp_path):
    made = query(tmp_path)
    made.snapshot(3)
    made.snapshot(7)
    rewind(made.checkpoint, 4)
    for place in made.places():
        versions = {name for name in names(place) if name[0].isdigit()}
        assert versions == {"1.changelog", "2.changelog", "3.changelog", "4.changelog", "5.changelog", "3.zip"}
        assert ".7.zip.crc" not in names(place)


def test_going_back_to_the_last_batch_forgets_only_what_was_planned(tmp_path):
    made = query(tmp_path)
    made.plan(8)
    assert rewind(made.checkpoint, 7) == (8,)
    assert rewind(made.checkpoint, 7) == ()
    assert rewindable(made.checkpoint) == range(8)


@pytest.mark.parametrize("batch", [-1, 8, 99])
def test_a_batch_that_was_never_committed_is_refused_with_those_that_were(tmp_path, batch):
    made = query(tmp_path)
    before = everything(tmp_path)
    with pytest.raises(CheckpointError, match=rf"batch {batch}: commits/{batch} is missing") as refused:
        rewind(made.checkpoint, batch)
    assert "the batches 0 to 7" in refused.value.remedy
    assert everything(tmp_path) == before


def test_state_reaches_back_to_the_oldest_snapshot(tmp_path):
    made = query(tmp_path)
    made.snapshot(4)
    for place in made.places():
        for version in range(1, 5):
            remove(place / f"{version}.changelog")
    assert rewindable(made.checkpoint) == range(3, 8)
    before = everything(tmp_path)
    with pytest.raises(CheckpointError, match=r"state/0/0 lacks version 1, so state 3 cannot be rebuilt") as refused:
        rewind(made.checkpoint, 2)
    assert "the batches 3 to 7" in refused.value.remedy
    assert everything(tmp_path) == before
    rewind(made.checkpoint, 3)
    assert rewindable(made.checkpoint) == range(3, 4)


def test_every_partition_and_store_must_reach_back(tmp_path):
    made = query(tmp_path, stores=("left-keyToNumValues", "left-keyWithIndexToValue"))
    assert rewindable(made.checkpoint) == range(8)
    remove(made.places()[-1] / "3.changelog")
    # Versions 1 and 2 can be rebuilt, but there is a gap between them and the newest.
    assert rewindable(made.checkpoint) == range(2)
    with pytest.raises(CheckpointError, match="state/0/1/left-keyWithIndexToValue lacks version 3"):
        rewind(made.checkpoint, 5)


def test_a_partition_that_lost_all_its_files_is_refused(tmp_path):
    made = query(tmp_path)
    for file in made.places()[1].glob("*.changelog"):
        remove(file)
    assert rewindable(made.checkpoint) == range(0)
    with pytest.raises(CheckpointError, match="state/0/1 lacks version 1") as refused:
        rewind(made.checkpoint, 5)
    assert "no batch" in refused.value.remedy


def test_a_store_that_one_partition_lost_is_refused(tmp_path):
    made = query(tmp_path, stores=("left", "right"))
    for file in (made.checkpoint / "state/0/0/right").iterdir():
        file.unlink()
    (made.checkpoint / "state/0/0/right").rmdir()
    with pytest.raises(CheckpointError, match="state/0/0/right lacks version 1"):
        rewind(made.checkpoint, 5)


def test_a_query_without_state_goes_back_as_far_as_its_logs(tmp_path):
    made = query(tmp_path, partitions=0)
    made.clean(3)
    # Spark also reads the plan before the one that it goes on from.
    assert rewindable(made.checkpoint) == range(4, 8)
    with pytest.raises(CheckpointError, match="offsets/2 is missing"):
        rewind(made.checkpoint, 3)
    assert rewind(made.checkpoint, 4) == (7, 6, 5)


def test_a_missing_plan_is_refused(tmp_path):
    made = query(tmp_path, partitions=0)
    remove(made.checkpoint / "offsets/5")
    assert rewindable(made.checkpoint) == range(7, 8)
    for batch in (5, 6):
        with pytest.raises(CheckpointError, match="offsets/5 is missing"):
            rewind(made.checkpoint, batch)


@pytest.mark.parametrize("folder", ["nothing", "file"])
def test_what_is_no_checkpoint_is_refused(tmp_path, folder):
    (tmp_path / "file").write_text("junk")
    assert rewindable(tmp_path / folder) == range(0)
    with pytest.raises(CheckpointError, match="cannot go back"):
        rewind(tmp_path / folder, 0)


def test_odd_names_are_neither_batches_nor_versions(tmp_path):
    made = query(tmp_path, batches=4)
    for name in ("07", "\u0667", "9.tmp", ".9.0a.tmp", "9.compact"):
        write(made.checkpoint / "commits" / name, "x")
        write(made.checkpoint / "offsets" / name, "x")
    (made.checkpoint / "commits" / "9").mkdir()
    (made.checkpoint / "state" / "\u0663").mkdir()
    for name in ("0.changelog", "08.changelog", "9.changelog.tmp", "x.zip"):
        write(made.places()[0] / name, "x")
    assert rewindable(made.checkpoint) == range(4)
    assert rewind(made.checkpoint, 1) == (3, 2)


@pytest.mark.parametrize(("change", "whole"), [("changelog", "zip"), ("delta", "snapshot")])
def test_both_kinds_of_state_store_and_names_with_an_id_are_known(tmp_path, change, whole):
    made = query(tmp_path, partitions=0)
    for version in range(3, 9):
        write(made.checkpoint / f"state/0/0/{version}_0a1b-2c.{change}", "x")
    write(made.checkpoint / f"state/0/0/3_0a1b.{whole}", "x")
    write(made.checkpoint / "state/0/0/SSTs/7.zip", "x")
    assert rewindable(made.checkpoint) == range(2, 8)


@pytest.mark.parametrize("allowed", range(0, 60, 3))
def test_cut_off_anywhere_it_leaves_at_most_one_plan_without_commit_and_repeating_it_ends_it(
    tmp_path, monkeypatch, allowed
):
    made = query(tmp_path)
    unlink, left = Path.unlink, [allowed]

    def unplugged(path, **options):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(5, "Input/output error")
        unlink(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unplugged)
        with suppress(CheckpointError):
            rewind(made.checkpoint, 2)
    commits, offsets = ({int(n) for n in names(made.checkpoint / log) if n.isdigit()} for log in ("commits", "offsets"))
    assert max(offsets) - max(commits) in (0, 1)
    if max(commits) < 7:
        assert not list((made.checkpoint / "state").rglob("[4-9].changelog"))
    rewind(made.checkpoint, 2)
    assert rewindable(made.checkpoint) == range(3)


@given(st.sets(st.integers(1, 12)), st.sets(st.integers(1, 12)), st.integers(1, 12))
def test_a_version_can_be_rebuilt_only_from_a_snapshot_or_from_nothing_by_every_change(snapshots, changes, version):
    def loads(number: int) -> bool:
        if number in snapshots:
            return True
        return number in changes and (number == 1 or loads(number - 1))

    assert (StoreVersions(snapshots, changes).first_missing(version) is None) == loads(version)


@pytest.mark.parametrize("partitions", [1, 4])
def test_state_reaches_back_behind_a_rescale_and_before_it(tmp_path, partitions):
    made = query(tmp_path, batches=4)
    made.rescale(4, partitions)
    for batch in (5, 6):
        made.batch(batch)
    assert rewindable(made.checkpoint) == range(7)
    rewind(made.checkpoint, 5)
    assert rewindable(made.checkpoint) == range(6)


def test_a_partition_that_a_batch_has_must_be_there_behind_a_rescale_too(tmp_path):
    made = query(tmp_path, batches=4)
    made.rescale(4, 1)
    made.batch(5)
    remove(made.places()[0] / "6.changelog")
    assert rewindable(made.checkpoint) == range(5)
