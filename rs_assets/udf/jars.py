"""The class path of a function of Java: the jars of a statement, and those that their manifests name."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from rs_assets.errors import TopologyError
from rs_assets.udf.class_file import NoClassError

MANIFEST: Final = "META-INF/MANIFEST.MF"
CLASS_PATH: Final = "class-path"


def class_path(jars: Sequence[Path]) -> list[Path]:
    """The jars in which Java looks for classes, in its order: each of `jars`, then those that its `Class-Path` names.

    Each is there once. As by Java, jars that a manifest names are left out if they do not exist or are not files.
    TopologyError for a jar that cannot be read, and for a manifest that names a folder.
    """
    found, waiting = dict[Path, None](), [*jars]
    while waiting:
        jar = waiting.pop(0)
        if jar not in found:
            found[jar] = None
            waiting[:0] = [place for entry in _entries(jar) if (place := _named(jar, entry)) is not None]
    return list(found)


@contextmanager
def opened(jar: Path) -> Iterator[zipfile.ZipFile]:
    """A jar; TopologyError if it cannot be read, or a class in it."""
    try:
        with zipfile.ZipFile(jar) as archive:
            yield archive
    except (OSError, zipfile.BadZipFile, NoClassError) as error:
        remedy = "name the path of a jar on this machine: USING JAR '/opt/shop/functions.jar'"
        raise TopologyError(f"the jar {str(jar)!r} cannot be read: {error}", remedy=remedy) from error


def _entries(jar: Path) -> list[str]:
    """What the manifest of a jar names as its class path: URLs, by its folder."""
    with opened(jar) as archive:
        content = archive.read(MANIFEST) if MANIFEST in archive.namelist() else b""
    # A line has at most 72 bytes, and goes on in the next one after a blank.
    lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n ", b"").decode("utf-8", "replace")
    main = lines.partition("\n\n")[0].splitlines()
    values = [value for name, _, value in (line.partition(":") for line in main) if name.lower() == CLASS_PATH]
    return [entry for value in values for entry in value.split()]


def _named(jar: Path, entry: str) -> Path | None:
    """The file that an entry of the class path of `jar` names, if there is one; TopologyError for a folder."""
    url = urlsplit(entry)
    if url.scheme not in ("", "file"):
        return None
    place = Path(os.path.normpath(jar.parent / unquote(url.path)))
    if url.path.rpartition("/")[2] in ("", ".", "..") and place.is_dir():
        raise TopologyError(
            f"the manifest of {str(jar)!r} names the folder {entry!r} in its Class-Path",
            remedy="leave it out there, and put its classes into a jar: USING JAR 'a.jar', JAR 'b.jar'",
        )
    return place if place.is_file() else None
