"""How the files of a sink are written: format, compression, and the folders of its partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, get_args

from rs_assets.records.types import NESTED

WrittenFormat = Literal["json", "csv", "parquet", "text"]
Compression = Literal["none", "gzip", "snappy", "zstd"]
# What a reader of files of this project unpacks; Parquet compresses its own pages.
OF_LINES: Final = ("none", "gzip", "zstd")
COMPRESSIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"json": OF_LINES, "csv": OF_LINES, "text": OF_LINES, "parquet": get_args(Compression)}
)
# The names of formats in a sentence.
NAMES: Final = MappingProxyType({"json": "JSON lines", "csv": "CSV", "text": "text", "parquet": "Parquet"})
ENDINGS: Final = MappingProxyType({"json": "json", "csv": "csv", "text": "txt", "parquet": "parquet"})
PACKED: Final = MappingProxyType({"gzip": ".gz", "zstd": ".zst"})
# The folder of a batch, which readers of partitions take for one more column.
BATCH: Final = "batch"
# Types of which each value has a single text.
WHOLE: Final = ("tinyint", "smallint", "int", "bigint", "decimal")
PARTITIONED: Final = ("boolean", *WHOLE, "string", "date", "timestamp", "timestamp_ntz")
PLAIN: Final = (*PARTITIONED, "float", "double", "char", "varchar")

# Fields with the first word of their types, as Spark has it; None is unknown.
Kinds = Mapping[str, str | None]


def first_word(kind: str) -> str:
    """A type without its parts and digits.

    >>> first_word("decimal(10,2)"), first_word("array<string>")
    ('decimal', 'array')
    """
    return re.split(r"\W", kind, maxsplit=1)[0]


def separates(delimiter: object) -> bool:
    """Whether a text can be between the values of CSV: one character of ASCII that is not part of a value's quotes."""
    return isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n\0'


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """The form of the files of a sink; `header` and `delimiter` belong to CSV.

    >>> FileForm(format="csv", delimiter=";", partition_by=("country",)).text
    "csv, delimiter ';', partitioned by country"
    """

    format: WrittenFormat = "json"
    compression: Compression | None = None
    partition_by: tuple[str, ...] = ()
    header: bool = True
    delimiter: str = ","

    @property
    def text(self) -> str:
        """What a reader has to know of all files of a folder; each file's name says how it is compressed."""
        of_csv = [
            "no header" if not self.header else "",
            f"delimiter {self.delimiter!r}" if self.delimiter != "," else "",
        ]
        folders = f"partitioned by {', '.join(self.partition_by)}" if self.partition_by else ""
        return ", ".join(filter(None, (self.format, *of_csv, folders)))

    @property
    def packed(self) -> str:
        """The last ending of a file's name; empty for files that are not packed as a whole."""
        return PACKED.get(self.compression or "", "") if self.format != "parquet" else ""

    @property
    def sample(self) -> str:
        """The path of a file below the folder of the sink."""
        folders = "".join(f"{name}=0/" for name in self.partition_by)
        return f"{BATCH}=0/{folders}part-0.{ENDINGS[self.format]}{self.packed}"

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong with it, whatever the rows are, each with its remedy."""
        formats = get_args(WrittenFormat)
        if self.format not in formats:
            yield f"{self.format!r} is not a format that is written", f"use one of: {', '.join(formats)}"
            return
        known = COMPRESSIONS[self.format]
        if self.compression is not None and self.compression not in known:
            yield f"{self.format} is not compressed by {self.compression!r}", f"use one of: {', '.join(known)}"
        if self.format != "csv" and (not self.header or self.delimiter != ","):
            yield "header and delimiter belong to format='csv'", "leave them out"
        if not separates(self.delimiter):
            yield f"{self.delimiter!r} cannot separate values", "use one character, such as ';'"
        folded = [name.casefold() for name in self.partition_by]
        if len(set(folded)) != len(folded):
            yield "partition_by names a field twice", "name it once"
        if BATCH in folded:
            yield (
                f"the folders of batches are called {BATCH}=..., so no field of that name can be a partition",
                ("rename it: .map('batch AS lot', ...)"),
            )

    def unwritable(self, kinds: Kinds, *, whole: bool = True) -> Iterator[tuple[str, str]]:
        """What is wrong with the types of the rows, each with its remedy; without `whole` there may be more fields."""
        for name in self.partition_by:
            kind = kinds.get(name)
            if kind is not None and kind not in PARTITIONED:
                yield (
                    f"{name!r} of partition_by is {kind}, which is not a plain value",
                    ("name fields of texts, whole numbers or times"),
                )
        rest = {name: kind for name, kind in kinds.items() if name not in self.partition_by}
        if whole and not rest:
            yield "partition_by leaves no field for the files", "keep one more field"
        if self.format == "csv":
            yield from _beyond(rest, PLAIN, "CSV")
        if self.format == "text":
            yield from _not_one_text(rest, whole=whole)
        if self.format == "parquet":
            void = next((name for name, kind in rest.items() if kind == "void"), None)
            if void is not None:
                yield (
                    f"the field {void!r} is null in all rows, so it has no type",
                    (f"cast it: with_fields({void}='CAST({void} AS string)')"),
                )


JSON: Final = FileForm()


def _beyond(kinds: Kinds, known: Iterable[str], form: str) -> Iterator[tuple[str, str]]:
    """The first field whose values a format of texts does not have."""
    for name, kind in kinds.items():
        if kind is None or kind in known:
            continue
        made = "to_json" if kind in NESTED else "base64" if kind == "binary" else "string"
        yield (
            f"the field {name!r} is {kind}, which {form} does not have",
            (f"make it a text: with_fields({name}='{made}({name})'), or use format='json' or 'parquet'"),
        )
        return


def _not_one_text(kinds: Kinds, *, whole: bool) -> Iterator[tuple[str, str]]:
    """Why the rows are not lines of text."""
    wrong = [kind for kind in kinds.values() if kind not in (None, "string")]
    if len(kinds) > 1 or (whole and not kinds) or wrong:
        found = ", ".join(f"{name} {kind or '?'}" for name, kind in kinds.items())
        yield (
            f"text has one field of type string, and the rows have {found or 'none'}",
            ("make it: .map('page AS value'), or use format='json'"),
        )
