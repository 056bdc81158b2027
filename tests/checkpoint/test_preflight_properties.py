"""Whatever happens to the files of a checkpoint, it is found or means nothing, and never raises anything else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.recovery.preflight.files import bit_flipped
from tests.checkpoint.broken import (
    crc_of,
    errors,
    free_bytes,
    look,
    made,
    zipped,
)
from tests.work import calls_of


@pytest.fixture(autouse=True)
def room(monkeypatch):
    free_bytes(monkeypatch)


# --- properties


LOGS = ["metadata", "offsets/4", "offsets/3", "offsets/2", "commits/3", "commits/2", "commits/0"]


def meaning_of(folder: Path) -> object:
    """All that Spark would go by."""
    log = CheckpointLog(folder)
    return [log.offsets(batch) for batch in (3, 4)], log.last_committed(), (folder / "metadata").read_bytes()


@pytest.mark.parametrize("sums", [False, True], ids=["without checksums", "with checksums"])
@pytest.mark.parametrize("name", LOGS)
def test_a_file_cut_off_at_any_length_is_found_or_means_the_same(tmp_path, name, sums):
    checkpoint = made(tmp_path / "c", pending=True, sums=sums)
    path = checkpoint.folder / name
    whole, before = path.read_bytes(), meaning_of(checkpoint.folder)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        found = [finding for finding in errors(checkpoint) if finding.file == path]
        assert found or meaning_of(checkpoint.folder) == before, whole[:length]
        assert found or not sums


@pytest.mark.parametrize("name", [*LOGS, "sources/file/3", "state/0/0/4.changelog", "state/0/_metadata/metadata"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300) | st.text(max_size=100).map(lambda text: b"v2\n" + text.encode("utf-8", "replace")))
def test_junk_in_any_file_is_found_and_never_raises(tmp_path, name, data):
    checkpoint = made(tmp_path / os.urandom(8).hex(), pending=True)
    path = checkpoint.folder / name
    if data != path.read_bytes():
        path.write_bytes(data)
        assert any(finding.file == path for finding in errors(checkpoint))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, len(zipped("000005-0a1b.sst", 1200)) - 1), value=st.integers(0, 255))
def test_any_byte_of_a_snapshot_changed_never_raises(tmp_path, at, value):
    checkpoint = made(tmp_path / os.urandom(8).hex(), sums=False)
    checkpoint.snapshot(4)
    path = checkpoint.folder / "state/0/0/4.zip"
    data = bytearray(path.read_bytes())
    data[at] = value
    path.write_bytes(data)
    look(checkpoint)


@given(data=st.binary(max_size=2000), at=st.integers(0, 1999), bit=st.integers(0, 7))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_flipped_bit_and_any_cut_contradicts_the_checksum(tmp_path, data, at, bit):
    path = tmp_path / "file"
    path.write_bytes(data)
    (tmp_path / ".file.crc").write_bytes(crc_of(data))
    assert not bit_flipped(path)
    if at < len(data):
        path.write_bytes(data[:at])
        assert bit_flipped(path)
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :])
        assert bit_flipped(path)


@pytest.mark.parametrize("side", [b"", b"crc", b"xyz\0\0\0\2\0", b"crc\0\0\0"])
def test_a_checksum_file_without_a_header_is_passed_over_as_hadoop_does(tmp_path, side):
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / ".file.crc").write_bytes(side)
    assert not bit_flipped(tmp_path / "file")


@pytest.mark.parametrize("side", [b"crc\0\0\0\0\0", b"crc\0\xff\xff\xff\xff", crc_of(b"data")[:-1], crc_of(b"")])
def test_a_damaged_checksum_casts_doubt_on_its_file(tmp_path, side):
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / ".file.crc").write_bytes(side)
    assert bit_flipped(tmp_path / "file")


def test_preflight_of_ten_times_the_batches_makes_ten_times_the_calls(tmp_path):
    calls = {}
    for batches in (100, 1000):
        checkpoint = made(tmp_path / f"c{batches}", batches=batches, pending=True)
        found, calls[batches] = calls_of(lambda checkpoint=checkpoint: look(checkpoint))
        assert found == ()
    assert calls[1000] < 12 * calls[100]
