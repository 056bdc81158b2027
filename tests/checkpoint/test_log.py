"""What is read of Spark's log for a batch: the entries of that batch, however long the log is."""

import json
from pathlib import Path

import pytest

from rs_assets.checkpoint.log import CheckpointLog


def entry(number, name=None):
    return json.dumps({"path": f"file:///in/{name or number}.json", "timestamp": number, "batchId": number})


@pytest.fixture
def log(tmp_path):
    """A log of 25 batches with a file each, as Spark leaves it: joined at 9 and 19, older files removed."""
    made = CheckpointLog(tmp_path)
    for folder in ("sources/file", "offsets"):
        (tmp_path / folder).mkdir(parents=True)
    source = tmp_path / "sources" / "file"
    for end in (9, 19):
        (source / f"{end}.compact").write_text("\n".join(["v1", *map(entry, range(end + 1))]))
    for number in range(12, 25):
        if number != 19:
            (source / str(number)).write_text("\n".join(["v1", entry(number)]))
    meta = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
    for batch in range(25):
        (tmp_path / "offsets" / str(batch)).write_text(f'v2\n{meta}\nfile:{{"logOffset":{batch}}}')
    return made


def planned(log, batch=None):
    return [file.local.stem for file in log.planned_files("file", batch)]


@pytest.mark.parametrize("batch", [0, 8, 9, 11, 12, 18, 19, 20, 24])
def test_the_files_of_a_batch_are_found_wherever_their_entry_is(log, batch):
    assert planned(log, batch) == [str(batch)]


def test_all_files_are_found_once(log):
    assert planned(log) == [str(number) for number in range(25)]
    assert planned(CheckpointLog(log.folder / "none")) == []


def test_a_batch_reads_no_entry_of_others(log):
    source = log.folder / "sources" / "file"
    for file in source.iterdir():
        if file.name != "23":
            file.write_text("v1\nno json")
    assert planned(log, 23) == ["23"]


def test_a_batch_over_several_entries_has_the_files_of_all(log):
    (log.folder / "offsets" / "20").write_text(
        (log.folder / "offsets" / "20").read_text().replace('"logOffset":20', '"logOffset":22')
    )
    assert planned(log, 20) == ["20", "21", "22"]


def test_a_long_history_is_not_read_for_the_newest_batch(log):
    joined = log.folder / "sources" / "file" / "19.compact"
    lines = joined.read_text().splitlines()
    joined.write_text("\n".join(["no json, and a megabyte of it " * 40_000, *lines[-3:]]))
    assert planned(log, 19) == ["19"]


def test_an_offset_file_is_opened_once(log, monkeypatch):
    opened, read_text = [], Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, **how: opened.append(path.name) or read_text(path, **how))
    for _ in range(3):
        again = CheckpointLog(log.folder)
        assert again.offsets(24).sources == {"file": '{"logOffset":24}'}
        again.planned_files("file", 24)
    assert sorted(opened) == ["23", "24"]


def test_an_offset_file_that_was_written_anew_is_read_anew(log):
    assert log.offsets(24).sources == {"file": '{"logOffset":24}'}
    log.take_back("other", '{"logOffset":1}')
    assert log.offsets(24).sources == {"file": '{"logOffset":24}', "other": '{"logOffset":1}'}
