"""The header of a CSV file: maps the fields of a schema to columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rs_assets.connectors.files.lines.offsets import LineRange
from rs_assets.connectors.files.lines.reading import FirstLine, first_line
from rs_assets.errors import DataLossError, SourceReadError
from rs_assets.records.ddl import arrow_schema


@dataclass(frozen=True, slots=True)
class Columns:
    """The positions of the fields of a schema among the `width` columns of a file.

    >>> Columns.matched(["id", "Name", "note"], ["name", "id"])
    Columns(places=(1, 0), width=3)
    """

    places: tuple[int, ...]
    width: int

    @classmethod
    def matched(cls, header: Sequence[str], names: Sequence[str]) -> Columns:
        """The columns with these `names`, ignoring case and surrounding white space; SourceReadError if one is missing.

        If none is found the line is probably not a header but the first record, and must not be skipped.
        """
        there = list(_unique(header))
        found = {name.lower(): place for place, name in reversed(list(enumerate(there)))}
        # A name that a column really has is its own, whatever suffix made duplicate names distinct.
        found |= {name.strip().lower(): place for place, name in enumerate(header) if there[place] == name.strip()}
        wanted = [name.strip().lower() for name in names]
        missing = [name for name, key in zip(names, wanted, strict=True) if key not in found]
        if missing and len(missing) == len(names):
            raise SourceReadError(
                f"the first line is not a header: it has none of the fields {', '.join(names)}",
                remedy="read files without a header by position: header=False ('csv.header' = 'false' in SQL); or name"
                f" the fields of the schema like the columns: {', '.join(there)}",
            )
        if missing:
            raise SourceReadError(
                f"the header has no column {missing[0]!r}",
                remedy=f"name the fields of the schema like the columns: {', '.join(there)}",
            )
        return cls(tuple(found[key] for key in wanted), len(header))

    @property
    def in_place(self) -> bool:
        """Whether the fields are exactly the columns, in order."""
        return self.places == tuple(range(self.width))


def header_names(text: bytes, delimiter: str = ",") -> list[str]:
    """The values of a line; SourceReadError if it cannot be a header."""
    line = text.decode(errors="replace")
    if line.count('"') % 2:
        raise SourceReadError("a name in the header contains a line break", remedy="write the header in one line")
    if "\r" in line:
        raise SourceReadError(
            "the header contains a carriage return without a newline", remedy="end lines by \\n or \\r\\n"
        )
    return next(csv.reader([line], delimiter=delimiter), [])


def columns_of(planned: LineRange, names: Sequence[str], *, delimiter: str = ",") -> tuple[int, Columns] | None:
    """The line number of the header and its columns, None for a file without a line; SourceReadError names the file."""
    head = first_line(planned)
    if head is None:
        return None
    try:
        return head.number, Columns.matched(header_names(head.text, delimiter), names)
    except SourceReadError as error:
        raise SourceReadError(error.what, remedy=error.remedy, file=planned.file) from error


def check_header(file: Path, schema: str | None, *, header: bool = True, delimiter: str = ",") -> None:
    """Raise SourceReadError if the header of `file` lacks a field of `schema`.

    Without `header` it is raised if the first line is one: it has the names of all fields, in order. Not checked are a
    schema that only Spark can read, a line that is still being written, and a file that is gone.
    """
    names = schema_names(schema)
    head = _head(file) if names else None
    if not names or head is None or not head.ended:
        return
    if header:
        columns_of(_whole(file), names, delimiter=delimiter)
    elif columns_in_order(file, schema, delimiter=delimiter):
        raise SourceReadError(
            "the first line has the names of the fields, and would be read as a record",
            remedy="read it as a header: header=True ('csv.header' = 'true' in SQL); or remove the line",
            file=file,
        )


def columns_in_order(file: Path, schema: str | None, *, delimiter: str = ",") -> bool:
    """Whether Spark's own reader maps the columns of `file` to the right fields: same names in the same order."""
    names = schema_names(schema)
    head = _head(file)
    if names is None or head is None:
        return names is not None
    try:
        return [name.lower() for name in header_names(head.text, delimiter)] == [name.lower() for name in names]
    except SourceReadError:
        return False


def _head(file: Path) -> FirstLine | None:
    try:
        return first_line(_whole(file))
    except (OSError, DataLossError, SourceReadError):
        # A missing or damaged file is reported when it is read.
        return None


@lru_cache
def schema_names(schema: str | None) -> tuple[str, ...] | None:
    """The names of a declared schema, None for one that is inferred or that only Spark can read."""
    made = arrow_schema(schema) if schema else None
    return None if made is None else tuple(made.names)


def _whole(file: Path) -> LineRange:
    return LineRange(file=str(file), split=file.name)


def _unique(header: Sequence[str]) -> Iterator[str]:
    """The names as Spark infers them: empty or duplicate names get their position, from 0."""
    stripped = [name.strip() for name in header]
    lower = [name.lower() for name in stripped]
    for place, name in enumerate(stripped):
        yield f"_c{place}" if not name else f"{name}{place}" if lower.count(name.lower()) > 1 else name
