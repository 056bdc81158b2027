"""Files as a source and as a sink."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import ClassVar, Literal, Self, get_args

from rs_assets.common.node import NO_EFFECT, positive
from rs_assets.common.project import anchored
from rs_assets.common.uri import LOCAL
from rs_assets.connectors.files.codecs import CODECS
from rs_assets.connectors.files.form import JSON, FileForm, separates
from rs_assets.connectors.location import REMOTE
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords

Format = Literal["json", "text", "csv", "parquet"]
# The formats that a file's ending determines; JSON lines may be in files of any name.
FORMATS_BY_NAME: Mapping[str, Format] = {".csv": "csv", ".parquet": "parquet"}


def format_by_name(path: str) -> Format:
    """The format by a path's ending, compressed or not: csv or parquet, else json.

    >>> format_by_name("orders/*.csv.gz"), format_by_name("clicks.jsonl"), format_by_name("landing/")
    ('csv', 'json', 'json')
    """
    endings = [ending for ending in PurePath(path.lower()).suffixes if ending not in CODECS]
    return FORMATS_BY_NAME.get(endings[-1], "json") if endings else "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource(Source):
    """Rows from files: a single file (bounded unless `tail`), a directory or a glob (unbounded).

    `tail=False` reads files that no longer change, with Spark's own reader; `tail=True` follows growing files line by
    line. `pattern` (text only) is a regular expression with named groups: one field a group, cast to `schema`.
    `path` becomes absolute, in the form in which Spark lists files; `written` is the given path.
    """

    icon: ClassVar[str] = "file"
    self_contained: ClassVar[bool] = True

    path: str = field(metadata=NO_EFFECT)
    format: Format = "json"
    tail: bool = False
    header: bool = True
    delimiter: str = ","
    pattern: str | None = None
    time_format: str | None = None
    policy: BadRecords = BadRecords.FAIL
    max_files_per_batch: int | None = field(default=None, metadata=NO_EFFECT)
    max_rows_per_batch: int | None = field(default=None, metadata=NO_EFFECT)
    written: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse invalid combinations of options, and make the path absolute."""
        Source.__post_init__(self)
        is_text = isinstance(self.path, str) and bool(self.path) and "\0" not in self.path
        checks: Sequence[tuple[bool, str, str]] = (
            (is_text, "the path must be text", ""),
            (not is_text or REMOTE.match(self.path) is None, f"files cannot be read from {self.path}",
             "use a path of a local or mounted file system"),
            (self.format in get_args(Format), f"{self.format!r} is not a format",
             f"use one of: {', '.join(get_args(Format))}"),
            (not (self.tail and self.format == "parquet"), "Parquet files cannot be followed", "leave tail out"),
            (self.pattern is None or self.format == "text", "a pattern needs format='text'",
             "it is a regular expression for lines; the path selects the files: 'logs/*.json'"),
            (self.pattern is None or self.schema is not None, "a pattern needs a schema", "pass schema='...'"),
            (self.format != "text" or self.pattern is not None or self.schema is None,
             "plain text has the one field 'value'", "leave schema out, or pass pattern="),
            (self.format == "csv" or self.delimiter == ",", "a delimiter needs format='csv'", "leave it out"),
            (separates(self.delimiter), f"{self.delimiter!r} cannot separate values", "use one character, such as ';'"),
            (all(positive(n) for n in (self.max_files_per_batch, self.max_rows_per_batch) if n is not None),
             "the limit of a batch must be a positive number", ""),
            (self.max_rows_per_batch is None or self.tail, "max_rows_per_batch needs tail=True",
             "whole files are read without tail: use max_files_per_batch"),
            (self.max_files_per_batch is None or not self.tail, "max_files_per_batch does not go with tail=True",
             "use max_rows_per_batch"),
        )  # fmt: skip
        for holds, what, remedy in checks:
            if not holds:
                raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy)
        object.__setattr__(self, "written", self.written or self.path)
        object.__setattr__(self, "path", anchored(LOCAL.sub("", self.path)))

    def in_a_run(self, *, rows: int | None, files: int | None, policy: BadRecords | None) -> Self:
        """A followed file has a limit of rows, whole files have one of files."""
        of_rows, of_files = (rows, None) if self.tail else (None, files)
        return Source.in_a_run(self, rows=of_rows, files=of_files, policy=policy)

    @property
    def origin(self) -> tuple[str, ...]:
        """The path."""
        return ("file", self.path)

    @property
    def bounded(self) -> bool:
        """A single file without `tail` ends; a directory, a glob and a growing file do not."""
        place = Path(self.path)
        return not self.tail and (place.is_file() or not (glob.has_magic(self.path) or place.is_dir()))

    @property
    def bad_records(self) -> BadRecords:
        """The configured policy."""
        return self.policy

    @property
    def in_parser(self) -> bool:
        """Whole files under FAIL; under other policies each line is parsed separately, and counted."""
        return not self.tail and self.policy is BadRecords.FAIL and self.format != "parquet"

    @property
    def row_schema(self) -> str | None:
        """Plain text has the one field `value`."""
        return "value string" if self.format == "text" and self.pattern is None else self.schema

    def detail(self) -> str:
        """Format and path, as given."""
        return f"{self.format}{', tail' if self.tail else ''} {self.written}"

    def identity(self) -> tuple[str, ...]:
        """The path may move; the format, its delimiter and the schema may not change."""
        delimiter = () if self.delimiter == "," else (self.delimiter,)
        return (self.format, str(self.tail), self.pattern or "", self.schema or "inferred", *delimiter)

    @property
    def reading(self) -> tuple[str, ...]:
        """How times are parsed, and whether the fields of CSV are found by the names of a header."""
        by_place = self.format == "csv" and not self.header
        return (*((f"times as {self.time_format}",) if self.time_format else ()), *(("no header",) if by_place else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink(Sink):
    """Files of one form: one folder a batch below `path`, made visible by one rename."""

    path: str
    form: FileForm = JSON

    def __post_init__(self) -> None:
        """Refuse an empty path, and what the form cannot be."""
        Sink.__post_init__(self)
        if not isinstance(self.path, str) or not self.path or "\0" in self.path:
            raise TopologyError(f"step {self.name!r}: the path must be text")
        object.__setattr__(self, "path", LOCAL.sub("", self.path))
        if REMOTE.match(self.path):
            raise TopologyError(
                f"step {self.name!r}: files cannot be written to {self.path}: an object store has no rename",
                remedy="write a table there: .to_delta('s3://bucket/table'); or name a path of a local or mounted file"
                " system",
                step=self.name,
            )
        for what, remedy in self.form.faults():
            raise TopologyError(f"step {self.name!r}: {what}", remedy=remedy, step=self.name)

    def detail(self) -> str:
        """The folder, and the form of its files unless they are plain JSON lines."""
        form = ", ".join(filter(None, (self.form.text, self.form.compression)))
        return self.path if form == JSON.text else f"{form} {self.path}"
