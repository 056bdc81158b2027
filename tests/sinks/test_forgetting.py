"""Rows of keys leave a Delta table: its newest version, files of earlier ones, and its log; without Spark."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from rs_assets.connectors.delta.forgetting import QUIET_S, Found, TableErasure
from rs_assets.connectors.delta.log.history import CannotReturn, History, change_of
from rs_assets.connectors.delta.log.versions import files_added
from rs_assets.connectors.delta.table import properties
from rs_assets.connectors.generations import Point
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import ConfigurationError, SinkError
from rs_assets.runtime.forget.keys import InColumns, InTexts, Keys

MARK = BatchMark("p1", 1, "out", -1, token=3)


def mark(batch: int) -> BatchMark:
    return BatchMark("p1", 1, "out", batch, token=3)


def written(path: str, batch: int, users: list[str], **settings: Any) -> None:
    rows = pa.table({"user": users, "day": ["a" if n % 2 else "b" for n in range(len(users))], "n": range(len(users))})
    write_deltalake(path, rows, mode="append", commit_properties=properties(mark(batch)), **settings)


def erasure(path: str, batch: int, **wanted: str) -> TableErasure:
    keys = Keys.of(wanted, {})
    return TableErasure(path=path, matcher=InColumns(keys.at("out"), keys), step="out", mark=mark(batch), pipeline="p1")


def holding(folder: Path, text: str) -> list[str]:
    """The files with a text: of Parquet in any of their columns, also those of the log's checkpoints."""
    found = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = (
            str(pq.read_table(file).to_pylist()) if file.suffix == ".parquet" else file.read_bytes().decode("latin1")
        )
        found += [str(file.relative_to(folder))] if text in content else []
    return found


def users(path: str) -> list[str]:
    found: list[str] = DeltaTable(path).to_pyarrow_table()["user"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("partition_by", [None, ["day"]], ids=["plain", "partitioned"])
def test_erase_rows_in_several_versions_leaves_no_file_with_the_key(
    tmp_path: Path, partition_by: list[str] | None
) -> None:
    path = str(tmp_path / "visits")
    written(path, 0, ["ann", "zoe", "bob"], partition_by=partition_by)
    written(path, 1, ["zoe", "zoe", "cid"])
    written(path, 2, ["dan"])
    DeltaTable(path).optimize.compact()
    DeltaTable(path).create_checkpoint()
    gone = erasure(path, 2, user="zoe")
    found = gone.found()
    assert (found.rows, found.earlier, found.entries > 0) == (3, 3, True)

    gone.erase()
    assert users(path) == ["ann", "bob", "cid", "dan"]
    assert holding(tmp_path, "zoe") == []
    assert not gone.found().anything
    version = DeltaTable(path).version()
    gone.erase()
    assert DeltaTable(path).version() == version
    written(path, 3, ["zoe"])
    assert users(path) == ["ann", "bob", "cid", "dan", "zoe"]


def test_erase_is_a_change_of_the_sink_that_readers_of_rows_do_not_see(tmp_path: Path) -> None:
    path = str(tmp_path / "visits")
    written(path, 0, ["ann", "bob", "zoe"])
    written(path, 4, ["cid", "kim"])
    erasure(path, 4, user="bob").erase()
    table = DeltaTable(path)
    assert users(path) == ["ann", "cid", "kim", "zoe"]
    assert files_added(path, table.version()) == []
    (newest, *_) = table.history()
    change = change_of(newest, MARK)
    assert (change.kind, change.kept, change.is_own) == ("forget", Point(1, 4), True)
    # Another sink of the table lost rows, which it is warned of.
    assert change_of(newest, BatchMark("p2", 1, "out", 0)).kind == "removed"
    history = History(table.history(), MARK)
    assert history.version_for(Point(1, 4)) == table.version()
    # Before that batch the table had a file that is gone, and the log no longer has it.
    with pytest.raises(CannotReturn, match="only reaches back to version"):
        history.version_for(Point(1, 0))


def test_erase_that_cuts_the_log_keeps_the_rows_of_the_last_batch_reachable(tmp_path: Path) -> None:
    path = str(tmp_path / "visits")
    written(path, 0, ["ann", "zoe"])
    written(path, 1, ["bob"])
    erasure(path, 1, user="zoe").erase()
    table = DeltaTable(path)
    assert (table.history()[-1]["version"] > 0, table.transaction_version("p1/g1/out")) == (True, 1)
    assert History(table.history(), MARK).version_for(Point(1, 1)) == table.version()
    written(path, 2, ["cid"])
    history = History(DeltaTable(path).history(), MARK)
    assert [history.version_for(Point(1, batch)) for batch in (1, 2)] == [table.version(), table.version() + 1]


def test_erase_finds_rows_by_numbers_structs_and_conditions_of_the_log(tmp_path: Path) -> None:
    path = str(tmp_path / "visits")
    who = [{"id": 16}, {"id": 17}, {"id": 170}]
    write_deltalake(path, pa.table({"who": who, "n": [17, 2, 3]}), commit_properties=properties(mark(0)))
    DeltaTable(path).delete("n = 2 OR n = 17")
    gone = erasure(path, 0, **{"who.id": "17"})
    found = gone.found()
    assert (found.rows, found.earlier) == (0, 1)
    gone.erase()
    assert not gone.found().anything
    assert [row["who"]["id"] for row in DeltaTable(path).to_pyarrow_table().to_pylist()] == [170]


def test_erase_leaves_no_other_value_of_the_row_in_the_log(tmp_path: Path) -> None:
    path = str(tmp_path / "visits")
    rows = pa.table({"id": [16, 17, 18], "mail": ["b@x.org", "a@x.org", "c@x.org"]})
    write_deltalake(path, rows, commit_properties=properties(mark(0)))
    DeltaTable(path).create_checkpoint()
    gone = erasure(path, 0, id="17")
    assert (gone.found().rows, gone.found().entries) == (1, 2)
    gone.erase()
    assert holding(tmp_path, "a@x.org") == []
    assert not gone.found().anything
    assert History(DeltaTable(path).history(), MARK).version_for(Point(1, 0)) == DeltaTable(path).version()


def test_erase_does_not_take_values_of_rows_that_stay_for_those_of_a_key(tmp_path: Path) -> None:
    """The same record may be a dead letter of another pipeline, and another field of one may have the value."""
    path, keys = str(tmp_path / "letters"), Keys.of({"user": "17"}, {})
    own = {"namespace": "shop", "job": "a"}
    records = ['{"user": 17}', '{"id": 17, "user": 5}', '{"user": 17}']
    rows = pa.table({"namespace": ["shop"] * 3, "job": ["a", "a", "b"], "record": records, "reason": ["bad 17"] * 3})
    for job in ("a", "b"):
        write_deltalake(path, rows.filter(pc.equal(rows["job"], job)), mode="append")
    matcher = InTexts(own, ("record", "reason"), keys, lambda texts: bool(keys.in_record(texts[0] or "")))
    gone = TableErasure(path=path, matcher=matcher, step="dead_letters", pipeline="p1")
    found = gone.found()
    assert (found.rows, found.entries) == (1, 1)
    gone.erase()
    assert sorted(DeltaTable(path).to_pyarrow_table()["record"].to_pylist()) == sorted(records[1:])
    assert not gone.found().anything


def test_erase_that_was_killed_while_it_wrote_a_file_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "visits")
    written(path, 0, ["ann", "zoe"])
    gone, write = erasure(path, 0, user="zoe"), pq.write_table

    def killed(*arguments: Any, **named: Any) -> None:
        write(*arguments, **named)
        (half,) = tmp_path.rglob("*.forgetting")
        half.write_bytes(half.read_bytes()[:40])
        raise KeyboardInterrupt

    monkeypatch.setattr(pq, "write_table", killed)
    with pytest.raises(KeyboardInterrupt):
        gone.erase()
    monkeypatch.undo()
    assert gone.found().broken == 1
    gone.erase()
    assert users(path) == ["ann"]
    assert not gone.found().anything
    assert not list(tmp_path.rglob("*.forgetting"))


@pytest.mark.parametrize("name", ["part-1.parquet", "part-1.parquet#1"])
def test_erase_removes_what_a_killed_write_has_left_once_it_cannot_be_going_on(tmp_path: Path, name: str) -> None:
    path, left = str(tmp_path / "visits"), tmp_path / "visits" / name
    written(path, 0, ["ann", "bob"])
    (whole,) = (tmp_path / "visits").glob("*.parquet")
    left.write_bytes(whole.read_bytes()[:40])
    gone = erasure(path, 0, user="zoe")
    gone.erase()
    assert gone.found() == Found(version=0, broken=1)
    long_ago = time.time() - QUIET_S - 1
    os.utime(left, (long_ago, long_ago))
    gone.erase()
    assert not left.exists()
    assert not gone.found().anything
    assert users(path) == ["ann", "bob"]


def test_erase_finds_the_rows_of_a_write_that_was_killed_before_its_file_got_its_name(tmp_path: Path) -> None:
    path = str(tmp_path / "visits")
    written(path, 0, ["ann", "bob"])
    pq.write_table(pa.table({"user": ["zoe"], "day": ["a"], "n": [1]}), tmp_path / "visits" / "part-1.parquet#1")
    gone = erasure(path, 0, user="zoe")
    assert gone.found().earlier == 1
    gone.erase()
    assert not list(tmp_path.rglob("*#1"))


def test_erase_that_ends_after_the_log_is_cut_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "visits")
    written(path, 0, ["ann", "bob", "zoe"])
    gone = erasure(path, 0, user="bob")
    for name in ("_cut_log", "_remove_files"):
        with monkeypatch.context() as patch:
            patch.setattr(TableErasure, name, lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                gone.erase()
        assert gone.found().earlier == 1
    gone.erase()
    assert (holding(tmp_path, "bob"), gone.found().anything, users(path)) == ([], False, ["ann", "zoe"])


def test_erase_finds_a_field_at_any_depth(tmp_path: Path) -> None:
    person = pa.struct([("user", pa.string()), ("n", pa.int64())])
    kinds = {
        "who": person,
        "seen": pa.list_(person),
        "by": pa.map_(pa.string(), person),
        "deep": pa.struct([("days", pa.list_(pa.map_(pa.string(), pa.list_(person))))]),
    }
    zoe, ann = {"user": "zoe", "n": 1}, {"user": "ann", "n": 2}
    values: dict[str, Any] = {
        "who": zoe,
        "seen": [ann, zoe],
        "by": [("a", zoe)],
        "deep": {"days": [[("a", [ann, zoe])]]},
    }
    rows: list[dict[str, Any]] = [{"id": n, name: value} for n, (name, value) in enumerate(values.items())]
    rows += [
        {"id": 8, "who": ann, "seen": [], "by": [], "deep": None},
        {"id": 9, "seen": [None, ann], "by": [("zoe", ann)]},
    ]
    path = str(tmp_path / "visits")
    schema = pa.schema([("id", pa.int64()), *kinds.items()])
    write_deltalake(path, pa.Table.from_pylist(rows, schema=schema), commit_properties=properties(mark(0)))
    gone = erasure(path, 0, user="zoe")
    assert gone.found().rows == len(values)
    gone.erase()
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == [8, 9]
    assert erasure(path, 0, **{"who.n": "2", "seen.n": "3"}).found().rows == 1


def test_keys_without_a_text_are_refused_and_columns_of_values_are_taken() -> None:
    for wrong in (None, [None], b"17", float("nan"), {"id": 17}, ["a", ["b"]]):
        with pytest.raises(ConfigurationError, match="by which no row can be found") as refused:
            Keys.of({"user": wrong}, {})
        assert "user_id=17" in refused.value.remedy
    for many in ([17, 18], {17: 1, 18: 2}.keys(), pa.array([17, 18]).to_numpy(), (n for n in (17, 18))):
        assert Keys.of({"user": many}, {}).values == {"user": ("17", "18")}
    assert Keys.of({"user": "17"}, {}).values == {"user": ("17",)}


def test_tables_whose_files_cannot_be_replaced_are_refused_and_taken_after_the_remedy(tmp_path: Path) -> None:
    by_user = str(tmp_path / "by_user")
    written(by_user, 0, ["ann", "zoe"], partition_by=["user"])
    with pytest.raises(SinkError, match="partitioned by user"):
        erasure(by_user, 0, user="zoe").check()

    added = str(tmp_path / "added")
    written(added, 0, ["ann", "zoe"], configuration={"delta.appendOnly": "true"})
    gone = erasure(added, 0, user="zoe")
    with pytest.raises(SinkError, match="only accepts appends") as refused:
        gone.check()
    assert "delta.appendOnly to false" in refused.value.remedy
    DeltaTable(added).alter.set_table_properties({"delta.appendOnly": "false"})
    gone.check()
    gone.erase()
    assert users(added) == ["ann"]

    with pytest.raises(ConfigurationError, match="cannot be one of the column 'n'") as wrong:
        erasure(added, 0, n="seven").found()
    assert "as the column shows it" in wrong.value.remedy
    assert erasure(added, 0, n="7").found().rows == 0


def test_keys_are_found_in_records_by_field_or_as_words() -> None:
    keys = Keys.of({"user": [17, "ann"], "mail": "a@x.org"}, {"out:who": "user"})
    assert keys.at("out") == {"mail": ("a@x.org",), "who": ("17", "ann")}
    assert keys.at("other") == {"mail": ("a@x.org",), "user": ("17", "ann")}
    assert keys.in_record('{"user": 17}') == keys.in_record('[{"at": {"who": "ann"}}]') == "field"
    assert keys.in_record('{"user": 18, "ms": 17}') == ""
    assert keys.in_record("17;/index") == keys.in_record('{"user": 17') == "text"
    assert keys.in_record("170;/index") == keys.in_record("joann@x.org.uk") == ""
    for wrong, remedy in (({}, "user_id=17"), ({"user": []}, "user_id=17"), ({"user": ""}, "user_id=17")):
        with pytest.raises(ConfigurationError) as refused:
            Keys.of(wrong, {})
        assert remedy in refused.value.remedy
    with pytest.raises(ConfigurationError, match="the column 'who'") as named:
        Keys.of({"user": 17}, {"who": "user"})
    assert "PLACE:COLUMN=FIELD" in named.value.remedy
