"""The copy for lookups follows the table of state, whatever moves its version."""

import pyarrow as pa
import pytest

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
    with ServedState(folder) as served:
        return served.batch_id, {found.key: found.value for found in served.find({})}


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
