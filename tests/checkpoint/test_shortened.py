"""The log of a file source that ends at an earlier entry, whatever Spark has joined, and wherever it stops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rs_assets.checkpoint import shortened
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.shortened import JOINED, shorten

LOGS = [(entries, kept) for entries in (1, 9, 10, 11, 20, 25, 31) for kept in ("all", "some", "needed")]


class Cut(Exception):
    """Raised in place of a write or a removal."""


def entry(number):
    return json.dumps({"path": f"file:///in/{number}.json", "timestamp": 1000 + number, "batchId": number})


def write(folder, entries, kept):
    """A log as Spark leaves it: of files before the newest joined one it has removed none, half, or all."""
    folder.mkdir(parents=True)
    newest = entries // JOINED * JOINED - 1
    for number in range(entries):
        joined = (number + 1) % JOINED == 0
        if number < newest and (kept == "needed" or (kept == "some" and number < newest // 2)):
            continue
        lines = [entry(each) for each in range(0 if joined else number, number + 1)]
        name = f"{number}.compact" if joined else str(number)
        (folder / name).write_text("\n".join(["v1", *lines]))
        (folder / f".{name}.crc").write_bytes(b"crc")


def numbers(checkpoint):
    return [file.batch for file in CheckpointLog(checkpoint).planned_files("in")]


def needed(folder, last):
    """The files that Spark reads for a log up to `last`."""
    base = (last + 1) // JOINED * JOINED - 1
    return {*([f"{base}.compact"] if base >= 0 else []), *(str(number) for number in range(base + 1, last + 1))}


@pytest.mark.parametrize(("entries", "kept"), LOGS)
def test_ends_where_it_is_told_to(tmp_path, entries, kept):
    for last in range(-1, entries):
        checkpoint = tmp_path / str(last)
        write(checkpoint / "sources" / "in", entries, kept)
        shorten(checkpoint / "sources" / "in", last)
        assert numbers(checkpoint) == [*range(last + 1)]
        there = {path.name for path in (checkpoint / "sources" / "in").iterdir() if path.name[0] != "."}
        assert needed(checkpoint / "sources" / "in", last) <= there
        assert all(int(name.removesuffix(".compact")) <= last for name in there)


@pytest.mark.parametrize(
    ("entries", "kept", "last"), [(25, "some", 4), (25, "needed", 14), (31, "all", 9), (31, "needed", -1)]
)
def test_is_whole_wherever_it_stops_and_ends_when_repeated(tmp_path, monkeypatch, entries, kept, last):
    unlink, write_atomically, stop = Path.unlink, shortened.write_atomically, 0
    while True:
        checkpoint, left = tmp_path / str(stop), stop
        folder = checkpoint / "sources" / "in"
        write(folder, entries, kept)

        def step():
            nonlocal left
            left -= 1
            if left < 0:
                raise Cut

        def removed(path, **how):
            step()
            unlink(path, **how)

        def written(path, data):
            step()
            write_atomically(path, data)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", removed)
            patched.setattr(shortened, "write_atomically", written)
            try:
                shorten(folder, last)
                break
            except Cut:
                pass
        found = numbers(checkpoint)
        assert found == [*range(len(found))]
        assert len(found) > last
        shorten(folder, last)
        assert numbers(checkpoint) == [*range(last + 1)]
        stop += 1
    assert stop >= 4
