"""Every damage to the logs of a checkpoint is found, named and, where nothing is lost by it, mended."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import get_args

import pytest

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.errors import CheckpointError
from rs_assets.recovery.preflight.files import file_numbers
from rs_assets.recovery.preflight.finding import Code
from rs_assets.recovery.repair import REPAIRS
from tests.checkpoint.broken import (
    errors,
    free_bytes,
    look,
    made,
    mend,
    offsets_text,
    only,
)
from tests.work import calls_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def room(monkeypatch):
    free_bytes(monkeypatch)


# --- sound ones


@pytest.mark.parametrize("pending", [False, True], ids=["all committed", "one planned"])
@pytest.mark.parametrize("sums", [False, True], ids=["without checksums", "with checksums"])
@pytest.mark.parametrize("state", [False, True], ids=["stateless", "stateful"])
def test_a_sound_checkpoint_has_no_finding(tmp_path, pending, sums, state):
    assert look(made(tmp_path / "c", pending=pending, sums=sums, state=state)) == ()


def test_a_first_start_has_no_finding(tmp_path):
    checkpoint = made(tmp_path / "c")
    shutil.rmtree(checkpoint.folder)
    checkpoint.expect(query_id=None, sinks={"table": -1}, sinks_seen={})
    assert look(checkpoint) == ()


def test_a_checkpoint_whose_old_batches_were_removed_is_sound(tmp_path):
    assert look(made(tmp_path / "c", first=19, batches=25)) == ()


def test_a_purge_that_was_killed_between_both_logs_is_sound(tmp_path):
    checkpoint = made(tmp_path / "c", first=19, batches=25)
    checkpoint.remove("offsets/19")
    assert look(checkpoint) == ()


def test_a_first_batch_that_reached_the_sink_and_was_killed_is_sound(tmp_path):
    checkpoint = made(tmp_path / "c", batches=0, pending=True)
    checkpoint.expect(sinks={"table": 0}, sinks_seen={})
    assert look(checkpoint) == ()


def test_stores_of_several_names_are_looked_for_in_folders_of_their_own(tmp_path):
    checkpoint = made(tmp_path / "c", state=False)
    checkpoint.stores = ("left-keyToNumValues", "right-keyToNumValues")
    checkpoint.expect(stateful=True, partitions=2)
    checkpoint.describe()
    for version in range(1, 5):
        checkpoint.change(version)
    assert look(checkpoint) == ()
    checkpoint.remove(f"{checkpoint.place(1, 'right-keyToNumValues')}/3.changelog")
    assert "partition 1, store right-keyToNumValues: version 4" in only(checkpoint).meaning


# --- empty_plan to damaged_commit: files that cannot be read


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty_plan"),
        (b"v2", "damaged_plan"),
        (b"v2\n", "damaged_plan"),
        (b"v2\n{", "damaged_plan"),
        (b"v2\n[]\nfile:{}", "damaged_plan"),
        (b"v2\n{}\nfile:{}", "damaged_plan"),
        (b'v2\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}', "damaged_plan"),
        (b'v2\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n', "damaged_plan"),
        (b'v2\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\nfile', "damaged_plan"),
        (b'v2\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\nfile:', "damaged_plan"),
        (b'v2\n{"batchWatermarkMs":true,"batchTimestampMs":0,"conf":{}}\nfile:1', "damaged_plan"),
        (b'v2\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\nfile:1\nfile:2', "damaged_plan"),
        (b"\xff\xfe\x00junk\n\n\x00", "damaged_plan"),
        (b"\0" * 1021, "damaged_plan"),
        (b"v2\n" + b"[" * 100_000, "damaged_plan"),
    ],
)
def test_a_damaged_plan_is_named_and_dropped_if_nothing_depends_on_it(tmp_path, data, code):
    checkpoint = made(tmp_path / "c", pending=True)
    path = checkpoint.write("offsets/4", data)
    finding = only(checkpoint)
    assert (finding.code, finding.severity, finding.file, finding.repair) == (code, "error", path, "drop_uncommitted")
    assert "offsets/4" in mend(checkpoint)
    assert not path.exists()
    assert not checkpoint.crc(path).exists()


def test_a_damaged_plan_that_a_sink_has_written_is_not_dropped(tmp_path):
    checkpoint = made(tmp_path / "c", pending=True)
    path = checkpoint.write("offsets/4", b"")
    checkpoint.expect(sinks={"table": 4})
    assert only(checkpoint).repair is None
    with pytest.raises(CheckpointError, match="a sink has batch 4"):
        REPAIRS["drop_uncommitted"](checkpoint.folder, checkpoint.expected)
    assert path.exists()


@pytest.mark.parametrize(("letters", "repair"), [(3, "drop_uncommitted"), (4, None)])
def test_a_damaged_plan_whose_dead_letters_are_written_is_not_dropped(tmp_path, letters, repair):
    checkpoint = made(tmp_path / "c", pending=True)
    checkpoint.write("offsets/4", b"")
    checkpoint.expect(letters=lambda: letters)
    assert only(checkpoint).repair == repair


@pytest.mark.parametrize("batch", [0, 2, 3])
def test_a_damaged_plan_that_is_committed_is_not_dropped(tmp_path, batch):
    checkpoint = made(tmp_path / "c")
    checkpoint.write(f"offsets/{batch}", b"v2\n{")
    finding = only(checkpoint)
    assert (finding.code, finding.repair) == ("damaged_plan", None)
    with pytest.raises(CheckpointError):
        REPAIRS["drop_uncommitted"](checkpoint.folder, checkpoint.expected)


@pytest.mark.parametrize("data", [b"", b"v1", b"v1\n", b"v1\n{", b"v1\n[]", b"{}", b"v1\n{}\n", b"v1\n{}\n{}", b"\xff"])
def test_a_damaged_commit_is_dropped_and_its_batch_runs_once_more(tmp_path, data):
    checkpoint = made(tmp_path / "c")
    path = checkpoint.write("commits/3", data)
    finding = only(checkpoint)
    assert (finding.code, finding.severity, finding.file, finding.repair) == (
        "damaged_commit",
        "error",
        path,
        "drop_commit",
    )
    assert "commits/3" in mend(checkpoint)
    assert CheckpointLog(checkpoint.folder).last_committed() == 2


def test_a_plan_behind_a_damaged_commit_goes_with_it_or_neither_goes(tmp_path):
    checkpoint = made(tmp_path / "c", pending=True)
    checkpoint.write("commits/3", b"")
    begun = checkpoint.expected
    checkpoint.expect(sinks={"table": 4})
    assert only(checkpoint).repair is None
    with pytest.raises(CheckpointError, match="a sink has batch 4"):
        REPAIRS["drop_commit"](checkpoint.folder, checkpoint.expected)
    checkpoint.expected = begun
    assert "offsets/4" in mend(checkpoint)
    assert file_numbers(checkpoint.folder / "offsets") == [0, 1, 2, 3]


def test_a_damaged_commit_stays_when_its_batch_could_not_run_again(tmp_path):
    checkpoint = made(tmp_path / "c", first=19, batches=25)
    checkpoint.write("commits/24", b"")
    checkpoint.remove("state/0/1/24.changelog")
    assert {finding.repair for finding in look(checkpoint)} == {None}
    with pytest.raises(CheckpointError, match="partition 1: version 24 cannot be loaded"):
        REPAIRS["drop_commit"](checkpoint.folder, checkpoint.expected)


def test_an_inner_commit_that_is_damaged_is_named(tmp_path):
    checkpoint = made(tmp_path / "c")
    path = checkpoint.write("commits/1", b"v1\n{")
    assert (only(checkpoint).code, only(checkpoint).file, only(checkpoint).repair) == ("damaged_commit", path, None)


@pytest.mark.parametrize(
    ("name", "code"), [("offsets/3", "damaged_plan"), ("commits/3", "damaged_commit"), ("metadata", "metadata")]
)
def test_a_flipped_bit_in_a_log_is_found_by_its_checksum(tmp_path, name, code):
    checkpoint = made(tmp_path / "c", sums=True)
    text = (checkpoint.folder / name).read_text()
    changed = text.replace("0000", "1000", 1) if name != "metadata" else text.replace("8d26", "8d27")
    changed = changed if changed != text else text.replace('Ms":3', 'Ms":7')
    (checkpoint.folder / name).write_text(changed)
    assert only(checkpoint).code == code
    assert "checksum" in only(checkpoint).meaning


# --- unreadable: formats


@pytest.mark.parametrize(
    ("name", "text", "both"),
    [
        ("offsets/3", offsets_text(3, {"file": "{}"}, "v3"), "version v3, this release reads v2"),
        ("offsets/3", offsets_text(3, {"file": "{}"}, "v1"), "version v1, this release reads v2"),
        ("commits/3", "v3\n{}", "version v3, this release reads v1 and v2"),
        ("sources/file/3", "v2\n{}", "version v2, this release reads v1"),
    ],
)
def test_a_log_of_another_format_is_refused_naming_both_versions(tmp_path, name, text, both):
    checkpoint = made(tmp_path / "c")
    path = checkpoint.write(name, text)
    finding = only(checkpoint)
    assert (finding.code, finding.severity, finding.file, finding.repair) == ("unreadable", "error", path, None)
    assert both in finding.meaning


def test_commits_of_format_2_are_read(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.write("commits/3", 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}')
    assert look(checkpoint) == ()


# --- plans_ahead to gap: the logs against each other


def test_batches_without_a_commit_are_listed(tmp_path):
    checkpoint = made(tmp_path / "c", batches=6)
    for batch in (2, 3, 4, 5):
        checkpoint.remove(f"commits/{batch}")
    finding = only(checkpoint)
    assert (finding.code, finding.severity, finding.file.name) == ("plans_ahead", "error", "commits")
    assert "ends at batch 1, but 2 to 5 are also planned" in finding.meaning


def test_a_lost_commit_log_is_found(tmp_path):
    checkpoint = made(tmp_path / "c")
    shutil.rmtree(checkpoint.folder / "commits")
    assert (only(checkpoint).code, "0 to 3" in only(checkpoint).meaning) == ("plans_ahead", True)


def test_a_commit_without_its_plan_is_found(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.remove("offsets/3")
    finding = only(checkpoint)
    assert (finding.code, finding.severity, finding.file.name) == ("lost_plan", "error", "3")
    shutil.rmtree(checkpoint.folder / "offsets")
    assert "batch 0 to 3 is committed" in only(checkpoint).meaning


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_hole_inside_what_is_kept_is_found(tmp_path, log):
    checkpoint = made(tmp_path / "c", first=19, batches=30)
    for batch in (21, 25, 26):
        checkpoint.remove(f"{log}/{batch}")
    finding = only(checkpoint)
    assert (finding.code, finding.severity, finding.file) == ("gap", "error", checkpoint.folder / log / "21")
    assert "21, 25 to 26 is missing" in finding.meaning


def test_the_plan_before_the_only_one_is_missed(tmp_path):
    checkpoint = made(tmp_path / "c", first=19, batches=25)
    for batch in range(19, 24):
        checkpoint.remove(f"offsets/{batch}")
    assert (only(checkpoint).code, only(checkpoint).file.name) == ("gap", "23")


def test_a_file_with_an_enormous_number_costs_no_time(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.commit(10**14)
    checkpoint.plan(10**14)
    found, calls = calls_of(lambda: {finding.code for finding in errors(checkpoint)})
    assert {"gap", "state", "source_log"} <= found
    assert calls < 100_000


# --- metadata: identity


def test_lost_metadata_is_written_anew_from_the_recorded_id(tmp_path):
    checkpoint = made(tmp_path / "c")
    path = checkpoint.folder / "metadata"
    content = path.read_bytes()
    checkpoint.remove("metadata")
    finding = only(checkpoint)
    assert (finding.code, finding.severity, finding.file) == ("metadata", "error", path)
    mend(checkpoint)
    assert path.read_bytes() == content


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b'{"id":5}', b'{"id":""}', b"\xff\x00", b"[]"])
def test_damaged_metadata_is_written_anew_even_beside_an_old_checksum(tmp_path, data):
    checkpoint = made(tmp_path / "c")
    (checkpoint.folder / "metadata").write_bytes(data)
    mend(checkpoint)


def test_damaged_metadata_without_a_recorded_id_is_refused(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.expect(query_id=None)
    assert look(checkpoint) == ()
    checkpoint.remove("metadata")
    assert (only(checkpoint).code, only(checkpoint).repair) == ("metadata", None)
    with pytest.raises(CheckpointError, match="no id was recorded"):
        REPAIRS["write_metadata"](checkpoint.folder, checkpoint.expected)


def test_the_checkpoint_of_another_query_is_refused(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.write("metadata", '{"id":"another"}')
    finding = only(checkpoint)
    assert (finding.code, finding.repair) == ("metadata", None)
    assert "'another'" in finding.meaning
    with pytest.raises(CheckpointError, match="can be read"):
        REPAIRS["write_metadata"](checkpoint.folder, checkpoint.expected)


# --- lost_checkpoint, sink_behind, sink_ahead: sinks


@pytest.mark.parametrize("lost", ["folder", "logs"])
def test_a_lost_checkpoint_is_refused_while_a_sink_remembers_it(tmp_path, lost):
    checkpoint = made(tmp_path / "c")
    for folder in [checkpoint.folder] if lost == "folder" else [checkpoint.folder / n for n in ("offsets", "commits")]:
        shutil.rmtree(folder)
    checkpoint.expect(sinks={"table": 3, "empty": -1}, query_id=None)
    finding = only(checkpoint)
    assert (finding.code, finding.severity, finding.file) == ("lost_checkpoint", "error", checkpoint.folder)
    assert "batch 3 was written to table" in finding.meaning
    assert "--new-generation" in finding.remedy


def test_an_older_checkpoint_put_back_is_refused_while_a_sink_is_ahead(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.expect(sinks={"table": 9}, sinks_seen={"table": 9})
    assert (only(checkpoint).code, "ends at batch 3" in only(checkpoint).meaning) == ("sink_ahead", True)


def test_a_sink_that_forgot_everything_is_refused(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.expect(sinks={"table": -1}, sinks_seen={"table": 2})
    assert (only(checkpoint).code, only(checkpoint).severity) == ("sink_behind", "error")
    assert "'table' has no batch but had batch 2" in only(checkpoint).meaning


def test_a_sink_put_back_to_an_older_state_is_reported(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.expect(sinks={"table": 1}, sinks_seen={"table": 2})
    assert (only(checkpoint).code, only(checkpoint).severity) == ("sink_behind", "error")


def test_a_sink_that_only_had_empty_batches_is_sound(tmp_path):
    checkpoint = made(tmp_path / "c")
    checkpoint.expect(sinks={"table": -1, "other": 1}, sinks_seen={"other": 1})
    assert look(checkpoint) == ()


def test_the_runbook_has_all_findings():
    table = (ROOT / "docs" / "runbook.md").read_text().partition("### Findings")[2].partition("In Dagster")[0]
    names = [
        name for row in table.splitlines() if row[:3] == "| `" for name in re.findall("`(.*?)`", row.split("|")[1])
    ]
    assert sorted(names) == sorted(get_args(Code))
