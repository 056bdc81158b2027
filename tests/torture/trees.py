"""What lies below a folder at one moment, kept by content, and laid back in its place."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER, LINK = "folder", "link:"
# What is another at each run: ids, digests, times. Longer patterns go first.
CHANGING = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # UUIDs
    r"|[0-9]{8}T[0-9]{6,}Z?(-[0-9a-f]+)?"  # stamps of savepoints and of what was moved aside
    r"|(?<![0-9a-f])(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}(?![0-9a-z])"  # digests
    r"|attempt_[0-9_m]+|(?<=TID)[0-9]+"  # Spark's tasks
    r"|(?<![0-9])[0-9]{13,19}(?![0-9])"  # clocks in milliseconds, numbers drawn by chance
    r"|(?<=/objects/)[0-9a-f]{2}(?=/)|(?<=/objects/)[0-9a-f]{2}$"
)
VERSION = re.compile(r"_delta_log/[0-9]{20}")


def stable(path: str) -> str:
    """A path with `*` for what differs between two runs of the same.

    >>> stable("out/batch=3-0f3a99bc/part-00000-0a1b2c3d-0000-1111-2222-333344445555-c000.snappy.parquet")
    'out/batch=3-*/part-00000-*-c000.snappy.parquet'
    >>> stable("t/_delta_log/00000000000000000012.json")
    't/_delta_log/00000000000000000012.json'
    """
    kept = VERSION.search(path)
    if kept is None:
        return CHANGING.sub("*", path)
    return CHANGING.sub("*", path[: kept.start()]) + kept[0] + CHANGING.sub("*", path[kept.end() :])


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a folder or a link: what it holds (a digest, `folder`, `link:<target>`), its mode and when it changed."""

    content: str
    mode: int = field(compare=False)
    changed_ns: int = field(compare=False)


Tree = Mapping[str, Entry]


class Vault:
    """Contents of files by their digest, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, file: Path) -> str:
        """The digest of a file, whose content is kept."""
        data = file.read_bytes()
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        place = self.folder / digest
        if not place.exists():
            place.write_bytes(data)
        return digest

    def entry(self, path: Path) -> Entry | None:
        """What is at `path`, None if there is nothing."""
        try:
            facts = path.lstat()
        except FileNotFoundError:
            return None
        mode = stat.S_IMODE(facts.st_mode)
        if stat.S_ISDIR(facts.st_mode):
            return Entry(FOLDER, mode, facts.st_mtime_ns)
        if stat.S_ISLNK(facts.st_mode):
            return Entry(f"{LINK}{path.readlink()}", mode, facts.st_mtime_ns)
        return Entry(self.keep(path), mode, facts.st_mtime_ns)

    def scan(self, root: Path, below: str = "") -> dict[str, Entry]:
        """All that lies below `root` (or a part of it), by relative path."""
        found: dict[str, Entry] = {}
        for path in _walk(root / below):
            entry = self.entry(path)
            if entry is not None:
                found[str(path.relative_to(root))] = entry
        return found

    def lay_back(self, tree: Tree, root: Path) -> None:
        """Make `root` hold just what `tree` says."""
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        for path in sorted(tree):
            entry, target = tree[path], root / path
            if entry.content == FOLDER:
                target.mkdir()
            elif entry.content.startswith(LINK):
                target.symlink_to(entry.content.removeprefix(LINK))
            else:
                target.write_bytes((self.folder / entry.content).read_bytes())
                target.chmod(entry.mode)
                os.utime(target, ns=(entry.changed_ns, entry.changed_ns))


def digest(tree: Tree) -> str:
    """One word for what a tree holds; equal for equal trees."""
    lines = "\n".join(f"{path}\0{tree[path].content}" for path in sorted(tree))
    return hashlib.blake2b(lines.encode(), digest_size=16).hexdigest()


def names(tree: Tree) -> list[str]:
    """The stable names of all files and folders, in order: what two runs of the same have in common."""
    return sorted(stable(path) for path in tree)


def _walk(path: Path) -> Iterator[Path]:
    if path.is_dir() and not path.is_symlink():
        for folder, folders, files in os.walk(path):
            yield from (Path(folder, name) for name in (*folders, *files))
