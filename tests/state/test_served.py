"""The copy for lookups follows the table of state, whatever moves its version."""

from pathlib import Path

import pyarrow as pa
import pytest

from rs_assets.errors import CheckpointError
from rs_assets.operators.state import served
from rs_assets.operators.state.served import ServedState, refresh
from rs_assets.operators.state.snapshot import StateSnapshot


def snapshot(version, state, changes=None):
    """Version `version` of a state, with its whole content and, if it is known, what changed."""
    table = pa.table(
        {
            "key": list(state),
            "value": list(state.values()),
            "batch_id": pa.array([version] * len(state), pa.int64()),
        }
    )
    changed = None
    if changes is not None:
        rows = [
            {"key": k, "value": v, "batch_id": version, "change": "delete" if v is None else "insert"}
            for k, v in changes.items()
        ]
        changed = pa.Table.from_pylist(rows)
    taken = StateSnapshot(
        path="", batch_id=version, version=version, rows=len(state), changed=1, whole=changes is None, changes=changed
    )
    return taken, lambda: table


def copied(folder):
    with ServedState(folder) as copy:
        return copy.batch_id, {found.key: found.value for found in copy.find({})}


def bring(folder, version, state, changes=None):
    taken, table = snapshot(version, state, changes)
    refresh(folder, taken, table=table)


A, B, C = '{"page":"a"}', '{"page":"b"}', '{"page":"c"}'


@pytest.mark.parametrize("missed", [2, 5], ids=["a compaction", "a kill and a compaction"])
def test_a_version_that_the_copy_has_missed_lets_it_be_filled_anew(tmp_path, missed):
    bring(tmp_path, 0, {A: "1", C: "1"})
    bring(tmp_path, 1, {A: "2", C: "1"}, {A: "2"})
    bring(tmp_path, 1 + missed, {A: "3", B: "1"}, {B: "1"})
    assert copied(tmp_path) == (1 + missed, {A: "3", B: "1"})
    bring(tmp_path, 2 + missed, {A: "3"}, {B: None})
    assert copied(tmp_path) == (2 + missed, {A: "3"})


def test_changes_are_enough_for_a_copy_of_the_version_before(tmp_path):
    bring(tmp_path, 0, {A: "1"})
    taken, _ = snapshot(1, {A: "1", B: "1"}, {B: "1"})
    refresh(tmp_path, taken, table=lambda: pytest.fail("all rows were read"))
    assert copied(tmp_path) == (1, {A: "1", B: "1"})


@pytest.mark.parametrize("harm", ["pointer", "copy"])
def test_a_damaged_copy_is_filled_anew(tmp_path, harm):
    import shutil

    bring(tmp_path, 0, {A: "1"})
    if harm == "pointer":
        (tmp_path / "current.json").write_text("no json")
    else:
        shutil.rmtree(tmp_path / "v00000000")
    bring(tmp_path, 1, {A: "1", B: "1"}, {B: "1"})
    assert copied(tmp_path) == (1, {A: "1", B: "1"})


def test_who_may_not_write_to_the_copy_reads_it_by_links(tmp_path, monkeypatch):
    bring(tmp_path, 0, {A: "1"})
    bring(tmp_path, 1, {A: "1", B: "1"}, {B: "1"})

    def refuses(path, *given, **settings):
        if path.startswith(str(tmp_path)):
            raise PermissionError(13, "Permission denied (os error 13)")
        opened.append(Path(path))
        return rdict(path, *given, **settings)

    opened: list[Path] = []
    rdict = served.Rdict
    monkeypatch.setattr(served, "Rdict", refuses)
    assert copied(tmp_path) == (1, {A: "1", B: "1"})
    assert len(opened) == 1
    assert not opened[0].exists()


def test_a_copy_of_another_user_is_not_called_damaged(tmp_path, monkeypatch):
    bring(tmp_path, 0, {A: "1"})

    def refuses(path):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refuses)
        with pytest.raises(CheckpointError, match="cannot be read") as refused:
            ServedState(tmp_path)
    assert refused.value.remedy == "ask as the user who runs the stream, or let this one read the folder"
    assert copied(tmp_path) == (0, {A: "1"})
