"""Normalises paths, URIs and table names, so that all checks agree on whether two locations are the same."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import PurePath

from rs_assets.common.project import anchored
from rs_assets.common.uri import LOCAL
from rs_assets.connectors.files.listing import MAGIC, located

# Any scheme but that of local files.
REMOTE = re.compile(r"^(?!file:)[A-Za-z][A-Za-z0-9+.-]*://")

HADOOP_S3 = re.compile("^s3[an]://")


def written_place(text: str) -> str:
    """A path or URI of the local file system as an absolute path, relative to the project; others unchanged.

    Hadoop's name for S3 becomes the usual one.

    >>> written_place("file:///data/t/"), written_place("s3a://bucket/t"), written_place("orders")
    ('/data/t', 's3://bucket/t', 'orders')
    """
    plain = HADOOP_S3.sub("s3://", LOCAL.sub("", text))
    return anchored(plain) if "/" in plain and "://" not in plain else plain.rstrip("/")


def real_place(text: str) -> str:
    """The same with links resolved, as far as the path exists now."""
    place = written_place(text)
    return os.path.realpath(place) if place.startswith("/") else place


def is_read(path: str, file: str) -> bool:
    """Whether a file at `file`, a `real_place`, is among those that a file source at `path` reads.

    >>> is_read("/in", "/in/out/a.json"), is_read("/in/*", "/in/out/a.json"), is_read("/in/*.csv", "/in/out/a.json")
    (True, True, False)
    """
    if not MAGIC.search(path):
        return PurePath(file).is_relative_to(real_place(path))
    # Everything below a folder that the glob matches is read, too.
    pattern, names = PurePath(located(path)).parts, PurePath(file).parts
    return len(names) >= len(pattern) and all(map(fnmatchcase, names, pattern))
