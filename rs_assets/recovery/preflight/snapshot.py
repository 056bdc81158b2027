"""Checks whether a snapshot or changelog of a state store can be loaded."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rs_assets.recovery.preflight.files import bit_flipped
from rs_assets.recovery.preflight.parse import Damaged, json_object

LZ4_MAGIC = b"LZ4Block"
# The end of an LZ4 stream: the magic, a token, and three lengths and sums that are 0.
LZ4_END_BYTES = len(LZ4_MAGIC) + 1 + 12
MOST_LISTING_BYTES = 64 << 20
# For larger state only sizes are compared: RocksDB checks each block that it reads.
MOST_SUMMED_BYTES = 64 << 20
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


def changes_problem(file: Path) -> str | None:
    """The problem of a changelog, None without one. An interrupted LZ4 stream lacks its end mark."""
    try:
        size = file.stat().st_size
        if size == 0:
            return "is empty"
        with file.open("rb") as stream:
            packed = stream.read(len(LZ4_MAGIC)) == LZ4_MAGIC
            stream.seek(max(0, size - LZ4_END_BYTES))
            end = stream.read()
        if packed and not (len(end) == LZ4_END_BYTES and end.startswith(LZ4_MAGIC) and end.endswith(bytes(12))):
            return "is cut off"
        return "differs from its checksum" if bit_flipped(file) else None
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def snapshot_problem(file: Path) -> str | None:
    """The problem of a snapshot and the tables that it names, None without one."""
    try:
        if file.stat().st_size == 0:
            return "is empty"
        if bit_flipped(file):
            return "differs from its checksum"
        return _archive_problem(file) if file.suffix == ".zip" else None
    except _ZIP_ERRORS as error:
        return f"is a damaged archive ({error})"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _archive_problem(file: Path) -> str | None:
    with zipfile.ZipFile(file) as archive:
        bad = archive.testzip()
        if bad is not None:
            return f"holds {bad!r}, which is damaged"
        listing = tables_of(archive)
    return next(_table_problems(file.parent / "SSTs", listing), None)


def tables_of(archive: zipfile.ZipFile) -> dict[str, Any]:
    """The tables of a snapshot (`sstFiles`), and how many keys it has."""
    if "metadata" not in archive.namelist() or archive.getinfo("metadata").file_size > MOST_LISTING_BYTES:
        raise Damaged("has no list of its tables")
    _, _, body = archive.read("metadata").partition(b"\n")
    return json_object(body)


def _table_problems(folder: Path, listing: dict[str, Any]) -> Iterator[str]:
    tables = listing.get("sstFiles", [])
    summed = 0
    for table in tables if isinstance(tables, list) else []:
        name, size = (table.get("dfsSstFileName"), table.get("sizeBytes")) if isinstance(table, dict) else (None, None)
        if not isinstance(name, str) or Path(name).name != name:
            yield "has an invalid table name"
            continue
        path = folder / name
        if not path.is_file():
            yield f"needs the table {name!r}, which is missing"
        elif path.stat().st_size != size:
            yield f"needs the table {name!r}, which has {path.stat().st_size} bytes instead of {size}"
        else:
            summed += size
            if summed <= MOST_SUMMED_BYTES and bit_flipped(path):
                yield f"needs the table {name!r}, which differs from its checksum"
