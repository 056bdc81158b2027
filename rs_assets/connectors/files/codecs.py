"""Supported archive formats: file name suffixes and their codecs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType

CODECS: Mapping[str, str] = MappingProxyType({".gz": "gzip", ".zst": "zstd"})
# Suffixes by which Hadoop unpacks a file.
UNPACKED = frozenset({".bz2", ".deflate", ".lz4", ".snappy", ".Z", ".passthrough"})
PACK_AGAIN = "unpack it, or pack it as .gz or .zst"


def codec_of(file: PurePath) -> str | None:
    """The compression of a file, or of an object, by the end of its name; None: it is not packed.

    >>> codec_of(PurePath("in/a.jsonl.gz")), codec_of(PurePath("in/a.jsonl"))
    ('gzip', None)
    """
    return CODECS.get(file.suffix)


def is_foreign(suffix: str) -> bool:
    """Whether files with this suffix are archives that are not read.

    >>> is_foreign(".bz2"), is_foreign(".GZ"), is_foreign(".gz"), is_foreign(".jsonl")
    (True, True, False, False)
    """
    return suffix in UNPACKED or (suffix not in CODECS and suffix.lower() in CODECS)
