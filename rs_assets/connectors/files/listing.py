"""Lists the files below a path: one file, a folder (recursively), or a glob."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from rs_assets.errors import SourceReadError

# The characters that make a path a glob, here as in Spark.
MAGIC = re.compile(r"[*?[]")
# What a glob of Hadoop writes in another way than one of Python.
ALTERNATIVES = re.compile(r"(?<!\\)\{([^{}]*)\}")
ESCAPED = re.compile(r"\\(.)|\[\^")


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is ignored unless it is named: the rule of Spark's listing.

    >>> is_hidden(".part"), is_hidden("_temporary"), is_hidden("_day=1"), is_hidden("a_b")
    (True, True, False, False)
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def located(path: str) -> str:
    """`path` with the links on the way to its folder resolved: Spark's listing of a linked folder finds nothing.

    A link to a file keeps its name.

    >>> located("/no/such/*.jsonl")
    '/no/such/*.jsonl'
    """
    place = Path(path)
    if place.is_dir():
        return os.path.realpath(place)
    parts = place.parts
    fixed = len(parts) - 1 if place.exists() else next((n for n, part in enumerate(parts) if MAGIC.search(part)), 0)
    return str(Path(os.path.realpath(Path(*parts[:fixed])), *parts[fixed:])) if fixed else path


def fixed_root(path: str) -> str:
    """The folder that contains all files of `path`, links resolved."""
    parts, place = Path(located(path)).parts, Path(located(path))
    if place.is_dir():
        return str(place)
    return str(Path(*parts[: next((n for n, part in enumerate(parts) if MAGIC.search(part)), len(parts) - 1)]))


def existing_files(path: str, *, follow: bool = False) -> list[Path]:
    """The files below `path`, by name. SourceReadError for a link to a folder, which Spark does not follow.

    With `follow` such links are followed.
    """
    return sorted(files_below(path, follow=follow), key=lambda file: file.parts)


def files_below(path: str, *, follow: bool = False, hidden: Callable[[str], bool] = is_hidden) -> Iterator[Path]:
    """The same, unsorted and lazy; `hidden` are the names that are ignored."""
    place = Path(located(path))
    found = [place] if place.exists() else list(dict.fromkeys(_matched(place)))
    real = set[str]()
    for top in found:
        folder = str(top if top.is_dir() else top.parent)
        if not follow and folder not in real and os.path.realpath(folder) != folder:
            raise _linked(folder)
        real.add(folder)
        yield from _below(top, follow=follow, hidden=hidden)


def _matched(pattern: Path) -> Iterator[Path]:
    for glob in map(Path, globs_of(str(pattern))):
        if glob.parent.is_dir():
            yield from glob.parent.glob(glob.name)
        else:
            yield from Path(glob.anchor or ".").glob(_relative(glob))


def globs_of(pattern: str) -> list[str]:
    r"""The globs of Python that together match what a glob of Hadoop does, but for `**`, which is one folder there.

    >>> globs_of("in/{a,b}/[^c]*"), globs_of(r"a\*")
    (['in/a/[!c]*', 'in/b/[!c]*'], ['a[*]'])
    """
    braces = ALTERNATIVES.search(pattern)
    if braces is None:
        return [ESCAPED.sub(lambda found: f"[{found[1]}]" if found[1] else "[!", pattern)]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    return [glob for part in braces[1].split(",") for glob in globs_of(f"{before}{part}{after}")]


def _below(top: Path, *, follow: bool, hidden: Callable[[str], bool]) -> Iterator[Path]:
    """`top` if it is a file, else the files in it at any depth; hidden ones only if they were named."""
    if top.is_file():
        yield top
    elif top.is_dir():
        yield from map(Path, walked(str(top), follow=follow, hidden=hidden))


def walked(
    folder: str, *, follow: bool, above: tuple[str, ...] = (), hidden: Callable[[str], bool] = is_hidden
) -> Iterator[str]:
    """The files in a folder at any depth, without hidden ones; none if the folder is gone.

    A link back to a folder in `above` is skipped.
    """
    above = above or (os.path.realpath(folder),)
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if hidden(entry.name):
            continue
        if _leads_in_circles(entry):
            continue
        if entry.is_dir(follow_symlinks=False):
            further = (*above, os.path.realpath(entry.path))
            yield from walked(entry.path, follow=follow, above=further, hidden=hidden)
        elif entry.is_dir():
            if not follow:
                raise _linked(entry.path)
            leads = os.path.realpath(entry.path)
            if leads not in above:
                yield from walked(entry.path, follow=True, above=(*above, leads), hidden=hidden)
        elif entry.is_file():
            yield entry.path


def _leads_in_circles(entry: os.DirEntry[str]) -> bool:
    """Whether it is a link that leads to itself: to no file, as one to a file that is missing."""
    try:
        entry.is_dir()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return True
    return False


def _linked(folder: str) -> SourceReadError:
    return SourceReadError(
        "the path of the source contains a link to a folder, and whole files are not read through such links",
        remedy=f"read {os.path.realpath(folder)} by a source of its own and move the link away; or follow the files"
        " with tail=True, which follows links",
        file=folder,
    )


def _relative(place: Path) -> str:
    return str(place.relative_to(place.anchor)) if place.anchor else str(place)
