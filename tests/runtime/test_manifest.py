"""The manifest on disk: whole, or refused with a word."""

import orjson
import pytest

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.errors import CheckpointError

FULL = Manifest(
    pipeline_id="p1",
    generation=3,
    sealed=True,
    partitions=2,
    schemas={"file": "{}"},
    inputs={"file": {"/in/a.json": 7}},
    aliases={"new": "old"},
    queries={
        "window": QueryFacts(
            generation=4, stateful="window", sinks={"table": 9}, sources=("file",), shape=({"name": "window"},)
        )
    },
)


def test_what_is_saved_is_loaded(tmp_path):
    assert manifests.load(tmp_path) is None
    manifests.save(tmp_path, FULL)
    assert manifests.load(tmp_path) == FULL
    assert FULL.last_generation == 4
    assert FULL.next_generation().generation == 5
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]


def test_every_cut_is_noticed(tmp_path):
    manifests.save(tmp_path, FULL)
    file = tmp_path / "manifest.json"
    data = file.read_bytes()
    for length in range(len(data)):
        file.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="manifest"):
            manifests.load(tmp_path)


def test_every_flipped_bit_is_noticed_or_changes_nothing(tmp_path):
    manifests.save(tmp_path, FULL)
    file = tmp_path / "manifest.json"
    data = file.read_bytes()
    for place in range(0, len(data), 3):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        try:
            loaded = manifests.load(tmp_path)
        except CheckpointError:
            continue
        assert loaded == FULL


@pytest.mark.parametrize("text", [b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"version": 2}', b"x" * 1000])
def test_junk_is_refused(tmp_path, text):
    (tmp_path / "manifest.json").write_bytes(text)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        manifests.load(tmp_path)


def test_another_version_is_named(tmp_path):
    manifests.save(tmp_path, FULL)
    file = tmp_path / "manifest.json"
    stored = orjson.loads(file.read_bytes())
    file.write_bytes(orjson.dumps({**stored, "version": 99}))
    with pytest.raises(CheckpointError, match="version 99"):
        manifests.load(tmp_path)
