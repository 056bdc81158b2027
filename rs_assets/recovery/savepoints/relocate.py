"""Rewrites names in a checkpoint that was moved, or belongs to another query now."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import orjson

from rs_assets.common.files import write_atomically
from rs_assets.recovery.savepoints.listing import CHECKPOINT

_SCHEME = re.compile(r"file:(?://)?(?=/)")
# Characters that Java does not escape in the path of a URI; neither characters beyond ASCII.
_JAVA_KEEPS = "/_-!.~'()*:@&=+$,;"


def relocate(generation: Path, moves: Mapping[str, str]) -> None:
    """Replace a folder's old path by its new path in the logs of file sources.

    A query's control rows and arrays are stored next to its checkpoint; under another path Spark would take files that
    it has read for new ones. The metadata of a processor's state names files with the schema of that state. Other paths
    are unchanged. OSError if a log cannot be read or written.
    """
    if all(old == new for old, new in moves.items()):
        return
    for log in sorted(generation.glob(f"*/{CHECKPOINT}/sources/*/*")):
        if log.is_file() and not log.name.startswith("."):
            _rewrite(log, lambda text: "\n".join(_moved(line, moves) for line in text.split("\n")))
    for facts in sorted(generation.glob(f"*/{CHECKPOINT}/state/*/_metadata/*/*")):
        if facts.is_file() and not facts.name.startswith("."):
            _rewrite(facts, lambda text: "\n".join(_with_schemas(line, moves) for line in text.split("\n")))


def relocate_moved(generation: Path) -> None:
    """As `relocate`, for a generation's folder that was moved with its home from the location in Spark's own names.

    The last parts of its path (namespace, job, generation) must be unchanged.
    """
    here = generation.absolute()
    there = {old for path in _own_names(here) if (old := _place(path, here)) is not None}
    relocate(here, {old: str(here) for old in sorted(there)})


def _own_names(generation: Path) -> Iterator[str]:
    """Paths that Spark wrote into its logs: the first of each source's log, and all of state schemas."""
    for source in generation.glob(f"*/{CHECKPOINT}/sources/*/"):
        logs = sorted(file for file in source.iterdir() if not file.name.startswith("."))
        first = next(_entries(logs[0]), {}) if logs else {}
        yield str(first.get("path", ""))
    for facts in generation.glob(f"*/{CHECKPOINT}/state/*/_metadata/*/*"):
        for entry in _entries(facts):
            stores = entry.get("stateStoreInfo") or ()
            yield from (path for store in stores for path in store.get("stateSchemaFilePaths") or ())


def _entries(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log that are JSON objects; damage is reported elsewhere."""
    with suppress(OSError), file.open("rb") as lines:
        for line in lines:
            if line.startswith(b"{"):
                with suppress(orjson.JSONDecodeError):
                    yield orjson.loads(line)


def _place(path: str, generation: Path) -> str | None:
    """The folder of a generation at the time when Spark wrote a path in it; None for other paths."""
    scheme, tail = _SCHEME.match(path), "/".join(("", *generation.parts[-3:], ""))
    plain = unquote(path[scheme.end() :]) if scheme else ""
    before, found, _ = plain.rpartition(tail)
    return f"{before}{tail[:-1]}" if found else None


def renew_query_ids(generation: Path) -> Mapping[str, str]:
    """Give every query a new id, and return the ids by query: Spark's own sinks identify queries by it."""
    ids: dict[str, str] = {}
    for metadata in sorted(generation.glob(f"*/{CHECKPOINT}/metadata")):
        query_id = ids[metadata.parent.parent.name] = str(uuid.uuid4())
        _write(metadata, orjson.dumps({"id": query_id}))
    return ids


def java_path(path: str) -> str:
    """A path as Java writes it in a URI.

    >>> java_path("/data/a b%ü")
    '/data/a%20b%25ü'
    """
    return "".join(c if ord(c) > 127 and c.isprintable() else quote(c, safe=_JAVA_KEEPS) for c in path)


def _moved(line: str, moves: Mapping[str, str]) -> str:
    """A line of a source's log with its path moved; other lines unchanged."""
    if not line.startswith("{"):
        return line
    try:
        entry: dict[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError:
        # The log of another kind of source, saved unchanged.
        return line
    path = entry.get("path")
    moved = _elsewhere(path, moves) if isinstance(path, str) else path
    return line if moved == path else orjson.dumps({**entry, "path": moved}).decode()


def _with_schemas(line: str, moves: Mapping[str, str]) -> str:
    """A line of the metadata of an operator's state, with the files of the schemas moved."""
    if not line.startswith("{"):
        return line
    known: dict[str, Any] = orjson.loads(line)
    stores = [store for store in known.get("stateStoreInfo", ()) if store.get("stateSchemaFilePaths")]
    for store in stores:
        # Spark takes these names as they are.
        moved = (_elsewhere(path, moves) for path in store["stateSchemaFilePaths"])
        store["stateSchemaFilePaths"] = [unquote(path) for path in moved]
    return orjson.dumps(known).decode() if stores else line


def _elsewhere(path: str, moves: Mapping[str, str]) -> str:
    """A path as a URI, with the old path of a folder replaced by the new one."""
    scheme = _SCHEME.match(path)
    plain = unquote(path[scheme.end() :]) if scheme else ""
    old = next((old for old in moves if plain.startswith(f"{old}/")), None)
    if scheme is None or old is None:
        return path
    return scheme.group() + java_path(moves[old] + plain[len(old) :])


def _rewrite(file: Path, change: Callable[[str], str]) -> None:
    """Change a file's text."""
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError:
        # Not a log of Spark's file source: those are text.
        return
    changed = change(text)
    if changed != text:
        _write(file, changed.encode())


def _write(file: Path, data: bytes) -> None:
    # The checksum is removed too: Spark does not need one.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    write_atomically(file, data)
