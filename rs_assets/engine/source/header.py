"""The header of a CSV file against the schema that its columns are read by."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from rs_assets.engine.source.ddl import arrow_schema
from rs_assets.engine.source.lines.files import codec_of
from rs_assets.errors import SourceReadError

# Enough for any header; a longer one is not looked at.
HEAD_BYTES = 1 << 16


def check_header(file: Path, schema: str | None) -> None:
    """Raise SourceReadError if a field of `schema` stands at another place in the header of `file`.

    Columns are matched by place: values of one column would be taken for those of another. Names that the header does
    not have rename a column. Nothing is said of a schema that only Spark can read, or of a file that is not there.
    """
    names = _names(schema) if schema else None
    found = header_of(file) if names else []
    lower = [name.strip().lower() for name in found]
    for place, name in enumerate(names or ()):
        if name in lower and lower[place : place + 1] != [name]:
            raise SourceReadError(
                f"field {place + 1} of the schema is {name!r}, which is column {lower.index(name) + 1} of the file",
                remedy=f"declare the columns of the file in their order: {', '.join(found)}",
                file=file,
            )


def header_of(file: Path) -> list[str]:
    """The values of the first line that is not blank, [] if there is none."""
    try:
        with pa.input_stream(str(file), compression=codec_of(file)) as stream:
            head = stream.read(HEAD_BYTES)
    except OSError:
        # A file that is gone or damaged is reported where it is read.
        return []
    lines = head.decode("utf-8-sig", errors="replace").splitlines()
    return next((row for row in csv.reader(line for line in lines if line.strip())), [])


@lru_cache
def _names(schema: str) -> tuple[str, ...] | None:
    made = arrow_schema(schema)
    return None if made is None else tuple(name.lower() for name in made.names)
