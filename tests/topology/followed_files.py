"""Remedies of files as sources and sinks: followed on real files, without Spark."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from rs_assets.connectors.files.header import Columns, check_header, header_names
from rs_assets.connectors.files.lines.files import BLOCK_BYTES, LineCounter, archive_blocks
from rs_assets.connectors.files.lines.offsets import LineRange
from rs_assets.connectors.files.lines.planner import Planner
from rs_assets.connectors.files.lines.reading import first_line
from rs_assets.connectors.files.lines.spark_source import _final_line, _path, _positive, _ranges
from rs_assets.connectors.files.listing import existing_files
from rs_assets.connectors.files.parquet_columns import check_columns, schema_of
from rs_assets.connectors.files.parse import java_pattern
from rs_assets.connectors.files.shortened import first_rows
from rs_assets.connectors.files.whole.spark_files import check_path, sample_file
from tests.topology.followed_programs import Case, begin, built

HEADER = "connectors/files/header.py"
LINES = "connectors/files/lines"
PARQUET = "connectors/files/parquet_columns.py"


def within(program: Callable[[Path], object]) -> Callable[[], object]:
    """The program in a folder of its own."""

    @wraps(program)
    def run() -> object:
        with TemporaryDirectory() as folder:
            return program(Path(folder))

    return run


def written(folder: Path, text: str, name: str = "a.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def table(folder: Path, columns: Mapping[str, object]) -> Path:
    pq.write_table(pa.table(dict(columns)), folder / "a.parquet")
    return folder / "a.parquet"


def archived(folder: Path, *, cut: int = 0) -> list[bytes]:
    whole = gzip.compress(os.urandom(5000) + b"\n")
    (folder / ".a.gz").write_bytes(whole[: len(whole) - cut])
    # Moved in by rename, as the remedy says.
    path = (folder / ".a.gz").rename(folder / "a.gz")
    with path.open("rb") as file:
        return list(archive_blocks(file, path, 0, None, 4096, LineCounter(line=0, byte=0)))


def linked(folder: Path, *, inside: bool) -> list[Path]:
    (folder / "in").mkdir()
    (folder / "other").mkdir()
    written(folder / "other", "{}\n", "a.jsonl")
    if inside:
        (folder / "in" / "link").symlink_to(folder / "other")
    return [*existing_files(str(folder / "in")), *existing_files(str(folder / "other"))]


def header_of(folder: Path, text: str) -> object:
    file = written(folder, text)
    return first_line(LineRange(file=str(file), split=file.name))


def shortened(folder: Path, name: str) -> object:
    """The first line of a file `a.csv` under a path."""
    written(folder, "page\n/\n")
    stream = begin().from_file(folder / name, format="csv", schema="page string", name="read")
    return first_rows(built(stream).topology["read"], 1, folder)


FIELDS = pa.schema([("page", pa.string())])
CASES = [
    Case(
        f"{HEADER}::Columns.matched",
        lambda: Columns.matched(["x", "y"], ["page", "ms"]),
        "header=False",
        within(lambda folder: check_header(written(folder, "1,2\n"), "page string, ms int", header=False)),
    ),
    Case(
        f"{HEADER}::Columns.matched",
        lambda: Columns.matched(["x", "y"], ["page", "ms"]),
        "name the fields of the schema like the columns: x, y",
        lambda: Columns.matched(["x", "y"], ["x", "y"]),
    ),
    Case(
        f"{HEADER}::Columns.matched",
        lambda: Columns.matched(["page", "y"], ["page", "ms"]),
        "name the fields of the schema like the columns: page, y",
        lambda: Columns.matched(["page", "y"], ["page", "y"]),
    ),
    Case(
        f"{HEADER}::header_names",
        lambda: header_names(b'"pa'),
        "write the header in one line",
        lambda: header_names(b'"page",ms'),
    ),
    Case(
        f"{HEADER}::check_header",
        within(lambda folder: check_header(written(folder, "page,ms\na,1\n"), "page string, ms int", header=False)),
        "read it as a header: header=True",
        within(lambda folder: check_header(written(folder, "page,ms\na,1\n"), "page string, ms int", header=True)),
    ),
    Case(
        f"{HEADER}::check_header",
        within(lambda folder: check_header(written(folder, "page,ms\na,1\n"), "page string, ms int", header=False)),
        "or remove the line",
        within(lambda folder: check_header(written(folder, "a,1\n"), "page string, ms int", header=False)),
    ),
    Case(
        f"{LINES}/files.py::archive_blocks",
        within(lambda folder: archived(folder, cut=100)),
        "replace it by a complete archive; move archives in by rename",
        within(archived),
    ),
    Case(
        f"{LINES}/offsets.py::LineRange.load",
        lambda: LineRange.load({"file": "a", "line": 1}),
        "use end_byte, end_line, file, id, split, start_byte, start_line",
        lambda: LineRange.load({"file": "a", "start_line": 1}),
    ),
    Case(
        f"{LINES}/planner.py::Planner.check_path",
        within(lambda folder: Planner(str(folder / "b")).check_path()),
        "name a file or directory that exists",
        within(lambda folder: Planner(str(folder)).check_path()),
    ),
    Case(
        f"{LINES}/planner.py::Planner.check_path",
        within(lambda folder: Planner(str(folder / "b")).check_path()),
        "or a glob",
        within(lambda folder: Planner(str(folder / "*.log")).check_path()),
    ),
    Case(
        f"{LINES}/spark_source.py::_path",
        lambda: _path({"path": "s3://bucket/a"}),
        "set the option path to a local path",
        lambda: _path({"path": "/logs/a"}),
    ),
    Case(
        f"{LINES}/spark_source.py::_positive",
        lambda: _positive({"n": "0"}, "n"),
        "use a whole number above 0",
        lambda: _positive({"n": "1"}, "n"),
    ),
    Case(
        f"{LINES}/spark_source.py::_final_line",
        lambda: _final_line({"final_line": "drop"}),
        "use 'wait' or 'deliver'",
        lambda: [_final_line({"final_line": each}) for each in ("wait", "deliver")],
    ),
    Case(
        f"{LINES}/spark_source.py::_ranges",
        lambda: _ranges({"ranges": "5"}),
        "use the output of ranges_between",
        None,
    ),
    Case(
        "connectors/files/listing.py::_linked",
        within(lambda folder: linked(folder, inside=True)),
        "by a source of its own and move the link away",
        within(lambda folder: linked(folder, inside=False)),
    ),
    Case(
        f"{PARQUET}::schema_of",
        within(lambda folder: schema_of(written(folder, "no", "a.parquet"))),
        "replace it by a complete one",
        within(lambda folder: schema_of(table(folder, {"page": ["a"]}))),
    ),
    Case(
        f"{PARQUET}::check_fields",
        within(lambda folder: check_columns(table(folder, {"site": ["a"]}), FIELDS)),
        "name the fields of the schema like its columns: site",
        within(lambda folder: check_columns(table(folder, {"site": ["a"]}), pa.schema([("site", pa.string())]))),
    ),
    Case(
        "connectors/files/parse.py::java_pattern",
        lambda: java_pattern("([a-z]+) ([0-9]+)"),
        "(?P<page>...), or (?:...) for none",
        lambda: java_pattern("(?P<page>[a-z]+) (?:[0-9]+)"),
    ),
    Case(
        "connectors/files/whole/spark_files.py::sample_file",
        within(lambda folder: sample_file(str(folder), step="read")),
        "pass schema='...'",
        None,
    ),
    Case(
        "connectors/files/whole/spark_files.py::check_path",
        within(lambda folder: check_path(str(folder / "b"), step="read")),
        "check the path of the source",
        within(lambda folder: check_path(str(folder), step="read")),
    ),
    Case(
        f"{LINES}/reading.py::first_line",
        within(lambda folder: header_of(folder, "x" * BLOCK_BYTES)),
        "give the file a header",
        within(lambda folder: header_of(folder, "page\n" + "x" * BLOCK_BYTES)),
    ),
    Case(
        "connectors/files/shortened.py::_first_lines",
        within(lambda folder: shortened(folder, "b.csv")),
        "check the path",
        within(lambda folder: shortened(folder, "a.csv")),
    ),
]
