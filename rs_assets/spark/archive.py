"""A class data archive (AppCDS) of the classes that Spark loads up to its first batches, for faster starts.

Java uses it only if the same Java made it, for the same class path; otherwise Spark starts as it does without one.
The archive never affects results, and a failure to make or use it has no other effect.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rs_assets.errors import EngineError
from rs_assets.spark.jars import jars_of_pyspark
from rs_assets.spark.java import java_home

# The base archive has Java's own classes, which not every Java ships; the top archive has Spark's.
_BASE, _TOP = "java.jsa", "spark.jsa"
# The file sizes of both: Java exits at once when it is given an incomplete archive.
_SIZES = "sizes"
_BASE_TIMEOUT_S = 120
# Java would warn of each class that cannot be archived, and of an archive from another Java: neither is a failure.
_SILENT = "-Xlog:cds*=off"
# For the run that makes the archive the second compiler costs more than it saves.
_MAKING = f"-XX:TieredStopAtLevel=1 {_SILENT}"


def options(jars: tuple[Path, ...]) -> str:
    """The Java options that use the archive for `jars` and pyspark's; empty if there is none."""
    folder = _place(jars)
    return f'"-XX:SharedArchiveFile={folder / _BASE}:{folder / _TOP}" {_SILENT}' if _is_whole(folder) else ""


def make(jars: tuple[Path, ...], rehearse: Callable[[str], None]) -> Path:
    """Make the archive for `jars` unless it exists, and return its folder (205 MB).

    `rehearse(java_options)` starts Spark over `jars` with these options, runs a typical workload, and returns when that
    Java has ended. Archives for other jars are deleted. EngineError if no archive was made.
    """
    folder = _place(jars)
    if _is_whole(folder):
        return folder
    try:
        for older in folder.parent.glob("[0-9a-f]*"):
            shutil.rmtree(older)
        folder.mkdir(parents=True)
        # The top archive stores the path of the base archive: neither may be moved.
        _archive_java(folder / _BASE)
        rehearse(f'"-XX:SharedArchiveFile={folder / _BASE}" "-XX:ArchiveClassesAtExit={folder / _TOP}" {_MAKING}')
        _seal(folder)
    except OSError as error:
        raise EngineError(f"the class archive cannot be written into {folder.parent}: {error.strerror}") from error
    return folder


def _place(jars: tuple[Path, ...]) -> Path:
    """The folder of the archive for `jars` and this Java: below this Python, as its pyspark is in the class path."""
    release = java_home() / "release"
    known = [str(java_home()), release.read_text() if release.is_file() else "", *map(str, jars)]
    known += map(str, jars_of_pyspark("spark-core_*.jar"))
    digest = hashlib.sha256("\n".join(known).encode()).hexdigest()
    return Path(sys.prefix) / "share" / "rs_assets" / "classes" / digest[:12]


def _is_whole(folder: Path) -> bool:
    try:
        return (folder / _SIZES).read_text() == _sizes(folder)
    except OSError:
        return False


def _sizes(folder: Path) -> str:
    return " ".join(str((folder / name).stat().st_size) for name in (_BASE, _TOP))


def _archive_java(target: Path) -> None:
    command = [str(java_home() / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={target}"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_BASE_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"Java did not archive its own classes within {_BASE_TIMEOUT_S} s") from error
    if run.returncode != 0 or not target.is_file():
        raise EngineError(f"this Java cannot archive its own classes: {run.stdout[-200:]}{run.stderr[-200:]}")


def _seal(folder: Path) -> None:
    """Mark the archive as complete."""
    if not (folder / _TOP).is_file():
        raise EngineError("Java wrote no archive of Spark's classes at its end")
    (folder / _SIZES).write_text(_sizes(folder))
