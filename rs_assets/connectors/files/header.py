"""The header of a CSV file: which of its columns are the fields of a schema."""

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
    """Where the fields of a schema stand among the `width` columns of a file.

    >>> Columns.matched(["id", "Name", "note"], ["name", "id"])
    Columns(places=(1, 0), width=3)
    """

    places: tuple[int, ...]
    width: int

    @classmethod
    def matched(cls, header: Sequence[str], names: Sequence[str]) -> Columns:
        """The columns called `names`, without regard to case and to white space around; SourceReadError if one lacks.

        Where none is found the line is probably no header, but the first record: it is never passed over for one.
        """
        there = list(_told_apart(header))
        found = {name.lower(): place for place, name in reversed(list(enumerate(there)))}
        # A name that a column has by itself is its own, whatever the others were called to be told apart.
        found |= {name.strip().lower(): place for place, name in enumerate(header) if there[place] == name.strip()}
        wanted = [name.strip().lower() for name in names]
        missing = [name for name, key in zip(names, wanted, strict=True) if key not in found]
        if missing and len(missing) == len(names):
            raise SourceReadError(
                f"the first line has the name of no field: it was expected to be a header, with {', '.join(names)}",
                remedy="read files without a header by place: header=False ('csv.header' = 'false' in SQL); else name"
                f" the fields of the schema as the columns: {', '.join(there)}",
            )
        if missing:
            raise SourceReadError(
                f"the header has no column {missing[0]!r}",
                remedy=f"name the fields of the schema as the columns: {', '.join(there)}",
            )
        return cls(tuple(found[key] for key in wanted), len(header))

    @property
    def in_place(self) -> bool:
        """Whether the fields are the columns, one by one."""
        return self.places == tuple(range(self.width))


def header_names(text: bytes) -> list[str]:
    """The values of a line; SourceReadError for one that is no header."""
    line = text.decode(errors="replace")
    if line.count('"') % 2:
        raise SourceReadError("a name in the header goes on in the next line", remedy="write the header in one line")
    return next(csv.reader([line]), [])


def columns_of(planned: LineRange, names: Sequence[str]) -> tuple[int, Columns] | None:
    """The number of the header's line and its columns, None for a file without a line; SourceReadError names it."""
    head = first_line(planned)
    if head is None:
        return None
    try:
        return head.number, Columns.matched(header_names(head.text), names)
    except SourceReadError as error:
        raise SourceReadError(error.what, remedy=error.remedy, file=planned.file) from error


def check_header(file: Path, schema: str | None, *, header: bool = True) -> None:
    """Raise SourceReadError if the header of `file` lacks a field of `schema`.

    Without `header` it is raised if the first line is one: it has the names of all fields, in their order. Nothing is
    said of a schema that only Spark can read, of a line that is still written, or of a file that is gone.
    """
    names = schema_names(schema)
    head = _head(file) if names else None
    if not names or head is None or not head.ended:
        return
    if header:
        columns_of(_whole(file), names)
    elif stands_in_place(file, schema):
        raise SourceReadError(
            "the first line has the names of the fields, and would be read as a record",
            remedy="read it as a header: header=True ('csv.header' = 'true' in SQL); or remove the line",
            file=file,
        )


def stands_in_place(file: Path, schema: str | None) -> bool:
    """Whether Spark's own reader takes the columns of `file` for the right fields: same names in the same order."""
    names = schema_names(schema)
    head = _head(file)
    if names is None or head is None:
        return names is not None
    try:
        return [name.lower() for name in header_names(head.text)] == [name.lower() for name in names]
    except SourceReadError:
        return False


def _head(file: Path) -> FirstLine | None:
    try:
        return first_line(_whole(file))
    except (OSError, DataLossError, SourceReadError):
        # A file that is gone or damaged is reported where it is read.
        return None


@lru_cache
def schema_names(schema: str | None) -> tuple[str, ...] | None:
    """The names of a declared schema, None for one that is inferred or that only Spark can read."""
    made = arrow_schema(schema) if schema else None
    return None if made is None else tuple(made.names)


def _whole(file: Path) -> LineRange:
    return LineRange(file=str(file), split=file.name)


def _told_apart(header: Sequence[str]) -> Iterator[str]:
    """The names as Spark infers them: those that are empty, or come more than once, get their place from 0."""
    stripped = [name.strip() for name in header]
    lower = [name.lower() for name in stripped]
    for place, name in enumerate(stripped):
        yield f"_c{place}" if not name else f"{name}{place}" if lower.count(name.lower()) > 1 else name
