"""Ends the log of Spark's file source at an earlier entry."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import orjson

from rs_assets.common.files import write_atomically

# Spark writes each tenth entry together with all before it into a file of this ending (`compactInterval`).
JOINED, COMPACT = 10, ".compact"


def shorten(folder: Path, last: int) -> None:
    """Let the log in `folder` end with entry `last`, as if Spark had planned no more; -1: let it be empty.

    The query must be stopped. An interrupted call leaves a log that has more entries than wanted, and is whole; the
    same call then does what is left.
    """
    joined = sorted(
        (int(path.name.removesuffix(COMPACT)) for path in folder.glob(f"*{COMPACT}") if path.name[0].isdigit()),
        reverse=True,
    )
    single = sorted((int(path.name) for path in folder.iterdir() if path.name.isdigit()), reverse=True)
    _restore(folder, last, {*single}, {*joined})
    newest = max(joined, default=-1)
    # What a joined file has as well comes first, and then the newest entries, so that no entry lacks one before it.
    for number in [number for number in single if last < number < newest] + [
        n for n in single if n > max(last, newest)
    ]:
        _remove(folder / str(number))
    for number in joined:
        if number > last:
            _remove(folder / f"{number}{COMPACT}")


def _restore(folder: Path, last: int, single: set[int], joined: set[int]) -> None:
    """Write the files that the log up to `last` needs, and that Spark has replaced by a later joined one."""
    base = (last + 1) // JOINED * JOINED - 1
    wanted = [number for number in range(base + 1, last + 1) if number not in single]
    if base >= 0 and base not in joined:
        wanted.append(base)
    if not wanted:
        return
    version, entries = _entries(folder, last)
    for number in wanted:
        numbers = range(base + 1) if number == base else (number,)
        lines = [line for each in numbers for line in entries[each]]
        write_atomically(
            folder / (f"{base}{COMPACT}" if number == base else str(number)), b"\n".join([version, *lines])
        )


def _entries(folder: Path, last: int) -> tuple[bytes, dict[int, list[bytes]]]:
    """The version of the log, and the lines of each entry up to `last`, of the file that has most of them."""
    version, found = b"v1", defaultdict[int, dict[bytes, None]](dict)
    for path in folder.iterdir():
        if not path.name.removesuffix(COMPACT).isdigit():
            continue
        for line in path.read_bytes().splitlines():
            if not line.startswith(b"{"):
                version = line
            elif (number := int(orjson.loads(line)["batchId"])) <= last:
                found[number][line] = None
    return version, defaultdict(list, {number: [*lines] for number, lines in found.items()})


def _remove(path: Path) -> None:
    # The checksum first: a leftover one would not match a new file of that name.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.unlink(missing_ok=True)
